#pragma once
// The operators of click-through models, on an instruction's operands (engine/run_operator.h).

#include "core/operator.h"
#include "engine/operator_context.h"

namespace orrery::engine {

void run(const core::LoadSamples&, const OperatorContext&);
void run(const core::UniqueKeys&, const OperatorContext&);
void run(const core::GatherRows&, const OperatorContext&);
void run(const core::SumRowGrads&, const OperatorContext&);
void run(const core::Interact&, const OperatorContext&);
void run(const core::InteractGrad&, const OperatorContext&);
void run(const core::LogisticLoss&, const OperatorContext&);
void run(const core::SumPushedRows&, const OperatorContext&);
void run(const core::UpdateTable&, const OperatorContext&);

}  // namespace orrery::engine
