#include "core/operator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace orrery::core {
namespace {

constexpr double kIdBytes = 4.0;      // Int32: tokens, targets, ids, inverse indices.
constexpr double kMasterBytes = 4.0;  // Optimizer state and main gradients are always float32.

template <class... Integer>
double product(Integer... factors) {
  return (static_cast<double>(factors) * ...);
}

Work make_work(double matmul, double vector, double bytes) {
  return {.matmul = Flops(matmul), .vector = Flops(vector), .memory = Bytes(bytes)};
}

// Keys that one query attends to on average: 1, 2, .. T under a causal mask.
double average_keys(std::int64_t sequence, bool causal) {
  const auto t = static_cast<double>(sequence);
  return causal ? (t + 1.0) / 2.0 : t;
}

struct ForwardBackward {
  double forward, backward;
};

// Element-wise operations per element, one for each of + - × ÷ max exp tanh erf √ in the formula.
ForwardBackward activation_flops(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::GeluTanh:
      return {9.0, 16.0};
    case ActivationKind::GeluErf:
      return {5.0, 9.0};
    case ActivationKind::Relu:
      return {1.0, 1.0};
    case ActivationKind::SwiGlu:
      return {5.0, 10.0};
  }
  check_failed("ActivationKind", "not a kind of activation", __FILE__, __LINE__);
}

// LayerNorm: mean 1, variance 3, (x − mean)·rstd·w + b 4; RmsNorm: Σx² 2, x·rstd·w 2. Backward:
// xhat, dy·w, the two (one) row sums, dw (and db), dx.
ForwardBackward normalization_flops(Normalization kind) {
  return kind == Normalization::LayerNorm ? ForwardBackward{8.0, 13.0} : ForwardBackward{4.0, 9.0};
}

// Parameter vectors of one normalization: w and b, or w.
double normalization_vectors(Normalization kind) {
  return kind == Normalization::LayerNorm ? 2.0 : 1.0;
}

double input_width(ActivationKind kind) { return kind == ActivationKind::SwiGlu ? 2.0 : 1.0; }

// Counts what operator.h says of each operator. Bytes: a view that is read counts once, a view that
// is written counts once, a view that is accumulated into counts twice.
struct Counter {
  double e;  // Bytes of one floating-point element.

