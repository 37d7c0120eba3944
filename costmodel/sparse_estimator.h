#pragma once
// Estimates of plans with a parameter server, from the lowered program's own roles.
//
// Servers serve workers in turn: in turn w every server answers worker w, so a pull turn lasts
//   α_request + α_answer + max( S·answer / β of the worker's card, answer·servers per card / β )
// and a push turn likewise one way, plus the summing of the pushed rows. Slices pass through
// reading, pulling, training and pushing one after another, as core/lowering/lowering_sparse.h
// orders them.

#include "costmodel/estimate.h"

namespace orrery::costmodel {

/// @param plan  Valid (core::why_invalid), with a sparse part.
Outcome estimate_sparse(const core::Plan& plan, const core::Model&, const core::Cluster&,
                        const core::Job&);

}  // namespace orrery::costmodel
