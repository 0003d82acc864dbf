// Reductions over axes: ReduceSum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp.
// Floats fold in double, integers wrap in 64 bits; the roots and logarithms of integer sums are
// computed in double and truncated.

#include "ops/expansion.h"
#include "ops/scalar.h"
#include "ops/support.h"

namespace xc {

namespace {

// ---- inference ----------------------------------------------------------------------------------

/// The reduced axes as a mask; all when none are given, unless that means "none" (identity).
std::vector<bool> reduced_axes(const Attrs& attrs, const std::vector<int64_t>& axes, size_t rank) {
  const bool none = axes.empty() && attrs.get_int("noop_with_empty_axes", 0) != 0;
  std::vector<bool> out(rank, axes.empty() && !none);
  for (size_t axis : normalise_axes(axes, rank)) out[axis] = true;
  return out;
}

void infer_reduce(InferContext& c, TypeSet allowed) {
  const DType t = check_dtype(c, 0, allowed);
  check_dtype(c, 1, kIndices);
  const SymDims& in = c.dims(0);
  const bool keep = c.attrs().get_int("keepdims", 1) != 0;
  if (c.has(1) && !c.ints(1)) {
    const Dim count = element_count(c.dims(1));
    if (keep) return c.set(0, t, fresh_dims(c, in.size(), "axes"));
    if (!count.is_constant() || count == Dim(0)) return set_unknown_rank(c, 0, t);
    const int64_t rank = static_cast<int64_t>(in.size()) - count.value();
    if (rank < 0) c.error("{} axes for a tensor of rank {}", count.value(), in.size());
    return c.set(0, t, fresh_dims(c, static_cast<size_t>(rank), "axes"));
  }
  const auto reduced =
      reduced_axes(c.attrs(), c.has(1) ? *c.ints(1) : std::vector<int64_t>{}, in.size());
  SymDims out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!reduced[i])
      out.push_back(in[i]);
    else if (keep)
      out.push_back(1);
  }
  c.set(0, t, std::move(out));
}

using scalar::Sym;
using SymFold = Sym (*)(const Sym&, const Sym&);

/// Elements of a reduction of everything to one number, but for one that 64 bits do not hold.
void fold_elements(InferContext& c, SymFold fold, double start) {
  const auto known = c.elements(0);
  if (!known || !c.outputs[0].dims || element_count(*c.outputs[0].dims) != Dim(1)) return;
  if (known->empty() || !(is_integer(c.dtype(0)))) return;
  Sym total = start >= 0 ? Sym{Dim(static_cast<int64_t>(start))} : Sym{known->front()};
  try {
    for (size_t i = start >= 0 ? 0 : 1; i < known->size(); ++i) total = fold(total, {(*known)[i]});
  } catch (const Error&) {
    return;
  }
  if (total.v) c.set_elements(0, {*total.v});
}

void infer_numbers(InferContext& c) {
  infer_reduce(c, kNumbers);
}
void infer_sum(InferContext& c) {
  infer_reduce(c, kNumbers);
  fold_elements(c, [](const Sym& a, const Sym& b) { return a + b; }, 0);
}
void infer_prod(InferContext& c) {
  infer_reduce(c, kNumbers);
  fold_elements(c, [](const Sym& a, const Sym& b) { return a * b; }, 1);
}
void infer_floats(InferContext& c) {
  infer_reduce(c, kFloats);
}
void infer_max(InferContext& c) {
  infer_reduce(c, kNumbers | kBools);
  fold_elements(c, [](const Sym& a, const Sym& b) { return max(a, b); }, -1);
}
void infer_min(InferContext& c) {
  infer_reduce(c, kNumbers | kBools);
  fold_elements(c, [](const Sym& a, const Sym& b) { return min(a, b); }, -1);
}

// ---- reference ----------------------------------------------------------------------------------

/// Visits each output element: body(offset of its first input element, output offset); `inner` are
/// the dims and strides of the reduced axes.
struct ReductionLoop {
  Dims outer_dims, outer_in, outer_out, inner_dims, inner_in;

  explicit ReductionLoop(const ReferenceContext& c) {
    const TensorView &x = c.inputs[0], &y = c.outputs[0];
    const bool keep = c.attrs().get_int("keepdims", 1) != 0;
    const auto reduced = reduced_axes(
        c.attrs(), c.has(1) ? int_values(c.inputs[1]) : std::vector<int64_t>{}, x.dims.size());
    size_t k = 0;
    for (size_t i = 0; i < x.dims.size(); ++i) {
      if (reduced[i]) {
        inner_dims.push_back(x.dims[i]);
        inner_in.push_back(x.strides[i]);
        if (keep) ++k;
        continue;
      }
      if (k >= y.dims.size() || y.dims[k] != x.dims[i]) fail(Status::kRange, "dims do not fit");
      outer_dims.push_back(x.dims[i]);
      outer_in.push_back(x.strides[i]);
      outer_out.push_back(y.strides[k++]);
    }
  }
};

