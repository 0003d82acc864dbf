// Tensors made from sizes: Shape, Size, ConstantOfShape, EyeLike, Range, Trilu, AffineGrid
// ("xc.fill").

#include <algorithm>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/affine_grid.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

void shape(const SimpleContext& c) {
  const auto rank = static_cast<int64_t>(c.in(0).dims.size());
  const int64_t start = c.spec.attrs().get_int("start", 0);
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  for (int64_t i = 0; i < c.out().dims[0]; ++i)
    c.output<int64_t>()[i * c.out().strides[0]] = c.in(0).dims[static_cast<size_t>(first + i)];
}

void size(const SimpleContext& c) {
  *c.output<int64_t>() = c.in(0).count();
}

struct OneValue {
  OneValue(const StepSpec& spec, const OperandViews& views)
      : value(spec.attrs().get_tensor("value")) {
    const OperandView& y = views.outputs[0];
    if (!value) value = zero_of(y.dtype);
    copies = CopyPlan(y.dims, Dims(y.dims.size(), 0), y.strides, element_size(y.dtype));
  }
  static Tensor zero_of(DType type) {
    Tensor zero(type, {});
    store_int64(zero.data(), type, 0, 0);
    return zero;
  }
  Tensor value;
  CopyPlan copies;
};
void constant_of_shape(const SimpleContext& c, const OneValue& plan) {
  plan.copies.run(plan.value.data(), c.output<void>());
}

void eye_like(const SimpleContext& c, const OneValue& zero) {
  zero.copies.run(zero.value.data(), c.output<void>());
  const OperandView& y = c.out();
  const int64_t k = c.spec.attrs().get_int("k", 0), rows = y.dims[0], columns = y.dims[1];
  if (k <= -rows || k >= columns) return;  // it may be any number: k + row would leave the range
  const int64_t first = std::max<int64_t>(0, -k), end = std::min(rows, columns - k);
  dispatch_storage(y.dtype, [&]<class T>() {
    T one{};
    store_int64(&one, y.dtype, 0, 1);
    for (int64_t row = first; row < end; ++row)
      c.output<T>()[row * y.strides[0] + (row + k) * y.strides[1]] = one;
  });
}

void range(const SimpleContext& c) {
  const OperandView& y = c.out();
  const int64_t n = y.count(), step = y.strides[0];
  dispatch_number(y.dtype, [&]<class T>() {
    T* const to = c.output<T>();
    if constexpr (std::is_integral_v<T>) {
      const auto start = static_cast<uint64_t>(scalar_int(c.input_view(0)));
      const auto delta = static_cast<uint64_t>(scalar_int(c.input_view(2)));
      for (int64_t i = 0; i < n; ++i)
        to[i * step] = static_cast<T>(start + static_cast<uint64_t>(i) * delta);
    } else {
      const double start = scalar_value(c.input_view(0)), delta = scalar_value(c.input_view(2));
      for (int64_t i = 0; i < n; ++i)
        to[i * step] = static_cast<T>(start + static_cast<double>(i) * delta);
    }
  });
}

void trilu(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const int64_t k = c.has(1) ? scalar_int(c.input_view(1)) : 0;
  const bool upper = c.spec.attrs().get_int("upper", 1) != 0;
  const size_t rank = x.dims.size();
  const int64_t rows = x.dims[rank - 2], cols = x.dims[rank - 1];
  const auto outer = std::span(x.dims).first(rank - 2);
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_offset<2>(
        outer, {std::span(x.strides).first(rank - 2), std::span(y.strides).first(rank - 2)},
        [&](const auto& at) {
          for (int64_t r = 0; r < rows; ++r) {
            // First column that is kept (upper) or not (lower); k may be any number.
            const int64_t edge = std::clamp<int64_t>(k > cols    ? cols + 1
                                                     : k < -rows ? -1
                                                                 : r + k + (upper ? 0 : 1),
                                                     0, cols);
            const T* from = c.input<T>(0) + at[0] + r * x.strides[rank - 2];
            T* to = c.output<T>() + at[1] + r * y.strides[rank - 2];
            const int64_t first = upper ? edge : 0, last = upper ? cols : edge;  // kept
            if (x.strides[rank - 1] == 1 && y.strides[rank - 1] == 1) {
              std::fill(to, to + first, T{});
              std::copy(from + first, from + last, to + first);
              std::fill(to + last, to + cols, T{});
              continue;
            }
            for (int64_t j = 0; j < cols; ++j)
              to[j * y.strides[rank - 1]] =
                  j >= first && j < last ? from[j * x.strides[rank - 1]] : T{};
          }
        });
  });
}

int64_t grid_rows(std::span<const int64_t> y) {
  return product(y, 0, y.size() - 2);
}
/// One at least, which compares the sizes.
int64_t affine_tasks(const StepSpec&, const OperandViews& views) {
  return std::max<int64_t>(1, grid_rows(views.outputs[0].dims));
}

/// Points of a grid [N, (D,) H, W, axes] under maps [N, axes, axes + 1]; a row along W has all but
/// the first coordinate in common.
void affine_grid(const SimpleContext& c) {
  const OperandView& y = c.out();
  const int64_t maps = c.in(0).dims[0], grids = *c.input<int64_t>(1);
  if (maps != grids || maps != y.dims[0])
    fail(Status::kRange, "theta has {} maps, size asks for {} grids", maps, grids);
  const size_t axes = y.dims.size() - 2;
  const bool align_corners = c.spec.attrs().get_int("align_corners", 0) != 0;
  const auto n = static_cast<int64_t>(axes), width = y.dims[axes], height = y.dims[axes - 1],
             depth = axes == 3 ? y.dims[1] : 1;
  const double first = grid_point(0, width, align_corners),
               apart = width > 1 ? grid_point(1, width, align_corners) - first : 0;
  for (int64_t row = c.begin; row < std::min(c.end, grid_rows(y.dims)); ++row) {
    const float* theta = c.input<float>(0) + row / (depth * height) * n * (n + 1);
    const double down = grid_point(row % height, height, align_corners),
                 in = axes == 3 ? grid_point(row / height % depth, depth, align_corners) : 0;
    double step[3], start[3];
    for (int64_t k = 0; k < n; ++k) {
      const float* of = theta + k * (n + 1);
      step[k] = of[0];
      start[k] = of[n] + of[1] * down + (n == 3 ? of[2] * in : 0);
    }
    float* to = c.output<float>() + row * width * n;
    for (int64_t i = 0; i < width; ++i) {
      const double across = first + static_cast<double>(i) * apart;
      for (int64_t k = 0; k < n; ++k) *to++ = static_cast<float>(start[k] + step[k] * across);
    }
  }
}
Verdict supports_affine(const StepSpec& spec) {
  return dense_of(spec, DType::kF32, DType::kI64);
}

}  // namespace

void add_fill(Rows& rows) {
  rows.push_back({"xc.fill", "Shape", no_strings, create_simple<shape>});
  rows.push_back({"xc.fill", "Size", no_strings, create_simple<size>});
  rows.push_back(
      {"xc.fill", "ConstantOfShape", no_strings, create_planned<OneValue, constant_of_shape>});
  rows.push_back({"xc.fill", "EyeLike", no_strings, create_planned<OneValue, eye_like>});
  rows.push_back({"xc.fill", "Range", no_strings, create_simple<range>});
  rows.push_back({"xc.fill", "Trilu", no_strings, create_simple<trilu>});
  rows.push_back(
      {"xc.fill", "AffineGrid", supports_affine, create_simple<affine_grid, affine_tasks>});
}

}  // namespace xc::cpu
