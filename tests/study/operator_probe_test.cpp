#include "study/operator_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/check/program_check.h"
#include "core/lowering/lowering.h"

namespace {

using namespace orrery;

std::set<std::string> operators_of(const core::Program& program) {
  std::set<std::string> names;
  for (const core::Role& role : program.roles) {
    for (const core::Block& block : role.blocks) {
      for (const core::Instruction& instruction : block.instructions) {
        if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
          names.insert(std::string(core::operator_name(compute->op)));
        }
      }
    }
  }
  return names;
}

// What the probes do not run has no measured cost.
TEST(OperatorProbes, RunEveryOperatorOfATransformer) {
  std::set<std::string> seen;
  for (const int ranks : {1, 2}) {
    for (const auto& probe : study::transformer_probes(ranks, "text")) {
      const core::Program program =
          core::lower(probe.plan, probe.model, study::one_node({}, ranks, 2), probe.job);
      EXPECT_THAT(core::check_program(program), testing::IsEmpty());
      seen.merge(operators_of(program));
    }
  }
  for (const char* name : {"load_tokens",
                           "embed",
                           "embed_grad",
                           "linear",
                           "linear_input_grad",
                           "linear_weight_grad",
                           "normalize",
                           "normalize_grad",
                           "rotate",
                           "attention",
                           "attention_grad",
                           "activate",
                           "activate_grad",
                           "add",
                           "cross_entropy_statistics",
                           "cross_entropy_grad",
                           "zero",
                           "squared_norm",
                           "clip_factor",
                           "optimizer_update"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(OperatorProbes, RunEveryOperatorOfAClickThroughModel) {
  std::set<std::string> seen;
  for (const auto& probe : study::click_through_probes(2, "samples")) {
    const core::Program program =
        core::lower(probe.plan, probe.model, study::one_node({}, 2, 2), probe.job);
    EXPECT_THAT(core::check_program(program), testing::IsEmpty());
    seen.merge(operators_of(program));
  }
  for (const char* name :
       {"load_samples", "unique_keys", "gather_rows", "sum_row_grads", "interact", "interact_grad",
        "logistic_loss", "sum_pushed_rows", "update_table"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

}  // namespace