/// V: type of the fold (double, int64_t, uint64_t). Each reduction is start, step and finish.
template <class Rule, class V>
void fold(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const ReductionLoop loop(c);
  const int64_t count = element_count(loop.inner_dims);
  for_each_offset<2>(loop.outer_dims, {loop.outer_in, loop.outer_out}, [&](const auto& at) {
    Rule rule;
    V acc = rule.template start<V>(y.dtype);
    for_each_offset<1>(loop.inner_dims, {loop.inner_in}, [&](const auto& in) {
      const int64_t i = at[0] + in[0];
      if constexpr (std::is_same_v<V, double>)
        acc = rule.step(acc, load_double(x.data, x.dtype, i));
      else
        acc = rule.step(acc, static_cast<V>(load_int64(x.data, x.dtype, i)));
    });
    const auto result = rule.finish(acc, count);
    if constexpr (std::is_same_v<std::remove_const_t<decltype(result)>, double>)
      store_double(y.data, y.dtype, at[1], result);
    else
      store_wrapped(y.data, y.dtype, at[1], static_cast<int64_t>(result));
  });
}

template <class Rule>
void reference_reduce(const ReferenceContext& c) {
  const DType t = c.inputs[0].dtype;
  if (is_float(t))
    fold<Rule, double>(c);
  else if (is_signed(t))
    fold<Rule, int64_t>(c);
  else
    fold<Rule, uint64_t>(c);
}

/// Modulo 2^64 for integers.
template <class V>
V plus(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(uint64_t(a) + uint64_t(b));
  else
    return a + b;
}
template <class V>
V times(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(uint64_t(a) * uint64_t(b));
  else
    return a * b;
}

struct Sum {
  template <class V>
  V start(DType) const {
    return 0;
  }
  template <class V>
  V step(V acc, V x) const {
    return plus(acc, x);
  }
  template <class V>
  V finish(V acc, int64_t) const {
    return acc;
  }
};
struct Mean : Sum {
  template <class V>
  V finish(V acc, int64_t n) const {
    if constexpr (std::is_integral_v<V>)
      return n == 0 ? V{0} : static_cast<V>(acc / static_cast<V>(n));
    else
      return acc / static_cast<double>(n);
  }
};
struct Prod : Sum {
  template <class V>
  V start(DType) const {
    return 1;
  }
  template <class V>
  V step(V acc, V x) const {
    return times(acc, x);
  }
};
struct L1 : Sum {
  template <class V>
  V step(V acc, V x) const {
    return plus(acc, x < V{0} ? times(x, static_cast<V>(-1)) : x);
  }
};
struct SumSquare : Sum {
  template <class V>
  V step(V acc, V x) const {
    return plus(acc, times(x, x));
  }
};
struct L2 : SumSquare {
  template <class V>
  double finish(V acc, int64_t) const {
    return std::sqrt(static_cast<double>(acc));
  }
};
struct LogSum : Sum {
  template <class V>
  double finish(V acc, int64_t) const {
    return std::log(static_cast<double>(acc));
  }
};
/// log(sum(exp(x))), carried as the largest x and the sum relative to it.
struct LogSumExp {
  double top = -std::numeric_limits<double>::infinity();
  template <class V>
  V start(DType) const {
    return 0;
  }
  template <class V>
  V step(V acc, V value) {
    sum(static_cast<double>(value));
    return acc;
  }
  template <class V>
  double finish(V, int64_t) const {
    return top + std::log(total);
  }

 private:
  void sum(double x) {
    if (x <= top)
      total += x == top ? 1 : std::exp(x - top);
    else if (total == 0)
      top = x, total = 1;
    else
      total = total * std::exp(top - x) + 1, top = x;
  }
  double total = 0;
};
/// Lowest or highest value of the output's type.
template <class V>
V extreme(DType t, bool lowest) {
  if constexpr (std::is_same_v<V, double>)
    return lowest ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::infinity();
  if (t == DType::kBool) return lowest ? 0 : 1;
  const int bits = info(t).bits;
  if constexpr (std::is_signed_v<V>) {
    const auto high = static_cast<V>((uint64_t{1} << (bits - 1)) - 1);
    return lowest ? static_cast<V>(-high - 1) : high;
  } else {
    return lowest ? V{0} : static_cast<V>(~uint64_t{0} >> (64 - bits));
  }
}
struct Max : Sum {
  template <class V>
  V start(DType t) const {
    return extreme<V>(t, true);
  }
  template <class V>
  V step(V acc, V x) const {
    return acc > x || acc != acc ? acc : x;
  }
};
struct MaxNumber : Max {
  template <class V>
  V step(V acc, V x) const {
    return x > acc ? x : acc;
  }
};
struct Min : Sum {
  template <class V>
  V start(DType t) const {
    return extreme<V>(t, false);
  }
  template <class V>
  V step(V acc, V x) const {
    return acc < x || acc != acc ? acc : x;
  }
};

