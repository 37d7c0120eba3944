// Every operator, forward and backward, against the oracle's float64 results, and at sizes that no
// vector width divides against a plain twin.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/operators/activation.h"
#include "engine/operators/attention.h"
#include "engine/operators/cross_entropy.h"
#include "engine/operators/embedding.h"
#include "engine/operators/linear.h"
#include "engine/operators/normalize.h"
#include "engine/operators/optimizer.h"
#include "engine/operators/rotate.h"
#include "engine/operators/vector_math.h"
#include "engine/safetensors.h"
#include "tests/engine/parity_fixture.h"

namespace orrery::engine {
namespace {

using core::ActivationKind;
using core::Normalization;
using Values = std::vector<float>;

const SafetensorsFile& oracle() {
  static const SafetensorsFile file(fixture("ops.safetensors"));
  return file;
}

Values given(const std::string& name) {
  const auto values = oracle().floats(name);
  return {values.begin(), values.end()};
}

std::vector<std::int32_t> given_ints(const std::string& name) {
  const auto values = oracle().ints(name);
  return {values.begin(), values.end()};
}

// |found − expected| ≤ bound·max(1, |expected|): the oracle's values are of order 1, and a float32
// sum of 48 terms of order 1 is off by about √48·6e-8.
void expect_near(const Values& found, const Values& expected, float bound = 2e-6F) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float scale = std::max(1.0F, std::abs(expected[i]));
    ASSERT_NEAR(found[i], expected[i], bound * scale) << "element " << i;
  }
}

Values random_values(std::size_t count, unsigned seed, float stddev = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, stddev);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// dx[i] against (f(x + h·e_i) − f(x − h·e_i)) / 2h of a scalar function in double.
void expect_gradient(const std::function<double(const Values&)>& f, const Values& x,
                     const Values& dx, double bound) {
  constexpr float kStep = 1e-2F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values up = x;
    Values down = x;
    up[i] += kStep;
    down[i] -= kStep;
    const double numeric = (f(up) - f(down)) / static_cast<double>(up[i] - down[i]);
    ASSERT_NEAR(static_cast<double>(dx[i]), numeric, bound) << "element " << i;
  }
}

double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

// ---- functions -----------------------------------------------------------------------------

// The bounds that vector_math.h states, over the whole range.
TEST(VectorMath, ExpIsWithinItsBound) {
  double worst = 0.0;
  for (double x = -87.3; x <= 88.3; x += 0.00137) {
    const float v = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(v));
    worst = std::max(worst, std::abs(static_cast<double>(exp_float(v)) - exact) / exact);
  }
  EXPECT_LE(worst, 2.5e-7);
  EXPECT_EQ(exp_float(-1000.0F), 0.0F);
  EXPECT_EQ(exp_float(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_GT(exp_float(1000.0F), 2e38F);
  EXPECT_EQ(exp_float(0.0F), 1.0F);
}

TEST(VectorMath, LogisticIsWithinItsBound) {
  double worst = 0.0;
  for (double x = -80.0; x <= 80.0; x += 0.00091) {
    const float v = static_cast<float>(x);
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(v)));
    worst = std::max(worst, std::abs(static_cast<double>(logistic(v)) - exact) / exact);
  }
  EXPECT_LE(worst, 5e-7);
}

TEST(VectorMath, SumsAndMaximaOfAnyLength) {
  for (std::int64_t n = 0; n < 70; ++n) {
    const Values x = random_values(static_cast<std::size_t>(n), static_cast<unsigned>(n));
    double sum = 0.0;
    float largest = -5.0F;
    for (const float v : x) {
      sum += static_cast<double>(v);
      largest = std::max(largest, v);
    }
    EXPECT_NEAR(static_cast<double>(
                    lane_sum(n, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; })),
                sum, 1e-5);
    EXPECT_EQ(lane_max(x.data(), n, -5.0F), largest);
  }
}

// ---- linear --------------------------------------------------------------------------------

