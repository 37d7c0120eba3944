#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/lowering/lowering_sparse.h"
#include "core/lowering/sparse_roles.h"
#include "core/network/parameter_server.h"

namespace orrery::core {
namespace {

constexpr int kElementBytes = 4;  // Float32 throughout.

/// Writes a server's buffers and blocks into its role.
class Server : private RoleWriter {
 public:
  Server(Role& role, const SparseShape& shape) : RoleWriter(role), shape_(shape) {
    width_ = shape.embedding.width();
    add_shard();
    add_pushes();
    add_sums();
  }

  BlockId begin() {
    BlockBuilder block = serving("begin serving");
    block.compute("sum count", Zero{1}, {}, {all(sum_count_)}, Stream::Serve);
    block.compute("sum index", Zero{all(index_).count}, {}, {all(index_)}, Stream::Serve);
    return add_block(block);
  }

  BlockId pull() {
    BlockBuilder block = serving("serve pulls");
    for (int turn = 0; turn < shape_.workers; ++turn) {
      Instruction serve;
      serve.label = "pull, turn " + std::to_string(turn);
      serve.operation = ServePull{PeerSlot(turn), width_, keys_of_one_push()};
      serve.stream = Stream::Serve;
      serve.reads = {all(role_.shard->rows)};
      block.add(std::move(serve));
    }
    return add_block(block);
  }

  BlockId push() {
    BlockBuilder block = serving("serve pushes");
    std::vector<View> pushed;
    for (int turn = 0; turn < shape_.workers; ++turn) {
      const PushBuffers& push = pushes_[static_cast<std::size_t>(turn)];
      Instruction serve;
      serve.label = "push, turn " + std::to_string(turn);
      serve.operation = ServePush{PeerSlot(turn), width_, keys_of_one_push()};
      serve.stream = Stream::Serve;
      serve.writes = {all(push.keys), all(push.gradients), all(push.count)};
      pushed.insert(pushed.end(), serve.writes.begin(), serve.writes.end());
      block.add(std::move(serve));
    }
    const double rows = keys_of_one_push() * shape_.workers;
    block.compute("pushed rows",
                  SumPushedRows{static_cast<std::int64_t>(rows), width_, shape_.workers}, pushed,
                  {all(sum_keys_), all(sums_), all(sum_count_), all(index_)}, Stream::Serve);
    return add_block(block);
  }

  BlockId update() {
    BlockBuilder block = serving("update table");
    block.set_pass(Pass::OptimizerStep);
    const double touched = expected_keys(shape_.embedding, shape_.global_samples());
    std::vector<View> writes = {all(role_.shard->rows)};
    if (role_.shard->state) writes.push_back(all(*role_.shard->state));
    block.compute("embedding",
                  UpdateTable{static_cast<std::int64_t>(touched / shape_.embedding.servers), width_,
                              shape_.sparse_optimizer},
                  {all(sum_keys_), all(sums_), all(sum_count_)}, writes, Stream::Serve);
    return add_block(block);
  }

 private:
  BlockBuilder serving(std::string name) const {
    BlockBuilder block(role_, std::move(name), kElementBytes);
    block.set_pass(Pass::Serve);
    return block;
  }

  double keys_of_one_push() const {
    return expected_keys(shape_.embedding, shape_.samples) / shape_.embedding.servers;
  }

  void add_shard() {
    const std::vector<std::int64_t> extents = {shard_rows(shape_.embedding), width_};
    EmbeddingShard shard;
    shard.rows = buffer("table rows", extents, BufferKind::Parameters, BufferScope::Run);
    if (shape_.sparse_optimizer.kind == OptimizerKind::AdaGrad) {
      shard.state = buffer("table state", extents, BufferKind::OptimizerState, BufferScope::Run);
    }
    role_.shard = shard;
  }

  /// What one turn receives.
  struct PushBuffers {
    BufferId count, keys, gradients;
  };

  void add_pushes() {
    const std::int64_t most = std::min(shape_.slice_lookups(), shard_rows(shape_.embedding));
    const auto communication = BufferKind::Communication;
    const auto run = BufferScope::Run;
    for (int turn = 0; turn < shape_.workers; ++turn) {
      const std::string name = "push " + std::to_string(turn);
      PushBuffers push;
      push.count = buffer(name + " count", {1}, communication, run, DType::Int32);
      push.keys = buffer(name + " keys", {most}, communication, run, DType::Int32);
      push.gradients = buffer(name + " gradients", {most, width_}, communication, run);
      pushes_.push_back(push);
    }
  }

  /// Room for every row that one step can touch on this server.
  void add_sums() {
    const std::int64_t pushed = shape_.slice_lookups() * shape_.slices * shape_.workers;
    const std::int64_t capacity = std::min(pushed, shard_rows(shape_.embedding));
    const auto entries =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * capacity)));
    const auto work = BufferKind::Workspace;
    const auto run = BufferScope::Run;
    sum_count_ = buffer("sum count", {1}, work, run, DType::Int32);
    sum_keys_ = buffer("sum keys", {capacity}, work, run, DType::Int32);
    sums_ = buffer("sums", {capacity, width_}, work, run);
    index_ = buffer("sum index", {entries}, work, run, DType::Int32);
  }

  const SparseShape& shape_;
  int width_ = 0;
  std::vector<PushBuffers> pushes_;
  BufferId sum_count_, sum_keys_, sums_, index_;
};

}  // namespace

ServerBlocks add_server(Role& role, const SparseShape& shape) {
  Server server(role, shape);
  ServerBlocks blocks;
  blocks.begin = server.begin();
  blocks.pull = server.pull();
  blocks.push = server.push();
  blocks.update = server.update();
  return blocks;
}

}  // namespace orrery::core
