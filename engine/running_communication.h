#pragma once
// A communication instruction under way, and how each kind starts.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/program.h"
#include "engine/collective.h"
#include "engine/communicator.h"
#include "engine/operator_context.h"

namespace orrery::engine {

/// Something that goes on bit by bit while the rank computes.
class RunningCommunication {
 public:
  virtual ~RunningCommunication() = default;
  /// Goes on as far as it can without waiting; true when it has ended.
  virtual bool poll(Communicator&) = 0;
  /// Sent and received by this rank, once it has ended.
  virtual std::size_t bytes() const = 0;
};

/// What one stream of a rank has under way: one communication at a time, its memory kept.
class CommunicationLane {
 public:
  /// Starts an instruction's communication. The operands stay valid until it has ended.
  void start(const core::Instruction&, const OperatorContext&, Communicator&);
  /// True when it has ended.
  bool poll(Communicator&);
  /// Of the communication that ended last: a message, a collective's whole buffer, or what a pull or
  /// push exchanged; as it was handed to the Communicator, not as the Program says.
  std::int64_t bytes_moved() const;

 private:
  enum class Kind { Message, Collective, Other };

  void start(const core::Compute&, const core::Instruction&, const OperatorContext&, Communicator&);
  void start(const core::Collective&, const core::Instruction&, const OperatorContext&,
             Communicator&);
  void start(const core::Send&, const core::Instruction&, const OperatorContext&, Communicator&);
  void start(const core::Receive&, const core::Instruction&, const OperatorContext&, Communicator&);
  void start(const core::Pull&, const core::Instruction&, const OperatorContext&, Communicator&);
  void start(const core::Push&, const core::Instruction&, const OperatorContext&, Communicator&);
  void start(const core::ServePull&, const core::Instruction&, const OperatorContext&,
             Communicator&);
  void start(const core::ServePush&, const core::Instruction&, const OperatorContext&,
             Communicator&);
  void start_other(std::unique_ptr<RunningCommunication>);

  Kind kind_ = Kind::Message;
  std::size_t bytes_ = 0;  // Of a message or collective.
  Communicator::Request message_;
  CollectiveRun collective_;
  std::unique_ptr<RunningCommunication> other_;
};

}  // namespace orrery::engine
