#pragma once
// The two instruction lists of a parameter-server plan. A colocated rank holds both, interleaved,
// on different streams.

#include "core/job.h"
#include "core/lowering/block_builder.h"
#include "core/model.h"
#include "core/program.h"

namespace orrery::core {

/// What a sparse plan amounts to for one model and job.
struct SparseShape {
  ClickThrough model;
  Embedding embedding;
  Optimizer dense_optimizer;
  Optimizer sparse_optimizer;
  int workers = 1;
  int slices = 1;
  std::int64_t samples = 0;  ///< Of one slice.

  int lookups() const { return static_cast<int>(embedding.fields.size()); }
  std::int64_t slice_lookups() const { return samples * lookups(); }
  std::int64_t global_samples() const { return samples * slices * workers; }
};

/// Adds buffers and blocks to a role.
class RoleWriter {
 protected:
  explicit RoleWriter(Role& role) : role_(role) {}

  BufferId buffer(std::string name, std::vector<std::int64_t> extents, BufferKind, BufferScope,
                  DType = DType::Float32);
  View all(BufferId buffer) const { return whole(role_, buffer); }
  BlockId add_block(BlockBuilder&);

  Role& role_;
};

/// Group slots of a worker, in the order of RankBinding::groups.
inline constexpr GroupSlot kWorkersSlot{0};
inline constexpr GroupSlot kServersSlot{1};

/// Blocks that a step calls, for one slice each or once.
struct WorkerBlocks {
  BlockId begin, pull, train, update;
};
WorkerBlocks add_worker(Role&, const SparseShape&);

struct ServerBlocks {
  BlockId begin, pull, push, update;
};
ServerBlocks add_server(Role&, const SparseShape&);

}  // namespace orrery::core
