#include "costmodel/step_profile.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "costmodel/compute_cost.h"
#include "costmodel/pass_memory.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

// Enough layers for a middle one whose neighbours are neither the first nor the last.
constexpr int kLowered = 5;
constexpr int kMiddle = 2;
// Enough to tell iterations apart; and one more where buffers serve every other layer.
constexpr int kSized = 2;

Seconds duration_of(const core::Instruction& instruction, const core::Device& device,
                    core::DType precision) {
  const auto* compute = std::get_if<core::Compute>(&instruction.operation);
  return compute == nullptr ? Seconds(0) : compute_time(*compute, device, precision);
}

}  // namespace

core::DensePlan step_sizes_alone(const core::DensePlan& plan) {
  core::DensePlan alone = plan;
  alone.layers_per_stage.clear();
  alone.pipeline = alone.virtual_stages = 1;
  alone.microbatch = 1;
  alone.data = std::min(plan.data, 2);  // Whether there is a group; how large it is, is its cost.
  alone.recompute = core::Recompute::None;
  alone.recompute_layers.reset();
  alone.recompute_whole = false;
  alone.schedule = core::PipelineSchedule::OneFOneB;
  alone.pass_times.reset();
  return alone;
}

core::DensePlan step_structure_alone(const core::DensePlan& plan) {
  core::DensePlan alone = step_sizes_alone(plan);
  alone.schedule = order_free(plan.schedule);
  if (lowered_in_full(plan)) return alone;  // Which layers are joined depends on their size.
  alone.tensor = fewest_ways(plan.tensor);
  if (plan.expert_tensor > 1) alone.expert_tensor = alone.tensor;
  alone.sharding = fewest_ways(plan.sharding);
  return alone;
}

bool lowered_in_full(const core::DensePlan& plan) {
  return plan.bucket.has_value() || !plan.overlap_gradients;
}

// ---- the instructions ----------------------------------------------------------------------

namespace {

/// The part of the parameters that each instruction of a stage's last block works on.
std::vector<std::optional<StagePart>> parts_of(const core::Role& role) {
  std::vector<std::optional<StagePart>> parts;
  for (const core::Instruction& i : role.blocks.back().instructions) {
    parts.push_back(part_of(i.reads, role.parameters, true));
    if (!parts.back()) parts.back() = part_of(i.writes, role.parameters, true);
  }
  return parts;
}

std::optional<int> layer_of(const std::optional<StagePart>& part) {
  if (!part || part->kind != StagePart::Kind::Layer) return std::nullopt;
  return part->layer;
}

/// The run that begins with an item.
BlockLines::Run run_from(const std::vector<std::optional<StagePart>>& parts, std::size_t first) {
  BlockLines::Run run{first, first + 1, layer_of(parts[first]).has_value(), false};
  int direction = 0;
  for (; run.loop && run.end < parts.size() && layer_of(parts[run.end]); ++run.end) {
    const int step = parts[run.end]->layer - parts[run.end - 1]->layer;
    if (step == 0) continue;
    if (std::abs(step) != 1 || step == -direction) break;
    direction = step;
  }
  run.down = direction < 0;
  return run;
}

}  // namespace

BlockLines block_lines(const std::vector<std::optional<StagePart>>& parts) {
  BlockLines result;
  for (std::size_t first = 0; first < parts.size(); first = result.runs.back().end) {
    const BlockLines::Run run = run_from(parts, first);
    result.runs.push_back(run);
    const std::size_t lines = result.lines;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const bool follows = i > run.first && parts[i]->layer == parts[i - 1]->layer;
      result.line.push_back(follows ? result.line.back() + 1 : lines);
      result.lines = std::max(result.lines, result.line.back() + 1);
    }
  }
  return result;
}

int StepOutline::lowered(const core::DensePlan& plan, int layers) {
  return lowered_in_full(plan) ? layers : std::min(layers, kLowered);
}

StepOutline::StepOutline(const core::DensePlan& plan, StagePlace ends, int layers,
                         const core::Model& model, const core::Job& job)
    : layers_(lowered(plan, layers)) {
  const core::Role role = lowered_stage(plan, ends, layers_, model, job);
  const std::vector<std::optional<StagePart>> parts = parts_of(role);
  lines_ = block_lines(parts);
  for (const core::Instruction& i : role.blocks.back().instructions) {
    const std::size_t index = items_.size();
    Item& item = items_.emplace_back();
    item.instruction.stream = i.stream;
    item.instruction.line = static_cast<std::uint32_t>(lines_.line[index]);
    for (const int wait : i.waits) item.waits.push_back(static_cast<std::uint32_t>(wait));
    if (const auto* collective = std::get_if<core::Collective>(&i.operation)) {
      item.instruction.group = role.group_slots[collective->group.index()];
    }
    item.layer = layer_of(parts[index]);
  }
  for (const core::CallWait& wait : role.step.back().waits) {
    if (!role.step[static_cast<std::size_t>(wait.call)].microbatch) continue;
    const core::Instruction& awaited = role.at(wait.call, wait.other);
    Item& item = items_[static_cast<std::size_t>(wait.instruction)];
    if (const auto part = part_of(awaited.writes, role.parameters, false)) {
      item.gradients.push_back(*part);
    } else {
      item.instruction.after_passes = true;
    }
  }
}

/// The layer of those lowered that stands for a layer of `layers`.
int StepOutline::layer_standing_in(int layer, int layers) const {
  return layer < kMiddle ? layer : std::max(kMiddle, layer + layers_ - layers);
}