TEST(Linear, AgreesWithTheOracle) {
  const Values x = given("linear.in.x"), w = given("linear.in.w"), b = given("linear.in.b");
  const Values dy = given("linear.dout");
  Values y(24 * 36), dx(24 * 48), dw(36 * 48, 0.0F), db(36, 0.0F);
  linear({24, 36, 48, true}, x.data(), w.data(), b.data(), y.data());
  linear_input_grad({24, 36, 48, false}, dy.data(), w.data(), dx.data());
  linear_weight_grad({24, 36, 48, true}, dy.data(), x.data(), dw.data(), db.data());
  expect_near(y, given("linear.out"));
  expect_near(dx, given("linear.grad.x"));
  expect_near(dw, given("linear.grad.w"), 5e-6F);
  expect_near(db, given("linear.grad.b"), 5e-6F);
}

TEST(Linear, GradientsAccumulate) {
  const Values x = given("linear.in.x"), w = given("linear.in.w"), dy = given("linear.dout");
  Values dx(24 * 48, 1.0F), dw(36 * 48, 2.0F), db(36, 3.0F);
  linear_input_grad({24, 36, 48, true}, dy.data(), w.data(), dx.data());
  linear_weight_grad({24, 36, 48, true}, dy.data(), x.data(), dw.data(), db.data());
  Values expected_dx = given("linear.grad.x"), expected_dw = given("linear.grad.w"),
         expected_db = given("linear.grad.b");
  for (float& v : expected_dx) v += 1.0F;
  for (float& v : expected_dw) v += 2.0F;
  for (float& v : expected_db) v += 3.0F;
  expect_near(dx, expected_dx);
  expect_near(dw, expected_dw, 5e-6F);
  expect_near(db, expected_db, 5e-6F);
}

// y = Σ_k x·w in double, at sizes that no block of a matrix library divides.
TEST(Linear, AgreesWithItsPlainTwinAtOddSizes) {
  for (const auto& [rows, out, in] :
       {std::tuple{1, 1, 1}, std::tuple{3, 5, 7}, std::tuple{33, 17, 65}, std::tuple{1, 129, 31}}) {
    const auto size = [](int a, int b) { return static_cast<std::size_t>(a * b); };
    const Values x = random_values(size(rows, in), 1), w = random_values(size(out, in), 2);
    Values y(size(rows, out)), expected(size(rows, out));
    linear({rows, out, in, false}, x.data(), w.data(), nullptr, y.data());
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) {
        double sum = 0.0;
        for (int k = 0; k < in; ++k) {
          sum += static_cast<double>(x[size(r, in) + static_cast<std::size_t>(k)]) *
                 static_cast<double>(w[size(o, in) + static_cast<std::size_t>(k)]);
        }
        expected[size(r, out) + static_cast<std::size_t>(o)] = static_cast<float>(sum);
      }
    }
    expect_near(y, expected, 5e-6F);
  }
}

// dbias = Σ_rows dy over more rows and columns than one block of the sum. The running sum of 1003
// normal values reaches about √1003 = 32; each of the 63 roundings on the way is off by at most
// 32·6e-8, together by about √63·2e-6 = 1.5e-5.
TEST(BiasGrad, AddsManyRows) {
  constexpr int kRows = 1003, kWidth = 517;
  const Values dy = random_values(kRows * kWidth, 3);
  Values db(kWidth, 0.0F), expected(kWidth);
  bias_grad({kRows, kWidth}, dy.data(), db.data());
  for (std::size_t j = 0; j < kWidth; ++j) {
    double sum = 0.0;
    for (std::size_t r = 0; r < kRows; ++r) sum += static_cast<double>(dy[r * kWidth + j]);
    expected[j] = static_cast<float>(sum);
  }
  expect_near(db, expected, 1.5e-5F);
}

// ---- normalisation -------------------------------------------------------------------------

TEST(Normalize, LayerNormAgreesWithTheOracle) {
  const Values x = given("layernorm.in.x"), w = given("layernorm.in.w"),
               b = given("layernorm.in.b"), dy = given("layernorm.dout");
  Values y(24 * 48), statistics(24 * 2), dx(24 * 48), dw(48, 0.0F), db(48, 0.0F);
  normalize({24, 48, Normalization::LayerNorm, 1e-5}, x.data(), w.data(), b.data(), y.data(),
            statistics.data());
  normalize_grad({24, 48, Normalization::LayerNorm, false}, dy.data(), x.data(), w.data(),
                 statistics.data(), dx.data(), dw.data(), db.data());
  expect_near(y, given("layernorm.out"));
  expect_near(dx, given("layernorm.grad.x"));
  expect_near(dw, given("layernorm.grad.w"), 5e-6F);
  expect_near(db, given("layernorm.grad.b"), 5e-6F);
}

