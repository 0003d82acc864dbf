// Trilu, GridSample, ExpandDims, LinearAttention and CausalConvWithState of com.microsoft:
// operators that the standard took over later, some under other names.

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"
#include "ops/registry.h"

namespace xc {

namespace {

// ---- Trilu --------------------------------------------------------------------------------------

void infer_trilu(InferContext& ctx) {
  check_dtype(ctx, 0, kNumbers);
  get_op("Trilu").infer(ctx);
}

std::vector<ValueId> expand_trilu(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return {e.add("Trilu", node.inputs, {{"upper", node.attrs.get_int("upper", 1)}})};
}

// ---- GridSample ---------------------------------------------------------------------------------

constexpr TypeSet kSampled = type_set({DType::kF32, DType::kF16, DType::kF64});

void infer_grid_sample(InferContext& ctx) {
  check_dtype(ctx, 0, kSampled);
  require_same_dtype(ctx, 1);
  require_rank(ctx, 0, 4);
  ctx.set(0, ctx.dtype(0),
          *microsoft::inferred_dims(ctx, "GridSample", {ctx.type(0), ctx.type(1)}));
}

std::vector<ValueId> expand_grid_sample(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  std::string mode = node.attrs.get_string("mode", "bilinear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return {e.add("GridSample", {e.in(0), e.in(1)},
                {{"align_corners", node.attrs.get_int("align_corners", 0)},
                 {"mode", std::move(mode)},
                 {"padding_mode", node.attrs.get_string("padding_mode", "zeros")}})};
}

// ---- ExpandDims ---------------------------------------------------------------------------------

void infer_expand_dims(InferContext& ctx) {
  check_dtype(ctx, 0, kNumbers | kBools | type_set({DType::kString}));
  check_dtype(ctx, 1, type_set({DType::kI32}));
  require_scalar(ctx, 1);
  SymDims out = ctx.dims(0);
  const auto axis = ctx.ints(1);
  if (!axis) return ctx.set(0, ctx.dtype(0), fresh_dims(ctx, out.size() + 1, "ExpandDims"));
  const size_t at = normalise_axis(axis->front(), out.size() + 1);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), Dim(1));
  ctx.set(0, ctx.dtype(0), std::move(out));
}

std::vector<ValueId> expand_expand_dims(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const ValueId axes = e.add("Reshape", {e.in(1), e.ints({1})});
  return {e.add("Unsqueeze", {e.in(0), e.cast(axes, DType::kI32, DType::kI64)})};
}

// ---- recurrences of decoders --------------------------------------------------------------------

constexpr TypeSet kDecoded = type_set({DType::kF32, DType::kF16, DType::kBF16});

void infer_linear_attention(InferContext& ctx) {
  check_dtype(ctx, 0, kDecoded);
  check_dtype(ctx, 3, kDecoded);
  microsoft::require_attr(ctx, "state_window", 0);
  get_op("LinearAttention").infer(ctx);
}

void infer_causal_conv(InferContext& ctx) {
  check_dtype(ctx, 0, kDecoded);
  for (const char* name : {"channels_last", "state_window"}) microsoft::require_attr(ctx, name, 0);
  for (const char* name : {"dilation", "ndim"}) microsoft::require_attr(ctx, name, 1);
  get_op("CausalConvWithState").infer(ctx);
}

/// The operator of the standard of this name, with the attributes that it has.
template <const char* Op>
std::vector<ValueId> expand_to(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  Expansion::AttrList attrs;
  for (const AttrSpec& spec : get_op(Op).attrs)
    if (const Attr* value = node.attrs.find(spec.name))
      attrs.emplace_back(std::string(spec.name), *value);
  return e.add(Op, node.inputs, static_cast<uint32_t>(node.outputs.size()), attrs);
}

constexpr char kLinearAttention[] = "LinearAttention", kCausalConv[] = "CausalConvWithState";

}  // namespace

void register_microsoft_tensors(OpList& ops) {
  using microsoft::choice, microsoft::op;
  ops.push_back(op("com.microsoft::Trilu", 1, 2, infer_trilu, expand_trilu,
                   {{"upper", AttrKind::kInt}}, Tolerance::kExact));
  ops.push_back(op("com.microsoft::GridSample", 2, 2, infer_grid_sample, expand_grid_sample,
                   {microsoft::flag("align_corners"), choice("mode", "bilinear|nearest|bicubic"),
                    choice("padding_mode", "zeros|border|reflection")},
                   Tolerance::kReduction));
  ops.push_back(op("com.microsoft::ExpandDims", 2, 2, infer_expand_dims, expand_expand_dims, {},
                   Tolerance::kExact));
  OpDef attention = op("com.microsoft::LinearAttention", 3, 6, infer_linear_attention,
                       expand_to<kLinearAttention>,
                       {{"chunk_size", AttrKind::kInt, false, 1, INT32_MAX},
                        {"kv_num_heads", AttrKind::kInt, true, 1, INT32_MAX},
                        {"q_num_heads", AttrKind::kInt, true, 1, INT32_MAX},
                        {"scale", AttrKind::kFloat},
                        {"state_window", AttrKind::kInt},
                        choice("update_rule", "linear|gated|delta|gated_delta")});
  OpDef conv =
      op("com.microsoft::CausalConvWithState", 2, 4, infer_causal_conv, expand_to<kCausalConv>,
         {choice("activation", "none|silu|swish"),
          {"channels_last", AttrKind::kInt},
          {"dilation", AttrKind::kInt},
          {"ndim", AttrKind::kInt},
          {"state_window", AttrKind::kInt}});
  for (OpDef* one : {&attention, &conv}) {
    one->min_outputs = one->max_outputs = 2;
    ops.push_back(std::move(*one));
  }
}

}  // namespace xc