// ---- fusion -------------------------------------------------------------------------------------

using loop::Expr;

Expr square(const Expr& x) {
  return x * x;
}
Expr absolute(const Expr& x) {
  return abs(x);
}
Expr divided(const Expr& folded, const Expr& count) {
  return folded / cast(folded.type(), count);
}
Expr root(const Expr& folded, const Expr&) {
  return sqrt(folded);
}
Expr logarithm(const Expr& folded, const Expr&) {
  return log(folded);
}

/// max + log(sum(exp(x - max))), with the maximum held finite so that infinities come out right.
std::vector<ValueId> expand_log_sum_exp(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!is_float(e.dtype(0))) return {};
  const auto axes = e.has(1) ? known_ints(graph, node, 1) : std::vector<int64_t>{};
  const auto rank = e.rank(0);
  if (!axes || !rank) return {};
  const auto reduced = reduced_axes(node.attrs, *axes, static_cast<size_t>(*rank));
  std::vector<int64_t> list;
  for (size_t i = 0; i < reduced.size(); ++i)
    if (reduced[i]) list.push_back(static_cast<int64_t>(i));
  if (list.empty()) return {};
  const ValueId x = e.widened(0);
  const double largest = e.working() == DType::kF64 ? std::numeric_limits<double>::max()
                                                    : std::numeric_limits<float>::max();
  const ValueId top =
      e.add("Clip", {e.reduce("ReduceMax", x, list), e.scalar(-largest), e.scalar(largest)});
  const ValueId sum = e.reduce("ReduceSum", e.add("Exp", {e.add("Sub", {x, top})}), list);
  ValueId out = e.add("Add", {e.add("Log", {sum}), top});
  if (node.attrs.get_int("keepdims", 1) == 0) out = e.add("Squeeze", {out, e.ints(list)});
  return {e.narrowed(out)};
}

OpDef reduction(std::string_view name, InferFn infer, ReferenceFn reference,
                std::optional<ReductionSpec> spec, double weight, Tolerance tolerance) {
  return {.name = name,
          .min_inputs = 1,
          .max_inputs = 2,
          .attrs = {{"keepdims", AttrKind::kInt, false, 0, 1},
                    {"noop_with_empty_axes", AttrKind::kInt, false, 0, 1}},
          .infer = infer,
          .reference = reference,
          .reduction = spec,
          .flops = nullptr,
          .weight = weight,
          .tolerance = tolerance};
}

}  // namespace

void register_reduce(OpList& ops) {
  using loop::AccOp;
  const auto sum_like = [&](std::string_view name, InferFn infer, ReferenceFn reference,
                            ReductionSpec spec, double weight = 1) {
    ops.push_back(reduction(name, infer, reference, spec, weight, Tolerance::kReduction));
  };
  sum_like("ReduceSum", infer_sum, reference_reduce<Sum>, {AccOp::kSum});
  sum_like("ReduceMean", infer_numbers, reference_reduce<Mean>, {AccOp::kSum, nullptr, divided});
  sum_like("ReduceProd", infer_prod, reference_reduce<Prod>, {AccOp::kProd});
  sum_like("ReduceL1", infer_numbers, reference_reduce<L1>, {AccOp::kSum, absolute});
  sum_like("ReduceL2", infer_numbers, reference_reduce<L2>, {AccOp::kSum, square, root}, 2);
  sum_like("ReduceSumSquare", infer_numbers, reference_reduce<SumSquare>, {AccOp::kSum, square}, 2);
  sum_like("ReduceLogSum", infer_numbers, reference_reduce<LogSum>,
           {AccOp::kSum, nullptr, logarithm});
  ops.push_back(reduction("ReduceMax", infer_max, reference_reduce<Max>, ReductionSpec{AccOp::kMax},
                          1, Tolerance::kExact));
  // What softmax subtracts: NaN among its numbers shows in their sum, so that looking for it while
  // the maximum is taken is not needed. Regions only.
  OpDef max_number = reduction("ReduceMaxNumber", infer_floats, reference_reduce<MaxNumber>,
                               ReductionSpec{AccOp::kMaxNumber}, 1, Tolerance::kExact);
  max_number.domain = "xc";
  ops.push_back(std::move(max_number));
  ops.push_back(reduction("ReduceMin", infer_min, reference_reduce<Min>, ReductionSpec{AccOp::kMin},
                          1, Tolerance::kExact));
  OpDef log_sum_exp = reduction("ReduceLogSumExp", infer_numbers, reference_reduce<LogSumExp>, {},
                                14, Tolerance::kReduction);
  log_sum_exp.expand = expand_log_sum_exp;
  ops.push_back(std::move(log_sum_exp));
}

}  // namespace xc