TEST(Normalize, RmsNormAgreesWithTheOracle) {
  const Values x = given("rmsnorm.in.x"), w = given("rmsnorm.in.w"), dy = given("rmsnorm.dout");
  Values y(24 * 48), statistics(24), dx(24 * 48, 1.0F), dw(48, 0.0F);
  normalize({24, 48, Normalization::RmsNorm, 1e-5}, x.data(), w.data(), nullptr, y.data(),
            statistics.data());
  normalize_grad({24, 48, Normalization::RmsNorm, true}, dy.data(), x.data(), w.data(),
                 statistics.data(), dx.data(), dw.data(), nullptr);
  for (float& v : dx) v -= 1.0F;  // It accumulated.
  expect_near(y, given("rmsnorm.out"));
  expect_near(dx, given("rmsnorm.grad.x"));
  expect_near(dw, given("rmsnorm.grad.w"), 5e-6F);
}

// dx may take dy's place, as the lowering's residual stream does not but a reader might.
TEST(Normalize, WorksAtOddWidths) {
  for (const std::int64_t width : {1, 3, 17, 31}) {
    const auto n = static_cast<std::size_t>(width);
    const Values x = random_values(n, 4), w = random_values(n, 5), b = random_values(n, 6);
    const Values dy = random_values(n, 7);
    const auto f = [&](const Values& at) {
      Values y(n), statistics(2);
      normalize({1, width, Normalization::LayerNorm, 1e-2}, at.data(), w.data(), b.data(), y.data(),
                statistics.data());
      return dot(y, dy);
    };
    Values y(n), statistics(2), dx(n), dw(n, 0.0F), db(n, 0.0F);
    normalize({1, width, Normalization::LayerNorm, 1e-2}, x.data(), w.data(), b.data(), y.data(),
              statistics.data());
    normalize_grad({1, width, Normalization::LayerNorm, false}, dy.data(), x.data(), w.data(),
                   statistics.data(), dx.data(), dw.data(), db.data());
    expect_gradient(f, x, dx, 3e-3);
  }
}

// ---- activations ---------------------------------------------------------------------------

void expect_activation(const std::string& name, ActivationKind kind) {
  const Values x = given(name + ".in.x"), dy = given(name + ".dout");
  Values y(x.size()), dx(x.size());
  activate({24, 48, kind}, x.data(), y.data());
  activate_grad({24, 48, kind}, dy.data(), x.data(), dx.data());
  expect_near(y, given(name + ".out"), 1e-6F);
  expect_near(dx, given(name + ".grad.x"), 1e-6F);
}

TEST(Activate, GeluTanhAgreesWithTheOracle) {
  expect_activation("gelu_tanh", ActivationKind::GeluTanh);
}
TEST(Activate, GeluErfAgreesWithTheOracle) {
  expect_activation("gelu_erf", ActivationKind::GeluErf);
}
TEST(Activate, ReluAgreesWithTheOracle) { expect_activation("relu", ActivationKind::Relu); }

// Rows are [gate ; up].
TEST(Activate, SwiGluAgreesWithTheOracle) {
  const Values gate = given("swiglu.in.a"), up = given("swiglu.in.b"), dy = given("swiglu.dout");
  const Values dgate = given("swiglu.grad.a"), dup = given("swiglu.grad.b");
  Values x, expected;
  for (std::size_t r = 0; r < 24; ++r) {
    const auto append = [&](Values& to, const Values& from) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(48 * r),
                from.begin() + static_cast<std::ptrdiff_t>(48 * (r + 1)));
    };
    append(x, gate);
    append(x, up);
    append(expected, dgate);
    append(expected, dup);
  }
  Values y(24 * 48), dx(24 * 96);
  activate({24, 48, ActivationKind::SwiGlu}, x.data(), y.data());
  activate_grad({24, 48, ActivationKind::SwiGlu}, dy.data(), x.data(), dx.data());
  expect_near(y, given("swiglu.out"), 1e-6F);
  expect_near(dx, expected, 1e-6F);
}

