#pragma once
// Writes a block's instructions one by one: what lowerings are written with.

#include <string>
#include <vector>

#include "core/lowering/parameter_layout.h"
#include "core/program.h"

namespace orrery::core {

/// All of a buffer.
View whole(const Role&, BufferId);

/// A new buffer of the role.
BufferId add_buffer(Role&, Buffer);

class BlockBuilder {
 public:
  /// @param element_bytes  Of the job's precision: for the work of each operator.
  BlockBuilder(const Role& role, std::string name, int element_bytes);

  void set_pass(Pass pass) { pass_ = pass; }
  /// A backward pass, whatever it computes again on its way.
  void set_backward() { backward_ = true; }
  bool backward() const { return backward_; }
  void compute(std::string label, Operator, std::vector<View> reads, std::vector<View> writes,
               Stream stream = Stream::Compute);
  /// In place: AllReduce of `view`; ReduceScatter of `view` into this rank's slice of it; AllGather
  /// of this rank's slice of `view` into all of it.
  void collective(std::string label, CollectiveKind, GroupSlot, const View& view, Stream,
                  Reduction = Reduction::Sum);
  /// AllGather of `part` on every member into `all`, in member order.
  void gather(std::string label, GroupSlot, const View& part, const View& all, Stream);
  /// AllToAll: the p-th part of `from` becomes, on the p-th member, the part of `to` at this rank's
  /// position.
  void exchange(std::string label, GroupSlot, const View& from, const View& to, Stream);
  /// ReduceScatter of `all` into `part` of another buffer.
  void scatter(std::string label, GroupSlot, const View& all, const View& part, Stream);
  void send(std::string label, PeerSlot, Channel, BufferId);
  void receive(std::string label, PeerSlot, Channel, BufferId);
  void add(Instruction);

  View all(BufferId id) const { return whole(role_, id); }  ///< Of a buffer.

  Block take() { return std::move(block_); }
  std::size_t size() const { return block_.instructions.size(); }

 private:
  Bytes bytes_of(const View&) const;

  const Role& role_;
  Block block_;
  int element_bytes_;
  Pass pass_ = Pass::Forward;
  bool backward_ = false;
};

}  // namespace orrery::core
