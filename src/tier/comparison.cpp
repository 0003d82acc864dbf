#include "tier/comparison.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "base/cpu_info.h"
#include "ops/infer.h"
#include "plan/fusion/index_map.h"

namespace xc {
namespace {

constexpr int64_t kExactElements = 1 << 16;  ///< of operands: up to this f64 is computed too
/// Relative moves of the inputs, how often they are tried, and what of their effect is allowed.
struct Moves {
  double unit;
  int tries;
  double factor;
};
/// A unit in the last place: a fused kernel rounds at every step, not only its inputs.
constexpr Moves kUnits{0x1p-23, 3, 32};
/// Factors rounded to bf16. What that does to logits is no small number, so moves are as large; and
/// more of them, lest all happen to leave an element where it is.
constexpr Moves kRoundings{0x1p-9, 8, 8};
constexpr double kFarOff = 1e9;     // units of a value where nothing may differ, or NaN
constexpr double kErrorRatio = 4;   // of the error of an output to that of the reference kernels
constexpr size_t kErrorCount = 64;  // elements from which such errors say something

Tensor widened(const Tensor& t) {
  if (!t || t.dtype() != DType::kF32) return t;
  Tensor out(DType::kF64, t.dims());
  const std::vector<double> values = t.to_doubles();
  std::copy(values.begin(), values.end(), out.as<double>());
  return out;
}

/// Every element a unit up or down, relative to itself.
Tensor moved(const Tensor& t, double unit, std::mt19937_64& random) {
  if (!t || t.dtype() != DType::kF32) return t;
  Tensor out(t.dtype(), t.dims());
  const std::vector<double> values = t.to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    store_double(out.data(), t.dtype(), static_cast<int64_t>(i),
                 values[i] * (random() % 2 ? 1 + unit : 1 - unit));
  return out;
}

/// Every value of the region graph by run_reference, node after node; `wide`: in f64 for f32;
/// `moving`: what sums read, and what functions and sums give, is moved by a unit in the last
/// place.
std::vector<Tensor> reference_outputs(const Graph& graph, const std::vector<Tensor>& inputs,
                                      bool wide = false, std::mt19937_64* moving = nullptr) {
  const auto kept = [&](Tensor t) { return wide ? widened(t) : t; };
  std::unordered_map<ValueId, Tensor> values;
  for (size_t k = 0; k < graph.inputs.size(); ++k) values[graph.inputs[k]] = kept(inputs[k]);
  const auto get = [&](ValueId v) {
    if (v == kNone) return Tensor();
    return graph.value(v).is_constant() ? kept(graph.value(v).constant.held()) : values.at(v);
  };
  for (NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    std::vector<Tensor> in;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      // A table is widened where it is picked from.
      const bool table = v != kNone && graph.value(v).is_constant() && is_picked_from(graph, n, k);
      in.push_back(table ? graph.value(v).constant.held() : get(v));
    }
    if (moving && node.op->tolerance == Tolerance::kReduction)
      for (Tensor& t : in) t = moved(t, kUnits.unit, *moving);
    std::vector<Tensor> out = run_reference(node, in);
    if (moving && node.op->tolerance != Tolerance::kExact)
      for (Tensor& t : out) t = moved(t, kUnits.unit, *moving);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone) values[node.outputs[k]] = kept(std::move(out[k]));
  }
  std::vector<Tensor> out;
  for (ValueId v : graph.outputs) out.push_back(get(v));
  return out;
}

/// How far each output element may be off when the inputs move, and what sums read and functions
/// give: what rounding alone may change where terms cancel or functions amplify. The latter by
/// themselves, for the terms of a sum may all be the same, or follow from no input, and cancel to
/// the last bit however inputs move.
std::vector<std::vector<double>> noise(const Graph& graph, const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& expected, const Moves& moves) {
  std::mt19937_64 random(97);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : expected) out.emplace_back(static_cast<size_t>(t.count()), 0.0);
  for (int k = 0; k < moves.tries; ++k) {
    std::vector<Tensor> there;
    for (const Tensor& t : inputs) there.push_back(moved(t.to_contiguous(), moves.unit, random));
    there = reference_outputs(graph, there, false, &random);
    for (size_t o = 0; o < expected.size(); ++o) {
      const std::vector<double> a = expected[o].to_doubles(), b = there[o].to_doubles();
      for (size_t i = 0; i < a.size(); ++i)
        if (std::isfinite(a[i]) && std::isfinite(b[i]))
          out[o][i] = std::max(out[o][i], moves.factor * std::fabs(a[i] - b[i]));
    }
  }
  // One that happened to stay where it is in so few tries is as unsure as half of the others are.
  for (std::vector<double>& of_output : out) {
    if (of_output.empty()) continue;
    std::vector<double> sorted = of_output;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::ranges::nth_element(sorted, middle);
    for (double& own : of_output) own = std::max(own, *middle);
  }
  return out;
}

