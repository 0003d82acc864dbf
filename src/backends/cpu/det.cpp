// Det: "xc.det". One matrix a task, eliminated in f64 in scratch.

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"

namespace xc::cpu {
namespace {

/// By elimination with row pivots; destroys the n x n matrix.
double determinant(double* a, int64_t n) {
  double out = 1;
  for (int64_t k = 0; k < n; ++k) {
    double* from = a + k * n;
    int64_t pivot = k;
    double largest = std::fabs(from[k]);
    for (int64_t r = k + 1; r < n; ++r) {  // no branch: which is the largest, nothing foretells
      const double size = std::fabs(a[r * n + k]);
      pivot = size > largest ? r : pivot;
      largest = size > largest ? size : largest;
    }
    if (largest == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(from + k, from + n, a + pivot * n + k);
      out = -out;
    }
    out *= from[k];
    const double inverse = 1 / from[k];
    for (int64_t r = k + 1; r < n; ++r) {
      double* __restrict row = a + r * n;
      const double factor = row[k] * inverse;
      for (int64_t j = k + 1; j < n; ++j) row[j] -= factor * from[j];
    }
  }
  return out;
}

class DetBound final : public BoundKernel {
 public:
  DetBound(const StepSpec& spec, const BindContext& context)
      : double_(spec.inputs[0].dtype == DType::kF64), n_(context.inputs[0].dims.back()) {
    tasks = element_count(context.outputs[0].dims);
    scratch_bytes = checked_mul(checked_mul(n_, n_), sizeof(double));
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    double_ ? run_as<double>(args, begin, end) : run_as<float>(args, begin, end);
  }

 private:
  template <class T>
  void run_as(const StepArgs& args, int64_t begin, int64_t end) const {
    auto* matrix = static_cast<double*>(args.scratch);
    for (int64_t task = begin; task < end; ++task) {
      std::copy_n(static_cast<const T*>(args.buffers[0]) + task * n_ * n_, n_ * n_, matrix);
      static_cast<T*>(args.buffers[1])[task] = static_cast<T>(determinant(matrix, n_));
    }
  }

  bool double_;
  int64_t n_;
};

Verdict supports(const StepSpec& spec) {
  const DType type = spec.inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return dense_of(spec, type, type);
}

}  // namespace

void add_det(Rows& rows) {
  rows.push_back({"xc.det", "Det", supports, create_bound_by<DetBound>});
}

}  // namespace xc::cpu
