#include "engine/run_operator.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "engine/operands.h"
#include "engine/operators/activation.h"
#include "engine/operators/attention.h"
#include "engine/operators/cross_entropy.h"
#include "engine/operators/deal_heads.h"
#include "engine/operators/embedding.h"
#include "engine/operators/experts.h"
#include "engine/operators/linear.h"
#include "engine/operators/normalize.h"
#include "engine/operators/optimizer.h"
#include "engine/operators/plain_attention.h"
#include "engine/operators/ring_attention.h"
#include "engine/operators/rotate.h"
#include "engine/parameter_ranges.h"
#include "engine/run_click_through.h"

namespace orrery::engine {

namespace {

void run(const core::LoadTokens& op, const OperatorContext& context) {
  if (context.data.tokens == nullptr) {
    throw core::SystemError("the program reads tokens, but the run has no token data");
  }
  const Operands at(context);
  const std::int64_t count = op.sequences * op.sequence;
  const std::int64_t first = (static_cast<std::int64_t>(context.program.binding->data_way) *
                                  context.program.program->microbatches +
                              context.microbatch.value_or(0)) *
                             op.sequences;
  std::int32_t* tokens = at.ints_out(0, count);
  std::int32_t* targets = at.ints_out(1, count);
  if (op.part.ways == 1) {
    context.data.tokens->read(context.step, first, op.sequences, op.sequence, tokens, targets);
    return;
  }
  // Whole sequences are read, this rank's part of each is kept.
  const std::int64_t whole = op.sequence * op.part.ways;
  std::vector<std::int32_t> all(static_cast<std::size_t>(2 * op.sequences * whole));
  std::int32_t* all_targets = all.data() + op.sequences * whole;
  context.data.tokens->read(context.step, first, op.sequences, whole, all.data(), all_targets);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from =
        i / op.sequence * whole +
        core::sequence_position(op.part, context.context_position, op.sequence, i % op.sequence);
    tokens[i] = all[static_cast<std::size_t>(from)];
    targets[i] = all_targets[from];
  }
}

std::int64_t first_row(int vocab_ways, std::int64_t vocab_rows, const OperatorContext& context) {
  return vocab_ways > 1 ? context.tensor_position * vocab_rows : 0;
}

void run(const core::Embed& op, const OperatorContext& context) {
  const Operands at(context);
  const bool first_part = op.vocab_ways == 1 || context.tensor_position == 0;
  const float* wpe = at.in_if(op.positions, 2, op.sequence * op.part.ways * op.hidden);
  const float* wtt = at.in_if(op.token_types, op.positions ? 3 : 2, op.hidden);
  embed(op, first_row(op.vocab_ways, op.vocab_rows, context), at.ints(0, op.tokens),
        at.in(1, op.vocab_rows * op.hidden), first_part ? wpe : nullptr, first_part ? wtt : nullptr,
        at.out(0, op.tokens * op.hidden), context.context_position);
}

void run(const core::EmbedGrad& op, const OperatorContext& context) {
  const Operands at(context);
  embed_grad(op, first_row(op.vocab_ways, op.vocab_rows, context), at.ints(0, op.tokens),
             at.in(1, op.tokens * op.hidden), at.out(0, op.vocab_rows * op.hidden),
             at.out_if(op.positions, 1, op.sequence * op.part.ways * op.hidden),
             at.out_if(op.token_types, op.positions ? 2 : 1, op.hidden), context.context_position);
}

void run(const core::Linear& op, const OperatorContext& context) {
  const Operands at(context);
  linear(op, at.in(0, op.rows * op.in), at.in(1, op.out * op.in), at.in_if(op.bias, 2, op.out),
         at.out(0, op.rows * op.out));
}

void run(const core::LinearInputGrad& op, const OperatorContext& context) {
  const Operands at(context);
  linear_input_grad(op, at.in(0, op.rows * op.out), at.in(1, op.out * op.in),
                    at.out(0, op.rows * op.in));
}

void run(const core::LinearWeightGrad& op, const OperatorContext& context) {
  const Operands at(context);
  linear_weight_grad(op, at.in(0, op.rows * op.out), at.in(1, op.rows * op.in),
                     at.out(0, op.out * op.in), at.out_if(op.bias, 1, op.out));
}

std::int64_t statistics_of(core::Normalization kind) {
  return kind == core::Normalization::LayerNorm ? 2 : 1;
}

void run(const core::Normalize& op, const OperatorContext& context) {
  const Operands at(context);
  normalize(op, at.in(0, op.rows * op.width), at.in(1, op.width),
            at.in_if(op.kind == core::Normalization::LayerNorm, 2, op.width),
            at.out(0, op.rows * op.width), at.out(1, op.rows * statistics_of(op.kind)));
}

void run(const core::NormalizeGrad& op, const OperatorContext& context) {
  const Operands at(context);
  normalize_grad(op, at.in(0, op.rows * op.width), at.in(1, op.rows * op.width), at.in(2, op.width),
                 at.in(3, op.rows * statistics_of(op.kind)), at.out(0, op.rows * op.width),
                 at.out(1, op.width),
                 at.out_if(op.kind == core::Normalization::LayerNorm, 2, op.width));
}

void run(const core::Rotate& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t width = static_cast<std::int64_t>(op.heads + 2 * op.kv_heads) * op.head_dim;
  rotate(op, context.workspace.rotation(op, context.context_position),
         at.out(0, op.sequences * op.sequence * width));
}

template <class Op>
std::int64_t qkv_elements(const Op& op) {
  return op.sequences * op.sequence * (op.heads + 2 * op.kv_heads) * op.head_dim;
}

template <class Op>
std::int64_t out_elements(const Op& op) {
  return op.sequences * op.sequence * op.heads * op.head_dim;
}

void run(const core::Attention& op, const OperatorContext& context) {
  const Operands at(context);
  attention(op, at.in(0, qkv_elements(op)), at.out(0, out_elements(op)),
            at.out(1, op.sequences * op.heads * op.sequence), context.workspace);
}

void run(const core::AttentionGrad& op, const OperatorContext& context) {
  const Operands at(context);
  attention_grad(op, at.in(0, out_elements(op)), at.in(1, qkv_elements(op)),
                 at.in(2, out_elements(op)), at.in(3, op.sequences * op.heads * op.sequence),
                 at.out(0, qkv_elements(op)), context.workspace);
}

template <class Op>
std::int64_t score_elements(const Op& op) {
  return op.sequences * op.heads * op.sequence * op.sequence;
}

void run(const core::AttentionScores& op, const OperatorContext& context) {
  const Operands at(context);
  attention_scores(op, at.in(0, qkv_elements(op)), at.out(0, score_elements(op)));
}

void run(const core::Softmax& op, const OperatorContext& context) {
  softmax(op, Operands(context).out(0, score_elements(op)));
}

void run(const core::AttentionContext& op, const OperatorContext& context) {
  const Operands at(context);
  attention_context(op, at.in(0, score_elements(op)), at.in(1, qkv_elements(op)),
                    at.out(0, out_elements(op)));
}

void run(const core::AttentionContextGrad& op, const OperatorContext& context) {
  const Operands at(context);
  attention_context_grad(op, at.in(0, out_elements(op)), at.in(1, score_elements(op)),
                         at.in(2, qkv_elements(op)), at.out(0, score_elements(op)),
                         at.out(1, qkv_elements(op)));
}

void run(const core::SoftmaxGrad& op, const OperatorContext& context) {
  const Operands at(context);
  softmax_grad(op, at.in(0, score_elements(op)), at.out(0, score_elements(op)));
}

void run(const core::AttentionScoresGrad& op, const OperatorContext& context) {
  const Operands at(context);
  attention_scores_grad(op, at.in(0, score_elements(op)), at.in(1, qkv_elements(op)),
                        at.out(0, qkv_elements(op)));
}

void run(const core::DealHeads& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t count = op.rows * (op.heads + 2 * op.kv_heads) * op.head_dim;
  deal_heads(op, at.in(0, count), at.out(0, count));
}

void run(const core::JoinSequences& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t count = op.sequences * op.sequence * op.width;
  join_sequences(op, at.in(0, count), at.out(0, count));
}

void run(const core::RingAttention& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t tokens = op.sequences * op.sequence;
  ring_attention(op, context.context_position, at.in(0, qkv_elements(op)),
                 at.in(1, tokens * 2 * op.kv_heads * op.head_dim), at.out(0, out_elements(op)),
                 at.out(1, tokens * op.heads), context.workspace);
}

void run(const core::RingAttentionGrad& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t tokens = op.sequences * op.sequence;
  const std::int64_t kv = tokens * 2 * op.kv_heads * op.head_dim;
  ring_attention_grad(op, context.context_position, at.in(0, out_elements(op)),
                      at.in(1, qkv_elements(op)), at.in(2, kv), at.in(3, out_elements(op)),
                      at.in(4, tokens * op.heads), at.out(0, qkv_elements(op)), at.out(1, kv),
                      context.workspace);
}

void run(const core::CopyColumns& op, const OperatorContext& context) {
  const Operands at(context);
  copy_columns(op, at.in(0, op.rows * op.from_width), at.out(0, op.rows * op.to_width));
}

template <class Op>
std::int64_t chosen(const Op& op) {
  return op.rows * op.per_token;
}
template <class Op>
std::int64_t slot_elements(const Op& op) {
  return op.experts * op.capacity * op.width;
}

void run(const core::ChooseExperts& op, const OperatorContext& context) {
  const Operands at(context);
  choose_experts(op, at.in(0, op.rows * op.experts), at.out(0, chosen(op)),
                 at.ints_out(1, chosen(op)));
}

void run(const core::ChooseExpertsGrad& op, const OperatorContext& context) {
  const Operands at(context);
  choose_experts_grad(op, at.in(0, chosen(op)), at.in(1, chosen(op)), at.ints(2, chosen(op)),
                      at.out(0, op.rows * op.experts));
}

void run(const core::Dispatch& op, const OperatorContext& context) {
  const Operands at(context);
  dispatch(op, at.in(0, op.rows * op.width), at.ints(1, chosen(op)), at.out(0, slot_elements(op)));
}

void run(const core::DispatchGrad& op, const OperatorContext& context) {
  const Operands at(context);
  dispatch_grad(op, at.in(0, slot_elements(op)), at.ints(1, chosen(op)),
                at.out(0, op.rows * op.width));
}

void run(const core::Combine& op, const OperatorContext& context) {
  const Operands at(context);
  combine(op, at.in(0, slot_elements(op)), at.in(1, chosen(op)), at.ints(2, chosen(op)),
          at.out(0, op.rows * op.width));
}

void run(const core::CombineGrad& op, const OperatorContext& context) {
  const Operands at(context);
  combine_grad(op, at.in(0, op.rows * op.width), at.in(1, slot_elements(op)), at.in(2, chosen(op)),
               at.ints(3, chosen(op)), at.out(0, slot_elements(op)), at.out(1, chosen(op)));
}

void run(const core::GroupedLinear& op, const OperatorContext& context) {
  const Operands at(context);
  grouped_linear(op, at.in(0, op.groups * op.rows * op.in), at.in(1, op.groups * op.out * op.in),
                 at.out(0, op.groups * op.rows * op.out));
}

void run(const core::GroupedLinearInputGrad& op, const OperatorContext& context) {
  const Operands at(context);
  grouped_linear_input_grad(op, at.in(0, op.groups * op.rows * op.out),
                            at.in(1, op.groups * op.out * op.in),
                            at.out(0, op.groups * op.rows * op.in));
}

void run(const core::GroupedLinearWeightGrad& op, const OperatorContext& context) {
  const Operands at(context);
  grouped_linear_weight_grad(op, at.in(0, op.groups * op.rows * op.out),
                             at.in(1, op.groups * op.rows * op.in),
                             at.out(0, op.groups * op.out * op.in));
}

std::int64_t activation_width(core::ActivationKind kind, std::int64_t width) {
  return kind == core::ActivationKind::SwiGlu ? 2 * width : width;
}

void run(const core::Activate& op, const OperatorContext& context) {
  const Operands at(context);
  activate(op, at.in(0, op.rows * activation_width(op.kind, op.width)),
           at.out(0, op.rows * op.width));
}

void run(const core::ActivateGrad& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t inputs = op.rows * activation_width(op.kind, op.width);
  activate_grad(op, at.in(0, op.rows * op.width), at.in(1, inputs), at.out(0, inputs));
}

void run(const core::Add& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t count = op.rows * op.width;
  add(op, at.in(0, count), at.in(1, count), at.in_if(op.bias, 2, op.width), at.out(0, count));
}

void run(const core::BiasGrad& op, const OperatorContext& context) {
  const Operands at(context);
  bias_grad(op, at.in(0, op.rows * op.width), at.out(0, op.width));
}

void run(const core::CrossEntropyStatistics& op, const OperatorContext& context) {
  const Operands at(context);
  cross_entropy_statistics(op, first_row(op.vocab_ways, op.vocab_rows, context),
                           at.in(0, op.rows * op.vocab_rows), at.ints(1, op.rows),
                           at.out(0, op.rows * 3));
}

void run(const core::CrossEntropyGrad& op, const OperatorContext& context) {
  const Operands at(context);
  const double loss = cross_entropy_grad(op, first_row(op.vocab_ways, op.vocab_rows, context),
                                         at.in(0, op.vocab_ways * op.rows * 3), at.ints(1, op.rows),
                                         at.out(0, op.rows * op.vocab_rows));
  float* total = at.out(1, 1);
  if (op.vocab_ways == 1 || context.tensor_position == 0) {
    *total = static_cast<float>(static_cast<double>(*total) + loss);
  }
}

void run(const core::Zero& op, const OperatorContext& context) {
  std::fill_n(Operands(context).out(0, op.count), op.count, 0.0F);
}

void run(const core::Accumulate& op, const OperatorContext& context) {
  const Operands at(context);
  const float* x = at.in(0, op.count);
  float* y = at.out(0, op.count);
  for (std::int64_t i = 0; i < op.count; ++i) y[i] += x[i];
}

// First parameter of this rank's slice of `count` elements.
std::int64_t first_parameter(const core::ParameterSlice& slice, std::int64_t count,
                             const OperatorContext& context) {
  return slice.first + context.program.position(slice.group) * count;
}

void run(const core::SquaredNorm& op, const OperatorContext& context) {
  const Operands at(context);
  const float* gradients = at.in(0, op.count);
  const std::int64_t first = first_parameter(op.slice, op.count, context);
  double sum = 0.0;
  for (const ParameterRange& range :
       counted_ranges(context.program.role->parameters, first, op.count, context.tensor_position)) {
    sum += squared_norm(range.count, gradients + (range.first - first));
  }
  float* out = at.out(0, 1);
  *out = static_cast<float>(static_cast<double>(*out) + sum / op.copies);
}

void run(const core::ClipFactor& op, const OperatorContext& context) {
  const Operands at(context);
  const double norm = std::sqrt(static_cast<double>(*at.in(0, 1)));
  float* statistics = at.out(0, 2);
  statistics[0] = static_cast<float>(norm);
  statistics[1] = op.clip ? clip_factor(norm, op.clip_norm) : 1.0F;
}

void run(const core::OptimizerUpdate& op, const OperatorContext& context) {
  const Operands at(context);
  const std::int64_t count = op.count;
  const std::size_t states = context.writes.size() - 1;
  const float* gradients = at.in(0, count);
  float* parameters = at.out(0, count);
  float* m = at.out_if(states > 0, 1, count);
  float* v = at.out_if(states > 1, 2, count);
  OptimizerStep step;
  step.optimizer = op.optimizer;
  step.learning_rate = core::learning_rate(context.job, context.step);
  step.step = context.step + 1;
  step.gradient_scale = at.in(1, 2)[1];
  const std::int64_t first = first_parameter(op.slice, count, context);
  for (const DecayRange& range :
       decay_ranges(context.program.role->parameters, op.optimizer, first, count)) {
    step.decay = range.decay;
    const std::int64_t from = range.first - first;
    optimizer_update(step, range.count, gradients + from, parameters + from,
                     m == nullptr ? nullptr : m + from, v == nullptr ? nullptr : v + from);
  }
}

}  // namespace

void run_operator(const core::Operator& op, const OperatorContext& context) {
  std::visit([&](const auto& alternative) { run(alternative, context); }, op);
}

}  // namespace orrery::engine