  Work operator()(const LoadTokens& o) const {
    return make_work(0, 0, 2.0 * product(o.sequences, o.sequence) * kIdBytes);
  }
  // Rows of other ranks are not read: on average 1/vocab_ways of the tokens are.
  Work operator()(const Embed& o) const {
    const double x = product(o.tokens, o.hidden);
    const double position_rows =
        (o.positions ? static_cast<double>(o.sequence) : 0.0) + (o.token_types ? 1.0 : 0.0);
    const double adds = x * ((o.positions ? 1.0 : 0.0) + (o.token_types ? 1.0 : 0.0));
    const double elements = x / o.vocab_ways + position_rows * static_cast<double>(o.hidden) + x;
    return make_work(0, adds, elements * e + product(o.tokens) * kIdBytes);
  }
  Work operator()(const EmbedGrad& o) const {
    const double dx = product(o.tokens, o.hidden);
    const double position_rows =
        (o.positions ? static_cast<double>(o.sequence) : 0.0) + (o.token_types ? 1.0 : 0.0);
    const double adds =
        dx * (1.0 / o.vocab_ways + (o.positions ? 1.0 : 0.0) + (o.token_types ? 1.0 : 0.0));
    const double elements =
        dx + 2.0 * dx / o.vocab_ways + 2.0 * position_rows * static_cast<double>(o.hidden);
    return make_work(0, adds, elements * e + product(o.tokens) * kIdBytes);
  }
  Work operator()(const Linear& o) const {
    const double y = product(o.rows, o.out);
    const double bias = o.bias ? static_cast<double>(o.out) : 0.0;
    return make_work(2.0 * product(o.rows, o.out, o.in), o.bias ? y : 0.0,
                     (product(o.rows, o.in) + product(o.out, o.in) + bias + y) * e);
  }
  Work operator()(const LinearInputGrad& o) const {
    const double dx = product(o.rows, o.in) * (o.accumulate ? 2.0 : 1.0);
    return make_work(2.0 * product(o.rows, o.out, o.in), 0,
                     (product(o.rows, o.out) + product(o.out, o.in) + dx) * e);
  }
  Work operator()(const LinearWeightGrad& o) const {
    const double dy = product(o.rows, o.out);
    const double bias = o.bias ? static_cast<double>(o.out) : 0.0;
    return make_work(2.0 * product(o.rows, o.out, o.in), o.bias ? dy : 0.0,
                     (dy + product(o.rows, o.in) + 2.0 * product(o.out, o.in) + 2.0 * bias) * e);
  }
  Work operator()(const Normalize& o) const {
    const double x = product(o.rows, o.width);
    const double vectors = normalization_vectors(o.kind);
    return make_work(0, normalization_flops(o.kind).forward * x,
                     (2.0 * x + vectors * product(o.width) + vectors * product(o.rows)) * e);
  }
  Work operator()(const NormalizeGrad& o) const {
    const double x = product(o.rows, o.width);
    const double vectors = normalization_vectors(o.kind);
    const double dx = o.accumulate ? 2.0 * x : x;
    // dy, x, dx; w read, dw and db accumulated; the statistics.
    const double elements =
        2.0 * x + dx + (1.0 + 2.0 * vectors) * product(o.width) + vectors * product(o.rows);
    const double flops = normalization_flops(o.kind).backward + (o.accumulate ? 1.0 : 0.0);
    return make_work(0, flops * x, elements * e);
  }
  // Each pair: 4 products, 2 sums. Values are not touched.
  Work operator()(const Rotate& o) const {
    const double rotated =
        product(o.sequences, o.sequence) * product(o.heads + o.kv_heads, o.head_dim);
    return make_work(0, 3.0 * rotated, 2.0 * rotated * e);
  }
  // q·kᵀ and p·v: 2·d flops each per (query, key). Softmax: scale, max, −, exp, Σ per pair.
  Work operator()(const Attention& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * average_keys(o.sequence, o.causal);
    const double qkv =
        product(o.sequences, o.sequence) * product(o.heads + 2 * o.kv_heads, o.head_dim);
    return make_work(4.0 * pairs * o.head_dim, 5.0 * pairs,
                     (qkv + queries * o.head_dim + queries) * e);
  }
  // Five products: q·kᵀ again, dv = pᵀ·do, dp = do·vᵀ, dq = ds·k, dk = dsᵀ·q. Element-wise: p again
  // (scale, −, exp), ds = p·(dp − D)·scale, and D = Σ do·o per query.
  Work operator()(const AttentionGrad& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * average_keys(o.sequence, o.causal);
    const double qkv =
        product(o.sequences, o.sequence) * product(o.heads + 2 * o.kv_heads, o.head_dim);
    return make_work(10.0 * pairs * o.head_dim, 6.0 * pairs + 2.0 * queries * o.head_dim,
                     (2.0 * qkv + 2.0 * queries * o.head_dim + queries) * e);
  }
  // Every pair: 2·d flops, and the scale.
  Work operator()(const AttentionScores& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * static_cast<double>(o.sequence);
    const double keys = product(o.sequences, o.sequence, o.kv_heads);
    return make_work(2.0 * pairs * o.head_dim, pairs, (pairs + (queries + keys) * o.head_dim) * e);
  }
  // max, −, exp, Σ, ÷.
  Work operator()(const Softmax& o) const {
    const double pairs = product(o.sequences, o.sequence, o.heads) * product(o.sequence);
    return make_work(0, 5.0 * pairs, 2.0 * pairs * e);
  }
  Work operator()(const AttentionContext& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * static_cast<double>(o.sequence);
    const double keys = product(o.sequences, o.sequence, o.kv_heads);
    return make_work(2.0 * pairs * o.head_dim, 0, (pairs + (queries + keys) * o.head_dim) * e);
  }
  // Two products; reads p, dout and values, writes dp and the values' gradients.
  Work operator()(const AttentionContextGrad& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * static_cast<double>(o.sequence);
    const double keys = product(o.sequences, o.sequence, o.kv_heads);
    return make_work(4.0 * pairs * o.head_dim, 0,
                     (2.0 * pairs + (queries + 2.0 * keys) * o.head_dim) * e);
  }
  // p·dp, Σ, −, ·p.
  Work operator()(const SoftmaxGrad& o) const {
    const double pairs = product(o.sequences, o.sequence, o.heads) * product(o.sequence);
    return make_work(0, 4.0 * pairs, 3.0 * pairs * e);
  }
  // Two products; reads ds, queries and keys, writes the gradients of both.
  Work operator()(const AttentionScoresGrad& o) const {
    const double queries = product(o.sequences, o.sequence, o.heads);
    const double pairs = queries * static_cast<double>(o.sequence);
    const double keys = product(o.sequences, o.sequence, o.kv_heads);
    return make_work(4.0 * pairs * o.head_dim, (queries + keys) * o.head_dim,
                     (pairs + 2.0 * (queries + keys) * o.head_dim) * e);
  }
  Work operator()(const DealHeads& o) const {
    return make_work(0, 0, 2.0 * product(o.rows, o.heads + 2 * o.kv_heads, o.head_dim) * e);
  }
  Work operator()(const JoinSequences& o) const {
    return make_work(0, 0, 2.0 * product(o.sequences, o.sequence, o.width) * e);
  }
  // Zigzag pieces of m = sequence/2 tokens: against its own part a rank's late piece sees the early
  // one and each sees its own causal half; against another's, half of the pairs count.
  template <class Ring>
  static double ring_pairs(const Ring& o) {
    const double piece = static_cast<double>(o.sequence) / 2.0;
    const double pairs = 2.0 * piece * piece + (o.step == 0 ? piece : 0.0);
    return product(o.sequences, o.heads) * pairs;
  }
  // As Attention; out and log-sum-exp are read too after step 0.
  Work operator()(const RingAttention& o) const {
    const double tokens = product(o.sequences, o.sequence);
    const double out = tokens * o.heads * (o.head_dim + 1.0) * (o.step == 0 ? 1.0 : 2.0);
    return make_work(4.0 * ring_pairs(o) * o.head_dim, 5.0 * ring_pairs(o),
                     (tokens * product(o.heads + 2 * o.kv_heads, o.head_dim) + out) * e);
  }
  // As AttentionGrad; dqkv's queries and dkv are read too after step 0.
  Work operator()(const RingAttentionGrad& o) const {
    const double tokens = product(o.sequences, o.sequence);
    const double qkv = tokens * product(o.heads + 2 * o.kv_heads, o.head_dim);
    const double out = tokens * product(o.heads, o.head_dim);
    return make_work(10.0 * ring_pairs(o) * o.head_dim, 6.0 * ring_pairs(o) + 2.0 * out,
                     ((o.step == 0 ? 2.0 : 3.0) * qkv + 2.0 * out + tokens * o.heads) * e);
  }
  Work operator()(const CopyColumns& o) const {
    return make_work(0, 0, 2.0 * product(o.rows, o.count) * e);
  }
  // Each choice: a comparison with every logit; of the chosen −, exp, Σ, ÷.
  Work operator()(const ChooseExperts& o) const {
    const double chosen = product(o.rows, o.per_token);
    const double logits = product(o.rows, o.experts);
    return make_work(0, logits * o.per_token + 4.0 * chosen,
                     (logits + chosen) * e + chosen * kIdBytes);
  }
  Work operator()(const ChooseExpertsGrad& o) const {
    const double chosen = product(o.rows, o.per_token);
    return make_work(0, 4.0 * chosen,
                     (product(o.rows, o.experts) + 2.0 * chosen) * e + chosen * kIdBytes);
  }
  // Rows, slots and places.
  template <class Op>
  double moved(const Op& o) const {
    return (product(o.rows, o.width) + product(o.experts, o.capacity, o.width)) * e +
           product(o.rows, o.per_token) * kIdBytes;
  }
  Work operator()(const Dispatch& o) const { return make_work(0, 0, moved(o)); }
  Work operator()(const DispatchGrad& o) const {
    return make_work(0, product(o.rows, o.per_token, o.width), moved(o));
  }
  Work operator()(const Combine& o) const {
    return make_work(0, 2.0 * product(o.rows, o.per_token, o.width),
                     moved(o) + product(o.rows, o.per_token) * e);
  }
  // A product for the slot, a product and a sum for the weight; slots are read and written.
  Work operator()(const CombineGrad& o) const {
    return make_work(
        0, 3.0 * product(o.rows, o.per_token, o.width),
        moved(o) +
            (product(o.experts, o.capacity, o.width) + 2.0 * product(o.rows, o.per_token)) * e);
  }
  template <class Op>
  Work grouped(const Op& o, double weights) const {
    const double moved = product(o.rows, o.in) + product(o.rows, o.out) + weights;
    return make_work(2.0 * product(o.groups, o.rows, o.out, o.in), 0, o.groups * moved * e);
  }
  Work operator()(const GroupedLinear& o) const { return grouped(o, product(o.out, o.in)); }
  Work operator()(const GroupedLinearInputGrad& o) const {
    return grouped(o, product(o.out, o.in));
  }
  Work operator()(const GroupedLinearWeightGrad& o) const {
    return grouped(o, 2.0 * product(o.out, o.in));
  }
  Work operator()(const Activate& o) const {
    const double y = product(o.rows, o.width);
    return make_work(0, activation_flops(o.kind).forward * y, y * (input_width(o.kind) + 1.0) * e);
  }
  Work operator()(const ActivateGrad& o) const {
    const double y = product(o.rows, o.width);
    return make_work(0, activation_flops(o.kind).backward * y,
                     y * (2.0 * input_width(o.kind) + 1.0) * e);
  }
  Work operator()(const Add& o) const {
    const double y = product(o.rows, o.width);
    return make_work(0, o.bias ? 2.0 * y : y,
                     (3.0 * y + (o.bias ? static_cast<double>(o.width) : 0.0)) * e);
  }
  Work operator()(const BiasGrad& o) const {
    const double dy = product(o.rows, o.width);
    return make_work(0, dy, (dy + 2.0 * product(o.width)) * e);
  }
  Work operator()(const CrossEntropyStatistics& o) const {
    const double logits = product(o.rows, o.vocab_rows);
    return make_work(0, 4.0 * logits,
                     (logits + 3.0 * product(o.rows)) * e + product(o.rows) * kIdBytes);
  }
  Work operator()(const CrossEntropyGrad& o) const {
    const double logits = product(o.rows, o.vocab_rows);
    return make_work(0, 4.0 * logits,
                     (2.0 * logits + 3.0 * product(o.rows) * o.vocab_ways + 2.0) * e +
                         product(o.rows) * kIdBytes);
  }
  Work operator()(const Zero& o) const { return make_work(0, 0, product(o.count) * e); }
  Work operator()(const Accumulate& o) const {
    return make_work(0, product(o.count), 3.0 * product(o.count) * kMasterBytes);
  }
  Work operator()(const SquaredNorm& o) const {
    return make_work(0, 2.0 * product(o.count), (product(o.count) + 1.0) * e);
  }
  Work operator()(const ClipFactor&) const { return make_work(0, 4.0, 3.0 * e); }
  // AdamW, the largest: reads gradient, parameter and two moments, writes parameter and moments, in
  // float32. A half-precision run reads and writes a float32 master copy in place of the parameter
  // and writes the rounded parameter beside it. 17 operations as in the formula of AdamW.
  Work operator()(const OptimizerUpdate& o) const {
    const double rounded_copy = e < kMasterBytes ? e : 0.0;
    // The gradient, and parameter and state read and written.
    const double moved = 1.0 + 2.0 * (1.0 + optimizer_state_count(o.optimizer.kind));
    return make_work(0, 17.0 * product(o.count),
                     product(o.count) * (moved * kMasterBytes + rounded_copy));
  }

