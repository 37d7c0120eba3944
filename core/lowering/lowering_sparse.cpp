#include "core/lowering/lowering_sparse.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/check/plan_check.h"
#include "core/error.h"
#include "core/lowering/dependencies.h"
#include "core/lowering/message_bounds.h"
#include "core/lowering/sparse_roles.h"
#include "core/network/unique_keys.h"

namespace orrery::core {

BufferId RoleWriter::buffer(std::string name, std::vector<std::int64_t> extents, BufferKind kind,
                            BufferScope scope, DType dtype) {
  return add_buffer(role_, {.name = std::move(name),
                            .dtype = dtype,
                            .shape = std::move(extents),
                            .kind = kind,
                            .scope = scope});
}

BlockId RoleWriter::add_block(BlockBuilder& block) {
  role_.blocks.push_back(block.take());
  return BlockId(role_.blocks.size() - 1);
}

Embedding embedding_of(const ClickThrough& model, int servers) {
  Embedding embedding;
  embedding.wide = model.wide;
  embedding.servers = servers;
  for (const EmbeddingTable& table : model.tables) {
    embedding.dim = table.dim;
    const std::int64_t rows = table.rows / table.lookups_per_sample;
    for (int k = 0; k < table.lookups_per_sample; ++k) {
      embedding.fields.push_back(
          {.first_row = embedding.rows + k * rows,
           .rows = rows,
           .zipf_exponent = table.zipf_exponent,
           .initial_stddev = std::sqrt(1.0 / (3.0 * static_cast<double>(rows)))});
    }
    embedding.rows += table.rows;
  }
  return embedding;
}

double expected_keys(const Embedding& embedding, std::int64_t samples) {
  double keys = 0.0;
  for (const EmbeddingField& field : embedding.fields) {
    keys += expected_unique_keys(field.rows, field.zipf_exponent, static_cast<double>(samples));
  }
  return keys;
}

namespace {

SparseShape shape_of(const SparsePlan& plan, const ClickThrough& model, const Job& job) {
  SparseShape shape;
  shape.model = model;
  shape.embedding = embedding_of(model, plan.servers);
  shape.dense_optimizer = job.optimizer;
  shape.sparse_optimizer = *job.sparse_optimizer;
  shape.workers = plan.workers;
  shape.slices = plan.slices;
  shape.samples = job.global_batch / (plan.workers * plan.slices);
  return shape;
}

/// The step's calls: begin, pull 0, then per slice s pull s + 1 and train (or push) s, then update.
void add_step(Role& role, const std::optional<WorkerBlocks>& worker,
              const std::optional<ServerBlocks>& server, int slices) {
  const auto call = [&](BlockId block, std::optional<int> slice) {
    role.step.push_back({.block = block, .microbatch = slice, .waits = {}});
  };
  const auto pull = [&](int slice) {
    if (worker) call(worker->pull, slice);
    if (server) call(server->pull, slice);
  };
  if (worker) call(worker->begin, std::nullopt);
  if (server) call(server->begin, std::nullopt);
  pull(0);
  for (int slice = 0; slice < slices; ++slice) {
    if (slice + 1 < slices) pull(slice + 1);
    if (worker) call(worker->train, slice);
    if (server) call(server->push, slice);
  }
  if (worker) call(worker->update, std::nullopt);
  if (server) call(server->update, std::nullopt);
}

Role make_role(const SparseShape& shape, bool works, bool serves) {
  Role role;
  role.name = works && serves ? "worker and server" : works ? "worker" : "server";
  std::optional<WorkerBlocks> worker;
  std::optional<ServerBlocks> server;
  if (works) {
    role.group_slots = {GroupKind::Data, GroupKind::Servers};
    worker = add_worker(role, shape);
  }
  if (serves) {
    role.peer_slots = shape.workers;
    server = add_server(role, shape);
  }
  add_step(role, worker, server, shape.slices);
  add_frees(role);
  add_dependencies(role);
  // A slice is loaded while the one before it is trained, not earlier.
  if (worker) bound_fetches(role, worker->pull, worker->train);
  return role;
}

/// Which role of the program a rank has, by what it does.
class Roles {
 public:
  Roles(Program& program, const SparseShape& shape) : program_(program), shape_(shape) {}

  RoleId of(bool works, bool serves) {
    std::optional<RoleId>& known = ids_[works ? 1 : 0][serves ? 1 : 0];
    if (!known) {
      known = RoleId(program_.roles.size());
      program_.roles.push_back(make_role(shape_, works, serves));
    }
    return *known;
  }

 private:
  Program& program_;
  const SparseShape& shape_;
  std::optional<RoleId> ids_[2][2];
};

/// The order in which a server serves the workers: server s begins with worker s, so that at any
/// time the servers serve different workers and no worker's link is everybody's.
std::vector<Rank> turns(std::vector<Rank> workers, int server) {
  const auto first = server % static_cast<int>(workers.size());
  std::rotate(workers.begin(), workers.begin() + first, workers.end());
  return workers;
}

}  // namespace

Program lower_sparse(const Plan& plan, const Model& model, const Cluster& cluster, const Job& job) {
  if (const auto reason = why_invalid(plan, model, job, cluster.devices())) {
    throw ConfigError(*reason);
  }
  const SparsePlan& sparse = *plan.sparse;
  const SparseShape shape = shape_of(sparse, *model.click_through, job);
  Program program;
  program.plan = describe(plan);
  program.model = model.name;
  program.microbatches = sparse.slices;
  program.embedding = shape.embedding;
  Group workers{GroupKind::Data, {}};
  Group servers{GroupKind::Servers, {}};
  for (int w = 0; w < sparse.workers; ++w) workers.members.push_back(Rank(w));
  const int first_server = sparse.colocated ? 0 : sparse.workers;
  for (int s = 0; s < sparse.servers; ++s) servers.members.push_back(Rank(first_server + s));
  Roles roles(program, shape);
  for (int r = 0; r < sparse.devices(); ++r) {
    const bool works = r < sparse.workers;
    const bool serves = r >= first_server && r < first_server + sparse.servers;
    RankBinding binding;
    binding.role = roles.of(works, serves);
    if (works) {
      binding.groups = {GroupId(0), GroupId(1)};
      binding.data_way = r;
    }
    if (serves) {
      binding.server = r - first_server;
      binding.peers = turns(workers.members, *binding.server);
    }
    program.ranks.push_back(std::move(binding));
  }
  program.groups = {std::move(workers), std::move(servers)};
  return program;
}

}  // namespace orrery::core
