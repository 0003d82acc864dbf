// FusedMatMul (once TransposeMatMul), FusedGemm and FusedConv of com.microsoft: products with what
// onnxruntime's optimiser took into them, transpositions in front and activations behind; NhwcConv
// and NhwcFusedConv, whose images lie with their channels last; CDist, distances by a product.

#include <array>
#include <numeric>

#include "ops/checks.h"
#include "ops/convolve.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"
#include "ops/registry.h"
#include "ops/window.h"

namespace xc {

namespace {

// ---- FusedMatMul --------------------------------------------------------------------------------

/// How an operand is turned: `batch` moves axis 0 behind the batch axes 1 .. rank - 2, then `last`
/// exchanges the last two. Vectors stay as they are.
std::vector<int64_t> turned(const Node& node, char side, size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), int64_t{0});
  if (rank < 2) return perm;
  if (node.attrs.get_int(fmt::format("transBatch{}", side), 0) != 0)
    std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (node.attrs.get_int(fmt::format("trans{}", side), 0) != 0)
    std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

void infer_matmul_turned(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  std::array<Type, 2> types;
  InferContext inner;
  inner.node = ctx.node;
  for (size_t i : {0u, 1u}) {
    SymDims dims;
    for (int64_t axis : turned(*ctx.node, i == 0 ? 'A' : 'B', ctx.rank(i)))
      dims.push_back(ctx.dims(i)[static_cast<size_t>(axis)]);
    types[i] = Type::tensor(ctx.dtype(i), std::move(dims));
    inner.inputs.push_back({&types[i], nullptr, nullptr});
  }
  ctx.set(0, ctx.dtype(0), infer_matmul(inner, 0, 1));
}

std::vector<ValueId> expand_matmul(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(0) || !e.rank(1)) return {};
  const auto operand = [&](size_t i) {
    const auto perm = turned(node, i == 0 ? 'A' : 'B', static_cast<size_t>(*e.rank(i)));
    const bool as_it_is = std::is_sorted(perm.begin(), perm.end());
    return as_it_is ? e.in(i) : e.transposed(e.in(i), perm);
  };
  const double alpha = node.attrs.get_float("alpha", 1);
  if (alpha == 1) return {e.add("MatMul", {operand(0), operand(1)})};
  const ValueId y = e.product(e.cast(operand(0), e.dtype(0), e.working()),
                              e.cast(operand(1), e.dtype(0), e.working()));
  return {e.narrowed(e.add("Mul", {y, e.scalar(alpha)}))};
}

Dim flops_matmul(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  const auto& out = graph.value(node.outputs[0]).type.dims;
  if (!dims || !out || dims->empty()) return 0;
  const auto perm = turned(node, 'A', dims->size());
  return Dim(2) * element_count(*out) * (*dims)[static_cast<size_t>(perm.back())];
}

// ---- activations --------------------------------------------------------------------------------

/// An activation behind a product, and its parameters in order. Clip's are inputs in the standard.
struct Activation {
  std::string_view op;
  std::vector<std::string_view> parameters;
};
const Activation& activation_named(std::string_view name) {
  static const std::vector<Activation> kAll{
      {"Relu", {}},
      {"Tanh", {}},
      {"Sigmoid", {}},
      {"Softplus", {}},
      {"Softsign", {}},
      {"LeakyRelu", {"alpha"}},
      {"Elu", {"alpha"}},
      {"ThresholdedRelu", {"alpha"}},
      {"HardSigmoid", {"alpha", "beta"}},
      {"Selu", {"alpha", "gamma"}},
      {"Clip", {"min", "max"}},
  };
  for (const Activation& a : kAll)
    if (a.op == name) return a;
  fail(Status::kInternal, "activation '{}'", name);  // the schema lists those there are
}

ValueId activated(Expansion& e, ValueId x, const Activation& a, const std::vector<double>& values) {
  if (a.op == "Clip") return e.add("Clip", {x, e.scalar(values[0]), e.scalar(values[1])});
  Expansion::AttrList attrs;
  for (size_t i = 0; i < a.parameters.size(); ++i)
    attrs.emplace_back(std::string(a.parameters[i]), values[i]);
  return e.add(a.op, {x}, attrs);
}

// ---- FusedConv ----------------------------------------------------------------------------------