TEST(Add, AddsAndMayBeInPlace) {
  Values a = given("residual.in.a");
  const Values b = given("residual.in.b");
  add({24, 48, false}, a.data(), b.data(), nullptr, a.data());
  expect_near(a, given("residual.out"), 1e-7F);
  const Values bias = random_values(48, 8);
  Values with_bias(24 * 48), zero(24 * 48, 0.0F);
  add({24, 48, true}, zero.data(), zero.data(), bias.data(), with_bias.data());
  for (std::size_t i = 0; i < with_bias.size(); ++i) ASSERT_EQ(with_bias[i], bias[i % 48]);
}

// ---- embedding -----------------------------------------------------------------------------

TEST(Embed, AgreesWithTheOracle) {
  const Values w = given("embedding.in.w"), dy = given("embedding.dout");
  const std::vector<std::int32_t> tokens = given_ints("embedding.in.idx");
  Values x(51 * 48), dw(40 * 48, 0.0F);
  embed({51, 17, 48, 40, 1, false, false}, 0, tokens.data(), w.data(), nullptr, nullptr, x.data());
  embed_grad({51, 17, 48, 40, 1, false, false}, 0, tokens.data(), dy.data(), dw.data(), nullptr,
             nullptr);
  expect_near(x, given("embedding.out"), 0.0F);
  expect_near(dw, given("embedding.grad.w"));
}

// Two halves of the rows add up to the whole, forward and backward; positions repeat per sequence.
TEST(Embed, PartsOfTheVocabularyAddUp) {
  const Values w = random_values(10 * 4, 1), wpe = random_values(3 * 4, 2);
  const Values wtt = random_values(4, 3), dx = random_values(6 * 4, 4);
  const std::vector<std::int32_t> tokens = {0, 9, 4, 5, 9, 2};
  Values whole(24), first(24), second(24);
  embed({6, 3, 4, 10, 1, true, true}, 0, tokens.data(), w.data(), wpe.data(), wtt.data(),
        whole.data());
  embed({6, 3, 4, 5, 2, true, true}, 0, tokens.data(), w.data(), wpe.data(), wtt.data(),
        first.data());
  embed({6, 3, 4, 5, 2, true, true}, 5, tokens.data(), w.data() + 20, nullptr, nullptr,
        second.data());
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t t = i / 4, j = i % 4;
    const float expected =
        w[static_cast<std::size_t>(tokens[t]) * 4 + j] + wpe[t % 3 * 4 + j] + wtt[j];
    ASSERT_NEAR(whole[i], expected, 1e-6F);
    ASSERT_NEAR(first[i] + second[i], expected, 1e-6F);
  }
  Values dw(40, 0.0F), dwpe(12, 0.0F), dwtt(4, 0.0F);
  embed_grad({6, 3, 4, 5, 2, true, true}, 0, tokens.data(), dx.data(), dw.data(), dwpe.data(),
             dwtt.data());
  embed_grad({6, 3, 4, 5, 2, false, false}, 5, tokens.data(), dx.data(), dw.data() + 20, nullptr,
             nullptr);
  for (std::size_t j = 0; j < 4; ++j) {
    ASSERT_NEAR(dw[9 * 4 + j], dx[1 * 4 + j] + dx[4 * 4 + j], 1e-6F);
    ASSERT_NEAR(dwpe[j], dx[j] + dx[3 * 4 + j], 1e-6F);
    float sum = 0.0F;
    for (std::size_t t = 0; t < 6; ++t) sum += dx[t * 4 + j];
    ASSERT_NEAR(dwtt[j], sum, 1e-5F);
  }
}

// ---- attention -----------------------------------------------------------------------------

