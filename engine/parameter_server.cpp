#include "engine/parameter_server.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/message_tag.h"
#include "engine/store.h"

namespace orrery::engine {

namespace {

using core::Rank;
using Request = Communicator::Request;

constexpr std::size_t kCountBytes = sizeof(std::int32_t);

/// Requests under way; removes those that are done.
class Requests {
 public:
  void add(Request request) { open_.push_back(request); }
  bool done(Communicator& communicator) {
    std::erase_if(open_, [&](Request request) { return communicator.test(request); });
    return open_.empty();
  }

 private:
  std::vector<Request> open_;
};

/// Starts a message unless it is empty: both sides know its size by then.
void send(Communicator& communicator, Requests& requests, Rank to, MessageTag tag, const void* data,
          std::size_t bytes) {
  if (bytes > 0) requests.add(communicator.start_send(to, tag_of(tag), data, bytes));
}
void receive(Communicator& communicator, Requests& requests, Rank from, MessageTag tag, void* data,
             std::size_t bytes) {
  if (bytes > 0) requests.add(communicator.start_receive(from, tag_of(tag), data, bytes));
}

void check_operands(const OperatorContext& context, std::size_t reads, std::size_t writes) {
  if (context.reads.size() == reads && context.writes.size() == writes) return;
  throw core::SystemError("unsound program: a parameter-server instruction has " +
                          std::to_string(context.reads.size()) + " reads and " +
                          std::to_string(context.writes.size()) + " writes");
}

/// What one worker exchanges with one server: its keys, where they stand among the worker's, and
/// their rows or gradients.
struct ServerShare {
  Rank server;
  std::int32_t count = 0;
  std::vector<std::int32_t> keys;
  std::vector<std::int32_t> positions;
  std::vector<float> rows;
};

/// The worker's keys, cut by server.
std::vector<ServerShare> shares_of(core::GroupSlot slot, const OperatorContext& context) {
  const core::GroupId group = context.program.binding->groups[slot.index()];
  const std::vector<Rank>& servers = context.program.program->groups[group.index()].members;
  std::vector<ServerShare> shares(servers.size());
  for (std::size_t s = 0; s < servers.size(); ++s) shares[s].server = servers[s];
  const std::int32_t* keys = context.reads[0].ints();
  const std::int32_t count = *context.reads[1].ints();
  if (count < 0 || count > context.reads[0].count) {
    throw core::SystemError("unsound program: a batch of " + std::to_string(count) + " keys");
  }
  for (std::int32_t i = 0; i < count; ++i) {
    ServerShare& share = shares[static_cast<std::size_t>(keys[i]) % servers.size()];
    share.keys.push_back(keys[i]);
    share.positions.push_back(i);
  }
  for (ServerShare& share : shares) share.count = static_cast<std::int32_t>(share.keys.size());
  return shares;
}

std::size_t row_bytes(std::int32_t count, int width) {
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(width) * sizeof(float);
}
std::size_t key_bytes(std::int32_t count) {
  return static_cast<std::size_t>(count) * sizeof(std::int32_t);
}

class PullRun final : public RunningCommunication {
 public:
  PullRun(const core::Pull& op, const OperatorContext& context, Communicator& communicator)
      : width_(op.width) {
    check_operands(context, 2, 1);
    shares_ = shares_of(op.servers, context);
    rows_ = context.writes[0].floats();
    for (ServerShare& share : shares_) {
      share.rows.resize(static_cast<std::size_t>(share.count) * static_cast<std::size_t>(width_));
      send(communicator, requests_, share.server, MessageTag::PullKeys, &share.count, kCountBytes);
      send(communicator, requests_, share.server, MessageTag::PullKeys, share.keys.data(),
           key_bytes(share.count));
      receive(communicator, requests_, share.server, MessageTag::PullRows, share.rows.data(),
              row_bytes(share.count, width_));
    }
  }

  bool poll(Communicator& communicator) override {
    if (!requests_.done(communicator)) return false;
    const auto width = static_cast<std::size_t>(width_);
    for (const ServerShare& share : shares_) {
      for (std::size_t i = 0; i < share.positions.size(); ++i) {
        std::copy_n(share.rows.data() + i * width, width,
                    rows_ + static_cast<std::size_t>(share.positions[i]) * width);
      }
    }
    return true;
  }

  std::size_t bytes() const override {
    std::size_t sum = 0;
    for (const ServerShare& share : shares_) {
      sum += kCountBytes + key_bytes(share.count) + row_bytes(share.count, width_);
    }
    return sum;
  }

 private:
  int width_;
  std::vector<ServerShare> shares_;
  float* rows_ = nullptr;
  Requests requests_;
};

class PushRun final : public RunningCommunication {
 public:
  PushRun(const core::Push& op, const OperatorContext& context, Communicator& communicator)
      : width_(op.width) {
    check_operands(context, 3, 0);
    shares_ = shares_of(op.servers, context);
    const auto width = static_cast<std::size_t>(width_);
    const float* gradients = context.reads[2].floats();
    for (ServerShare& share : shares_) {
      share.rows.resize(static_cast<std::size_t>(share.count) * width);
      for (std::size_t i = 0; i < share.positions.size(); ++i) {
        std::copy_n(gradients + static_cast<std::size_t>(share.positions[i]) * width, width,
                    share.rows.data() + i * width);
      }
      send(communicator, requests_, share.server, MessageTag::PushKeys, &share.count, kCountBytes);
      send(communicator, requests_, share.server, MessageTag::PushKeys, share.keys.data(),
           key_bytes(share.count));
      send(communicator, requests_, share.server, MessageTag::PushGrads, share.rows.data(),
           row_bytes(share.count, width_));
    }
  }

