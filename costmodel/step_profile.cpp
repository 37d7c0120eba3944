#include "costmodel/step_profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/error.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

// Enough layers for a middle one whose neighbours are neither the first nor the last.
constexpr int kLowered = 5;
constexpr int kMiddle = 2;

/// The layer of the stage lowered with kLowered layers that stands for a layer of `layers`.
int stand_in(int layer, int layers) {
  if (layer < kMiddle) return layer;
  return std::max(kMiddle, layer + kLowered - layers);
}

/// Runs of instructions that go through the layers in order, up or down.
template <class Item>
std::vector<std::pair<std::size_t, std::size_t>> loops_of(const std::vector<Item>& items) {
  const auto layer_at = [&](std::size_t i) -> std::optional<int> {
    const auto& part = items[i].part;
    if (!part || part->kind != StagePart::Kind::Layer) return std::nullopt;
    return part->layer;
  };
  std::vector<std::pair<std::size_t, std::size_t>> loops;
  for (std::size_t i = 0; i < items.size();) {
    const std::size_t first = i++;
    if (!layer_at(first)) continue;
    int direction = 0;
    for (; i < items.size() && layer_at(i); ++i) {
      const int step = *layer_at(i) - *layer_at(i - 1);
      if (step == 0) continue;
      if (std::abs(step) != 1 || step == -direction) break;
      direction = step;
    }
    loops.emplace_back(first, i);
  }
  return loops;
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
  alone.schedule = order_free(plan.schedule);
  alone.pass_times.reset();
  return alone;
}

StepTemplate::Lowered StepTemplate::lower(const StepQuestion& question, int layers,
                                          const core::Model& model, const core::Device& device,
                                          const core::Job& job) {
  const core::Role role = lowered_stage(question.plan, question.ends, layers, model, job);
  Lowered result;
  result.layers = layers;
  result.persistent = run_memory(role);
  const auto duration = [&](const core::Instruction& instruction) {
    const auto* compute = std::get_if<core::Compute>(&instruction.operation);
    return compute == nullptr ? Seconds(0) : compute_time(*compute, device, job.precision);
  };
  for (const core::Instruction& i : role.blocks[role.step.front().block.index()].instructions) {
    result.begin += duration(i);
  }
  const core::Call& last = role.step.back();
  for (const core::Instruction& i : role.blocks[last.block.index()].instructions) {
    Item item;
    item.instruction.stream = i.stream;
    item.instruction.duration = duration(i);
    item.instruction.waits = i.waits;
    if (const auto* collective = std::get_if<core::Collective>(&i.operation)) {
      item.collective = *collective;
      item.instruction.group = role.group_slots[collective->group.index()];
    }
    item.part = part_of(i.reads, role.parameters, true);
    if (!item.part) item.part = part_of(i.writes, role.parameters, true);
    result.items.push_back(std::move(item));
  }
  for (const core::CallWait& wait : last.waits) {
    if (!role.step[static_cast<std::size_t>(wait.call)].microbatch) continue;
    const core::Instruction& awaited = role.at(wait.call, wait.other);
    EndInstruction& waits = result.items[static_cast<std::size_t>(wait.instruction)].instruction;
    if (const auto part = part_of(awaited.writes, role.parameters, false)) {
      waits.gradients.push_back(*part);
    } else {
      waits.after_passes = true;
    }
  }
  return result;
}