TEST(Attention, AgreesWithTheOracle) {
  const Values qkv = given("attention_causal.in.qkv"), dout = given("attention_causal.dout");
  Values out(51 * 48), lse(3 * 4 * 17), dqkv(51 * 144);
  Workspace workspace;
  attention({3, 17, 4, 4, 12, true}, qkv.data(), out.data(), lse.data(), workspace);
  attention_grad({3, 17, 4, 4, 12, true}, dout.data(), qkv.data(), out.data(), lse.data(),
                 dqkv.data(), workspace);
  expect_near(out, given("attention_causal.out"));
  expect_near(dqkv, given("attention_causal.grad.qkv"));
}

// softmax(q·kᵀ/√d)·v in double, one row at a time.
Values plain_attention(const core::Attention& op, const Values& qkv) {
  const std::int64_t d = op.head_dim, width = (op.heads + 2 * op.kv_heads) * d;
  Values out(static_cast<std::size_t>(op.sequences * op.sequence * op.heads * d));
  const auto at = [&](std::int64_t s, std::int64_t t, std::int64_t column) {
    return static_cast<double>(
        qkv[static_cast<std::size_t>((s * op.sequence + t) * width + column)]);
  };
  for (std::int64_t s = 0; s < op.sequences; ++s) {
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const std::int64_t kv = h / (op.heads / op.kv_heads);
      for (std::int64_t t = 0; t < op.sequence; ++t) {
        const std::int64_t keys = op.causal ? t + 1 : op.sequence;
        std::vector<double> p(static_cast<std::size_t>(keys));
        double sum = 0.0;
        for (std::int64_t u = 0; u < keys; ++u) {
          double score = 0.0;
          for (std::int64_t i = 0; i < d; ++i) {
            score += at(s, t, h * d + i) * at(s, u, (op.heads + kv) * d + i);
          }
          p[static_cast<std::size_t>(u)] = std::exp(score / std::sqrt(static_cast<double>(d)));
          sum += p[static_cast<std::size_t>(u)];
        }
        for (std::int64_t i = 0; i < d; ++i) {
          double value = 0.0;
          for (std::int64_t u = 0; u < keys; ++u) {
            value += p[static_cast<std::size_t>(u)] / sum *
                     at(s, u, (op.heads + op.kv_heads + kv) * d + i);
          }
          out[static_cast<std::size_t>(((s * op.sequence + t) * op.heads + h) * d + i)] =
              static_cast<float>(value);
        }
      }
    }
  }
  return out;
}

// Grouped queries, several blocks of query rows, causal or not, odd sizes.
TEST(Attention, AgreesWithItsPlainTwin) {
  const core::Attention ops[] = {{2, 150, 4, 2, 5, true},
                                 {1, 64, 3, 1, 8, true},
                                 {1, 65, 2, 2, 3, false},
                                 {1, 1, 1, 1, 1, true}};
  for (const core::Attention& op : ops) {
    const auto rows = static_cast<std::size_t>(op.sequences * op.sequence);
    const auto heads = static_cast<std::size_t>(op.heads);
    const auto d = static_cast<std::size_t>(op.head_dim);
    const Values qkv =
        random_values(rows * (heads + 2 * static_cast<std::size_t>(op.kv_heads)) * d, 9);
    Values out(rows * heads * d), lse(rows * heads);
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    expect_near(out, plain_attention(op, qkv), 5e-6F);
  }
}

// dqkv is the numerical gradient of the plain twin.
TEST(Attention, HasTheGradientOfItsPlainTwin) {
  const core::Attention ops[] = {{1, 9, 4, 2, 3, true}, {1, 7, 2, 1, 4, false}};
  for (const core::Attention& op : ops) {
    const auto rows = static_cast<std::size_t>(op.sequences * op.sequence);
    const auto out_width = static_cast<std::size_t>(op.heads * op.head_dim);
    const Values qkv = random_values(
        rows * static_cast<std::size_t>((op.heads + 2 * op.kv_heads) * op.head_dim), 10);
    const Values dout = random_values(rows * out_width, 11);
    Values out(rows * out_width), lse(rows * static_cast<std::size_t>(op.heads)), dqkv(qkv.size());
    Workspace workspace;
    attention(op, qkv.data(), out.data(), lse.data(), workspace);
    attention_grad({op.sequences, op.sequence, op.heads, op.kv_heads, op.head_dim, op.causal},
                   dout.data(), qkv.data(), out.data(), lse.data(), dqkv.data(), workspace);
    expect_gradient([&](const Values& at) { return dot(plain_attention(op, at), dout); }, qkv, dqkv,
                    2e-3);
  }
}

