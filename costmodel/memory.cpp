#include "costmodel/memory.h"

#include <algorithm>
#include <initializer_list>

#include "core/error.h"
#include "core/pipeline_schedule.h"

namespace orrery::costmodel {
namespace {

using core::Bytes;

Bytes& at(MemoryByTerm& memory, MemoryTerm term) { return memory[static_cast<std::size_t>(term)]; }

// loss F[1], squared norm F[1], norm and clip factor F[2] (core/decoder_stage.h).
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

MemoryByTerm peak_of_passes(const PassMemory& passes, core::PipelineSchedule schedule, int stages,
                            int stage, int microbatches) {
  const int in_flight = core::microbatches_in_flight(schedule, stages, stage, microbatches);
  const MemoryByTerm others = passes.saved * (in_flight - 1);
  // The forward pass that brings in_flight to its most is followed by a backward pass; that one by
  // a forward pass while 1F1B alternates, by a backward pass in the end.
  const MemoryByTerm forward = others + passes.forward_peak + passes.next_backward;
  MemoryByTerm backward = others + passes.backward_peak;
  if (in_flight > 1) backward = backward + passes.next_backward;
  if (schedule == core::PipelineSchedule::OneFOneB && microbatches > in_flight) {
    backward = larger(backward, others + passes.backward_peak + passes.next_forward);
  }
  MemoryByTerm peak = larger(forward, backward);
  if (in_flight > 1) {
    // While forward passes follow each other the next input is there before the last is saved.
    const MemoryByTerm warmup =
        passes.saved * (in_flight - 2) + passes.forward_peak + passes.next_forward;
    peak = larger(peak, warmup);
  }
  return peak;
}

}  // namespace orrery::costmodel
