// How a row of the elementwise table becomes an OpDef. A row gives one captureless generic lambda,
// `f(x, y, p)`: as many scalars as the op has inputs, then the attributes' values in the order of
// the row's attribute list (strings as an index into their choices). It is instantiated over the
// types of scalar.h that the row's domains name, and over loop::Expr.
#pragma once

#include <algorithm>

#include "ops/scalar.h"
#include "ops/support.h"

namespace xc::elementwise {

/// Scalar types a definition is written for.
enum Domain : unsigned {
  kReal = 1,
  kWhole = 2,  ///< Int and UInt
  kTruth = 4,
  kSymbolic = 8,  ///< shape arithmetic
  kLoop = 16,     ///< loop IR
};

enum class Result { kSame, kBool };

inline constexpr size_t kMaxParams = 8;
using Params = std::array<double, kMaxParams>;
Params read_params(const Node& node);

/// Whether `base` has every exponent of a type as it is: 16777217, whose being odd decides a sign,
/// is no f32.
inline bool holds_exponents(DType base, DType exponent) {
  if (is_float(exponent)) return element_size(exponent) <= element_size(base);
  return exponent == base || base == DType::kF64 || element_size(exponent) <= 2;
}

/// What the rows of one family share and what a row may change.
struct Options {
  double weight = 1;
  bool commutative = false;
  std::vector<AttrSpec> attrs = {};
};

/// Checks dtypes (in `allowed`, all equal as they are read unless `mixed`), broadcasts, sets the
/// output.
void infer_broadcast(InferContext& c, TypeSet allowed, bool mixed, Result result);
/// Elements of output 0 where those of all inputs are known; `f` computes one.
void propagate_elements(InferContext& c,
                        const std::function<scalar::Sym(std::span<const scalar::Sym>)>& f);

/// Calls f with arity scalars and the parameters; arity < 0 hands over the span.
template <int Arity, class F, class X>
auto apply(std::span<const X> a, const Params& p) {
  if constexpr (Arity == 1)
    return F{}(a[0], p);
  else if constexpr (Arity == 2)
    return F{}(a[0], a[1], p);
  else if constexpr (Arity == 3)
    return F{}(a[0], a[1], a[2], p);
  else
    return F{}(a, p);
}

/// Visits the output with the broadcast inputs: body(offsets of the inputs, then of the output).
void visit_broadcast(const ReferenceContext& c, const std::function<void(const int64_t*)>& body);

/// At most kMostRun elements of the output, and what they are computed from: per input, then of the
/// output, the offset of the first one and the steps between them.
struct Run {
  const int64_t* first;
  const int64_t* step;
  int64_t length;
};
inline constexpr int64_t kMostRun = 256;
/// Visits output `y` of these inputs, which broadcast to it, as runs, as long as they can be.
void visit_runs(std::span<const TensorView> inputs, const TensorView& y,
                const std::function<void(const Run&)>& body);

/// Element k of a run of operand `which`, read to or written from values[k].
void load_run(const TensorView& v, const Run& run, size_t which, scalar::Real* values);
void load_run(const TensorView& v, const Run& run, size_t which, scalar::Truth* values);
void load_run(const TensorView& v, const Run& run, size_t which, scalar::Int* values);
void load_run(const TensorView& v, const Run& run, size_t which, scalar::UInt* values);
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Real* values);
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Truth* values);
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::Int* values);
void store_run(const TensorView& v, const Run& run, size_t which, const scalar::UInt* values);

/// Computes `length` results from values of operand k at values[k * kMostRun] on.
template <class X, class Y>
using RunFn = void (*)(const X* values, size_t operands, int64_t length, const Params& p,
                       Y* results);
/// Computes the output run by run.
template <class X, class Y>
void compute_runs(const ReferenceContext& c, RunFn<X, Y> f);

template <int Arity, class F, class X, class Y>
void compute_run(const X* values, size_t operands, int64_t length, const Params& p, Y* results) {
  constexpr bool kAnyCount = Arity < 0;
  constexpr size_t kCount = kAnyCount ? 0 : static_cast<size_t>(Arity);
  const size_t n = kAnyCount ? operands : kCount;
  std::conditional_t<kAnyCount, std::vector<X>, std::array<X, kCount>> args{};
  if constexpr (kAnyCount) args.resize(n);
  for (int64_t i = 0; i < length; ++i) {
    for (size_t k = 0; k < n; ++k) args[k] = values[static_cast<int64_t>(k) * kMostRun + i];
    results[i] = apply<Arity, F, X>(args, p);
  }
}

template <int Arity, class F, class X>
void compute(const ReferenceContext& c) {
  using Y = decltype(apply<Arity, F, X>({}, {}));
  compute_runs<X, Y>(c, compute_run<Arity, F, X, Y>);
}