  Work operator()(const LoadSamples& o) const {
    return make_work(0, 0,
                     product(o.samples) * ((1.0 + o.dense_features) * e + o.lookups * kIdBytes));
  }
  // A sort: log2 comparisons per lookup. ids, keys, inverse.
  Work operator()(const UniqueKeys& o) const {
    const double lookups = product(o.lookups);
    return make_work(0, lookups * std::log2(std::max(2.0, lookups)),
                     3.0 * lookups * kIdBytes + kIdBytes);
  }
  Work operator()(const GatherRows& o) const {
    return make_work(0, 0, product(o.lookups) * (2.0 * o.width * e + kIdBytes));
  }
  // grads has at most as many rows as there are lookups: counted at that bound.
  Work operator()(const SumRowGrads& o) const {
    const double dout = product(o.lookups, o.width);
    return make_work(0, dout, 2.0 * dout * e + product(o.lookups) * kIdBytes);
  }
  Work operator()(const Interact& o) const {
    const double samples = product(o.samples);
    const double columns = o.dim + (o.wide ? 1.0 : 0.0);
    const double moved =
        o.lookups * columns + 2.0 * o.dense_features + product(o.lookups, o.dim) + 1.0;
    return make_work(0, samples * interaction_flops(o), (samples * moved + o.dense_features) * e);
  }
  Work operator()(const InteractGrad& o) const {
    const double samples = product(o.samples);
    const double columns = o.dim + (o.wide ? 1.0 : 0.0);
    // dlogit, dmlp_input, embedded, dembedded, dense; dwide_dense accumulated.
    const double moved =
        1.0 + product(o.lookups, o.dim) + 2.0 * o.dense_features + 2.0 * o.lookups * columns;
    return make_work(0, 2.0 * samples * interaction_flops(o),
                     (samples * moved + 2.0 * o.dense_features) * e);
  }
  Work operator()(const LogisticLoss& o) const {
    return make_work(0, 10.0 * product(o.samples), (4.0 * product(o.samples) + 2.0) * e);
  }
  // Keys and gradients read; key and sums of the slot, and the index entry, accumulated.
  Work operator()(const SumPushedRows& o) const {
    const double elements = product(o.expected_rows, o.width);
    return make_work(0, elements, 3.0 * elements * e + 4.0 * product(o.expected_rows) * kIdBytes);
  }
  // AdaGrad per element: g², Σ, √, + ε, ÷, ·lr, −. Reads keys, gradients, rows and accumulators,
  // writes rows and accumulators.
  Work operator()(const UpdateTable& o) const {
    const double elements = product(o.expected_rows, o.width);
    return make_work(0, 7.0 * elements, 5.0 * elements * e + product(o.expected_rows) * kIdBytes);
  }

