// TopK: the largest or smallest k elements along an axis, in order; among equals the lower index
// comes first. NaN counts as larger than every number.

#include <algorithm>
#include <numeric>

#include "ops/checks.h"

namespace xc {

namespace {

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kNumbers);
  check_dtype(ctx, 1, type_set({DType::kI64}));
  SymDims out = ctx.dims(0);
  const size_t axis = normalise_axis(ctx.attrs().get_int("axis", -1), out.size());
  require_scalar(ctx, 1);
  const auto k = ctx.elements(1);
  if (!k || k->size() != 1) {
    out[axis] = ctx.fresh("k");
  } else {
    const Dim &wanted = k->front(), spare = out[axis] - wanted;
    if (const auto most = wanted.upper_bound(); most && *most < 0) ctx.error("k is {}", *most);
    if (const auto most = spare.upper_bound(); most && *most < 0)
      ctx.error("k is {}, axis {} has {} elements", wanted.text(), axis, out[axis].text());
    out[axis] = wanted;
  }
  ctx.set(0, ctx.dtype(0), out);
  ctx.set(1, DType::kI64, std::move(out));
}

/// Strict order of elements; NaN is the largest.
template <class T>
bool below(const T& a, const T& b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return x < y || (std::isnan(y) && !std::isnan(x));
  }
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[0], &shaped = ctx.outputs[0] ? ctx.outputs[0] : ctx.outputs[1];
  const size_t axis = normalise_axis(ctx.attrs().get_int("axis", -1), x.dims.size());
  const bool largest = ctx.attrs().get_int("largest", 1) != 0;
  const int64_t k = shaped.dims[axis];
  if (k > x.dims[axis]) fail(Status::kRange, "k is {} of {} elements", k, x.dims[axis]);
  Dims lines(x.dims.begin(), x.dims.end());
  lines[axis] = 1;
  std::vector<int64_t> order(static_cast<size_t>(x.dims[axis]));
  dispatch_number(x.dtype, [&]<class T>() {
    for_each_coordinate(lines, [&](std::span<const int64_t> at) {
      const T* line = x.as<T>() + offset_of(at, x.strides);
      const auto element = [&](int64_t i) -> const T& { return line[i * x.strides[axis]]; };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return largest ? below(element(b), element(a)) : below(element(a), element(b));
      });
      for (int64_t i = 0; i < k; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        const auto place = [&](const TensorView& to) {
          return offset_of(at, to.strides) + i * to.strides[axis];
        };
        if (ctx.outputs[0]) ctx.outputs[0].template as<T>()[place(ctx.outputs[0])] = element(from);
        if (ctx.outputs.size() > 1 && ctx.outputs[1])
          ctx.outputs[1].template as<int64_t>()[place(ctx.outputs[1])] = from;
      }
    });
  });
}

}  // namespace

void register_top_k(OpList& ops) {
  OpDef op;
  op.name = "TopK";
  op.min_inputs = op.max_inputs = 2;
  op.min_outputs = 1;
  op.max_outputs = 2;
  op.attrs = {{"axis", AttrKind::kInt},
              {"largest", AttrKind::kInt, false, 0, 1},
              {"sorted", AttrKind::kInt, false, 0, 1}};
  op.infer = infer;
  op.reference = reference;
  op.weight = 8;
  op.tolerance = Tolerance::kExact;
  ops.push_back(std::move(op));
}

}  // namespace xc
