#include "costmodel/memory.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;

Bytes& at(MemoryByTerm& memory, MemoryTerm term) { return memory[static_cast<std::size_t>(term)]; }

// loss F[1], squared norm F[1], norm and clip factor F[2] (core/lowering/decoder_stage.h).
constexpr double kStepScalars = 16.0;

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
      return buffer.name == "logits" ? MemoryTerm::Logits : MemoryTerm::Activations;
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

MemoryByTerm persistent_memory(std::int64_t elements, int sharding_ways, const core::Job& job) {
  const auto n = static_cast<double>(elements);
  const int element = core::dtype_bytes(job.precision);
  const int full = core::dtype_bytes(core::DType::Float32);
  const int states = core::optimizer_state_count(job.optimizer.kind) + (element < full ? 1 : 0);
  MemoryByTerm memory{};
  at(memory, MemoryTerm::Weights) = Bytes(n * element);
  at(memory, MemoryTerm::Gradients) = Bytes(n * full);
  at(memory, MemoryTerm::Optimizer) = Bytes(n / sharding_ways * full * states);
  at(memory, MemoryTerm::Activations) = Bytes(kStepScalars);
  return memory;
}

MemoryByTerm peak_of_passes(const PassMemory& memory, core::PipelineSchedule schedule, int stages,
                            int stage, int microbatches) {
  const int in_flight = schedule == core::PipelineSchedule::GPipe
                            ? microbatches
                            : std::min(stages - stage, microbatches);
  const int looked_at = std::min(in_flight, 3);
  // As many passes beyond those in flight as make 1F1B alternate.
  const int more = std::min(microbatches - in_flight, 2);
  const std::vector<core::StagePass> passes =
      core::pipeline_passes({schedule, looked_at, 1, looked_at + more}).front();
  const auto bytes = [&](const core::StagePass& pass) -> const PassBytes& {
    return pass.kind == core::PassKind::Forward ? memory.forward : memory.backward;
  };
  MemoryByTerm peak{};
  int others = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].kind != core::PassKind::Forward) --others;
    MemoryByTerm now = memory.saved * others + bytes(passes[i]).peak;
    if (i > 0) now = now + bytes(passes[i - 1]).sent;
    if (i + 1 < passes.size()) now = now + bytes(passes[i + 1]).fetched;
    peak = larger(peak, now);
    if (passes[i].kind == core::PassKind::Forward) ++others;
  }
  return peak + memory.standing + memory.saved * (in_flight - looked_at);
}

}  // namespace orrery::costmodel