// ---- rotary --------------------------------------------------------------------------------

// The oracle rotates four heads; here they are three query heads and one key head, and the value
// head that follows in each row stays as it is.
TEST(Rotate, AgreesWithTheOracle) {
  const Values x = given("rope.in.x"), expected = given("rope.out");
  const Values dy = given("rope.dout"), dx = given("rope.grad.x");
  const auto rotated = [](const Values& heads, bool inverse) {
    Values qkv(51 * 60, 7.0F);
    for (std::size_t t = 0; t < 51; ++t) {
      std::copy_n(heads.begin() + static_cast<std::ptrdiff_t>(t * 48), 48,
                  qkv.begin() + static_cast<std::ptrdiff_t>(t * 60));
    }
    rotate({3, 17, 3, 1, 12, 10000.0, inverse}, rotation_table(10000.0, 12, 17), qkv.data());
    Values out;
    for (std::size_t t = 0; t < 51; ++t) {
      out.insert(out.end(), qkv.begin() + static_cast<std::ptrdiff_t>(t * 60),
                 qkv.begin() + static_cast<std::ptrdiff_t>(t * 60 + 48));
      for (std::size_t i = 48; i < 60; ++i) EXPECT_EQ(qkv[t * 60 + i], 7.0F);
    }
    return out;
  };
  expect_near(rotated(x, false), expected, 1e-6F);
  expect_near(rotated(dy, true), dx, 1e-6F);
}

// ---- cross-entropy -------------------------------------------------------------------------

TEST(CrossEntropy, AgreesWithTheOracle) {
  Values logits = given("cross_entropy_mean.in.logits");
  const std::vector<std::int32_t> targets = given_ints("cross_entropy_mean.in.target");
  Values statistics(24 * 3);
  cross_entropy_statistics({24, 40, 40, 1}, 0, logits.data(), targets.data(), statistics.data());
  const double loss = cross_entropy_grad({24, 40, 40, 1, 1.0 / 24}, 0, statistics.data(),
                                         targets.data(), logits.data());
  EXPECT_NEAR(loss, static_cast<double>(given("cross_entropy_mean.out")[0]), 1e-6);
  expect_near(logits, given("cross_entropy_mean.grad.logits"), 1e-7F);
}

// The vocabulary of 40 over three ranks of 14 rows, the last two of them padding: the same
// gradient, nothing in the padding, and the parts' loss is the whole loss.
TEST(CrossEntropy, PartsOfTheVocabularyGiveTheWhole) {
  const Values logits = given("cross_entropy_mean.in.logits");
  const Values expected = given("cross_entropy_mean.grad.logits");
  const std::vector<std::int32_t> targets = given_ints("cross_entropy_mean.in.target");
  Values statistics(3 * 24 * 3);
  std::vector<Values> parts;
  for (std::int64_t p = 0; p < 3; ++p) {
    Values part(24 * 14, 1e9F);
    for (std::int64_t r = 0; r < 24; ++r) {
      for (std::int64_t j = 0; j < 14 && p * 14 + j < 40; ++j) {
        part[static_cast<std::size_t>(r * 14 + j)] =
            logits[static_cast<std::size_t>(r * 40 + p * 14 + j)];
      }
    }
    cross_entropy_statistics({24, 14, 40, 3}, p * 14, part.data(), targets.data(),
                             statistics.data() + p * 24 * 3);
    parts.push_back(part);
  }
  for (std::int64_t p = 0; p < 3; ++p) {
    Values& part = parts[static_cast<std::size_t>(p)];
    const double loss = cross_entropy_grad({24, 14, 40, 3, 1.0 / 24}, p * 14, statistics.data(),
                                           targets.data(), part.data());
    EXPECT_NEAR(loss, static_cast<double>(given("cross_entropy_mean.out")[0]), 1e-6);
    for (std::int64_t r = 0; r < 24; ++r) {
      for (std::int64_t j = 0; j < 14; ++j) {
        const float found = part[static_cast<std::size_t>(r * 14 + j)];
        const std::int64_t column = p * 14 + j;
        const float wanted =
            column < 40 ? expected[static_cast<std::size_t>(r * 40 + column)] : 0.0F;
        ASSERT_NEAR(found, wanted, 1e-7F) << "part " << p << " row " << r << " column " << j;
      }
    }
  }
}

