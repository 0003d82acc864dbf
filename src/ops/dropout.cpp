// Dropout in inference: the data unchanged, a mask of true. BitCast: the same bits as another type.

#include "ops/support.h"

namespace xc {

namespace {

void infer_dropout(InferContext& c) {
  check_dtype(c, 0, kFloats);
  check_dtype(c, 2, kBools);
  if (c.has(2)) {
    const auto training = c.ints(2);
    const Tensor* ratio = c.has(1) ? c.inputs[1].value : nullptr;
    const bool keeps_all = ratio && *ratio && ratio->count() == 1 && ratio->to_doubles()[0] == 0;
    if ((!training || training->front() != 0) && !keeps_all)
      fail(Status::kUnsupported, "unsupported: Dropout in training mode");
  }
  infer_same(c);
  c.set(1, DType::kBool, c.dims(0));
}

void reference_dropout(const ReferenceContext& c) {
  if (c.outputs[0]) copy_elements(c.inputs[0], c.outputs[0]);
  if (c.outputs.size() < 2 || !c.outputs[1]) return;
  for_each_offset<1>(c.outputs[1].dims, {c.outputs[1].strides},
                     [&](const auto& at) { c.outputs[1].as<bool>()[at[0]] = true; });
}

std::vector<ValueId> expand_dropout(const Graph&, const Node& node, Patch& patch) {
  if (node.outputs.size() > 1 && node.outputs[1] != kNone) return {};
  return patch.add_node(get_op("Identity"), {node.inputs[0]}, 1);
}

void infer_bit_cast(InferContext& c) {
  const DType to = dtype_attr(c.attrs().get_int("to", 0));
  if (info(to).bits != info(c.dtype(0)).bits || to == DType::kString)
    c.error("{} and {} differ in width", name(c.dtype(0)), name(to));
  c.set(0, to, c.dims(0));
}

void reference_bit_cast(const ReferenceContext& c) {
  TensorView x = c.inputs[0];
  x.dtype = c.outputs[0].dtype;
  copy_elements(x, c.outputs[0]);
}

loop::Expr scalar_bit_cast(const Node&, std::span<const loop::Expr> a, DType to) {
  const DType from = a[0].type();
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
                 .weight = 0});
  ops.push_back({.name = "BitCast",
                 .attrs = {{"to", AttrKind::kInt, true}},
                 .infer = infer_bit_cast,
                 .reference = reference_bit_cast,
                 .scalar = scalar_bit_cast});
}

}  // namespace xc
