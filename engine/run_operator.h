#pragma once
// From an operator of the Program to the function that computes it.

#include "core/operator.h"
#include "engine/operator_context.h"

namespace orrery::engine {

/// Runs one compute instruction on its operands, in the order that core/operator.h states.
/// @throws SystemError where the operands do not fit the operator.
void run_operator(const core::Operator&, const OperatorContext&);

}  // namespace orrery::engine
