// FusedMatMul, FusedGemm and FusedConv of com.microsoft: products with what onnxruntime's optimiser
// took into them, transpositions in front and activations behind.

#include <array>
#include <limits>
#include <numeric>

#include "ops/checks.h"
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

void infer_conv(InferContext& ctx) {
  get_op("Conv").infer(ctx);
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

std::vector<ValueId> expand_conv(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  Expansion::AttrList attrs;
  for (const auto& [name, value] : node.attrs.entries())
    if (!name.starts_with("activation")) attrs.emplace_back(name, value);
  std::vector<ValueId> inputs(
      node.inputs.begin(),
      node.inputs.begin() +
          std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(node.inputs.size()), kAddend));
  ValueId y = e.cast(e.add("Conv", std::move(inputs), attrs), e.dtype(0), e.working());
  if (e.has(kAddend)) y = e.add("Add", {y, e.widened(kAddend)});
  if (const std::string name = node.attrs.get_string("activation", ""); !name.empty())
    y = activated(e, y, activation_named(name), node.attrs.get_floats("activation_params"));
  return {e.narrowed(y)};
}

Dim flops_conv(const Graph& graph, const Node& node) {
  return get_op("Conv").flops(graph, node);
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

AttrSpec activation_attr(std::string_view choices) {
  AttrSpec out{"activation", AttrKind::kString};
  out.choices = choices;
  return out;
}

}  // namespace

void register_microsoft_products(OpList& ops) {
  using microsoft::flag;
  OpDef matmul =
      microsoft::op("com.microsoft::FusedMatMul", 2, 2, infer_matmul_turned, expand_matmul,
                    {{"alpha", AttrKind::kFloat},
                     flag("transA"),
                     flag("transB"),
                     flag("transBatchA"),
                     flag("transBatchB")});
  matmul.flops = flops_matmul;
  ops.push_back(std::move(matmul));

  std::vector<AttrSpec> window = window_attr_specs(/*kernel_required=*/false);
  window.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  window.push_back(activation_attr(kConvActivations));
  window.push_back({"activation_params", AttrKind::kFloats});
  OpDef conv = microsoft::op("com.microsoft::FusedConv", 2, 4, infer_conv, expand_conv, window);
  conv.flops = flops_conv;
  ops.push_back(std::move(conv));

  OpDef gemm = microsoft::op("com.microsoft::FusedGemm", 2, 3, infer_gemm, expand_gemm,
                             {{"alpha", AttrKind::kFloat},
                              {"beta", AttrKind::kFloat},
                              flag("transA"),
                              flag("transB"),
                              activation_attr(kGemmActivations),
                              {"activation_alpha", AttrKind::kFloat},
                              {"activation_beta", AttrKind::kFloat},
                              {"activation_gamma", AttrKind::kFloat}});
  gemm.flops = flops_gemm;
  ops.push_back(std::move(gemm));
}

}  // namespace xc