  bool poll(Communicator& communicator) override { return requests_.done(communicator); }

  std::size_t bytes() const override {
    std::size_t sum = 0;
    for (const ServerShare& share : shares_) {
      sum += kCountBytes + key_bytes(share.count) + row_bytes(share.count, width_);
    }
    return sum;
  }

 private:
  int width_;
  std::vector<ServerShare> shares_;
  Requests requests_;
};

/// What a server does with one worker: receive the count, then what it announces, then perhaps
/// answer.
class ServeRun : public RunningCommunication {
 public:
  bool poll(Communicator& communicator) override {
    while (requests_.done(communicator)) {
      if (phase_ == Phase::Count) {
        check_count();
        phase_ = Phase::Content;
        receive_content(communicator);
      } else if (phase_ == Phase::Content) {
        phase_ = Phase::Answer;
        answer(communicator);
      } else {
        return true;
      }
    }
    return false;
  }

  std::size_t bytes() const override {
    return kCountBytes + key_bytes(count_) + row_bytes(count_, width_);
  }

 protected:
  ServeRun(core::PeerSlot worker, int width, std::int64_t capacity, MessageTag tag,
           const OperatorContext& context, Communicator& communicator)
      : worker_(context.program.binding->peers[worker.index()]),
        width_(width),
        capacity_(capacity) {
    receive(communicator, requests_, worker_, tag, &count_, kCountBytes);
  }
  virtual void receive_content(Communicator&) = 0;
  virtual void answer(Communicator&) = 0;

  Rank worker_;
  int width_;
  std::int64_t capacity_;
  std::int32_t count_ = 0;
  Requests requests_;

 private:
  enum class Phase { Count, Content, Answer };

  void check_count() const {
    if (count_ >= 0 && count_ <= capacity_) return;
    throw core::SystemError("worker on rank " + std::to_string(worker_.value) + " names " +
                            std::to_string(count_) + " keys, the program has room for " +
                            std::to_string(capacity_));
  }

  Phase phase_ = Phase::Count;
};

/// The shard that an instruction reads, as a Store.
Store store_of(const OperatorContext& context, const Operand& rows) {
  return {*context.program.program->embedding,
          context.program.binding->server.value(),
          std::span(rows.floats(), static_cast<std::size_t>(rows.count)),
          {}};
}

class ServePullRun final : public ServeRun {
 public:
  ServePullRun(const core::ServePull& op, const OperatorContext& context,
               Communicator& communicator)
      : ServeRun(op.worker, op.width, context.reads[0].count / op.width, MessageTag::PullKeys,
                 context, communicator),
        store_(store_of(context, context.reads[0])) {}

 private:
  void receive_content(Communicator& communicator) override {
    keys_.resize(static_cast<std::size_t>(count_));
    receive(communicator, requests_, worker_, MessageTag::PullKeys, keys_.data(),
            key_bytes(count_));
  }
  void answer(Communicator& communicator) override {
    rows_.resize(keys_.size() * static_cast<std::size_t>(width_));
    store_.read(keys_, rows_.data());
    send(communicator, requests_, worker_, MessageTag::PullRows, rows_.data(),
         row_bytes(count_, width_));
  }

  Store store_;
  std::vector<std::int32_t> keys_;
  std::vector<float> rows_;
};

class ServePushRun final : public ServeRun {
 public:
  ServePushRun(const core::ServePush& op, const OperatorContext& context,
               Communicator& communicator)
      : ServeRun(op.worker, op.width,
                 std::min(context.writes[0].count, context.writes[1].count / op.width),
                 MessageTag::PushKeys, context, communicator),
        keys_(context.writes[0].ints()),
        gradients_(context.writes[1].floats()),
        announced_(context.writes[2].ints()) {}

 private:
  void receive_content(Communicator& communicator) override {
    *announced_ = count_;
    receive(communicator, requests_, worker_, MessageTag::PushKeys, keys_, key_bytes(count_));
    receive(communicator, requests_, worker_, MessageTag::PushGrads, gradients_,
            row_bytes(count_, width_));
  }
  void answer(Communicator&) override {}

  std::int32_t* keys_;
  float* gradients_;
  std::int32_t* announced_;
};

}  // namespace

std::unique_ptr<RunningCommunication> start_parameter_server(const core::Pull& op,
                                                             const OperatorContext& context,
                                                             Communicator& communicator) {
  return std::make_unique<PullRun>(op, context, communicator);
}

std::unique_ptr<RunningCommunication> start_parameter_server(const core::Push& op,
                                                             const OperatorContext& context,
                                                             Communicator& communicator) {
  return std::make_unique<PushRun>(op, context, communicator);
}

std::unique_ptr<RunningCommunication> start_parameter_server(const core::ServePull& op,
                                                             const OperatorContext& context,
                                                             Communicator& communicator) {
  check_operands(context, 1, 0);
  return std::make_unique<ServePullRun>(op, context, communicator);
}

std::unique_ptr<RunningCommunication> start_parameter_server(const core::ServePush& op,
                                                             const OperatorContext& context,
                                                             Communicator& communicator) {
  check_operands(context, 0, 3);
  return std::make_unique<ServePushRun>(op, context, communicator);
}

}  // namespace orrery::engine