// An iteration's instruction waits for one of its own or a neighbouring iteration, or for one of the
// first or the last.
std::vector<StepTemplate::Item> StepTemplate::repeat_layers(const Lowered& few, int layers) {
  const auto loops = loops_of(few.items);
  struct Place {
    std::size_t loop;
    int layer;
    std::size_t within;  ///< Its iteration.
    auto operator<=>(const Place&) const = default;
  };
  std::vector<std::optional<Place>> place(few.items.size());
  std::map<Place, std::size_t> item_at;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    std::map<int, std::size_t> count;
    for (std::size_t i = loops[k].first; i < loops[k].second; ++i) {
      const int layer = few.items[i].part->layer;
      place[i] = Place{k, layer, count[layer]++};
      item_at[*place[i]] = i;
    }
  }
  // The layer that the iteration of `layer` means by `other` of the few.
  const auto meant = [&](int layer, int other) {
    const int step = other - stand_in(layer, layers);
    if (std::abs(step) <= 1) return layer + step;
    return other < kMiddle ? other : other + layers - few.layers;
  };
  // The new position of each old item; by layer within a loop.
  std::map<std::size_t, std::size_t> fixed;
  std::map<Place, std::size_t> looped;
  std::vector<Item> items;
  const auto add = [&](std::size_t old, std::optional<int> layer) {
    Item item = few.items[old];
    item.instruction.waits.clear();
    for (const int wait : few.items[old].instruction.waits) {
      const auto w = static_cast<std::size_t>(wait);
      if (!place[w]) {
        item.instruction.waits.push_back(static_cast<int>(fixed.at(w)));
        continue;
      }
      Place there = *place[w];
      there.layer = layer
                        ? meant(*layer, there.layer)
                        : (there.layer < kMiddle ? there.layer : there.layer + layers - few.layers);
      item.instruction.waits.push_back(static_cast<int>(looped.at(there)));
    }
    for (StagePart& part : item.instruction.gradients) {
      if (part.kind != StagePart::Kind::Layer) continue;
      part.layer = layer ? meant(*layer, part.layer)
                         : (part.layer < kMiddle ? part.layer : part.layer + layers - few.layers);
    }
    if (layer) {
      item.part->layer = *layer;
      looped[{place[old]->loop, *layer, place[old]->within}] = items.size();
    } else {
      fixed[old] = items.size();
    }
    items.push_back(std::move(item));
  };
  const auto add_loop = [&](std::size_t k) {
    const auto [first, end] = loops[k];
    const bool down = few.items[first].part->layer > few.items[end - 1].part->layer;
    for (int i = 0; i < layers; ++i) {
      const int layer = down ? layers - 1 - i : i;
      for (std::size_t within = 0;; ++within) {
        const auto old = item_at.find({k, stand_in(layer, layers), within});
        if (old == item_at.end()) break;
        add(old->second, layer);
      }
    }
  };
  for (std::size_t i = 0, k = 0; i < few.items.size();) {
    if (k < loops.size() && loops[k].first == i) {
      add_loop(k);
      i = loops[k++].second;
    } else {
      add(i++, std::nullopt);
    }
  }
  return items;
}

StepTemplate::StepTemplate(const StepQuestion& question, const core::Model& model,
                           const core::Device& device, const core::Job& job) {
  const int layers = question.layers;
  const bool joined = question.plan.bucket || !question.plan.overlap_gradients;
  if (layers <= kLowered || joined) {
    lowered_ = lower(question, layers, model, device, job);
    return;
  }
  const Lowered few = lower(question, kLowered, model, device, job);
  const Lowered fewer = lower(question, kLowered - 1, model, device, job);
  const int more = layers - kLowered;
  lowered_.layers = layers;
  lowered_.begin = few.begin + (few.begin - fewer.begin) * more;
  lowered_.persistent = few.persistent + (few.persistent + fewer.persistent * -1.0) * more;
  lowered_.items = repeat_layers(few, layers);
}

StepProfile StepTemplate::profile(const PlanGroups& groups, const FabricCost& fabric) const {
  StepProfile result{lowered_.begin, lowered_.persistent, {}};
  // Iterations have the same few collectives.
  std::map<std::pair<core::GroupKind, std::pair<core::CollectiveKind, core::Bytes>>, Seconds> known;
  for (const Item& item : lowered_.items) {
    EndInstruction& instruction = result.end.emplace_back(item.instruction);
    if (!item.collective) continue;
    const auto [time, added] = known.try_emplace(
        {*instruction.group, {item.collective->kind, item.collective->bytes}}, Seconds());
    if (added) {
      time->second = collective_time(item.collective->kind, item.collective->bytes,
                                     groups.of(*instruction.group), fabric);
    }
    instruction.duration = time->second;
  }
  return result;
}

}  // namespace orrery::costmodel
