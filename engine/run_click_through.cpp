#include "engine/run_click_through.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.h"
#include "engine/criteo.h"
#include "engine/operands.h"
#include "engine/operators/interaction.h"
#include "engine/operators/keys.h"
#include "engine/operators/pushed_rows.h"
#include "engine/store.h"

namespace orrery::engine {

namespace {

template <class Element>
std::span<Element> span_of(Element* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}

/// Peer slots in the order of their ranks.
std::vector<std::size_t> slots_by_rank(const std::vector<core::Rank>& peers) {
  std::vector<std::size_t> slots(peers.size());
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::ranges::sort(slots, {}, [&](std::size_t slot) { return peers[slot]; });
  return slots;
}

/// Shapes of an interaction's operands.
template <class Op>
struct Sizes {
  explicit Sizes(const Op& op)
      : embedded(op.samples * op.lookups * (op.dim + (op.wide ? 1 : 0))),
        dense(op.samples * op.dense_features),
        mlp_input(op.samples * (op.dense_features + std::int64_t{op.lookups} * op.dim)) {}
  std::int64_t embedded, dense, mlp_input;
};

}  // namespace

void run(const core::LoadSamples& op, const OperatorContext& context) {
  if (context.data.samples == nullptr) {
    throw core::SystemError("the program reads samples, but the run has no click-through data");
  }
  const Operands at(context);
  const std::int64_t slice =
      std::int64_t{context.program.binding->data_way} * context.program.program->microbatches +
      context.microbatch.value_or(0);
  const std::int64_t first =
      std::int64_t{context.step} * context.job.global_batch + slice * op.samples;
  context.data.samples->read(first, op.samples, at.out(0, op.samples),
                             at.out(1, op.samples * op.dense_features),
                             at.ints_out(2, op.samples * op.lookups));
}

void run(const core::UniqueKeys& op, const OperatorContext& context) {
  const Operands at(context);
  *at.ints_out(2, 1) = unique_keys(op, at.ints(0, op.lookups), at.ints_out(0, op.lookups),
                                   at.ints_out(1, op.lookups));
}

void run(const core::GatherRows& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t elements = op.lookups * op.width;
  gather_rows(op, at.in(0, elements), at.ints(1, op.lookups), at.out(0, elements));
}

void run(const core::SumRowGrads& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t elements = op.lookups * op.width;
  sum_row_grads(op, at.in(0, elements), at.ints(1, op.lookups), *at.ints(2, 1),
                at.out(0, elements));
}

void run(const core::Interact& op, const OperatorContext& context) {
  const Operands at(context);
  const Sizes sizes(op);
  interact(op, at.in(0, sizes.embedded), at.in(1, sizes.dense), at.in(2, 1),
           at.in_if(op.wide, 3, op.dense_features), at.out(0, sizes.mlp_input),
           at.out(1, op.samples));
}

void run(const core::InteractGrad& op, const OperatorContext& context) {
  const Operands at(context);
  const Sizes sizes(op);
  interact_grad(op, at.in(0, op.samples), at.in(1, sizes.mlp_input), at.in(2, sizes.embedded),
                at.in(3, sizes.dense), at.out(0, sizes.embedded), at.out(1, 1),
                at.out_if(op.wide, 2, op.dense_features));
}

// The slice's loss is rounded before it is added, so that slices add as workers do.
void run(const core::LogisticLoss& op, const OperatorContext& context) {
  const Operands at(context);
  *at.out(1, 1) += logistic_loss(op, at.in(0, op.samples), at.in(1, op.samples),
                                 at.in(2, op.samples), at.out(0, op.samples));
}

void run(const core::SumPushedRows& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t capacity = context.writes[0].count;
  const std::int64_t entries = context.writes[3].count;
  const PushedRows sums{.keys = span_of(at.ints_out(0, capacity), capacity),
                        .sums = span_of(at.out(1, capacity * op.width), capacity * op.width),
                        .count = at.ints_out(2, 1),
                        .index = span_of(at.ints_out(3, entries), entries),
                        .width = op.width};
  for (const std::size_t slot : slots_by_rank(context.program.binding->peers)) {
    const std::int32_t count = *at.ints(3 * slot + 2, 1);
    sum_pushed_rows(sums, span_of(at.ints(3 * slot, count), count),
                    at.in(3 * slot + 1, std::int64_t{count} * op.width));
  }
}

void run(const core::UpdateTable& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int32_t count = *at.ints(2, 1);
  const bool has_state = context.writes.size() > 1;
  const std::int64_t elements = context.writes[0].count;
  Store store(*context.program.program->embedding, context.program.binding->server.value(),
              span_of(at.out(0, elements), elements),
              has_state ? span_of(at.out(1, elements), elements) : std::span<float>());
  store.update(span_of(at.ints(0, count), count), at.in(1, std::int64_t{count} * op.width),
               op.optimizer);
}

}  // namespace orrery::engine
