#include "costmodel/sparse_estimator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/lowering.h"
#include "core/parameter_server.h"
#include "core/program_check.h"
#include "costmodel/collective_cost.h"
#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Seconds;

constexpr double kGiB = 1073741824.0;

/// Durations of the parts that a slice passes through, and of the step's ends.
struct Parts {
  Seconds load;           ///< Reading a slice's samples and finding its unique keys.
  Seconds pull_turn;      ///< One worker's rows from all servers.
  Seconds train_to_push;  ///< From rows to their gradients.
  Seconds train;          ///< The whole slice.
  Seconds push_message;   ///< One worker's gradients to all servers.
  Seconds sum_push;       ///< Their summing at a server.
  Seconds update_table;   ///< At a server.
  Seconds begin;          ///< Zeroing of dense gradients.
  Seconds reduce;         ///< All-reduces of dense gradients and loss.
  Seconds update_dense;   ///< Norm and optimizer of the dense parameters.
};

class SparseCost {
 public:
  SparseCost(const core::Program& program, const core::SparsePlan& plan,
             const core::Cluster& cluster, const core::Job& job)
      : program_(program),
        plan_(plan),
        cluster_(cluster),
        device_(slowest_device(cluster, job.precision)),
        shared_cores_(ranks_per_core(cluster)),
        fabric_(fabric_cost(cluster)),
        precision_(job.precision) {}

  Parts parts() const {
    Parts p;
    for (const core::Role& role : program_.roles) {
      for (const core::Block& block : role.blocks) add_block(block, p);
    }
    return p;
  }

  const core::Device& device() const { return device_; }

 private:
  void add_block(const core::Block& block, Parts& p) const {
    Seconds compute_stream;
    for (const core::Instruction& i : block.instructions) {
      if (const auto* compute = std::get_if<core::Compute>(&i.operation)) {
        const Seconds time = compute_time(*compute, device_, precision_) * shared_cores_;
        add_compute(i, *compute, time, compute_stream, p);
      } else if (std::holds_alternative<core::Push>(i.operation)) {
        p.train_to_push = compute_stream;
      } else if (const auto* pull = std::get_if<core::ServePull>(&i.operation)) {
        const core::PullMessages bytes = core::pull_messages(pull->expected_keys, pull->width);
        p.pull_turn = turn(bytes.request) + turn(bytes.answer);
      } else if (const auto* push = std::get_if<core::ServePush>(&i.operation)) {
        p.push_message = turn(core::push_message(push->expected_keys, push->width));
      } else if (const auto* reduce = std::get_if<core::Collective>(&i.operation)) {
        p.reduce += collective(*reduce);
      }
    }
    if (block.name == "train") p.train = compute_stream;
    if (block.name == "begin") p.begin = compute_stream;
    if (block.name == "update") p.update_dense = compute_stream;
  }

  void add_compute(const core::Instruction& i, const core::Compute& compute, Seconds time,
                   Seconds& compute_stream, Parts& p) const {
    if (i.stream == core::Stream::Host) p.load += time;
    if (i.stream == core::Stream::Compute) compute_stream += time;
    if (i.stream != core::Stream::Serve) return;
    if (std::holds_alternative<core::UpdateTable>(compute.op)) p.update_table += time;
    if (std::holds_alternative<core::SumPushedRows>(compute.op)) p.sum_push = time;
  }

  /// One message between a worker and each of the servers at once.
  Seconds turn(Bytes each) const {
    const bool one_node = cluster_.nodes() == 1;
    const Bytes together = each * plan_.servers;
    if (one_node) {
      Seconds transfer = together / fabric_.port;
      if (fabric_.shared) transfer = std::max(transfer, together / *fabric_.shared);
      return fabric_.inside + transfer;
    }
    return fabric_.across + together / fabric_.card;
  }

  Seconds collective(const core::Collective& c) const {
    const auto& members = program_.groups[0].members;  // The workers.
    const auto alone = placement_of(members, cluster_, Company::Alone);
    GroupPlacement where;
    where.nodes = static_cast<int>(members.size());
    if (alone) where = *alone;
    const auto algorithm = choose_algorithm(c.kind, c.bytes, where, fabric_);
    return collective_time(algorithm, c.kind, c.bytes, where, fabric_);
  }

