// CumSum and CumProd along an axis given as an input.

#include "ops/support.h"

namespace xc {

namespace {

void infer_cumulative(InferContext& c) {
  check_dtype(c, 0, kNumbers);
  check_dtype(c, 1, kIndices);
  if (const auto axis = c.ints(1)) {
    if (axis->size() != 1) c.error("the axis has {} elements", axis->size());
    normalise_axis(axis->front(), c.rank(0));
  }
  infer_same(c);
}

template <bool kSum>
void reference_cumulative(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const size_t axis = normalise_axis(scalar_int(c.inputs[1]), x.dims.size());
  const bool exclusive = c.attrs().get_int("exclusive", 0) != 0;
  const bool reverse = c.attrs().get_int("reverse", 0) != 0;
  Dims outer(x.dims.begin(), x.dims.end());
  const int64_t n = outer[axis];
  outer[axis] = n == 0 ? 0 : 1;
  dispatch_number(x.dtype, [&]<class T>() {
    // Unsigned arithmetic for the integers: overflow wraps.
    using V = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    for_each_offset<2>(outer, {x.strides, y.strides}, [&](const auto& at) {
      V acc = kSum ? 0 : 1;
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = reverse ? n - 1 - k : k;
        const auto v = static_cast<V>(x.as<T>()[at[0] + i * x.strides[axis]]);
        const V with = kSum ? acc + v : acc * v;
        y.as<T>()[at[1] + i * y.strides[axis]] = static_cast<T>(exclusive ? acc : with);
        acc = with;
      }
    });
  });
}

}  // namespace

void register_cumulative(OpList& ops) {
  const auto add = [&](std::string_view name, ReferenceFn reference) {
    ops.push_back({.name = name,
                   .min_inputs = 2,
                   .max_inputs = 2,
                   .attrs = {{"exclusive", AttrKind::kInt, false, 0, 1},
                             {"reverse", AttrKind::kInt, false, 0, 1}},
                   .infer = infer_cumulative,
                   .reference = reference,
                   .tolerance = Tolerance::kReduction});
  };
  add("CumSum", reference_cumulative<true>);
  add("CumProd", reference_cumulative<false>);
}

}  // namespace xc
