#pragma once
// Numpy matrix products, shared by MatMul, MatMulInteger and QLinearMatMul: 1-D operands get an
// axis that the result loses again, leading axes are broadcast.

#include <algorithm>
#include <vector>

#include "ops/checks.h"
#include "ops/dense.h"

namespace xc {

inline constexpr TypeSet kMatMulTypes =
    kFloats | type_set({DType::kI32, DType::kI64, DType::kU32, DType::kU64});

/// Of MatMul whose right side is small integers in blocks along the contracted axis: as many
/// elements of a row of operand 0 may be rounded to 8 bits together (rounded_blocks.h). Of
/// xc::DequantizedMatMul: they are. Of LSTM with such weights: those of x and of its state.
inline const AttrSpec kLeftInBytes{"left_in_bytes", AttrKind::kInt, false, 0, 1};

/// Dims of the product of inputs a and b; checks that the inner dims agree.
SymDims infer_matmul(const InferContext& ctx, size_t a, size_t b);

/// Operand dims and element strides over batch, plus the three sizes.
struct MatMulShape {
  Dims batch;                 ///< broadcast leading dims of the result
  Dims a_strides, b_strides;  ///< of a row-major operand over `batch`; zero where broadcast
  int64_t m = 1, k = 1, n = 1;
};
MatMulShape matmul_shape(std::span<const int64_t> a, std::span<const int64_t> b);

/// The product, row-major. Unsigned 64-bit arithmetic gives every integer type its wrap-around.
template <class T>
std::vector<T> matmul(const MatMulShape& s, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> y(static_cast<size_t>(element_count(s.batch) * s.m * s.n));
  for_each_index(s.batch, {s.a_strides, s.b_strides}, [&](int64_t flat, const int64_t* at) {
    const T* left = a.data() + at[0];
    const T* right = b.data() + at[1];
    T* out = y.data() + flat * s.m * s.n;
    // Some columns at a time, whose sums stay in registers.
    constexpr int64_t kColumns = 8;
    for (int64_t i = 0; i < s.m; ++i) {
      const T* const row = left + i * s.k;
      int64_t j = 0;
      for (; j + kColumns <= s.n; j += kColumns) {
        T sums[kColumns] = {};
        for (int64_t k = 0; k < s.k; ++k)
          for (int64_t c = 0; c < kColumns; ++c) sums[c] += row[k] * right[k * s.n + j + c];
        std::copy_n(sums, kColumns, out + i * s.n + j);
      }
      for (; j < s.n; ++j)
        for (int64_t k = 0; k < s.k; ++k) out[i * s.n + j] += row[k] * right[k * s.n + j];
    }
  });
  return y;
}

/// Multiply-adds count as two; a and b are the operands' input indices.
Dim matmul_flops(const Graph& graph, const Node& node, size_t a);

}  // namespace xc
