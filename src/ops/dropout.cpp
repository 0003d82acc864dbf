// Dropout: in inference the data unchanged and a mask of true; in training elements drawn by chance
// are 0 and the others scaled. BitCast: the same bits as another type.

#include "ops/checks.h"
#include "ops/random.h"
#include "ops/support.h"

namespace xc {

namespace {

void infer_dropout(InferContext& c) {
  check_dtype(c, 0, kFloats | kFloat8s);
  check_dtype(c, 1, kFloats | kFloat8s);
  check_dtype(c, 2, kBools);
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i)) require_scalar(c, i);
  infer_same(c);
  c.set(1, DType::kBool, c.dims(0));
}

/// The chance of an element to be dropped: 0 outside of training.
double drop_ratio(const ReferenceContext& c) {
  if (!c.has(2) || scalar_int(c.inputs[2]) == 0) return 0;
  const double ratio = c.has(1) ? scalar_value(c.inputs[1]) : 0.5;
  if (!(ratio >= 0 && ratio < 1)) fail(Status::kRange, "a dropout ratio of {}", ratio);
  return ratio;
}

void reference_dropout(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const bool masked = c.outputs.size() > 1 && c.outputs[1];
  const double ratio = drop_ratio(c), scale = 1 / (1 - ratio);
  RandomSource source = RandomSource::of(c.attrs());
  const Dims none(x.dims.size(), 0);
  const std::span<const int64_t> y_strides = y ? y.strides : std::span<const int64_t>(none);
  const std::span<const int64_t> mask_strides =
      masked ? c.outputs[1].strides : std::span<const int64_t>(none);
  for_each_offset<3>(x.dims, {x.strides, y_strides, mask_strides}, [&](const auto& at) {
    const bool keep = ratio == 0 || source.uniform() >= ratio;
    if (y)
      store_double(y.data, y.dtype, at[1], keep ? load_double(x.data, x.dtype, at[0]) * scale : 0);
    if (masked) c.outputs[1].as<bool>()[at[2]] = keep;
  });
}

std::vector<ValueId> expand_dropout(const Graph&, const Node& node, Patch& patch) {
  if (node.inputs.size() > 2 && node.inputs[2] != kNone) return {};
  if (node.outputs.size() > 1 && node.outputs[1] != kNone) return {};
  return patch.add_node(get_op("Identity"), {node.inputs[0]}, 1);
}

void infer_bit_cast(InferContext& c) {
  check_dtype(c, 0, kAnyType & ~type_set({DType::kString}));
  const DType to = dtype_attr(c.attrs().get_int("to", 0));
  if (info(to).bits != info(c.dtype(0)).bits || to == DType::kString)
    c.error("{} and {} differ in width", name(c.dtype(0)), name(to));
  c.set(0, to, c.dims(0));
}

void reference_bit_cast(const ReferenceContext& c) {
  TensorView x = c.inputs[0];
  const TensorView& y = c.outputs[0];
  x.dtype = y.dtype;
  copy_elements(x, y);
  const unsigned bits = info(y.dtype).bits;
  if (bits == 0 || bits >= 8) return;
  // A narrow element is a byte; signed integers fill its upper bits with their sign.
  const auto mask = static_cast<uint8_t>((1u << bits) - 1),
             sign = static_cast<uint8_t>(1u << (bits - 1));
  const bool fill = y.dtype == DType::kI4 || y.dtype == DType::kI2;
  for_each_offset<1>(y.dims, {y.strides}, [&](const auto& at) {
    auto& byte = reinterpret_cast<uint8_t*>(y.data)[at[0]];
    byte &= mask;
    if (fill && (byte & sign)) byte |= static_cast<uint8_t>(~mask);
  });
}

loop::Expr scalar_bit_cast(const Node& node, std::span<const loop::Expr> a, DType to) {
  const DType from = a[0].type(), stored = dtype_attr(node.attrs.get_int("to", 0));
  if (stored == DType::kF16 || stored == DType::kBF16) return {};  // made of the f32 in registers
  if (!loop::is_value_type(to) || !loop::is_value_type(from)) return {};
  if (from == DType::kBool || to == DType::kBool) return {};  // i1 in registers
  if (element_size(to) != element_size(from)) return {};      // f16 is f32 in registers
  return bitcast(to, a[0]);
}

}  // namespace

void register_dropout(OpList& ops) {
  ops.push_back({.name = "Dropout",
                 .min_inputs = 1,
                 .max_inputs = 3,
                 .max_outputs = 2,
                 .attrs = {{"seed", AttrKind::kInt}},
                 .infer = infer_dropout,
                 .reference = reference_dropout,
                 .expand = expand_dropout,
                 .weight = 0,
                 .random = true});
  ops.push_back({.name = "BitCast",
                 .attrs = {dtype_spec("to", true)},
                 .infer = infer_bit_cast,
                 .reference = reference_bit_cast,
                 .scalar = scalar_bit_cast});
}

}  // namespace xc