  // Per sample: Σ wide + wide_dense·x, and the factorization machine ½Σ_d((Σ_f e)² − Σ_f e²) with 3
  // operations per embedded element, or the dot products of all pairs.
  template <class InteractionOperator>
  static double interaction_flops(const InteractionOperator& o) {
    const double shallow = (o.wide ? o.lookups + 2.0 * o.dense_features : 0.0) + 1.0;
    switch (o.kind) {
      case Interaction::None:
        return shallow;
      case Interaction::FactorizationMachine:
        return shallow + 3.0 * product(o.lookups, o.dim) + 3.0 * o.dim;
      case Interaction::Dot:
        return shallow + product(o.lookups, o.lookups - 1, o.dim);
    }
    check_failed("Interaction", "not a kind of interaction", __FILE__, __LINE__);
  }
};

// In the order of the variant Operator.
constexpr std::array<std::string_view, std::variant_size_v<Operator>> kNames = {
    "load_tokens",
    "embed",
    "embed_grad",
    "linear",
    "linear_input_grad",
    "linear_weight_grad",
    "normalize",
    "normalize_grad",
    "rotate",
    "attention",
    "attention_grad",
    "attention_scores",
    "softmax",
    "attention_context",
    "attention_context_grad",
    "softmax_grad",
    "attention_scores_grad",
    "deal_heads",
    "join_sequences",
    "ring_attention",
    "ring_attention_grad",
    "copy_columns",
    "choose_experts",
    "choose_experts_grad",
    "dispatch",
    "dispatch_grad",
    "combine",
    "combine_grad",
    "grouped_linear",
    "grouped_linear_input_grad",
    "grouped_linear_weight_grad",
    "activate",
    "activate_grad",
    "add",
    "bias_grad",
    "cross_entropy_statistics",
    "cross_entropy_grad",
    "zero",
    "accumulate",
    "squared_norm",
    "clip_factor",
    "optimizer_update",
    "load_samples",
    "unique_keys",
    "gather_rows",
    "sum_row_grads",
    "interact",
    "interact_grad",
    "logistic_loss",
    "sum_pushed_rows",
    "update_table"};

}  // namespace

