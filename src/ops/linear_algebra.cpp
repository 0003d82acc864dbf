// Det: determinants of a stack of square matrices.

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

/// By elimination with row pivots; destroys the matrix.
double determinant(std::span<double> a, size_t n) {
  double out = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r)
      if (std::abs(a[r * n + k]) > std::abs(a[pivot * n + k])) pivot = r;
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

}  // namespace

void register_linear_algebra(OpList& ops) {
  ops.push_back({.name = "Det",
                 .infer = infer_det,
                 .reference = reference_det,
                 .tolerance = Tolerance::kContraction});
}

}  // namespace xc
