// ArgMax and ArgMin: index of the best element along an axis; ties go to the first, or with
// select_last_index to the last. NaN is better than any number, as in numpy.

#include "ops/support.h"

namespace xc {

namespace {

void infer_arg(InferContext& c) {
  check_dtype(c, 0, kNumbers);
  const SymDims& in = c.dims(0);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), in.size());
  if (in[axis] == Dim(0)) c.error("axis {} has no elements", axis);
  SymDims out = in;
  if (c.attrs().get_int("keepdims", 1) != 0)
    out[axis] = 1;
  else
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  c.set(0, DType::kI64, std::move(out));
}

template <bool kMax>
void reference_arg(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), x.dims.size());
  const bool keep = c.attrs().get_int("keepdims", 1) != 0;
  const bool last = c.attrs().get_int("select_last_index", 0) != 0;
  if (x.dims[axis] == 0) fail(Status::kRange, "axis {} has no elements", axis);
  Dims dims, in, out;
  for (size_t i = 0, k = 0; i < x.dims.size(); ++i) {
    if (i != axis) {
      dims.push_back(x.dims[i]);
      in.push_back(x.strides[i]);
      out.push_back(y.strides[k]);
    }
    if (i != axis || keep) ++k;
  }
  dispatch_number(x.dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    const auto better = [&](V a, V b) {  // a, which comes later, replaces b
      if (b != b) return last && a != a;
      if (a != a) return true;
      return (kMax ? a > b : a < b) || (last && a == b);
    };
    for_each_offset<2>(dims, {in, out}, [&](const auto& at) {
      int64_t best = 0;
      V value = static_cast<V>(x.as<T>()[at[0]]);
      for (int64_t i = 1; i < x.dims[axis]; ++i) {
        const V v = static_cast<V>(x.as<T>()[at[0] + i * x.strides[axis]]);
        if (better(v, value)) best = i, value = v;
      }
      y.as<int64_t>()[at[1]] = best;
    });
  });
}

}  // namespace

void register_arg_reduce(OpList& ops) {
  const auto add = [&](std::string_view name, ReferenceFn reference) {
    ops.push_back({.name = name,
                   .attrs = {{"axis", AttrKind::kInt},
                             {"keepdims", AttrKind::kInt, false, 0, 1},
                             {"select_last_index", AttrKind::kInt, false, 0, 1}},
                   .infer = infer_arg,
                   .reference = reference});
  };
  add("ArgMax", reference_arg<true>);
  add("ArgMin", reference_arg<false>);
}

}  // namespace xc