TEST(CrossEntropy, IgnoredTargetsGiveNothing) {
  Values logits = random_values(2 * 5, 12);
  const std::vector<std::int32_t> targets = {-100, 3};
  Values statistics(2 * 3);
  cross_entropy_statistics({2, 5, 5, 1}, 0, logits.data(), targets.data(), statistics.data());
  const double lse =
      static_cast<double>(statistics[3]) + std::log(static_cast<double>(statistics[4]));
  const double expected = lse - static_cast<double>(logits[5 + 3]);
  const double loss =
      cross_entropy_grad({2, 5, 5, 1, 1.0}, 0, statistics.data(), targets.data(), logits.data());
  EXPECT_NEAR(loss, expected, 1e-6);
  for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(logits[j], 0.0F);
}

// ---- optimizers ----------------------------------------------------------------------------

void expect_optimizer(const std::string& name, const core::Optimizer& optimizer) {
  Values p = given(name + ".p0"), m(64, 0.0F), v(64, 0.0F), after;
  const Values gradients = given(name + ".grads");
  for (int s = 0; s < 3; ++s) {
    OptimizerStep step;
    step.optimizer = optimizer;
    step.learning_rate = optimizer.learning_rate;
    step.step = s + 1;
    step.decay = optimizer.weight_decay > 0.0;
    optimizer_update(step, 64, gradients.data() + 64 * s, p.data(), m.data(), v.data());
    after.insert(after.end(), p.begin(), p.end());
  }
  expect_near(after, given(name + ".p"), 1e-6F);
}

TEST(OptimizerUpdate, AdamWAgreesWithTheOracle) {
  core::Optimizer o;
  o.learning_rate = 1e-2;
  o.weight_decay = 0.1;
  expect_optimizer("adamw", o);
}
TEST(OptimizerUpdate, AdamAgreesWithTheOracle) {
  core::Optimizer o;
  o.kind = core::OptimizerKind::Adam;
  o.learning_rate = 1e-2;
  expect_optimizer("adam", o);
}
TEST(OptimizerUpdate, AdaGradAgreesWithTheOracle) {
  core::Optimizer o;
  o.kind = core::OptimizerKind::AdaGrad;
  o.learning_rate = 1e-2;
  o.epsilon = 1e-10;
  expect_optimizer("adagrad", o);
}

// p ← p − lr·(c·g + wd·p): the clip factor c scales the gradient, the decay does not.
TEST(OptimizerUpdate, SgdScalesTheGradientNotTheDecay) {
  OptimizerStep step;
  step.optimizer.kind = core::OptimizerKind::Sgd;
  step.optimizer.weight_decay = 0.5;
  step.learning_rate = 0.1;
  step.gradient_scale = 0.25F;
  step.decay = true;
  const float g = 8.0F;
  float p = 2.0F;
  optimizer_update(step, 1, &g, &p, nullptr, nullptr);
  EXPECT_FLOAT_EQ(p, 2.0F - 0.1F * (0.25F * 8.0F + 0.5F * 2.0F));
}

TEST(SquaredNorm, IsExactInDoubleAtAnyLength) {
  for (std::size_t n : {0, 1, 7, 8, 9, 1000}) {
    const Values g = random_values(n, 13);
    EXPECT_NEAR(squared_norm(static_cast<std::int64_t>(n), g.data()), dot(g, g), 1e-9);
  }
}

TEST(ClipFactor, IsTorchs) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0F);
  EXPECT_FLOAT_EQ(clip_factor(2.0, 1.0), static_cast<float>(1.0 / (2.0 + 1e-6)));
}

}  // namespace
}  // namespace orrery::engine
