#pragma once
// Computing beside communication. A collective's kernels take multiprocessors and memory bandwidth from
// what a GPU computes: while any is under way, computing takes Device::beside_communication times as
// long. Collectives themselves are not slowed. This is the one rule of simulator and cost model.

#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

/// Whether communications on the stream take from what is computed: collectives and the messages of a
/// context ring. A message between pipeline stages does not: few channels carry it.
bool takes_from_computing(Stream);

/// The compute stream of one device, one instruction at a time.
class BesideCommunication {
 public:
  /// @param factor  ≥ 1: how many times as long computing takes beside communication.
  explicit BesideCommunication(double factor = 1.0) : factor_(factor) {}

  /// Starts an instruction that takes `work` by itself.
  void compute(Seconds now, Seconds work);
  void stop_computing() { computing_ = false; }
  /// A communication starts or ends. True where the running instruction will end at another time.
  bool communication_starts(Seconds now);
  bool communication_ends(Seconds now);

  /// When the instruction ends, if no communication starts or ends before.
  Seconds end() const { return end_; }

 private:
  bool change(Seconds now, int communications);

  double factor_;
  int communications_ = 0;
  bool computing_ = false;
  Seconds left_;  ///< Of the instruction, by itself, at `since_`.
  Seconds since_, end_;
};

}  // namespace orrery::core
