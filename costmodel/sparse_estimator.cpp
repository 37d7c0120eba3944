#include "costmodel/sparse_estimator.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/check/memory_profile.h"
#include "core/lowering/lowering.h"
#include "core/network/parameter_server.h"
#include "core/quantity_text.h"
#include "costmodel/collective_cost.h"
#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;
using core::Rank;
using core::Seconds;

/// What one server does with one worker.
struct Turn {
  std::size_t worker = 0;
  Seconds time;
};
/// The turns of each server, in order: server s begins with worker s.
using Turns = std::vector<std::vector<Turn>>;

/// Durations of the parts that a slice passes through, and of the step's ends.
struct Parts {
  Seconds load;  ///< Reading a slice's samples and finding its unique keys.
  Turns pull;
  Seconds train_to_push;  ///< From rows to their gradients.
  Seconds train;          ///< The whole slice.
  Turns push;
  Seconds sum_pushes;    ///< Of a slice, at a server.
  Seconds update_table;  ///< At a server.
  Seconds begin;         ///< Zeroing of dense gradients.
  Seconds reduce;        ///< All-reduces of dense gradients and loss.
  Seconds update_dense;  ///< Norm and optimizer of the dense parameters.
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
      for (const core::Block& block : role.blocks) set_part(block, p);
    }
    return p;
  }

  const core::Device& device() const { return device_; }

 private:
  /// What a block is for, it says by its instructions.
  void set_part(const core::Block& block, Parts& p) const {
    const Seconds computing = busy(block, core::Stream::Compute);
    if (has<core::Pull>(block)) p.load = busy(block, core::Stream::Host);
    if (has<core::Push>(block)) {
      p.train = computing;
      p.train_to_push = until_push(block);
    }
    if (has<core::ServePull>(block)) p.pull = pulls(block);
    if (has<core::ServePush>(block)) {
      p.push = pushes(block);
      p.sum_pushes = busy(block, core::Stream::Serve);
    } else if (computes<core::UpdateTable>(block)) {
      p.update_table = busy(block, core::Stream::Serve);
    }
    if (computes<core::OptimizerUpdate>(block)) {
      p.update_dense = computing;
      p.reduce = collectives(block);
    } else if (starts_step(block)) {
      p.begin = std::max(p.begin, computing);
    }
  }

  template <class Operation>
  static bool has(const core::Block& block) {
    return std::any_of(block.instructions.begin(), block.instructions.end(), [](const auto& i) {
      return std::holds_alternative<Operation>(i.operation);
    });
  }
  template <class Operator>
  static bool computes(const core::Block& block) {
    return std::any_of(block.instructions.begin(), block.instructions.end(), [](const auto& i) {
      const auto* compute = std::get_if<core::Compute>(&i.operation);
      return compute != nullptr && std::holds_alternative<Operator>(compute->op);
    });
  }
  /// It only clears what the step sums up.
  static bool starts_step(const core::Block& block) {
    return std::all_of(block.instructions.begin(), block.instructions.end(), [](const auto& i) {
      const auto* compute = std::get_if<core::Compute>(&i.operation);
      return compute != nullptr && std::holds_alternative<core::Zero>(compute->op);
    });
  }

  Seconds duration(const core::Instruction& i) const {
    const auto* compute = std::get_if<core::Compute>(&i.operation);
    if (compute == nullptr) return Seconds(0);
    return compute_time(*compute, device_, precision_) * shared_cores_;
  }

  Seconds busy(const core::Block& block, core::Stream stream) const {
    Seconds sum;
    for (const core::Instruction& i : block.instructions) {
      if (i.stream == stream) sum += duration(i);
    }
    return sum;
  }

  Seconds until_push(const core::Block& block) const {
    Seconds sum;
    for (const core::Instruction& i : block.instructions) {
      if (std::holds_alternative<core::Push>(i.operation)) break;
      sum += duration(i);
    }
    return sum;
  }

  Seconds collectives(const core::Block& block) const {
    Seconds sum;
    for (const core::Instruction& i : block.instructions) {
      if (const auto* c = std::get_if<core::Collective>(&i.operation)) sum += collective(*c);
    }
    return sum;
  }

  Turns pulls(const core::Block& block) const {
    for (const core::Instruction& i : block.instructions) {
      const auto* pull = std::get_if<core::ServePull>(&i.operation);
      if (pull == nullptr) continue;
      const core::PullMessages bytes = core::pull_messages(pull->expected_keys, pull->width);
      return turns([&](int server, Rank worker) {
        return message(server, worker, bytes.request) + message(server, worker, bytes.answer);
      });
    }
    return {};
  }

  Turns pushes(const core::Block& block) const {
    for (const core::Instruction& i : block.instructions) {
      const auto* push = std::get_if<core::ServePush>(&i.operation);
      if (push == nullptr) continue;
      const Bytes bytes = core::push_message(push->expected_keys, push->width);
      return turns([&](int server, Rank worker) { return message(server, worker, bytes); });
    }
    return {};
  }

  /// time(server, worker) of every server's turns.
  template <class Time>
  Turns turns(Time time) const {
    Turns all;
    for (int s = 0; s < plan_.servers; ++s) {
      const Rank server = program_.groups[1].members[static_cast<std::size_t>(s)];
      auto& mine = all.emplace_back();
      for (const Rank worker : program_.ranks[server.index()].peers) {
        mine.push_back({worker.index(), time(s, worker)});
      }
    }
    return all;
  }

  /// One message between a worker and each of the servers that serve it at once, which are `server`
  /// and those whole rounds of workers away: what crosses the worker's card or its port, or the
  /// card of the server's node, where every server is busy.
  Seconds message(int server, Rank worker, Bytes each) const {
    const std::vector<Rank>& servers = program_.groups[1].members;
    const int node = cluster_.node_of(worker.value);
    const int server_node = cluster_.node_of(servers[static_cast<std::size_t>(server)].value);
    int inside = 0, across = 0, beside = 0;
    for (int s = 0; s < plan_.servers; ++s) {
      const Rank rank = servers[static_cast<std::size_t>(s)];
      const int there = cluster_.node_of(rank.value);
      if (there == server_node) ++beside;
      if (rank == worker || s % plan_.workers != server % plan_.workers) continue;
      (there == node ? inside : across) += 1;
    }
    Seconds longest;
    if (inside > 0) longest = message_time(each * inside, true, true, 1, fabric_);
    if (across > 0) {
      const core::NodeType& type = cluster_.node_type(server_node);
      const int cards = std::max(1, std::min(type.network_cards, type.devices));
      const int load = std::max(across, (beside + cards - 1) / cards);
      longest = std::max(longest, message_time(each * load, false, true, 1, fabric_));
    }
    return longest;
  }

  Seconds collective(const core::Collective& c) const {
    const auto& members = program_.groups[0].members;  // The workers.
    const auto alone = placement_of(members, cluster_, Company::Alone);
    GroupPlacement where;
    where.nodes = static_cast<int>(members.size());
    if (alone) where = *alone;
    const auto method = choose_method(c.kind, c.bytes, where, fabric_);
    return collective_time(method, c.kind, c.bytes, where, fabric_);
  }

  const core::Program& program_;
  const core::SparsePlan& plan_;
  const core::Cluster& cluster_;
  core::Device device_;
  double shared_cores_;
  FabricCost fabric_;
  core::DType precision_;
};

