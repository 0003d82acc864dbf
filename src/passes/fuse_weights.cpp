#include "ir/patch.h"
#include "ops/infer.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rounded_blocks.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Constant weights behind a DequantizeLinear, as xc::DequantizedMatMul wants them.
struct Weights {
  Tensor w, scale, zero;  ///< [k, n], [blocks, n]; zero undefined: none
  int64_t block = 0;
};

/// A tensor of 1 element, or of one per line of `axis`, as [rows, columns]: strides of 0 repeat.
Tensor spread(const Tensor& t, size_t axis, int64_t rows, int64_t columns) {
  const int64_t stride = t.count() == 1 ? 0 : t.strides().empty() ? 0 : t.strides()[0];
  return Tensor(t.buffer(), t.byte_offset(), t.dtype(), {rows, columns},
                {axis == 0 ? stride : 0, axis == 1 ? stride : 0})
      .to_contiguous();
}

/// `transposed`: the product reads them as [n, k].
std::optional<Weights> weights_at(const Graph& graph, ValueId value, bool transposed) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNone) return std::nullopt;
  const Node& node = graph.node(producer);
  if (!node.op->domain.empty()) return std::nullopt;
  if (node.op->name == "Transpose") {
    const auto perm = node.attrs.get_ints("perm");
    if (!perm.empty() && perm != std::vector<int64_t>{1, 0}) return std::nullopt;
    return weights_at(graph, node.inputs[0], !transposed);
  }
  if (node.op->name != "DequantizeLinear" || graph.value(value).type.dtype != DType::kF32)
    return std::nullopt;
  Weights out;
  out.w = graph.value(node.inputs[0]).constant;
  out.scale = graph.value(node.inputs[1]).constant;
  const bool has_zero = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (has_zero) out.zero = graph.value(node.inputs[2]).constant;
  constexpr TypeSet kSmall =
      type_set({DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2, DType::kU2});
  if (!out.w || !out.scale || (has_zero && !out.zero) || out.w.rank() != 2 || out.w.count() == 0 ||
      !contains(kSmall, out.w.dtype()) || out.scale.dtype() != DType::kF32)
    return std::nullopt;
  const size_t contracted = transposed ? 1 : 0;
  const auto axis = normalise_axis(node.attrs.get_int("axis", 1), 2);
  out.block = node.attrs.get_int("block_size", 0);
  if (out.block == 0) {
    // One scale for all or per column is one block. (Per row, there would be as many as weights.)
    if (out.scale.count() > 1 && axis == contracted) return std::nullopt;
    out.block = out.w.dims()[contracted];
    Dims lines = out.w.dims();
    lines[contracted] = 1;
    out.scale = spread(out.scale, axis, lines[0], lines[1]);
    if (out.zero) out.zero = spread(out.zero, axis, lines[0], lines[1]);
  } else if (axis != contracted) {
    return std::nullopt;
  }
  if (transposed) {
    // Kernels pack them and look at them no more.
    out.w = turned_on_demand(out.w);
    out.scale = turned_on_demand(out.scale);
    if (out.zero) out.zero = turned_on_demand(out.zero);
  }
  return out;
}

}  // namespace

bool fuse_weights(Graph& graph, PassContext& context) {
  if (!context.options.tolerant) return false;
  Patch patch(graph, "fuse-weights");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool gemm = is_op(node, "Gemm");
    if (!gemm && !is_op(node, "MatMul")) continue;
    if (graph.value(node.inputs[0]).type.dtype != DType::kF32) continue;
    const bool added = gemm && node.inputs.size() > 2 && node.inputs[2] != kNone;
    if (gemm && (node.attrs.get_int("transA", 0) != 0 || node.attrs.get_float("alpha", 1) != 1 ||
                 (added && node.attrs.get_float("beta", 1) != 1)))
      continue;
    const auto weights =
        weights_at(graph, node.inputs[1], gemm && node.attrs.get_int("transB", 0) != 0);
    if (!weights) continue;
    Node product{.op = &get_op("DequantizedMatMul", "xc"), .name = node.name};
    product.attrs.set("block_size", weights->block);
    if (node.attrs.get_int(kLeftInBytes.name, 0) != 0 &&
        rounds_beside(weights->w.dims()[0], weights->block, weights->scale))
      product.attrs.set(std::string(kLeftInBytes.name), int64_t{1});
    const std::string& stem = graph.value(node.inputs[1]).name;
    product.inputs = {node.inputs[0], patch.add_constant(stem, weights->w),
                      patch.add_constant(stem + ".scale", weights->scale)};
    if (weights->zero) product.inputs.push_back(patch.add_constant(stem + ".zero", weights->zero));
    ValueId now = add_typed(graph, patch, std::move(product), 1)[0];
    if (added) {
      Node add{.op = &get_op("Add"), .name = node.name};
      add.inputs = {now, node.inputs[2]};
      now = add_typed(graph, patch, std::move(add), 1)[0];
    }
    patch.replace(node.outputs[0], now);
    // A sum would broadcast the product to what is added, too.
    if (added && !sizes_are_proven(graph, node))
      patch.supersede(id);
    else
      patch.remove(id);
    context.count("fuse-weights");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