std::int64_t sequence_position(const SequencePart& part, int p, std::int64_t n, std::int64_t t) {
  if (!part.zigzag) return p * n + t;
  const std::int64_t piece = n / 2;
  return t < piece ? p * piece + t : (2 * part.ways - 1 - p) * piece + (t - piece);
}

std::string_view operator_name(const Operator& op) { return kNames[op.index()]; }

const std::vector<std::string_view>& operator_names() {
  static const std::vector<std::string_view> names(kNames.begin(), kNames.end());
  return names;
}

Work work_of(const Operator& op, int element_bytes) {
  return std::visit(Counter{static_cast<double>(element_bytes)}, op);
}

std::vector<MatmulShape> matmuls_of(const Operator& op) {
  if (const auto* forward = std::get_if<Linear>(&op)) {
    return {{.m = forward->rows, .n = forward->out, .k = forward->in}};
  }
  if (const auto* input = std::get_if<LinearInputGrad>(&op)) {
    return {{.m = input->rows, .n = input->in, .k = input->out}};
  }
  if (const auto* weight = std::get_if<LinearWeightGrad>(&op)) {
    return {{.m = weight->out, .n = weight->in, .k = weight->rows}};
  }
  if (const auto* forward = std::get_if<GroupedLinear>(&op)) {
    return {{.m = forward->groups * forward->rows, .n = forward->out, .k = forward->in}};
  }
  if (const auto* input = std::get_if<GroupedLinearInputGrad>(&op)) {
    return {{.m = input->groups * input->rows, .n = input->in, .k = input->out}};
  }
  if (const auto* weight = std::get_if<GroupedLinearWeightGrad>(&op)) {
    return {{.m = weight->groups * weight->out, .n = weight->in, .k = weight->rows}};
  }
  // Plain attention: one product per sequence and head, all at once.
  const auto batched = [](const auto& o) { return o.sequences * o.sequence * o.heads; };
  if (const auto* scores = std::get_if<AttentionScores>(&op)) {
    return {{.m = batched(*scores), .n = scores->sequence, .k = scores->head_dim}};
  }
  if (const auto* context = std::get_if<AttentionContext>(&op)) {
    return {{.m = batched(*context), .n = context->head_dim, .k = context->sequence}};
  }
  if (const auto* grad = std::get_if<AttentionContextGrad>(&op)) {
    const MatmulShape dp{.m = batched(*grad), .n = grad->sequence, .k = grad->head_dim};
    return {dp, {.m = dp.m, .n = dp.k, .k = dp.n}};
  }
  if (const auto* grad = std::get_if<AttentionScoresGrad>(&op)) {
    const MatmulShape dq{.m = batched(*grad), .n = grad->head_dim, .k = grad->sequence};
    return {dq, dq};
  }
  return {};
}

}  // namespace orrery::core
