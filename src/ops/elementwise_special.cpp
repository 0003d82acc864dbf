// Elementwise ops with a rule of their own: Equal (any type), Where, Clip (bounds may be absent),
// Shrink (whole numbers against real bounds), Cast, CastLike, Identity.

#include <cmath>

#include "ops/cast.h"
#include "ops/elementwise_table.h"

namespace xc {

using namespace elementwise;

namespace {

// ---- Equal --------------------------------------------------------------------------------------

constexpr auto kEqual = [](auto x, auto y, auto&) { return eq(x, y); };
using Equal = std::remove_const_t<decltype(kEqual)>;
constexpr unsigned kEqualDomains = kReal | kWhole | kTruth;

void reference_equal(const ReferenceContext& c) {
  if (c.inputs[0].dtype != DType::kString) return reference<kEqualDomains, 2, Equal>(c);
  visit_broadcast(c, [&](const int64_t* at) {
    c.outputs[0].as<bool>()[at[2]] =
        c.inputs[0].as<std::string>()[at[0]] == c.inputs[1].as<std::string>()[at[1]];
  });
}

// ---- Where --------------------------------------------------------------------------------------

void infer_where(InferContext& c) {
  check_dtype(c, 0, kBools);
  const DType t = check_same_dtype(c, 1, 3);
  c.set(0, t, broadcast_inputs(c, 0, 3));
  propagate_elements(c, [](std::span<const scalar::Sym> a) { return select(a[0], a[1], a[2]); });
}

void reference_where(const ReferenceContext& c) {
  dispatch_storage(c.outputs[0].dtype, [&]<class T>() {
    visit_broadcast(c, [&](const int64_t* at) {
      const bool chosen = c.inputs[0].as<uint8_t>()[at[0]] != 0;
      c.outputs[0].as<T>()[at[3]] =
          chosen ? c.inputs[1].as<T>()[at[1]] : c.inputs[2].as<T>()[at[2]];
    });
  });
}

loop::Expr scalar_where(const Node&, std::span<const loop::Expr> a, DType) {
  return select(a[0], a[1], a[2]);
}

// ---- Clip ---------------------------------------------------------------------------------------

void infer_clip(InferContext& c) {
  check_dtype(c, 0, kNumbers);
  check_same_dtype(c, 0, 3);
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i) && c.rank_known(i) && element_count(c.dims(i)) != Dim(1))
      c.error("input {} (a bound) has dims {}, expected one element", i, to_text(c.dims(i)));
  infer_same(c);
}

// Of two zeros of either sign, that of x; and a bound in front needs no test for NaN (loop/expr.h).
template <class X>
void clip(const ReferenceContext& c) {
  constexpr int64_t kAt = 0;
  X bounds[2];
  for (size_t k = 0; k < 2; ++k)
    if (c.has(k + 1)) load_run(c.inputs[k + 1], {&kAt, &kAt, 1}, 0, &bounds[k]);
  std::array<X, kMostRun> values;
  visit_runs(std::span(c.inputs).first(1), c.outputs[0], [&](const Run& run) {
    load_run(c.inputs[0], run, 0, values.data());
    for (X& x : std::span(values).first(static_cast<size_t>(run.length))) {
      if (c.has(1)) x = max(bounds[0], x);
      if (c.has(2)) x = min(bounds[1], x);
    }
    store_run(c.outputs[0], run, 1, values.data());
  });
}

void reference_clip(const ReferenceContext& c) {
  const DType t = c.inputs[0].dtype;
  if (is_float(t))
    clip<scalar::Real>(c);
  else if (is_signed(t))
    clip<scalar::Int>(c);
  else
    clip<scalar::UInt>(c);
}

loop::Expr scalar_clip(const Node&, std::span<const loop::Expr> a, DType) {
  loop::Expr x = a[0];
  if (a.size() > 1 && a[1]) x = max(a[1], x);
  if (a.size() > 2 && a[2]) x = min(a[2], x);
  return x;
}

// ---- Shrink -------------------------------------------------------------------------------------

