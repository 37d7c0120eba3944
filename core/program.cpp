#include "core/program.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::core {

std::string_view stream_name(Stream stream) {
  switch (stream) {
    case Stream::Compute:
      return "compute";
    case Stream::Tensor:
      return "tensor";
    case Stream::Context:
      return "context";
    case Stream::Expert:
      return "expert";
    case Stream::SendContext:
      return "send context";
    case Stream::ReceiveContext:
      return "receive context";
    case Stream::SendActivation:
      return "send activation";
    case Stream::ReceiveActivation:
      return "receive activation";
    case Stream::SendGradient:
      return "send gradient";
    case Stream::ReceiveGradient:
      return "receive gradient";
    case Stream::Data:
      return "data";
    case Stream::Gather:
      return "gather";
    case Stream::ParameterServer:
      return "parameter server";
    case Stream::Serve:
      return "serve";
    case Stream::Host:
      return "host";
  }
  ORRERY_CHECK(false, "no such stream");
}

std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::Load:
      return "load";
    case Pass::Forward:
      return "forward";
    case Pass::Recompute:
      return "recompute";
    case Pass::Backward:
      return "backward";
    case Pass::WeightGrad:
      return "weight gradient";
    case Pass::OptimizerStep:
      return "optimizer step";
    case Pass::Serve:
      return "serve";
  }
  ORRERY_CHECK(false, "no such pass");
}

std::string_view buffer_kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::Parameters:
      return "parameters";
    case BufferKind::Gradients:
      return "gradients";
    case BufferKind::OptimizerState:
      return "optimizer state";
    case BufferKind::Activations:
      return "activations";
    case BufferKind::Logits:
      return "logits";
    case BufferKind::Workspace:
      return "workspace";
    case BufferKind::Communication:
      return "communication";
    case BufferKind::Input:
      return "input";
    case BufferKind::Statistics:
      return "statistics";
  }
  ORRERY_CHECK(false, "no such buffer kind");
}

std::int64_t Buffer::elements() const {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) product *= extent;
  return product;
}

Bytes Buffer::bytes() const {
  return Bytes(static_cast<double>(elements()) * static_cast<double>(dtype_bytes(dtype)));
}

std::string_view collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all_reduce";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::Broadcast:
      return "broadcast";
    case CollectiveKind::AllToAll:
      return "all_to_all";
  }
  ORRERY_CHECK(false, "no such collective");
}

std::string_view operation_name(const Operation& operation) {
  struct Name {
    std::string_view operator()(const Compute& c) const { return operator_name(c.op); }
    std::string_view operator()(const Collective& c) const { return collective_name(c.kind); }
    std::string_view operator()(const Send&) const { return "send"; }
    std::string_view operator()(const Receive&) const { return "receive"; }
    std::string_view operator()(const Pull&) const { return "pull"; }
    std::string_view operator()(const Push&) const { return "push"; }
    std::string_view operator()(const ServePull&) const { return "serve_pull"; }
    std::string_view operator()(const ServePush&) const { return "serve_push"; }
  };
  return std::visit(Name{}, operation);
}

std::string_view group_kind_name(GroupKind kind) {
  switch (kind) {
    case GroupKind::Tensor:
      return "tensor";
    case GroupKind::Context:
      return "context";
    case GroupKind::Expert:
      return "expert";
    case GroupKind::Data:
      return "data";
    case GroupKind::Sharding:
      return "sharding";
    case GroupKind::ExpertData:
      return "expert data";
    case GroupKind::ExpertSharding:
      return "expert sharding";
    case GroupKind::Model:
      return "model";
    case GroupKind::World:
      return "world";
    case GroupKind::TiedEmbedding:
      return "tied embedding";
    case GroupKind::Servers:
      return "servers";
  }
  ORRERY_CHECK(false, "no such group kind");
}

int position_in(const Group& group, Rank rank) {
  const auto found = std::find(group.members.begin(), group.members.end(), rank);
  ORRERY_CHECK(found != group.members.end(), "rank is not a member of the group");
  return static_cast<int>(found - group.members.begin());
}

}  // namespace orrery::core