  const core::Program& program_;
  const core::SparsePlan& plan_;
  const core::Cluster& cluster_;
  core::Device device_;
  double shared_cores_;
  FabricCost fabric_;
  core::DType precision_;
};

/// Slices and workers one by one through the servers' queue.
Seconds step_time(const Parts& p, const core::SparsePlan& plan) {
  const auto workers = static_cast<std::size_t>(plan.workers);
  std::vector<Seconds> rows(workers), next_rows(workers), push_ready(workers);
  std::vector<Seconds> compute_free(workers, p.begin);
  Seconds server_free;
  const auto pull = [&](int slice) {
    for (Seconds& row : next_rows) {
      server_free = std::max(server_free, p.load * (slice + 1)) + p.pull_turn;
      row = server_free;
    }
  };
  pull(0);
  for (int slice = 0; slice < plan.slices; ++slice) {
    rows = next_rows;
    if (slice + 1 < plan.slices) pull(slice + 1);
    for (std::size_t w = 0; w < workers; ++w) {
      const Seconds start = std::max(compute_free[w], rows[w]);
      push_ready[w] = start + p.train_to_push;
      compute_free[w] = start + p.train;
    }
    for (const Seconds ready : push_ready)
      server_free = std::max(server_free, ready) + p.push_message + p.sum_push;
  }
  const Seconds trained = *std::max_element(compute_free.begin(), compute_free.end());
  return std::max(server_free + p.update_table, trained + p.reduce + p.update_dense);
}

MemoryByTerm memory_of(const core::Role& role, const core::Device& device) {
  MemoryByTerm memory{};
  for (const auto& [kind, bytes] : core::memory_profile(role).at_peak) {
    core::Buffer of_kind;
    of_kind.kind = kind;
    memory[static_cast<std::size_t>(memory_term(of_kind))] += bytes;
  }
  memory[static_cast<std::size_t>(MemoryTerm::Reserved)] += device.reserved;
  return memory;
}

}  // namespace

Outcome estimate_sparse(const core::Plan& plan, const core::Model& model,
                        const core::Cluster& cluster, const core::Job& job) {
  const core::SparsePlan& sparse = plan.sparse.value();
  const core::Program program = core::lower(plan, model, cluster, job);
  const SparseCost cost(program, sparse, cluster, job);
  Estimate result;
  for (const core::Role& role : program.roles) {
    const MemoryByTerm memory = memory_of(role, cost.device());
    if (total(memory) > total(result.memory)) result.memory = memory;
    if (total(memory) > cost.device().memory) {
      return Infeasible{.reason = Infeasible::Reason::Memory,
                        .why = fmt::format("each {} needs {:.1f} GiB, {} has {:.1f} GiB", role.name,
                                           total(memory).value / kGiB, cost.device().name,
                                           cost.device().memory.value / kGiB),
                        .needed = total(memory),
                        .available = cost.device().memory};
    }
  }
  const Parts p = cost.parts();
  const auto term = [&](TimeTerm t) -> Seconds& {
    return result.time[static_cast<std::size_t>(t)];
  };
  result.devices = plan.devices();
  result.microbatches = sparse.slices;
  result.memory_available = cost.device().memory;
  result.step = step_time(p, sparse);
  term(TimeTerm::Compute) = p.train * sparse.slices;
  term(TimeTerm::Load) = p.load;
  term(TimeTerm::GradientCommunication) = p.reduce;
  term(TimeTerm::Optimizer) = p.begin + p.update_dense;
  Seconds known;
  for (const Seconds t : result.time) known += t;
  // The parts that overlap the servers' work are not on the critical path.
  if (known > result.step) {
    for (Seconds& t : result.time) t *= result.step / known;
    known = result.step;
  }
  term(TimeTerm::ParameterServer) = result.step - known;
  result.speed_of_one = job.global_batch / (p.train * (1.0 * sparse.slices * sparse.workers)).value;
  add_rates(result, cost.device(), job);
  return result;
}

}  // namespace orrery::costmodel