// x + bias below -lambd, x - bias above lambd, 0 between.
constexpr auto kShrink = [](auto x, auto& p) {
  const auto above = select(gt(x, like(x, p[1])), x - p[0], like(x, 0));
  return select(lt(x, like(x, -p[1])), x + p[0], above);
};
using Shrink = std::remove_const_t<decltype(kShrink)>;

/// A bound of whole numbers of 64 bits.
int64_t whole_bound(double v) {
  if (std::isnan(v) || v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return v < -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(v);
}

/// x + bias, truncated towards zero without a rounding of x. Out of range it wraps.
uint64_t add_truncated(uint64_t x, double bias, bool is_signed) {
  const double whole = std::floor(bias);
  const auto step = static_cast<uint64_t>(whole_bound(whole));
  const uint64_t sum = x + step;
  const bool negative = is_signed ? static_cast<int64_t>(sum) < 0 : whole < 0 && x < 0 - step;
  return sum + (negative && bias != whole ? 1 : 0);
}

void reference_shrink(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  if (is_float(x.dtype)) return reference<kReal, 1, Shrink>(c);
  const Params p = read_params(*c.node);
  const double bias = p[0], lambd = p[1];
  // x > lambd as x > floor(lambd), x < -lambd as x < ceil(-lambd): exact for every x.
  const int64_t high = whole_bound(std::floor(lambd)), low = whole_bound(std::ceil(-lambd));
  const bool is_signed = xc::is_signed(x.dtype);
  for_each_offset<2>(y.dims, {x.strides, y.strides}, [&](const auto& at) {
    const int64_t v = load_int64(x.data, x.dtype, at[0]);
    const auto bits = static_cast<uint64_t>(v);
    const bool below = is_signed ? v < low : low > 0 && bits < static_cast<uint64_t>(low);
    const bool above = is_signed ? v > high : high < 0 || bits > static_cast<uint64_t>(high);
    const uint64_t out = below   ? add_truncated(bits, bias, is_signed)
                         : above ? add_truncated(bits, -bias, is_signed)
                                 : 0;
    store_wrapped(y.data, y.dtype, at[1], static_cast<int64_t>(out));
  });
}

loop::Expr scalar_shrink(const Node& node, std::span<const loop::Expr> a, DType type) {
  return is_float(a[0].type()) ? scalar_of<1, Shrink>(node, a, type) : loop::Expr{};
}

// ---- Cast ---------------------------------------------------------------------------------------

bool keeps_elements(DType t) {
  return is_integer(t) || t == DType::kF32 || t == DType::kF64;
}

/// Whole numbers survive a cast between numbers, and are a truth where they are not 0. Integers
/// wrap, floats do not: what a run could give that the type does not have is not followed.
void pass_elements(InferContext& c, DType to) {
  auto known = c.elements(0);
  const DType from = c.dtype(0);
  const bool from_bool = from == DType::kBool;
  if (!known || !(keeps_elements(from) || from_bool)) return;
  if (to == DType::kBool) {
    for (Dim& d : *known) {
      const scalar::Sym is_zero = eq(scalar::Sym{d}, scalar::Sym{Dim(0)});
      if (!is_zero.v) return;
      d = from_bool ? d : Dim(1) - *is_zero.v;
    }
    return c.set_elements(0, std::move(*known));
  }
  if (!keeps_elements(to)) return;
  if (is_integer(to) && !from_bool && to != DType::kI64 && to != DType::kI32) return;
  const WholeRange range = whole_range(to), given = whole_range(from);
  const bool narrows = given.low < range.low || given.high > range.high;
  for (const Dim& d : *known) {
    if (!narrows || (d.is_constant() ? is_integer(from) : d.of_sizes())) continue;
    if (d.lower_bound().value_or(INT64_MIN) < range.low) return;
    if (d.upper_bound().value_or(INT64_MAX) > range.high) return;
  }
  c.set_elements(0, std::move(*known));
}

/// The standard casts no complex numbers.
constexpr TypeSet kCast = kAnyType & ~kComplex;

void infer_cast(InferContext& c) {
  check_dtype(c, 0, kCast);
  const DType t = dtype_attr(c.attrs().get_int("to", 0));
  if (!contains(kCast, t)) c.error("attribute 'to' is {}: nothing is cast to complex", name(t));
  c.set(0, t, c.dims(0));
  pass_elements(c, t);
}

void infer_cast_like(InferContext& c) {
  check_dtype(c, 0, kCast);
  c.set(0, check_dtype(c, 1, kCast), c.dims(0));
  pass_elements(c, c.dtype(1));
}

std::vector<ValueId> expand_cast_like(const Graph& graph, const Node& node, Patch& patch) {
  Attrs attrs = node.attrs;
  attrs.set("to", onnx_number(graph.value(node.inputs[1]).type.dtype));
  return patch.add_node(get_op("Cast"), {node.inputs[0]}, 1, std::move(attrs));
}

void reference_cast(const ReferenceContext& c) {
  CastOptions options;
  options.saturate = c.attrs().get_int("saturate", 1) != 0;
  const std::string round = c.attrs().get_string("round_mode", "up");
  if (round == "down") options.round = CastOptions::Round::kDown;
  if (round == "nearest") options.round = CastOptions::Round::kNearest;
  cast_elements(c.inputs[0], c.outputs[0], options);
}

/// Through f32 for the 16-bit floats, rounded, so that a cast between fused ops has its effect.
loop::Expr scalar_cast(const Node&, std::span<const loop::Expr> a, DType to) {
  if (!loop::is_value_type(loop::value_type(to))) return {};
  const loop::Expr x = cast(loop::value_type(to), a[0]);
  if (to == DType::kF16) return round_f16(x);
  if (to == DType::kBF16) return round_bf16(x);
  return x;
}

// ---- Identity -----------------------------------------------------------------------------------

void infer_identity(InferContext& c) {
  c.outputs[0] = c.type(0);
  if (auto known = c.elements(0)) c.set_elements(0, std::move(*known));
}

void reference_identity(const ReferenceContext& c) {
  copy_elements(c.inputs[0], c.outputs[0]);
}

std::vector<Tensor> evaluate_identity(const Node&, const std::vector<Tensor>& inputs) {
  return inputs;
}

bool view_identity(ViewContext& c) {
  c.outputs[0].strides = c.strides;
  c.outputs[0].offset = 0;
  return true;
}

}  // namespace