double bound_of(DType type) {
  return !is_float(type) || type == DType::kF64 ? 1e-9 : type == DType::kF32 ? 1e-4 : 1e-2;
}

/// The relative bound of a result: that of the coarsest type it was rounded to on the way.
double relative_bound(const Graph& graph, ValueId output, DType own) {
  double bound = bound_of(own);
  std::vector<ValueId> stack{output};
  std::unordered_set<ValueId> seen(stack.begin(), stack.end());
  while (!stack.empty()) {
    const Value& value = graph.value(stack.back());
    stack.pop_back();
    if (value.producer == kNone) continue;
    bound = std::max(bound, bound_of(value.type.dtype));
    for (ValueId v : graph.node(value.producer).inputs)
      if (v != kNone && seen.insert(v).second) stack.push_back(v);
  }
  return bound;
}

/// Whether fused code for the graph holds functions that fast mode approximates (loop/math.h).
bool approximated(const Graph& graph, Numerics numerics) {
  constexpr double kFunctionWeight = 6;  // arithmetic weighs less
  return numerics == Numerics::kFast &&
         std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
           const OpDef& op = *graph.node(n).op;
           return op.scalar ? op.weight >= kFunctionWeight : op.expand != nullptr;
         });
}

bool is_product(const Node& node) {
  return node.op->tolerance == Tolerance::kContraction;
}

/// Whether fused code for the graph may round the factors of products: matrix units do.
bool rounds_factors(const Graph& graph, Numerics numerics) {
  return cpu_info().amx_bf16 &&
         std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
           return is_product(graph.node(n)) && rounds_to_bf16(graph.node(n), numerics);
         });
}

/// What may differ at an element of an output.
struct Bounds {
  double relative;                ///< of the element
  double absolute;                ///< of any
  const double* slack = nullptr;  ///< per element; null = none

  double at(size_t i, double want) const {
    return relative * std::fabs(want) + absolute + (slack ? slack[i] : 0);
  }
  /// How far apart, in units of what is allowed; 0 = the same.
  double units(size_t i, double want, double have) const {
    if (want == have || (std::isnan(want) && std::isnan(have))) return 0;
    if (std::isnan(want) || std::isnan(have)) return kFarOff;
    if (std::isinf(want) || std::isinf(have)) {
      // Just below the largest number the order of operations decides; with coarse types, whether
      // they were rounded to on the way.
      constexpr double kAlmost = 1e38;
      const bool alike = (relative > 1e-3 && std::isinf(want)) ||
                         (std::signbit(want) == std::signbit(have) &&
                          std::min(std::fabs(want), std::fabs(have)) >= kAlmost);
      return alike ? 0.5 : kFarOff;
    }
    const double units = std::fabs(want - have) / at(i, want);
    return units < kFarOff ? units : kFarOff;  // x / 0 too
  }
};

/// What noise() of an output excuses.
enum class Excused : uint8_t {
  kAll,       ///< elements that are that much further off, and the error of the whole output
  kElements,  ///< those, and where it exceeds the bound, their part in the error of the whole
  kError,     ///< their part alone
};

