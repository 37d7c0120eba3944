#include "costmodel/efficiency_fit.h"

#include <gtest/gtest.h>

#include "costmodel/compute_cost.h"
#include "costmodel/levenberg_marquardt.h"

namespace orrery::costmodel {
namespace {

// (x − 3)² + (10·(y − x²))²: one minimum, at (3, 9).
TEST(LeastSquares, FindsTheMinimumOfABanana) {
  const auto solution = least_squares(
      [](const std::vector<double>& p) {
        return std::vector<double>{p[0] - 3.0, 10.0 * (p[1] - p[0] * p[0])};
      },
      {0.0, 0.0});
  EXPECT_NEAR(solution[0], 3.0, 1e-6);
  EXPECT_NEAR(solution[1], 9.0, 1e-5);
}

// Samples made from known parameters give those parameters back.
TEST(FitGemm, RecoversTheParametersOfItsSamples) {
  const core::GemmEfficiency truth{.ceiling = 0.75, .half_m = 90, .half_n = 40, .half_k = 150};
  std::vector<GemmSample> samples;
  for (const std::int64_t m : {32, 512, 4096}) {
    for (const std::int64_t n : {64, 768, 8192}) {
      for (const std::int64_t k : {48, 1024, 4096}) {
        const core::MatmulShape shape{.m = m, .n = n, .k = k};
        samples.push_back({shape, gemm_efficiency(truth, shape)});
      }
    }
  }
  const core::GemmEfficiency fit = fit_gemm(samples);
  EXPECT_NEAR(fit.ceiling, truth.ceiling, 1e-5);
  EXPECT_NEAR(fit.half_m, truth.half_m, 1e-2);
  EXPECT_NEAR(fit.half_n, truth.half_n, 1e-2);
  EXPECT_NEAR(fit.half_k, truth.half_k, 1e-2);
  EXPECT_LT(quality(fit, samples).largest_error, 1e-5);
}

// A dimension that never varies cannot tell its half size from the ceiling: it is left out.
TEST(FitGemm, LeavesOutADimensionThatNeverVaries) {
  const core::GemmEfficiency truth{.ceiling = 0.5, .half_m = 100, .half_n = 0, .half_k = 0};
  std::vector<GemmSample> samples;
  for (const std::int64_t m : {64, 256, 1024, 4096}) {
    const core::MatmulShape shape{.m = m, .n = 128, .k = 128};
    samples.push_back({shape, gemm_efficiency(truth, shape)});
  }
  const core::GemmEfficiency fit = fit_gemm(samples);
  EXPECT_EQ(fit.half_n, 0.0);
  EXPECT_EQ(fit.half_k, 0.0);
  EXPECT_NEAR(fit.half_m, 100, 1e-2);
}

TEST(FitAttention, RecoversTheParametersOfItsSamples) {
  std::vector<AttentionSample> samples;
  for (const double rows : {1e3, 1e4, 1e5}) {
    samples.push_back({rows, false, 0.6 * rows / (rows + 12e3)});
    samples.push_back({rows, true, 0.45 * rows / (rows + 12e3)});
  }
  const core::AttentionEfficiency fit = fit_attention(samples);
  EXPECT_NEAR(fit.forward, 0.6, 1e-5);
  EXPECT_NEAR(fit.backward, 0.45, 1e-5);
  EXPECT_NEAR(fit.half_rows, 12e3, 1.0);
}

}  // namespace
}  // namespace orrery::costmodel
