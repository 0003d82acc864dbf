// Det and, of com.microsoft, Inverse, of a stack of square matrices.

#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/support.h"

namespace xc {

namespace {

void infer_det(InferContext& c) {
  check_dtype(c, 0, kFloats);
  const SymDims& dims = c.dims(0);
  if (dims.size() < 2) c.error("the input has rank {}, expected at least 2", dims.size());
  same_dim(dims[dims.size() - 2], dims[dims.size() - 1], "rows and columns of a determinant");
  c.set(0, c.dtype(0), SymDims(dims.begin(), dims.end() - 2));
}

/// The row from k on with the largest number in column k.
size_t pivot_row(std::span<const double> a, size_t n, size_t k) {
  size_t out = k;
  for (size_t r = k + 1; r < n; ++r)
    if (std::abs(a[r * n + k]) > std::abs(a[out * n + k])) out = r;
  return out;
}

/// By elimination with row pivots; destroys the matrix.
double determinant(std::span<double> a, size_t n) {
  double out = 1;
  for (size_t k = 0; k < n; ++k) {
    const size_t pivot = pivot_row(a, n, k);
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      for (size_t j = 0; j < n; ++j) std::swap(a[pivot * n + j], a[k * n + j]);
      out = -out;
    }
    out *= a[k * n + k];
    for (size_t r = k + 1; r < n; ++r) {
      const double factor = a[r * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[r * n + j] -= factor * a[k * n + j];
    }
  }
  return out;
}

void reference_det(const ReferenceContext& c) {
  check_shapes(c);
  auto x = double_values(c.inputs[0]);
  const auto n = static_cast<size_t>(c.inputs[0].dims.back());
  std::vector<double> out;
  for (size_t k = 0; k < static_cast<size_t>(c.outputs[0].count()); ++k)
    out.push_back(determinant(std::span(x).subspan(k * n * n, n * n), n));
  write_dense(c.outputs[0], out);
}

// ---- Inverse ------------------------------------------------------------------------------------

void infer_inverse(InferContext& c) {
  check_dtype(c, 0, type_set({DType::kF32, DType::kF16, DType::kF64}));
  const SymDims& dims = c.dims(0);
  if (dims.size() < 2) c.error("the input has rank {}, expected at least 2", dims.size());
  same_dim(dims[dims.size() - 2], dims[dims.size() - 1], "rows and columns of an inverse");
  infer_same(c);
}

/// By elimination with row pivots, down and up; destroys the matrix. Infinite or NaN where it has
/// no inverse.
std::vector<double> inverse(std::span<double> a, size_t n) {
  std::vector<double> out(n * n);
  for (size_t k = 0; k < n; ++k) out[k * n + k] = 1;
  for (size_t k = 0; k < n; ++k) {
    const size_t pivot = pivot_row(a, n, k);
    for (size_t j = 0; j < n && pivot != k; ++j) {
      std::swap(a[pivot * n + j], a[k * n + j]);
      std::swap(out[pivot * n + j], out[k * n + j]);
    }
    const double scale = 1 / a[k * n + k];
    for (size_t j = 0; j < n; ++j) {
      a[k * n + j] *= scale;
      out[k * n + j] *= scale;
    }
    for (size_t r = 0; r < n; ++r) {
      if (r == k) continue;
      const double factor = a[r * n + k];
      for (size_t j = 0; j < n; ++j) {
        a[r * n + j] -= factor * a[k * n + j];
        out[r * n + j] -= factor * out[k * n + j];
      }
    }
  }
  return out;
}

void reference_inverse(const ReferenceContext& c) {
  check_shapes(c);
  auto x = double_values(c.inputs[0]);
  const auto n = static_cast<size_t>(c.inputs[0].dims.back());
  std::vector<double> out;
  for (size_t at = 0; at < x.size(); at += n * n) {
    const auto y = inverse(std::span(x).subspan(at, n * n), n);
    out.insert(out.end(), y.begin(), y.end());
  }
  write_dense(c.outputs[0], out);
}

}  // namespace

void register_linear_algebra(OpList& ops) {
  ops.push_back({.name = "com.microsoft::Inverse",
                 .domain = "com.microsoft",
                 .infer = infer_inverse,
                 .reference = reference_inverse,
                 .tolerance = Tolerance::kContraction});
  ops.push_back({.name = "Det",
                 .infer = infer_det,
                 .reference = reference_det,
                 .tolerance = Tolerance::kContraction});
}

}  // namespace xc
