#include "formats/onnx/flex_attention.h"

#include <cmath>

#include "formats/onnx/types.h"

namespace xc::onnx {
namespace {

Attrs slice_of_shape(int64_t axis) {
  Attrs out = with("start", axis);
  out.set("end", axis + 1);
  return out;
}

ValueId dim(Draft& d, ValueId x, int64_t axis) {
  return d.emit("Shape", {x}, slice_of_shape(axis));
}

/// Each of the heads of K or V once for every query head of its group: [b, kv, s, e] to [b, q, s,
/// e].
ValueId repeat_heads(Draft& d, ValueId x, ValueId q) {
  const Type &have = d.hints.of(x), &want = d.hints.of(q);
  if (have.dims && want.dims && have.dims->size() == 4 && want.dims->size() == 4 &&
      (*have.dims)[1] == (*want.dims)[1])
    return x;
  const Attrs first = with("axis", int64_t{0});
  const ValueId batch = dim(d, x, 0), heads = dim(d, x, 1), rest = dim(d, x, 2),
                size = dim(d, x, 3);
  const ValueId all = dim(d, q, 1);
  const ValueId group = d.emit("Div", {all, heads});
  const ValueId column = d.emit("Unsqueeze", {x, d.ints({2})});
  const ValueId repeated =
      d.emit("Expand", {column, d.emit("Concat", {batch, heads, group, rest, size}, first)});
  return d.emit("Reshape", {repeated, d.emit("Concat", {batch, all, rest, size}, first)});
}

/// The square root of the scale, in the type of q: both factors of the product are scaled.
ValueId root_of_scale(Draft& d, ValueId q) {
  const bool given = d.attrs.has("scale");
  const double scale = d.take_float("scale", 1);
  const Type& type = d.hints.of(q);
  if (given) return d.scalar_like(std::sqrt(static_cast<float>(scale)), q);
  if (type.dims && type.dims->size() == 4 && (*type.dims)[3].is_constant()) {
    const auto size = static_cast<float>((*type.dims)[3].value());
    return d.scalar_like(std::sqrt(1.0f / std::sqrt(size)), q);
  }
  const ValueId size = d.emit("Cast", {dim(d, q, 3)}, with("to", onnx_number(DType::kF32)));
  const ValueId root = d.emit("Sqrt", {d.emit("Reciprocal", {d.emit("Sqrt", {size})})});
  return d.emit("CastLike", {root, q});
}

}  // namespace

void expand_flex_attention(Draft& d, const ModifierFn& score_mod, const ModifierFn& prob_mod) {
  const ValueId q = d.input(0);
  const DType dtype = d.hints.dtype(q);
  if (dtype == DType::kUndefined) d.unsupported("the type of Q is not known");
  const DType precision = dtype_from_onnx(d.take_int(
      "softmax_precision", onnx_number(dtype == DType::kF64 ? DType::kF64 : DType::kF32)));
  const auto cast = [&](ValueId x, DType from, DType to) {
    return from == to ? x : d.emit("Cast", {x}, with("to", onnx_number(to)));
  };
  const ValueId k = repeat_heads(d, d.input(1), q), v = repeat_heads(d, d.input(2), q);
  const ValueId root = root_of_scale(d, q);
  const ValueId transposed = d.emit("Transpose", {d.emit("Mul", {k, root})},
                                    with("perm", std::vector<int64_t>{0, 1, 3, 2}));
  ValueId scores = d.emit("MatMul", {d.emit("Mul", {q, root}), transposed});
  scores = cast(scores, dtype, precision);
  if (score_mod) scores = score_mod(scores);
  ValueId probabilities = d.emit("Softmax", {scores}, with("axis", int64_t{-1}));
  if (prob_mod) probabilities = prob_mod(probabilities);
  if (dtype == precision) return d.finish("MatMul", {probabilities, v}, {}, d.outputs);
  const ValueId y = d.emit("MatMul", {probabilities, cast(v, dtype, precision)});
  d.finish("Cast", {y}, with("to", onnx_number(dtype)), d.outputs);
}

}  // namespace xc::onnx
