#include "costmodel/memory.h"

#include "core/error.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;

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

/// Bytes of a chunk's parts in all.
struct ChunkTotals {
  double forward, backward, weight_grad;  ///< Peaks of its passes.
  double saved, kept, received, returned, loaded, sent, sent_back;

  explicit ChunkTotals(const PassMemory& chunk)
      : forward(total(chunk.forward.peak).value),
        backward(total(chunk.backward.peak).value),
        weight_grad(total(chunk.weight_grad.peak).value),
        saved(total(chunk.saved).value),
        kept(total(chunk.kept).value),
        received(total(chunk.forward.received).value),
        returned(total(chunk.backward.received).value),
        loaded(total(chunk.forward.loaded).value),
        sent(total(chunk.forward.sent).value),
        sent_back(total(chunk.backward.sent).value) {}

  double peak(core::PassKind kind) const {
    if (kind == core::PassKind::Forward) return forward;
    return kind == core::PassKind::WeightGrad ? weight_grad : backward;
  }
  double held(const ChunkHolding& holds) const {
    return saved * holds.saved + kept * holds.kept + received * holds.activations_received +
           returned * holds.gradients_received + loaded * holds.loads +
           sent * holds.activations_sent + sent_back * holds.gradients_sent;
  }
};

}  // namespace

MemoryByTerm peak_of_passes(const std::vector<const PassMemory*>& chunks,
                            const std::vector<PassMoment>& moments) {
  // Whichever moment holds most in all is then looked at term by term.
  std::vector<ChunkTotals> totals;
  totals.reserve(chunks.size());
  for (const PassMemory* chunk : chunks) totals.emplace_back(*chunk);
  const PassMoment* fullest = nullptr;
  double most = 0.0;
  for (const PassMoment& moment : moments) {
    double now = totals[moment.chunk].peak(moment.kind);
    for (std::size_t c = 0; c < totals.size(); ++c) now += totals[c].held(moment.holds[c]);
    if (fullest != nullptr && now <= most) continue;
    fullest = &moment;
    most = now;
  }
  ORRERY_CHECK(fullest != nullptr, "a stage without passes");
  MemoryByTerm peak = bytes_of(*chunks[fullest->chunk], fullest->kind).peak;
  for (std::size_t c = 0; c < chunks.size(); ++c) peak = peak + held(*chunks[c], fullest->holds[c]);
  return peak + chunks.front()->standing;
}

}  // namespace orrery::costmodel
