#include "engine/operators/matmul.h"

#include <dnnl.h>

#include <string>

#include "core/error.h"

namespace orrery::engine {

void matmul(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView a, MatrixView b,
            float beta, float* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha, a.data,
                 a.stride, b.data, b.stride, beta, c, c_stride);
  if (status != dnnl_success) {
    throw core::SystemError("dnnl_sgemm of " + std::to_string(m) + " x " + std::to_string(n) +
                            " x " + std::to_string(k) + " failed with status " +
                            std::to_string(static_cast<int>(status)));
  }
}

}  // namespace orrery::engine
