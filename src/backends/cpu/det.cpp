// Det, Inverse: "xc.det". One matrix a task, eliminated in f64 in scratch.

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"

namespace xc::cpu {
namespace {

/// The row from k on with the largest number in column k.
int64_t pivot_row(const double* a, int64_t n, int64_t k) {
  int64_t pivot = k;
  double largest = std::fabs(a[k * n + k]);
  for (int64_t r = k + 1; r < n; ++r) {  // no branch: which is the largest, nothing foretells
    const double size = std::fabs(a[r * n + k]);
    pivot = size > largest ? r : pivot;
    largest = size > largest ? size : largest;
  }
  return pivot;
}

/// to[j] -= factor * from[j]
void subtract_row(double* __restrict to, const double* __restrict from, double factor, int64_t n) {
  constexpr int64_t kBlock = 4;  // loops of known length become vectors
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock)
    for (int64_t i = 0; i < kBlock; ++i) to[j + i] -= factor * from[j + i];
  for (; j < n; ++j) to[j] -= factor * from[j];
}

/// By elimination with row pivots; destroys the n x n matrix.
double determinant(double* a, int64_t n) {
  double out = 1;
  for (int64_t k = 0; k < n; ++k) {
    double* from = a + k * n;
    const int64_t pivot = pivot_row(a, n, k);
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(from + k, from + n, a + pivot * n + k);
      out = -out;
    }
    out *= from[k];
    const double inverse = 1 / from[k];
    for (int64_t r = k + 1; r < n; ++r) {
      double* const row = a + r * n;
      subtract_row(row + k + 1, from + k + 1, row[k] * inverse, n - k - 1);
    }
  }
  return out;
}

/// In place, by elimination down and up with row pivots: the inverse's columns take the place of
/// those that have become the unit matrix's. Infinite or NaN where there is none.
/// `pivots`: room for n.
void invert(double* a, int64_t n, int64_t* pivots) {
  for (int64_t k = 0; k < n; ++k) {
    double* const from = a + k * n;
    const int64_t pivot = pivot_row(a, n, k);
    pivots[k] = pivot;
    if (pivot != k) std::swap_ranges(from, from + n, a + pivot * n);
    const double scale = 1 / from[k];
    from[k] = 1;
    for (int64_t j = 0; j < n; ++j) from[j] *= scale;
    for (int64_t r = 0; r < n; ++r) {
      if (r == k) continue;
      double* const row = a + r * n;
      subtract_row(row, from, std::exchange(row[k], 0), n);
    }
  }
  // What rows were swapped before are columns of the inverse.
  for (int64_t k = n; k-- > 0;)
    for (int64_t r = 0; r < n && pivots[k] != k; ++r) std::swap(a[r * n + k], a[r * n + pivots[k]]);
}

class MatrixBound final : public BoundKernel {
 public:
  MatrixBound(const StepSpec& spec, const BindContext& context)
      : double_(spec.inputs[0].dtype == DType::kF64),
        inverse_(spec.op->name != "Det"),
        n_(context.inputs[0].dims.back()) {
    const auto x = std::span(context.inputs[0].dims);
    tasks = element_count(x.first(x.size() - 2));
    if (n_ == 0 && inverse_) tasks = 0;
    matrix_bytes_ = checked_mul(checked_mul(n_, n_), sizeof(double));
    scratch_bytes = checked_add(matrix_bytes_, checked_mul(n_, sizeof(int64_t)));
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    double_ ? run_as<double>(args, begin, end) : run_as<float>(args, begin, end);
  }

 private:
  template <class T>
  void run_as(const StepArgs& args, int64_t begin, int64_t end) const {
    auto* const matrix = static_cast<double*>(args.scratch);
    auto* const pivots =
        reinterpret_cast<int64_t*>(static_cast<std::byte*>(args.scratch) + matrix_bytes_);
    const int64_t size = n_ * n_;
    for (int64_t task = begin; task < end; ++task) {
      std::copy_n(static_cast<const T*>(args.buffers[0]) + task * size, size, matrix);
      auto* const out = static_cast<T*>(args.buffers[1]);
      if (inverse_) {
        invert(matrix, n_, pivots);
        for (int64_t i = 0; i < size; ++i) out[task * size + i] = static_cast<T>(matrix[i]);
      } else {
        out[task] = static_cast<T>(determinant(matrix, n_));
      }
    }
  }

  bool double_, inverse_;
  int64_t n_, matrix_bytes_ = 0;
};

Verdict supports(const StepSpec& spec) {
  const DType type = spec.inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return dense_of(spec, type, type);
}

}  // namespace

void add_det(Rows& rows) {
  rows.push_back({"xc.det", "Det", supports, create_bound_by<MatrixBound>});
  rows.push_back({"xc.det", "com.microsoft::Inverse", supports, create_bound_by<MatrixBound>});
}

}  // namespace xc::cpu