// An iteration's instruction waits for one of its own or a neighbouring iteration, or for one of the
// first or the last.
EndBlock StepOutline::block(int layers) const {
  const int more = layers - layers_;
  ORRERY_CHECK(more >= 0, "a stage of fewer layers than were lowered");
  EndBlock result;
  result.lines = lines_.lines;
  std::vector<std::vector<std::uint32_t>> place(
      lines_.lines, std::vector<std::uint32_t>(static_cast<std::size_t>(layers)));
  const auto add = [&](const Item& item, int layer) {
    // The layer that is meant by one of those lowered.
    const auto meant = [&](int other) {
      const int step = item.layer ? other - *item.layer : 0;
      if (item.layer && std::abs(step) <= 1) return layer + step;
      return other < kMiddle ? other : other + more;
    };
    for (const std::uint32_t wait : item.waits) {
      const Item& other = items_[wait];
      const int there = other.layer ? meant(*other.layer) : 0;
      result.waits.push_back(place[other.instruction.line][static_cast<std::size_t>(there)]);
    }
    for (StagePart part : item.gradients) {
      if (part.kind == StagePart::Kind::Layer) part.layer = meant(part.layer);
      result.gradients.push_back(part);
    }
    place[item.instruction.line][static_cast<std::size_t>(layer)] =
        static_cast<std::uint32_t>(result.instructions.size());
    EndInstruction& added = result.instructions.emplace_back(item.instruction);
    added.waits_end = static_cast<std::uint32_t>(result.waits.size());
    added.gradients_end = static_cast<std::uint32_t>(result.gradients.size());
  };
  for (const BlockLines::Run& run : lines_.runs) {
    for (int i = 0; i < (run.loop ? layers : 1); ++i) {
      const int layer = run.down ? layers - 1 - i : i;
      for (std::size_t k = run.first; k < run.end; ++k) {
        if (!run.loop || items_[k].layer == layer_standing_in(layer, layers)) add(items_[k], layer);
      }
    }
  }
  return result;
}

// ---- their sizes ---------------------------------------------------------------------------

namespace {

/// What lives throughout.
MemoryByTerm persistent_memory(const core::Role& role, const core::DensePlan& plan, StagePlace ends,
                               int layers, const core::Model& model, const core::Job& job) {
  // Up to stage 1 only buffers of a microbatch's size stand, which the passes bring.
  if (plan.sharding_stage <= 1) return run_memory(role);
  core::DensePlan twice = plan;
  twice.microbatch *= 2;
  return run_memory(role) +
         standing_memory(role, scaled_buffers(role, lowered_step(twice, ends, layers, model, job)))
             .fixed;
}

Seconds begin_of(const core::Role& role, const core::Device& device, core::DType precision) {
  Seconds sum;
  for (const core::Instruction& i : role.blocks.front().instructions) {
    sum += duration_of(i, device, precision);
  }
  return sum;
}

}  // namespace

void StepSizes::add_durations(const core::Role& role, const core::Device& device,
                              core::DType precision) {
  const BlockLines lines = block_lines(parts_of(role));
  durations_.resize(lines.lines);
  std::vector<bool> known(lines.lines, false);
  for (std::size_t i = 0; i < lines.line.size(); ++i) {
    const std::size_t line = lines.line[i];
    if (known[line]) continue;
    known[line] = true;
    const core::Instruction& instruction = role.blocks.back().instructions[i];
    if (const auto* collective = std::get_if<core::Collective>(&instruction.operation)) {
      collectives_.push_back(
          {line, collective->kind, role.group_slots[collective->group.index()], collective->bytes});
    }
    durations_[line] = duration_of(instruction, device, precision);
  }
}

int StepSizes::lowered(const core::DensePlan& plan, int layers) {
  const int few = plan.sharding_stage > 1 ? kSized + 1 : kSized;
  return lowered_in_full(plan) ? layers : std::min(layers, few);
}

StepSizes::StepSizes(const core::DensePlan& plan, StagePlace ends, int layers,
                     const core::Model& model, const core::Device& device, const core::Job& job)
    : layers_(lowered(plan, layers)) {
  const core::Role role = lowered_step(plan, ends, layers_, model, job);
  begin_ = begin_of(role, device, job.precision);
  persistent_ = persistent_memory(role, plan, ends, layers_, model, job);
  add_durations(role, device, job.precision);
  if (layers_ < kSized || lowered_in_full(plan)) return;
  const int fewer = layers_ - 1;
  const core::Role without = lowered_step(plan, ends, fewer, model, job);
  begin_of_layer_ = begin_ - begin_of(without, device, job.precision);
  persistent_of_layer_ =
      persistent_ + persistent_memory(without, plan, ends, fewer, model, job) * -1.0;
}

MemoryByTerm StepSizes::persistent(int layers) const {
  return persistent_ + persistent_of_layer_ * (layers - layers_);
}

StepProfile StepSizes::profile(int layers, const EndBlock& block, const PlanGroups& groups,
                               const FabricCost& fabric) const {
  ORRERY_CHECK(block.lines == durations_.size(), "a block of another structure");
  StepProfile result{begin_ + begin_of_layer_ * (layers - layers_), persistent(layers), &block,
                     durations_};
  for (const InGroup& collective : collectives_) {
    result.durations[collective.line] =
        collective_time(collective.kind, collective.bytes, groups.of(collective.group), fabric);
  }
  return result;
}

}  // namespace orrery::costmodel