/// `least`: of the relative bound of floats.
std::string compare_output(const Graph& graph, size_t k, const Tensor& expected,
                           const std::vector<double>* exact, const Tensor& got,
                           const std::vector<double>* noise, Excused excused, double* worst,
                           double least = 0) {
  const std::string& name_of = graph.value(graph.outputs[k]).name;
  if (expected.dims() != got.dims() || expected.dtype() != got.dtype())
    return fmt::format("output '{}': dims {} instead of {}", name_of, to_text(got.dims()),
                       to_text(expected.dims()));
  const std::vector<double> want = expected.to_doubles(), have = got.to_doubles();
  double largest = 0;
  for (double v : want)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  const double relative =
      is_float(expected.dtype())
          ? std::max(least, relative_bound(graph, graph.outputs[k], expected.dtype()))
          : 0;
  const double* const slack = noise && excused != Excused::kError ? noise->data() : nullptr;
  const Bounds plain{relative, 0.1 * relative * largest};
  const Bounds bounds{plain.relative, plain.absolute, slack};
  double error = 0, reference_error = 0, squares = 0;
  size_t stable = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double units = bounds.units(i, want[i], have[i]);
    if (exact && std::isfinite(want[i]) && std::isfinite((*exact)[i])) {
      const double truth = (*exact)[i];
      if (units > 0) units = std::min(units, bounds.units(i, truth, have[i]));
      const bool amplified = noise && (*noise)[i] > plain.at(i, truth);
      if (plain.units(i, truth, want[i]) <= 1 && !amplified) {
        ++stable;
        error += (have[i] - truth) * (have[i] - truth);
        reference_error += (want[i] - truth) * (want[i] - truth);
        squares += truth * truth;
      }
    }
    if (worst) *worst = std::max(*worst, units);
    if (units > 1)
      return fmt::format("output '{}' at element {}: {} instead of {}", name_of, i, have[i],
                         want[i]);
  }
  if ((noise && excused == Excused::kAll) || stable < kErrorCount || !std::isfinite(error))
    return {};
  const double allowed =
      kErrorRatio * std::sqrt(reference_error) + 0.1 * relative * std::sqrt(squares);
  if (std::sqrt(error) <= allowed) return {};
  return fmt::format("output '{}': its error is {:.1f} times that of the operators it replaces",
                     name_of, std::sqrt(error / std::max(reference_error, 1e-300)));
}

}  // namespace

Expected evaluate_region(const Graph& graph, const std::vector<Tensor>& inputs) {
  Expected out;
  out.outputs = reference_outputs(graph, inputs);
  int64_t elements = 0;
  for (const Tensor& t : inputs) elements += t.count();
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (graph.value(v).is_constant() && !is_table(graph, v))
      elements += graph.value(v).constant.count();
  const bool fine = std::all_of(graph.outputs.begin(), graph.outputs.end(), [&](ValueId v) {
    const DType own = graph.value(v).type.dtype;
    return !is_float(own) || relative_bound(graph, v, own) <= bound_of(DType::kF32);
  });
  if (elements > kExactElements || !fine) return out;
  try {
    for (const Tensor& t : reference_outputs(graph, inputs, true))
      out.exact.push_back(t.to_doubles());
  } catch (const Error&) {
    out.exact.clear();  // an operator that takes no f64
  }
  return out;
}

std::string compare_region(const Graph& graph, const std::vector<Tensor>& inputs,
                           const Expected& expected, const std::vector<Tensor>& got, double* worst,
                           bool forgiving, Numerics numerics) {
  const bool rounds = rounds_factors(graph, numerics);
  const double least = rounds || approximated(graph, numerics) ? bound_of(DType::kBF16) : 0;
  const bool products = std::any_of(graph.order().begin(), graph.order().end(),
                                    [&](NodeId n) { return is_product(graph.node(n)); });
  const bool sums = std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
    return !graph.node(n).op->scalar && !index_map(graph, n);
  });
  const Excused excused = products || forgiving ? Excused::kAll
                          : sums                ? Excused::kElements
                                                : Excused::kError;
  const auto compare = [&](const std::vector<std::vector<double>>& noise, double* units) {
    std::string different;
    for (size_t k = 0; k < got.size() && different.empty(); ++k)
      different = compare_output(graph, k, expected.outputs[k],
                                 expected.exact.empty() ? nullptr : &expected.exact[k], got[k],
                                 noise.empty() ? nullptr : &noise[k], excused, units, least);
    return different;
  };
  double plain = 0;
  const std::string different = compare({}, &plain);
  if (different.empty()) {
    if (worst) *worst = std::max(*worst, plain);
    return different;
  }
  return compare(noise(graph, inputs, expected.outputs, rounds ? kRoundings : kUnits), worst);
}

std::string compare_outputs(const Graph& graph, const std::vector<Tensor>& expected,
                            const std::vector<Tensor>& got) {
  std::string different;
  for (size_t k = 0; k < expected.size() && different.empty(); ++k)
    different =
        compare_output(graph, k, expected[k], nullptr, got[k], nullptr, Excused::kAll, nullptr);
  return different;
}

}  // namespace xc
