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

Seconds duration_of(const core::Instruction& instruction, const core::Device& device,
                    core::DType precision) {
  const auto* compute = std::get_if<core::Compute>(&instruction.operation);
  return compute == nullptr ? Seconds(0) : compute_time(*compute, device, precision);
}

}  // namespace

core::DensePlan step_alone(const core::DensePlan& plan) {
  core::DensePlan alone = plan;
  alone.layers_per_stage.clear();
  alone.pipeline = alone.virtual_stages = 1;
  alone.microbatch = 1;
  alone.data = std::min(plan.data, 2);  // Whether there is a group; how large it is, is its cost.
  alone.recompute = core::Recompute::None;
  alone.recompute_layers.reset();
  alone.recompute_whole = false;
  alone.schedule = order_free(plan.schedule);
  alone.pass_times.reset();
  return alone;
}

core::DensePlan step_structure(const core::DensePlan& alone) {
  core::DensePlan structure = alone;
  structure.sharding = std::min(alone.sharding, 2);
  return structure;
}

int layers_lowered(const core::DensePlan& plan, int layers) {
  const bool joined = plan.bucket || !plan.overlap_gradients;
  return joined ? layers : std::min(layers, kLowered);
}

// ---- the instructions ----------------------------------------------------------------------

StepOutline::StepOutline(const core::DensePlan& plan, StageEnds ends, int layers,
                         const core::Model& model, const core::Job& job)
    : layers_(layers) {
  const core::Role role = lowered_stage(plan, ends, layers, model, job);
  const core::Call& last = role.step.back();
  for (const core::Instruction& i : role.blocks[last.block.index()].instructions) {
    Item& item = items_.emplace_back();
    item.instruction.stream = i.stream;
    item.instruction.action = static_cast<std::uint32_t>(items_.size() - 1);
    for (const int wait : i.waits) item.waits.push_back(static_cast<std::uint32_t>(wait));
    if (const auto* collective = std::get_if<core::Collective>(&i.operation)) {
      item.instruction.group = role.group_slots[collective->group.index()];
    }
    item.part = part_of(i.reads, role.parameters, true);
    if (!item.part) item.part = part_of(i.writes, role.parameters, true);
  }
  for (const core::CallWait& wait : last.waits) {
    if (!role.step[static_cast<std::size_t>(wait.call)].microbatch) continue;
    const core::Instruction& awaited = role.at(wait.call, wait.other);
    Item& item = items_[static_cast<std::size_t>(wait.instruction)];
    if (const auto part = part_of(awaited.writes, role.parameters, false)) {
      item.gradients.push_back(*part);
    } else {
      item.instruction.after_passes = true;
    }
  }
  find_runs();
}

void StepOutline::find_runs() {
  const auto of_layer = [&](std::size_t i) {
    return items_[i].part && items_[i].part->kind == StagePart::Kind::Layer;
  };
  for (std::size_t i = 0; i < items_.size();) {
    Run run{i, i + 1, of_layer(i), false};
    int direction = 0;
    for (; run.loop && run.end < items_.size() && of_layer(run.end); ++run.end) {
      const int step = items_[run.end].part->layer - items_[run.end - 1].part->layer;
      if (step == 0) continue;
      if (std::abs(step) != 1 || step == -direction) break;
      direction = step;
    }
    run.down = direction < 0;
    i = run.end;
    set_lines(run);
    runs_.push_back(run);
  }
}

void StepOutline::set_lines(const Run& run) {
  std::size_t most = 0;
  for (std::size_t i = run.first; i < run.end; ++i) {
    const bool follows = i > run.first && items_[i].layer() == items_[i - 1].layer();
    items_[i].line = follows ? items_[i - 1].line + 1 : lines_;
    most = std::max(most, items_[i].line);
  }
  lines_ = most + 1;
}

/// The layer of those lowered that stands for a layer of `layers`.
int StepOutline::layer_standing_in(int layer, int layers) const {
  if (layer < kMiddle) return layer;
  return std::max(std::min(layer, kMiddle), layer + layers_ - layers);
}

