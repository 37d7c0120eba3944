#include "core/interference.h"

#include <algorithm>

#include "core/trace.h"

namespace orrery::core {

bool takes_from_computing(Stream stream) {
  if (stream == Stream::Compute || stream == Stream::Host) return false;
  const SpanKind kind = communication_kind(stream);
  return kind != SpanKind::PipelineCommunication && kind != SpanKind::ParameterServer &&
         kind != SpanKind::Serve;
}

void BesideCommunication::compute(Seconds now, Seconds work) {
  computing_ = true;
  left_ = work;
  since_ = now;
  end_ = now + (communications_ > 0 ? work * factor_ : work);
}

bool BesideCommunication::communication_starts(Seconds now) {
  return change(now, communications_ + 1);
}

bool BesideCommunication::communication_ends(Seconds now) {
  return change(now, communications_ - 1);
}

bool BesideCommunication::change(Seconds now, int communications) {
  const bool before = communications_ > 0;
  const bool after = communications > 0;
  communications_ = communications;
  if (!computing_ || before == after || factor_ == 1.0) return false;
  const Seconds passed = now - since_;
  left_ = std::max(Seconds(0), left_ - (before ? passed / factor_ : passed));
  since_ = now;
  end_ = now + (after ? left_ * factor_ : left_);
  return true;
}

}  // namespace orrery::core