/// The type a row computes in: Real when any input is float, else that of the first number.
DType domain_of(const ReferenceContext& c);

template <unsigned Domains, int Arity, class F>
void reference(const ReferenceContext& c) {
  const DType t = domain_of(c);
  if constexpr ((Domains & kReal) != 0)
    if (is_float(t)) return compute<Arity, F, scalar::Real>(c);
  if constexpr ((Domains & kWhole) != 0) {
    if (is_signed(t)) return compute<Arity, F, scalar::Int>(c);
    if (is_unsigned(t)) return compute<Arity, F, scalar::UInt>(c);
  }
  if constexpr ((Domains & kTruth) != 0)
    if (t == DType::kBool) return compute<Arity, F, scalar::Truth>(c);
  fail(Status::kUnsupported, "unsupported: elements of type {}", name(t));
}

template <unsigned Domains, int Arity, class F, TypeSet Allowed, bool Mixed, Result R>
void infer(InferContext& c) {
  infer_broadcast(c, Allowed, Mixed, R);
  if constexpr ((Domains & kSymbolic) != 0) {
    const Params p = read_params(*c.node);
    propagate_elements(
        c, [&](std::span<const scalar::Sym> a) { return apply<Arity, F, scalar::Sym>(a, p); });
  }
}

template <int Arity, class F>
loop::Expr scalar_of(const Node& node, std::span<const loop::Expr> args, DType) {
  return apply<Arity, F, loop::Expr>(args, read_params(node));
}

/// A row. `Allowed` are the dtypes of its inputs.
template <unsigned Domains, TypeSet Allowed, int Arity, Result R = Result::kSame,
          bool Mixed = false, class F>
OpDef row(std::string_view name, F, Options options = {}) {
  OpDef op;
  op.name = name;
  op.min_inputs = Arity < 0 ? 1 : Arity;
  op.max_inputs = Arity;
  op.attrs = std::move(options.attrs);
  if (R == Result::kSame && (Allowed & kFloats)) op.attrs.push_back(kHeldIn);
  op.infer = infer<Domains, Arity, F, Allowed, Mixed, R>;
  op.reference = reference<Domains, Arity, F>;
  if constexpr ((Domains & kLoop) != 0) op.scalar = scalar_of<Arity, F>;
  op.weight = options.weight;
  op.commutative = options.commutative;
  op.tolerance =
      R == Result::kSame && (Allowed & kFloats) ? Tolerance::kElementwise : Tolerance::kExact;
  return op;
}

/// The common kinds of rows.
template <class F>
OpDef real_unary(std::string_view name, double weight, F f, std::vector<AttrSpec> attrs = {}) {
  return row < kReal | kLoop, kFloats, 1 > (name, f, {weight, false, std::move(attrs)});
}
/// No loop IR form yet: runs by reference or vendor kernel only.
template <class F>
OpDef real_unary_host(std::string_view name, double weight, F f) {
  return row<kReal, kFloats, 1>(name, f, {weight});
}
template <class F>
OpDef number_unary(std::string_view name, F f) {
  return row < kReal | kWhole | kSymbolic | kLoop, kNumbers, 1 > (name, f);
}
template <class F>
OpDef number_binary(std::string_view name, F f, bool commutative = false) {
  return row < kReal | kWhole | kSymbolic | kLoop, kNumbers, 2 > (name, f, {1, commutative});
}
template <class F>
OpDef comparison(std::string_view name, F f) {
  return row < kReal | kWhole | kSymbolic | kLoop, kNumbers, 2, Result::kBool > (name, f);
}
template <class F>
OpDef logic(std::string_view name, F f) {
  return row < kTruth | kSymbolic | kLoop, kBools, 2 > (name, f, {1, true});
}
template <class F>
OpDef bitwise(std::string_view name, F f) {
  return row < kWhole | kLoop, kInts, 2 > (name, f, {1, true});
}

inline AttrSpec float_attr(std::string_view name, double otherwise) {
  AttrSpec spec{name, AttrKind::kFloat};
  spec.otherwise = otherwise;
  return spec;
}
inline AttrSpec int_attr(std::string_view name, int64_t otherwise, int64_t low = INT64_MIN,
                         int64_t high = INT64_MAX) {
  AttrSpec spec{name, AttrKind::kInt, false, low, high};
  spec.otherwise = static_cast<double>(otherwise);
  return spec;
}
/// `otherwise` is an index into the choices.
inline AttrSpec choice_attr(std::string_view name, std::string_view choices, int otherwise = 0) {
  AttrSpec spec{name, AttrKind::kString};
  spec.choices = choices;
  spec.otherwise = otherwise;
  return spec;
}

}  // namespace xc::elementwise