// An iteration's instruction waits for one of its own or a neighbouring iteration, or for one of the
// first or the last.
EndBlock StepOutline::block(int layers) const {
  const int more = layers - layers_;
  ORRERY_CHECK(more >= 0, "a stage of fewer layers than were lowered");
  EndBlock result;
  std::vector<std::vector<std::uint32_t>> place(
      lines_, std::vector<std::uint32_t>(static_cast<std::size_t>(layers)));
  const auto add = [&](const Item& item, std::optional<int> layer) {
    // The layer that is meant by one of those lowered.
    const auto meant = [&](int other) {
      const int step = layer ? other - item.part->layer : 0;
      if (layer && std::abs(step) <= 1) return *layer + step;
      return other < kMiddle ? other : other + more;
    };
    for (const std::uint32_t wait : item.waits) {
      const Item& other = items_[wait];
      const bool of_layer = other.part && other.part->kind == StagePart::Kind::Layer;
      const int there = of_layer ? meant(other.part->layer) : 0;
      result.waits.push_back(place[other.line][static_cast<std::size_t>(there)]);
    }
    for (StagePart part : item.gradients) {
      if (part.kind == StagePart::Kind::Layer) part.layer = meant(part.layer);
      result.gradients.push_back(part);
    }
    place[item.line][static_cast<std::size_t>(layer.value_or(0))] =
        static_cast<std::uint32_t>(result.instructions.size());
    result.instructions.push_back(item.instruction);
    result.instructions.back().waits_end = static_cast<std::uint32_t>(result.waits.size());
    result.instructions.back().gradients_end = static_cast<std::uint32_t>(result.gradients.size());
  };
  for (const Run& run : runs_) {
    if (!run.loop) {
      add(items_[run.first], std::nullopt);
      continue;
    }
    for (int i = 0; i < layers; ++i) {
      const int layer = run.down ? layers - 1 - i : i;
      for (std::size_t k = run.first; k < run.end; ++k) {
        if (items_[k].part->layer == layer_standing_in(layer, layers)) add(items_[k], layer);
      }
    }
  }
  return result;
}

// ---- their sizes ---------------------------------------------------------------------------

namespace {

/// What lives throughout.
MemoryByTerm persistent_memory(const core::Role& role, const core::DensePlan& plan, StageEnds ends,
                               int layers, const core::Model& model, const core::Job& job) {
  // Up to stage 1 only buffers of a microbatch's size stand, which the passes bring.
  if (plan.sharding_stage <= 1) return run_memory(role);
  core::DensePlan twice = plan;
  twice.microbatch *= 2;
  return run_memory(role) +
         standing_memory(role, lowered_step(twice, ends, layers, model, job)).fixed;
}

Seconds begin_of(const core::Role& role, const core::Device& device, core::DType precision) {
  Seconds sum;
  for (const core::Instruction& i : role.blocks.front().instructions) {
    sum += duration_of(i, device, precision);
  }
  return sum;
}

}  // namespace

void StepSizes::add_actions(const core::Role& role, const core::Device& device,
                            core::DType precision) {
  for (const core::Instruction& i : role.blocks.back().instructions) {
    if (const auto* collective = std::get_if<core::Collective>(&i.operation)) {
      collectives_.push_back({durations_.size(), collective->kind,
                              role.group_slots[collective->group.index()], collective->bytes});
    }
    durations_.push_back(duration_of(i, device, precision));
  }
}

StepSizes::StepSizes(const core::DensePlan& plan, StageEnds ends, int layers,
                     const core::Model& model, const core::Device& device, const core::Job& job)
    : layers_(layers) {
  const core::Role role = lowered_step(plan, ends, layers, model, job);
  begin_ = begin_of(role, device, job.precision);
  persistent_ = persistent_memory(role, plan, ends, layers, model, job);
  add_actions(role, device, job.precision);
  if (layers_lowered(plan, layers + 1) > layers) return;  // Larger stages are lowered themselves.
  const core::Role fewer = lowered_step(plan, ends, layers - 1, model, job);
  begin_of_layer_ = begin_ - begin_of(fewer, device, job.precision);
  persistent_of_layer_ =
      persistent_ + persistent_memory(fewer, plan, ends, layers - 1, model, job) * -1.0;
}

StepProfile StepSizes::profile(int layers, const EndBlock& block, const PlanGroups& groups,
                               const FabricCost& fabric) const {
  const int more = layers - layers_;
  StepProfile result{begin_ + begin_of_layer_ * more, persistent_ + persistent_of_layer_ * more,
                     &block, durations_};
  for (std::size_t i = 0; i < collectives_.size(); ++i) {
    const InGroup& collective = collectives_[i];
    // Iterations have the same few collectives.
    const auto known =
        std::find_if(collectives_.begin(), collectives_.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const InGroup& earlier) { return earlier.like(collective); });
    result.durations[collective.action] =
        known != collectives_.begin() + static_cast<std::ptrdiff_t>(i)
            ? result.durations[known->action]
            : collective_time(collective.kind, collective.bytes, groups.of(collective.group),
                              fabric);
  }
  return result;
}

}  // namespace orrery::costmodel