/// Slices and turns one by one through each server's queue.
Seconds step_time(const Parts& p, const core::SparsePlan& plan) {
  const auto workers = static_cast<std::size_t>(plan.workers);
  const auto servers = static_cast<std::size_t>(plan.servers);
  std::vector<Seconds> rows(workers), next_rows(workers), push_ready(workers);
  std::vector<Seconds> compute_free(workers, p.begin), server_free(servers);
  const auto pull = [&](int slice) {
    next_rows.assign(workers, Seconds());
    for (std::size_t s = 0; s < servers; ++s) {
      for (const Turn& turn : p.pull[s]) {
        server_free[s] = std::max(server_free[s], p.load * (slice + 1)) + turn.time;
        next_rows[turn.worker] = std::max(next_rows[turn.worker], server_free[s]);
      }
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
    for (std::size_t s = 0; s < servers; ++s) {
      for (const Turn& turn : p.push[s]) {
        server_free[s] = std::max(server_free[s], push_ready[turn.worker]) + turn.time;
      }
      server_free[s] += p.sum_pushes;
    }
  }
  const Seconds served = *std::max_element(server_free.begin(), server_free.end());
  const Seconds trained = *std::max_element(compute_free.begin(), compute_free.end());
  return std::max(served + p.update_table, trained + p.reduce + p.update_dense);
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
      return Infeasible{
          .reason = Infeasible::Reason::Memory,
          .why = fmt::format("each {} needs {}, {} has {}", role.name, core::text(total(memory)),
                             cost.device().name, core::text(cost.device().memory)),
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
