#include "costmodel/memory.h"

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;

const MemoryByTerm& larger(const MemoryByTerm& a, const MemoryByTerm& b) {
  return total(b) > total(a) ? b : a;
}

}  // namespace

std::string_view memory_term_name(MemoryTerm term) {
  switch (term) {
    case MemoryTerm::Weights:
      return "weights";
    case MemoryTerm::Gradients:
      return "gradients";
    case MemoryTerm::Optimizer:
      return "optimizer";
    case MemoryTerm::Activations:
      return "activations";
    case MemoryTerm::Logits:
      return "logits";
    case MemoryTerm::Workspace:
      return "workspace";
    case MemoryTerm::Communication:
      return "communication";
    case MemoryTerm::Reserved:
      return "reserved";
  }
  core::check_failed("MemoryTerm", "unknown term", __FILE__, __LINE__);
}

MemoryTerm memory_term(const core::Buffer& buffer) {
  switch (buffer.kind) {
    case core::BufferKind::Parameters:
      return MemoryTerm::Weights;
    case core::BufferKind::Gradients:
      return MemoryTerm::Gradients;
    case core::BufferKind::OptimizerState:
      return MemoryTerm::Optimizer;
    case core::BufferKind::Activations:
      return MemoryTerm::Activations;
    case core::BufferKind::Logits:
      return MemoryTerm::Logits;
    case core::BufferKind::Workspace:
      return MemoryTerm::Workspace;
    case core::BufferKind::Communication:
      return MemoryTerm::Communication;
    case core::BufferKind::Input:
    case core::BufferKind::Statistics:
      return MemoryTerm::Activations;
  }
  core::check_failed("BufferKind", "unknown kind", __FILE__, __LINE__);
}

Bytes total(const MemoryByTerm& memory) {
  Bytes sum;
  for (const Bytes bytes : memory) sum += bytes;
  return sum;
}

MemoryByTerm operator+(const MemoryByTerm& a, const MemoryByTerm& b) {
  MemoryByTerm sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

MemoryByTerm operator*(const MemoryByTerm& memory, double factor) {
  MemoryByTerm scaled = memory;
  for (Bytes& bytes : scaled) bytes *= factor;
  return scaled;
}

bool stands(const core::Buffer& buffer) {
  return buffer.scope == core::BufferScope::Run && buffer.kind == core::BufferKind::Communication;
}

MemoryByTerm run_memory(const core::Role& role) {
  MemoryByTerm memory{};
  for (const core::Buffer& buffer : role.buffers) {
    if (buffer.scope != core::BufferScope::Run || stands(buffer)) continue;
    memory[static_cast<std::size_t>(memory_term(buffer))] += buffer.bytes();
  }
  return memory;
}

namespace {

const PassBytes& bytes_of(const PassMemory& chunk, core::PassKind kind) {
  switch (kind) {
    case core::PassKind::Forward:
      return chunk.forward;
    case core::PassKind::Backward:
    case core::PassKind::InputGrad:
      return chunk.backward;
    case core::PassKind::WeightGrad:
      return chunk.weight_grad;
  }
  ORRERY_CHECK(false, "unknown PassKind");
}

MemoryByTerm held(const PassMemory& chunk, const ChunkHolding& holds) {
  return chunk.saved * holds.saved + chunk.kept * holds.kept +
         chunk.forward.received * holds.activations_received +
         chunk.backward.received * holds.gradients_received + chunk.forward.loaded * holds.loads +
         chunk.forward.sent * holds.activations_sent + chunk.backward.sent * holds.gradients_sent;
}

}  // namespace

MemoryByTerm peak_of_passes(const std::vector<PassMemory>& chunks,
                            const std::vector<PassMoment>& moments) {
  MemoryByTerm peak{};
  for (const PassMoment& moment : moments) {
    MemoryByTerm now = bytes_of(chunks[static_cast<std::size_t>(moment.chunk)], moment.kind).peak;
    for (std::size_t c = 0; c < chunks.size(); ++c) now = now + held(chunks[c], moment.holds[c]);
    peak = larger(peak, now);
  }
  return peak + chunks.front().standing;
}

}  // namespace orrery::costmodel