void register_elementwise_special(OpList& ops) {
  OpDef equal = row < kEqualDomains | kSymbolic | kLoop,
        kNumbers | kBools | type_set({DType::kString}), 2,
        Result::kBool > ("Equal", kEqual, {1, true});
  equal.reference = reference_equal;
  ops.push_back(std::move(equal));

  ops.push_back({.name = "Where",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .infer = infer_where,
                 .reference = reference_where,
                 .scalar = scalar_where});
  ops.push_back({.name = "Clip",
                 .max_inputs = 3,
                 .infer = infer_clip,
                 .reference = reference_clip,
                 .scalar = scalar_clip,
                 .weight = 2});

  OpDef shrink = row < kReal | kLoop, kNumbers,
        1 > ("Shrink", kShrink, {3, false, {float_attr("bias", 0), float_attr("lambd", 0.5)}});
  shrink.reference = reference_shrink;
  shrink.scalar = scalar_shrink;
  ops.push_back(std::move(shrink));

  const AttrSpec saturate = int_attr("saturate", 1, 0, 1);
  const AttrSpec round_mode = choice_attr("round_mode", "up|down|nearest");
  ops.push_back({.name = "Cast",
                 .attrs = {dtype_spec("to", true), saturate, round_mode},
                 .infer = infer_cast,
                 .reference = reference_cast,
                 .scalar = scalar_cast});
  ops.push_back({.name = "CastLike",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {saturate, round_mode},
                 .infer = infer_cast_like,
                 .reference = reference_cast,
                 .expand = expand_cast_like});
  ops.push_back({.name = "Identity",
                 .infer = infer_identity,
                 .reference = reference_identity,
                 .evaluate = evaluate_identity,
                 .view = view_identity});
}

}  // namespace xc
