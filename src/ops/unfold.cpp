// xc::Unfold: elements of one axis at even distances, as new axes in its place: element
// (i, j, ...) is element first + i * steps[0] + j * steps[1] + ... of it. Windows that slide
// (im2col, the frames of a signal) overlap in the result, which is a view: they take no memory.

#include "ops/checks.h"
#include "ops/support.h"

namespace xc {
namespace {

struct Windows {
  size_t axis;
  int64_t first;
  Dims sizes, steps;

  Windows(const Attrs& attrs, size_t rank)
      : axis(normalise_axis(attrs.get_int("axis", 0), rank)),
        first(attrs.get_int("first", 0)),
        sizes(attrs.get_ints("sizes")),
        steps(attrs.get_ints("steps")) {
    if (sizes.size() != steps.size())
      fail(Status::kInvalidModel, "attribute sizes has {} numbers, steps {}", sizes.size(),
           steps.size());
  }

  /// Whether all that is picked lies within an axis of `size` elements.
  bool within(int64_t size) const {
    int64_t low = first, high = first;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) return true;
      int64_t reach = 0;
      if (__builtin_mul_overflow(sizes[i] - 1, steps[i], &reach)) return false;
      int64_t& end = reach < 0 ? low : high;
      if (__builtin_add_overflow(end, reach, &end)) return false;
    }
    return low >= 0 && high < size;
  }

  /// `values` of the input's axes with `own` in place of the one that is unfolded.
  template <class T, class U>
  std::vector<T> in_place(const std::vector<T>& values, const std::vector<U>& own) const {
    std::vector<T> out(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(axis));
    for (const U& value : own) out.push_back(T(value));
    out.insert(out.end(), values.begin() + static_cast<std::ptrdiff_t>(axis) + 1, values.end());
    return out;
  }
};

void infer(InferContext& ctx) {
  const DType type = check_dtype(ctx, 0, kAnyType);
  const SymDims& in = ctx.dims(0);
  const Windows windows(ctx.attrs(), in.size());
  const Dim& dim = in[windows.axis];
  if (dim.is_constant() && !windows.within(dim.value()))
    ctx.error("by attributes first, sizes and steps windows leave axis {}, which has {} elements",
              windows.axis, dim.value());
  ctx.set(0, type, windows.in_place(in, windows.sizes));
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[0], &y = ctx.outputs[0];
  const Windows windows(ctx.attrs(), x.dims.size());
  if (!windows.within(x.dims[windows.axis]))
    fail(Status::kRange, "windows leave axis {}, which has {} elements", windows.axis,
         x.dims[windows.axis]);
  const int64_t stride = x.strides[windows.axis];
  Dims own;
  for (int64_t step : windows.steps) own.push_back(step * stride);
  const Dims strides = windows.in_place(Dims(x.strides.begin(), x.strides.end()), own);
  if (element_count(y.dims) > 0)
    copy_elements(restrided(x, y.dims, strides, windows.first * stride), y);
}

bool view(ViewContext& c) {
  const Windows windows(c.node->attrs, c.dims.size());
  const Dim& dim = c.dims[windows.axis];
  if (!dim.is_constant() || !windows.within(dim.value())) return false;
  const Dim& stride = c.strides[windows.axis];
  SymDims own;
  for (int64_t step : windows.steps) own.push_back(Dim(step) * stride);
  ViewContext::Out& out = c.outputs[0];
  out.strides = windows.in_place(c.strides, own);
  out.offset = Dim(windows.first) * stride;
  return true;
}

}  // namespace

void register_unfold(OpList& ops) {
  ops.push_back({.name = "Unfold",
                 .domain = "xc",
                 .attrs = {{"axis", AttrKind::kInt},
                           {"first", AttrKind::kInt, false, 0},
                           {"sizes", AttrKind::kInts, true, 0},
                           {"steps", AttrKind::kInts, true}},
                 .infer = infer,
                 .reference = reference,
                 .view = view,
                 .weight = 0});
}

}  // namespace xc
