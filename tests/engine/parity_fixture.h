#pragma once
// The oracle's models (tests/fixtures/parity) as this project's values, and runs of them.

#include <filesystem>
#include <string>
#include <vector>

#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"
#include "engine/execute.h"

namespace orrery::engine {

std::filesystem::path fixture(const std::string& name);

/// 2 layers, 64 wide, 4 heads (Llama: 2 key-value heads), vocabulary 256, 32 positions.
core::Model tiny_gpt2();
core::Model tiny_llama();
core::Model tiny_mixtral();  ///< Llama with 4 experts, 2 for each token.

/// 20 steps of 8 sequences of 32 tokens, AdamW at 1e-3 with decay 0.01 on all tensors.
core::Job tiny_job();

/// Every rank's degree, one rank by default; layers spread evenly.
core::Plan dense_plan(const core::DensePlan&);

/// configs' deepfm-tiny, the oracle's DeepFM; without its factorization machine Wide & Deep.
core::Model tiny_deepfm();
core::Model tiny_wide_deep();

/// 20 steps of 64 samples of the oracle's file from its start: sparse AdaGrad 0.05 from 0.1, dense
/// Adam 1e-3.
core::Job tiny_click_through_job();

core::Plan sparse_plan(const core::SparsePlan&);

/// Losses of the `steps` of a trace.
std::vector<double> losses_of(const core::Trace&);

/// The array at `path` ("adamw_fp32", "losses") of an expected.json.
std::vector<double> expected_numbers(const std::string& file, const std::string& run,
                                     const std::string& what);

/// Lowers for as many CPU ranks as the plan needs.
core::Program lowered(const core::Plan&, const core::Model&, const core::Job&);

}  // namespace orrery::engine
