#pragma once
// Matrix products, by oneDNN.

#include <cstdint>

namespace orrery::engine {

/// A row-major matrix operand: element (i, j) at data[i·stride + j], or, transposed, at
/// data[j·stride + i].
struct MatrixView {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

/// c[m,n] = alpha · a[m,k] · b[k,n] + beta · c, row-major, rows of c `c_stride` apart. With
/// beta = 0 c is only written. Uses as many threads as this thread's OpenMP setting allows.
/// @throws SystemError when the library refuses.
void matmul(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView a, MatrixView b,
            float beta, float* c, std::int64_t c_stride);

}  // namespace orrery::engine