constexpr size_t kAddend = 3;
constexpr std::string_view kConvActivations = "Relu|Tanh|Sigmoid|LeakyRelu|Clip|HardSigmoid";

/// The addend and the activation's parameters.
void check_fused(const InferContext& ctx) {
  if (ctx.has(kAddend)) {
    require_same_dtype(ctx, kAddend);
    if (!ctx.outputs.empty() && ctx.outputs[0].dims)
      require_dims(ctx, kAddend, *ctx.outputs[0].dims);
  }
  const auto parameters = ctx.attrs().get_floats("activation_params");
  const std::string name = ctx.attrs().get_string("activation", "");
  const size_t wanted = name.empty() ? 0 : activation_named(name).parameters.size();
  if (parameters.size() != wanted)
    ctx.error("attribute 'activation_params' has {} entries, expected {}{}", parameters.size(),
              wanted, name.empty() ? " without an activation" : " for " + name);
}

void infer_conv(InferContext& ctx) {
  get_op("Conv").infer(ctx);
  check_fused(ctx);
}

/// How images and filters lie: with their channels behind the batch, or last.
enum class Layout : uint8_t { kFirst, kLast };

template <Layout kFilters>
void infer_conv_last(InferContext& ctx) {
  constexpr TypeSet kTypes = type_set({DType::kF32, DType::kF16});
  check_dtype(ctx, 0, kFilters == Layout::kLast ? kTypes | type_set({DType::kF64}) : kTypes);
  for (size_t i : {1u, 2u, 3u}) require_same_dtype(ctx, i);
  const Type filters = kFilters == Layout::kLast ? microsoft::channels_first(ctx, 1) : ctx.type(1);
  const SymDims y = *microsoft::inferred_dims(
      ctx, "Conv", {microsoft::channels_first(ctx, 0), filters, microsoft::type_or_none(ctx, 2)});
  ctx.set(0, ctx.dtype(0), microsoft::channels_last(y));
  check_fused(ctx);
}

template <Layout kImages, Layout kFilters>
std::vector<ValueId> expand_conv(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  Expansion::AttrList attrs;
  for (const auto& [name, value] : node.attrs.entries())
    if (!name.starts_with("activation")) attrs.emplace_back(name, value);
  std::vector<ValueId> inputs(
      node.inputs.begin(),
      node.inputs.begin() +
          std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(node.inputs.size()), kAddend));
  for (const auto& [i, layout] : {std::pair{size_t{0}, kImages}, {size_t{1}, kFilters}}) {
    if (layout == Layout::kFirst) continue;
    if (!e.rank(i)) return {};
    inputs[i] = microsoft::channels_first(e, inputs[i], *e.rank(i));
  }
  ValueId y = e.cast(e.add("Conv", std::move(inputs), attrs), e.dtype(0), e.working());
  if (kImages == Layout::kLast) y = microsoft::channels_last(e, y, *e.rank(0));
  if (e.has(kAddend)) y = e.add("Add", {y, e.widened(kAddend)});
  if (const std::string name = node.attrs.get_string("activation", ""); !name.empty())
    y = activated(e, y, activation_named(name), node.attrs.get_floats("activation_params"));
  return {e.narrowed(y)};
}

Dim flops_conv(const Graph& graph, const Node& node) {
  return conv_flops(graph, node, 1);
}

// ---- FusedGemm ----------------------------------------------------------------------------------

constexpr std::string_view kGemmActivations =
    "Relu|Tanh|Sigmoid|Softplus|Softsign|LeakyRelu|Elu|ThresholdedRelu|HardSigmoid|Selu";

void infer_gemm(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  get_op("Gemm").infer(ctx);
  const std::string name = ctx.attrs().get_string("activation", "");
  if (name.empty()) return;
  for (const std::string_view parameter : activation_named(name).parameters)
    if (const auto key = fmt::format("activation_{}", parameter); !ctx.attrs().has(key))
      ctx.error("attribute '{}' of the activation {} is missing", key, name);
}

std::vector<ValueId> expand_gemm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  Expansion::AttrList attrs;
  for (const auto& [name, value] : node.attrs.entries())
    if (!name.starts_with("activation")) attrs.emplace_back(name, value);
  const ValueId y = e.add("Gemm", node.inputs, attrs);
  const std::string name = node.attrs.get_string("activation", "");
  if (name.empty()) return {y};
  const Activation& activation = activation_named(name);
  std::vector<double> values;
  for (const std::string_view parameter : activation.parameters)
    values.push_back(node.attrs.get_float(fmt::format("activation_{}", parameter), 0));
  return {activated(e, y, activation, values)};
}

