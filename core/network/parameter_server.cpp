#include "core/network/parameter_server.h"

namespace orrery::core {
namespace {

constexpr double kKeyBytes = 4.0;      // Int32.
constexpr double kElementBytes = 4.0;  // Float32.

double request_bytes(double keys) { return kKeyBytes + kKeyBytes * keys; }

double row_bytes(double keys, int width) { return kElementBytes * keys * width; }

}  // namespace

PullMessages pull_messages(double keys, int width) {
  return {.request = Bytes(request_bytes(keys)), .answer = Bytes(row_bytes(keys, width))};
}

Bytes push_message(double keys, int width) {
  return Bytes(request_bytes(keys) + row_bytes(keys, width));
}

std::int64_t shard_rows(const Embedding& embedding) {
  return (embedding.rows + embedding.servers - 1) / embedding.servers;
}

}  // namespace orrery::core
