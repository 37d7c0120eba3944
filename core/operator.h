#pragma once
// The operators that a Program's compute instructions name: one small struct each, stating its
// formula and, in order, the views it reads and writes. Matrix shapes are [rows, columns],
// row-major. "+=" accumulates into the written view, "=" overwrites it. What is not said here, the
// engine does not decide.

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "core/job.h"
#include "core/model.h"
#include "core/units.h"

namespace orrery::core {

// ---- dense: data and embedding -------------------------------------------------------------

/// Reads the microbatch's samples from the job's data. writes: tokens I32[sequences, sequence],
/// targets I32[sequences, sequence] (already shifted; negative = ignored). The microbatch's first
/// sequence within the global batch is data_way · microbatches · sequences + microbatch ·
/// sequences.
struct LoadTokens {
  std::int64_t sequences, sequence;
};

/// x[t, :] = wte[token_t − first, :] (+ wpe[position_t, :]) (+ wtt[0, :]); a token outside this
/// rank's rows gives 0. With vocab_ways > 1 rank position p of the tensor group holds rows
/// p·vocab_rows .. (p+1)·vocab_rows − 1, and only position 0 adds positions and token types.
/// reads: tokens, wte [, wpe] [, wtt]. writes: x F[tokens, hidden].
struct Embed {
  std::int64_t tokens, sequence, hidden, vocab_rows;
  int vocab_ways;
  bool positions, token_types;
};

/// dwte[token_t − first, :] += dx[t, :] for this rank's rows; dwpe[position_t] += dx[t];
/// dwtt[0] += dx[t] (positions and token types on every tensor position: dx is replicated).
/// reads: tokens, dx. writes: dwte [, dwpe] [, dwtt].
struct EmbedGrad {
  std::int64_t tokens, sequence, hidden, vocab_rows;
  int vocab_ways;
  bool positions, token_types;
};

// ---- dense: layers -------------------------------------------------------------------------

/// y[rows,out] = x[rows,in] · w[out,in]ᵀ (+ bias[out]). reads: x, w [, bias]. writes: y.
struct Linear {
  std::int64_t rows, out, in;
  bool bias;
};
/// dx[rows,in] = dy[rows,out] · w[out,in] (or += with accumulate). reads: dy, w. writes: dx.
struct LinearInputGrad {
  std::int64_t rows, out, in;
  bool accumulate;
};
/// dw[out,in] += dyᵀ · x; dbias[out] += Σ_rows dy. reads: dy, x. writes: dw [, dbias].
struct LinearWeightGrad {
  std::int64_t rows, out, in;
  bool bias;
};
/// y = (x − mean)·rstd·w + b, or x·rstd·w for RmsNorm (no b). reads: x, w [, b].
/// writes: y, statistics F[rows, 2] (mean, rstd) ([rows, 1] for RmsNorm: rstd).
struct Normalize {
  std::int64_t rows, width;
  Normalization kind;
  double epsilon;
};
/// dx = (or += with accumulate) ∂; dw += ; db +=. reads: dy, x, w, statistics.
/// writes: dx, dw [, db].
struct NormalizeGrad {
  std::int64_t rows, width;
  Normalization kind;
  bool accumulate;
};
/// Rotates the query and key heads of qkv in place (half-split pairs); inverse rotates back, which
/// is the gradient. Row layout: [heads·d ; kv_heads·d ; kv_heads·d]. reads: qkv. writes: qkv.
struct Rotate {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
  double theta;
  bool inverse;
};
/// out = softmax(q·kᵀ/√d) · v per head, memory linear in the sequence. Row layout of qkv as in
/// Rotate. reads: qkv. writes: out F[tokens, heads·d], log-sum-exp F[sequences, heads, sequence].
struct Attention {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
  bool causal;
};
/// reads: dout, qkv, out, log-sum-exp. writes: dqkv (=).
struct AttentionGrad {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
  bool causal;
};
/// y = f(x), or silu(gate)·up for SwiGlu with x[rows, 2·width] = [gate ; up] per row.
/// reads: x. writes: y[rows, width].
struct Activate {
  std::int64_t rows, width;
  ActivationKind kind;
};
/// reads: dy, x. writes: dx (=), shaped like x.
struct ActivateGrad {
  std::int64_t rows, width;
  ActivationKind kind;
};
/// y = a + b (+ bias[width]). y may be a or b. reads: a, b [, bias]. writes: y.
struct Add {
  std::int64_t rows, width;
  bool bias;
};
/// dbias += Σ_rows dy. reads: dy. writes: dbias.
struct BiasGrad {
  std::int64_t rows, width;
};

// ---- dense: loss ---------------------------------------------------------------------------

/// Per row of this rank's part of the logits: writes statistics F[rows, 3] = (max, Σ exp(x − max),
/// logit of the target or −inf where the target lies on another rank). Columns at or beyond `vocab`
/// (padding on the last rank) do not count. reads: logits F[rows, vocab_rows], targets.
/// writes: statistics.
struct CrossEntropyStatistics {
  std::int64_t rows, vocab_rows, vocab;
  int vocab_ways;
};
/// Combines the statistics of all parts (F[vocab_ways, rows, 3], in the order of the tensor group):
/// loss[0] += scale · Σ_rows (lse − target logit); dlogits = scale · (softmax − onehot), in place
/// of logits. Ignored targets give 0. Only tensor position 0 adds to loss. reads: statistics of all
/// parts, targets, logits. writes: logits, loss F[1].
struct CrossEntropyGrad {
  std::int64_t rows, vocab_rows, vocab;
  int vocab_ways;
  double scale;  ///< 1 / targets of the global batch.
};

// ---- dense: step ---------------------------------------------------------------------------

/// writes: view = 0.
struct Zero {
  std::int64_t count;
};
/// out[0] += Σ g², in double, over this rank's gradients, each parameter counted once over the
/// model group (ParameterTensor::counted). reads: gradients. writes: out F[1].
struct SquaredNorm {
  std::int64_t count;
};
/// norm = √(sum[0]); writes: statistics F[2] = (norm, min(1, clip/(norm + 1e-6)) or 1 without
/// clip). reads: sum. The 1e-6 is torch.nn.utils.clip_grad_norm_'s.
struct ClipFactor {
  bool clip;
  double clip_norm;
};
/// One optimizer step over a flat range of parameters; the gradient is scaled by statistics[1].
/// Which elements decay follows from the role's ParameterTensor list and the optimizer. The rate is
/// core::learning_rate's of the step.
/// reads: gradients, statistics, parameters, state... writes: parameters, state... (state: two
/// moments for AdamW and Adam, one accumulator for AdaGrad, none for Sgd).
struct OptimizerUpdate {
  std::int64_t count;
  Optimizer optimizer;
};

// ---- sparse --------------------------------------------------------------------------------

/// Reads a slice of samples. writes: labels F[samples], dense F[samples, dense_features],
/// ids I32[samples, lookups] (rows of Program::embedding). The slice's first sample within the
/// global batch is (data_way · slices + slice) · samples, as for LoadTokens.
struct LoadSamples {
  std::int64_t samples;
  int dense_features, lookups;
};
/// Distinct ids in ascending order, and where each lookup finds its row. reads: ids.
/// writes: keys I32[lookups] (runtime length), inverse I32[lookups], count I32[1].
struct UniqueKeys {
  std::int64_t lookups;
};
/// out[i, :] = rows[inverse_i, :]. reads: rows F[unique, width], inverse.
/// writes: out F[lookups, width].
struct GatherRows {
  std::int64_t lookups;
  int width;
};
/// grads[u, :] = Σ_{i: inverse_i = u} dout[i, :], in the order of i. reads: dout, inverse, count.
/// writes: grads F[unique, width].
struct SumRowGrads {
  std::int64_t lookups;
  int width;
};
/// From embedded rows F[samples·lookups, dim (+1 if wide)] and dense features: the MLP's input
/// [dense ; e_1 .. e_F] and the shallow part of the logit:
///   bias, + Σ_f wide_f + wide_dense·x if wide,
///   + ½ Σ_d ((Σ_f e_fd)² − Σ_f e_fd²) for a factorization machine.
/// reads: embedded, dense, bias [, wide_dense]. writes: mlp input, shallow F[samples].
struct Interact {
  std::int64_t samples;
  int dense_features, lookups, dim;
  bool wide;
  Interaction kind;
};
/// reads: dlogit F[samples], dmlp_input, embedded, dense. writes: dembedded (=), dbias (+=)
/// [, dwide_dense (+=)].
struct InteractGrad {
  std::int64_t samples;
  int dense_features, lookups, dim;
  bool wide;
  Interaction kind;
};
/// logit = shallow + deep; loss[0] += scale · Σ bce(logit, label); dlogit = scale·(σ(logit) −
/// label). reads: shallow, deep F[samples], labels. writes: dlogit, loss.
struct LogisticLoss {
  std::int64_t samples;
  double scale;  ///< 1 / samples of the global batch.
};
/// Server: adds the pushes of a slice to the step's sums, in the order of the workers' ranks
/// whatever the order in which they were served. sums[slot(key), :] += gradients[i, :]; a new key
/// takes the next slot. `index` finds slots: an open-addressing hash table of slot + 1, 0 = empty,
/// of 2^n ≥ 2·capacity entries. reads: keys, gradients, count of the worker at each peer slot.
/// writes: sum keys I32[capacity], sums F[capacity, width], sum count I32[1], index I32[2^n].
struct SumPushedRows {
  std::int64_t expected_rows;  ///< Rows of all these pushes, expected (for the cost).
  int width;
  int workers;
};
/// Server: updates the rows whose gradients were summed, at the optimizer's constant rate.
/// AdaGrad: state += g²; row −= lr · g / (√state + ε).
/// reads: sum keys, sums, sum count. writes: shard rows [, shard state].
struct UpdateTable {
  std::int64_t expected_rows;  ///< Distinct rows touched, expected (for the cost).
  int width;
  Optimizer optimizer;
};

using Operator =
    std::variant<LoadTokens, Embed, EmbedGrad, Linear, LinearInputGrad, LinearWeightGrad, Normalize,
                 NormalizeGrad, Rotate, Attention, AttentionGrad, Activate, ActivateGrad, Add,
                 BiasGrad, CrossEntropyStatistics, CrossEntropyGrad, Zero, SquaredNorm, ClipFactor,
                 OptimizerUpdate, LoadSamples, UniqueKeys, GatherRows, SumRowGrads, Interact,
                 InteractGrad, LogisticLoss, SumPushedRows, UpdateTable>;

/// The name used in device files, traces and reports: "linear", "attention_grad", ...
std::string_view operator_name(const Operator&);
/// Names of all operators, in the order of the variant.
const std::vector<std::string_view>& operator_names();

/// Work of one execution, by kind. Attention counts the causal half only where it is causal.
struct Work {
  Flops matmul;  ///< On matrix units: 2·m·n·k each.
  Flops vector;  ///< Element-wise and reductions.
  Bytes memory;  ///< Device-memory traffic, each operand once.
};

/// Work of an operator whose floating-point elements have `element_bytes` bytes.
Work work_of(const Operator&, int element_bytes);

/// m, n, k of an operator that is one matrix product; empty for the others.
struct MatmulShape {
  std::int64_t m, n, k;
};
std::vector<MatmulShape> matmuls_of(const Operator&);

}  // namespace orrery::core