Dim flops_gemm(const Graph& graph, const Node& node) {
  return get_op("Gemm").flops(graph, node);
}

// ---- CDist --------------------------------------------------------------------------------------

// The distance of each row of a to each row of b.
void infer_distances(InferContext& ctx) {
  check_dtype(ctx, 0, type_set({DType::kF32, DType::kF64}));
  require_same_dtype(ctx, 1);
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  const SymDims &a = ctx.dims(0), &b = ctx.dims(1);
  require_dims(ctx, 1, {b[0], a[1]});
  ctx.set(0, ctx.dtype(0), {a[0], b[0]});
}

/// |a - b|^2 = |a|^2 + |b|^2 - 2 a b, as onnxruntime computes it.
std::vector<ValueId> expand_distances(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto length = [&](size_t i) {
    return e.reduce("ReduceSum", e.add("Mul", {e.in(i), e.in(i)}), {1});
  };
  const ValueId b = e.transposed(e.in(1), {1, 0});
  const ValueId twice = e.add("Mul", {e.add("MatMul", {e.in(0), b}), e.scalar(-2)});
  const ValueId both = e.add("Add", {length(0), e.transposed(length(1), {1, 0})});
  const ValueId squares = e.add("Max", {e.add("Add", {twice, both}), e.scalar(0)});
  const bool squared = node.attrs.get_string("metric", "sqeuclidean") == "sqeuclidean";
  return {squared ? squares : e.add("Sqrt", {squares})};
}

}  // namespace

void register_microsoft_products(OpList& ops) {
  using microsoft::choice, microsoft::flag;
  const std::vector<AttrSpec> turns{{"alpha", AttrKind::kFloat}, flag("transA"), flag("transB")};
  OpDef older = microsoft::op("com.microsoft::TransposeMatMul", 2, 2, infer_matmul_turned,
                              expand_matmul, turns);
  OpDef matmul =
      microsoft::op("com.microsoft::FusedMatMul", 2, 2, infer_matmul_turned, expand_matmul, turns);
  matmul.attrs.push_back(flag("transBatchA"));
  matmul.attrs.push_back(flag("transBatchB"));
  for (OpDef* op : {&older, &matmul}) {
    op->flops = flops_matmul;
    ops.push_back(std::move(*op));
  }

  std::vector<AttrSpec> window = window_attr_specs(/*kernel_required=*/false);
  window.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  OpDef plain_last = microsoft::op("com.microsoft::NhwcConv", 2, 3, infer_conv_last<Layout::kLast>,
                                   expand_conv<Layout::kLast, Layout::kLast>, window);
  window.push_back(choice("activation", kConvActivations));
  window.push_back({"activation_params", AttrKind::kFloats});
  OpDef conv = microsoft::op("com.microsoft::FusedConv", 2, 4, infer_conv,
                             expand_conv<Layout::kFirst, Layout::kFirst>, window);
  OpDef fused_last =
      microsoft::op("com.microsoft::NhwcFusedConv", 2, 4, infer_conv_last<Layout::kFirst>,
                    expand_conv<Layout::kLast, Layout::kFirst>, window);
  for (OpDef* op : {&plain_last, &conv, &fused_last}) {
    op->flops = flops_conv;
    ops.push_back(std::move(*op));
  }

  OpDef gemm = microsoft::op("com.microsoft::FusedGemm", 2, 3, infer_gemm, expand_gemm,
                             {{"alpha", AttrKind::kFloat},
                              {"beta", AttrKind::kFloat},
                              flag("transA"),
                              flag("transB"),
                              choice("activation", kGemmActivations),
                              {"activation_alpha", AttrKind::kFloat},
                              {"activation_beta", AttrKind::kFloat},
                              {"activation_gamma", AttrKind::kFloat}});
  gemm.flops = flops_gemm;
  ops.push_back(std::move(gemm));

  ops.push_back(microsoft::op("com.microsoft::CDist", 2, 2, infer_distances, expand_distances,
                              {choice("metric", "sqeuclidean|euclidean")}));
}

}  // namespace xc
