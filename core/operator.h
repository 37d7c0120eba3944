#pragma once
// The operators that a Program's compute instructions name: one small struct each, stating its
// formula and, in order, the views it reads and writes. Matrix shapes are [rows, columns],
// row-major. "+=" accumulates into the written view, "=" overwrites it. What is not said here, the
// engine does not decide.

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ids.h"
#include "core/job.h"
#include "core/model.h"
#include "core/units.h"

namespace orrery::core {

// ---- dense: data and embedding -------------------------------------------------------------

/// Which tokens of each sequence a rank of a context group of `ways` ranks holds, n of them at
/// position p: tokens p·n .. (p+1)·n − 1; or, zigzag, of 2·ways pieces of n/2 tokens the pieces p and
/// 2·ways−1−p, so that every rank has as much to do under a causal mask.
struct SequencePart {
  int ways = 1;
  bool zigzag = false;
};
/// Position within its sequence of the t-th of n tokens that the rank at position p holds.
std::int64_t sequence_position(const SequencePart&, int p, std::int64_t n, std::int64_t t);

/// Reads the microbatch's samples from the job's data. writes: tokens I32[sequences, sequence],
/// targets I32[sequences, sequence] (already shifted; negative = ignored): this rank's part of each
/// sequence. The microbatch's first sequence within the global batch is data_way · microbatches ·
/// sequences + microbatch · sequences.
struct LoadTokens {
  std::int64_t sequences, sequence;
  SequencePart part = {};
};

/// x[t, :] = wte[token_t − first, :] (+ wpe[position_t, :]) (+ wtt[0, :]); a token outside this
/// rank's rows gives 0. With vocab_ways > 1 rank position p of the tensor group holds rows
/// p·vocab_rows .. (p+1)·vocab_rows − 1, and only position 0 adds positions and token types.
/// reads: tokens, wte [, wpe F[sequence·part.ways, hidden]] [, wtt]. writes: x F[tokens, hidden].
struct Embed {
  std::int64_t tokens, sequence, hidden, vocab_rows;
  int vocab_ways;
  bool positions, token_types;
  SequencePart part = {};
};

/// dwte[token_t − first, :] += dx[t, :] for this rank's rows; dwpe[position_t] += dx[t];
/// dwtt[0] += dx[t] (positions and token types on every tensor position: dx is replicated).
/// reads: tokens, dx. writes: dwte [, dwpe] [, dwtt].
struct EmbedGrad {
  std::int64_t tokens, sequence, hidden, vocab_rows;
  int vocab_ways;
  bool positions, token_types;
  SequencePart part = {};
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
  SequencePart part = {};
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

// Plain attention: the scores of all pairs lie in memory, and every pair is computed whatever the
// mask. Row layout of qkv as in Rotate; scores F[sequences, heads, sequence, sequence].

/// scores = q·kᵀ/√d per query head. reads: qkv. writes: scores.
struct AttentionScores {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
};
/// Each row p of scores becomes its softmax over the keys that the query sees (key ≤ query where
/// causal), 0 elsewhere. reads: scores. writes: scores (in place).
struct Softmax {
  std::int64_t sequences, sequence;
  int heads;
  bool causal;
};
/// out = p·v. reads: p, qkv. writes: out F[tokens, heads·d].
struct AttentionContext {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
};
/// dp = dout·vᵀ; dv = pᵀ·dout. reads: dout, p, qkv. writes: dp, dqkv (its values only).
struct AttentionContextGrad {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
};
/// ds = p·(dp − Σ p·dp) per row, in place of dp. reads: p, dp. writes: dp.
struct SoftmaxGrad {
  std::int64_t sequences, sequence;
  int heads;
};
/// dq = ds·k/√d; dk = dsᵀ·q/√d. reads: ds, qkv. writes: dqkv (its queries and keys only).
struct AttentionScoresGrad {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim;
};

// Context parallelism: what turns a rank's rows of all heads into all rows of its heads and back,
// around an all-to-all whose p-th part goes to the p-th rank.

/// Deals the heads of each row [heads·d ; kv_heads·d ; kv_heads·d] to `parts` ranks: out
/// F[parts, rows, width/parts], the p-th holding the p-th part of each of the three (kv_heads may be
/// 0). Inverse: from there back to rows. reads: in. writes: out.
struct DealHeads {
  std::int64_t rows;
  int heads, kv_heads, head_dim, parts;
  bool inverse;
};
/// Joins F[parts, sequences, sequence/parts, width] to F[sequences, sequence, width]; inverse: cuts.
/// reads: in. writes: out.
struct JoinSequences {
  std::int64_t sequences, sequence, width;
  int parts;
  bool inverse;
};

// Ring attention: queries stay, keys and values go round the context group; the ranks' parts of the
// sequence are zigzag, causal. At step s a rank at position p has the keys and values of position
// (p − s) mod ways. kv F[tokens, kv_heads·d ; kv_heads·d]. Every rank computes as many pairs in a step.

/// Joins the step's pairs to out and log-sum-exp (shaped as Attention's); step 0 overwrites them.
/// reads: qkv (its queries), kv. writes: out, log-sum-exp.
struct RingAttention {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim, ways, step;
};
/// The step's gradients, with out and log-sum-exp of all steps: dqkv's queries +=, dkv +=; step 0
/// overwrites them. reads: dout, qkv (its queries), kv, out, log-sum-exp. writes: dqkv, dkv.
struct RingAttentionGrad {
  std::int64_t sequences, sequence;
  int heads, kv_heads, head_dim, ways, step;
};
/// y[r, to + i] = x[r, from + i], i < count. reads: x F[rows, from_width].
/// writes: y F[rows, to_width].
struct CopyColumns {
  std::int64_t rows, from_width, from, to_width, to, count;
};

// Experts. Of each row the router's `per_token` largest logits choose as many experts, whose outputs
// are summed with the softmax of those logits as weights. Rows go to slots: each expert has `capacity`
// of them, filled by all rows' first choices in the order of the rows, then by their second ones, ...;
// a choice that finds its expert full is dropped. slots F[experts, capacity, width].
// Source: Lepikhin et al., GShard, arXiv 2006.16668, section 2.2 (capacity); Jiang et al., Mixtral of
// Experts, arXiv 2401.04088, section 2.1 (softmax over the chosen).

/// reads: logits F[rows, experts]. writes: weights F[rows, per_token], places I32[rows, per_token]:
/// expert · capacity + slot, or −1 − expert where the choice is dropped.
struct ChooseExperts {
  std::int64_t rows;
  int experts, per_token;
  std::int64_t capacity;
};
/// dlogits = weight · (dweight − Σ weight · dweight) of the chosen, 0 of the others.
/// reads: dweights, weights, places. writes: dlogits (=).
struct ChooseExpertsGrad {
  std::int64_t rows;
  int experts, per_token;
  std::int64_t capacity;
};
/// slots[place] = x[row] for each row's places; empty slots are 0. reads: x F[rows, width], places.
/// writes: slots (=).
struct Dispatch {
  std::int64_t rows, width;
  int experts, per_token;
  std::int64_t capacity;
};
/// dx[row] = Σ dslots[place]. reads: dslots, places. writes: dx (=).
struct DispatchGrad {
  std::int64_t rows, width;
  int experts, per_token;
  std::int64_t capacity;
};
/// y[row] = Σ weight · slots[place]. reads: slots, weights, places. writes: y F[rows, width] (=).
struct Combine {
  std::int64_t rows, width;
  int experts, per_token;
  std::int64_t capacity;
};
/// dslots[place] = weight · dy[row], 0 elsewhere; dweight = slots[place] · dy[row], 0 if dropped.
/// reads: dy, slots, weights, places. writes: dslots (=), dweights (=).
struct CombineGrad {
  std::int64_t rows, width;
  int experts, per_token;
  std::int64_t capacity;
};
/// Of each group g, as Linear: y[g] = x[g] · w[g]ᵀ; x F[groups, rows, in], w F[groups, out, in].
/// reads: x, w. writes: y F[groups, rows, out].
struct GroupedLinear {
  int groups;
  std::int64_t rows, out, in;
};
/// dx[g] = dy[g] · w[g]. reads: dy, w. writes: dx (=).
struct GroupedLinearInputGrad {
  int groups;
  std::int64_t rows, out, in;
};
/// dw[g] += dy[g]ᵀ · x[g]. reads: dy, x. writes: dw.
struct GroupedLinearWeightGrad {
  int groups;
  std::int64_t rows, out, in;
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
/// y += x, in float32: gradients that were reduced join those of earlier microbatches.
/// reads: x. writes: y.
struct Accumulate {
  std::int64_t count;
};
/// Which parameters a flat range of `count` gradients or values belongs to: the p-th range of `count`
/// elements from `first` on, p being the rank's position in the group (0 without).
struct ParameterSlice {
  std::int64_t first = 0;
  std::optional<GroupSlot> group = {};
};
/// out[0] += Σ g² / copies, in double, over this rank's gradients, each parameter counted once over the
/// model group (ParameterTensor::counted). reads: gradients. writes: out F[1].
struct SquaredNorm {
  std::int64_t count;
  ParameterSlice slice = {};
  int copies = 1;  ///< Ranks of the model group that hold these very gradients.
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
  ParameterSlice slice = {};
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

using Operator = std::variant<
    LoadTokens, Embed, EmbedGrad, Linear, LinearInputGrad, LinearWeightGrad, Normalize,
    NormalizeGrad, Rotate, Attention, AttentionGrad, AttentionScores, Softmax, AttentionContext,
    AttentionContextGrad, SoftmaxGrad, AttentionScoresGrad, DealHeads, JoinSequences, RingAttention,
    RingAttentionGrad, CopyColumns, ChooseExperts, ChooseExpertsGrad, Dispatch, DispatchGrad,
    Combine, CombineGrad, GroupedLinear, GroupedLinearInputGrad, GroupedLinearWeightGrad, Activate,
    ActivateGrad, Add, BiasGrad, CrossEntropyStatistics, CrossEntropyGrad, Zero, Accumulate,
    SquaredNorm, ClipFactor, OptimizerUpdate, LoadSamples, UniqueKeys, GatherRows, SumRowGrads,
    Interact, InteractGrad, LogisticLoss, SumPushedRows, UpdateTable>;

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

/// m, n, k of the matrix products that an operator is (plain attention's per head, and those of all
/// groups, taken together);
/// empty for the others.
struct MatmulShape {
  std::int64_t m, n, k;
};
std::vector<MatmulShape> matmuls_of(const Operator&);

}  // namespace orrery::core
