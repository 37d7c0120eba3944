#pragma once
// Which messages between two ranks meet: equal tags, in order.

#include "core/program.h"

namespace orrery::engine {

/// Tags of messages that belong to no group.
enum class MessageTag {
  Activation,
  Gradient,
  Context,
  PullKeys,   ///< Worker to server.
  PullRows,   ///< Server to worker.
  PushKeys,   ///< Worker to server.
  PushGrads,  ///< Worker to server.
  Report      ///< Loss, records and weights, gathered at rank 0 beside the Program.
};

inline int tag_of(MessageTag tag) { return static_cast<int>(tag); }

inline int tag_of(core::Channel channel) {
  switch (channel) {
    case core::Channel::Activation:
      return tag_of(MessageTag::Activation);
    case core::Channel::Gradient:
      return tag_of(MessageTag::Gradient);
    case core::Channel::Context:
      return tag_of(MessageTag::Context);
  }
  return tag_of(MessageTag::Activation);
}

/// Collectives meet in the order of their group's stream.
inline int tag_of(core::GroupId group, core::Stream stream) {
  constexpr int kFirstGroupTag = 16;
  return kFirstGroupTag + group.value * core::kStreams + static_cast<int>(stream);
}

}  // namespace orrery::engine
