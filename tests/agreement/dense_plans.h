#pragma once
// The dense plans that the agreement tests hold simulator and engine to, on small models.

#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "engine/token_data.h"

namespace orrery::agreement {

/// A name, and a plan of up to 8 ranks for a model of four layers.
struct NamedPlan {
  std::string name;
  core::Plan plan;
};

/// A plan and the model that it lays out.
struct Case {
  std::string name;
  core::Plan plan;
  core::Model model;
};

/// Plans over data, sharding, tensor, sequence and pipeline parallelism, both schedules, with and
/// without recomputation, an uneven split of the layers, another axis order.
std::vector<NamedPlan> dense_plans();

/// Plans over the same and expert parallelism, for a model with experts. Every row has a slot.
std::vector<NamedPlan> expert_plans();

/// All of these plans, of small_gpt2() and small_mixtral().
std::vector<Case> cases();

/// One rank that evaluates the whole batch at once.
core::Plan one_rank_plan();

core::Model small_gpt2();   ///< Tied embeddings, biases, a vocabulary of 61: no degree divides it.
core::Model small_llama();  ///< Grouped queries, rotary, gated, untied.
core::Model small_mixtral();  ///< The same with 4 experts, 2 for each token.
core::Job small_job();        ///< Batches of 8 sequences of 16 tokens, clipped, with a schedule.
core::Cluster cpu_cluster(int ranks);

/// `steps` batches of the job, drawn from its seed.
engine::TokenArray random_tokens(const core::Job&, int vocab, int steps);

}  // namespace orrery::agreement
