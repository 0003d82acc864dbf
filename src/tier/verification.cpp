#include "tier/verification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "ops/infer.h"

namespace xc {

namespace {

/// A copy of `t` whose memory has the given strides.
Tensor with_strides(const Tensor& t, const Dims& strides) {
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t reach = std::max<int64_t>(t.dims()[i] - 1, 0) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t size = element_size(t.dtype());
  auto buffer = Buffer::allocate(checked_mul(high - low + 1, size));
  Tensor out(buffer, -low * size, t.dtype(), t.dims(), strides);
  // A broadcast operand repeats elements: the last one written stays.
  copy_elements(t.view(), out.view());
  return out;
}

Dims evaluate(const SymDims& dims, const Symbols& symbols) {
  Dims out;
  for (const Dim& d : dims) {
    const auto v = d.evaluate([&](const std::string& s) -> std::optional<int64_t> {
      const auto it = symbols.find(s);
      return it == symbols.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
    if (!v || *v < 0) fail(Status::kInvalidArgument, "size {} has no value here", d.text());
    out.push_back(*v);
  }
  return out;
}

Tensor random_tensor(DType dtype, const Dims& dims, std::mt19937_64& random, bool special) {
  Tensor out(dtype, dims);
  std::normal_distribution<double> normal(0.0, 1.5);
  constexpr std::array<double, 10> kEdges{0.0,    -0.0, 1.0,   -1.0, 1e-30,
                                          -1e-30, 20.0, -20.0, 88.0, -88.0};
  const int64_t n = out.count();
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(dtype)) {
      double v = normal(random);
      const uint64_t pick = random() % 32;
      if (special && pick < kEdges.size())
        v = kEdges[pick];
      else if (special && pick == 30)
        v = std::nan("");
      else if (special && pick == 31)
        v = INFINITY;
      store_double(out.data(), dtype, i, v);
    } else {
      store_int64(out.data(), dtype, i,
                  static_cast<int64_t>(random() % (dtype == DType::kBool ? 2 : 4)));
    }
  }
  return out;
}

/// Every value of the region graph by run_reference, node after node.
std::vector<Tensor> reference_outputs(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::unordered_map<ValueId, Tensor> values;
  for (size_t k = 0; k < graph.inputs.size(); ++k) values[graph.inputs[k]] = inputs[k];
  const auto get = [&](ValueId v) {
    if (v == kNone) return Tensor();
    return graph.value(v).is_constant() ? graph.value(v).constant : values.at(v);
  };
  for (NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    std::vector<Tensor> in;
    for (ValueId v : node.inputs) in.push_back(get(v));
    std::vector<Tensor> out = run_reference(node, in);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone) values[node.outputs[k]] = std::move(out[k]);
  }
  std::vector<Tensor> out;
  for (ValueId v : graph.outputs) out.push_back(get(v));
  return out;
}

/// How far each output element moves when the inputs do by a unit in the last place: what rounding
/// alone may change where products cancel or functions amplify.
std::vector<std::vector<double>> noise(const Graph& graph, const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& expected) {
  constexpr int kTries = 3;
  std::mt19937_64 random(97);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : expected) out.emplace_back(static_cast<size_t>(t.count()), 0.0);
  for (int k = 0; k < kTries; ++k) {
    std::vector<Tensor> moved;
    for (const Tensor& t : inputs) {
      moved.push_back(t.to_contiguous());
      if (t.dtype() != DType::kF32) continue;
      Tensor copy(t.dtype(), t.dims());
      const std::vector<double> values = t.to_doubles();
      for (int64_t i = 0; i < t.count(); ++i)
        store_double(copy.data(), t.dtype(), i,
                     values[static_cast<size_t>(i)] * (random() % 2 ? 1 + 0x1p-23 : 1 - 0x1p-23));
      moved.back() = std::move(copy);
    }
    const std::vector<Tensor> there = reference_outputs(graph, moved);
    for (size_t o = 0; o < expected.size(); ++o) {
      const std::vector<double> a = expected[o].to_doubles(), b = there[o].to_doubles();
      for (size_t i = 0; i < a.size(); ++i)
        if (std::isfinite(a[i]) && std::isfinite(b[i]))
          out[o][i] = std::max(out[o][i], std::fabs(a[i] - b[i]));
    }
  }
  return out;
}
constexpr double kNoise = 32;  // units: a fused kernel rounds at every step, not only its inputs

}  // namespace

void run_region(const Kernel& kernel, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& outputs) {
  std::vector<BoundOperand> in, out;
  std::vector<void*> buffers;
  for (const Tensor& t : inputs) {
    in.push_back({t.dims(), t.strides()});
    buffers.push_back(t.data());
  }
  for (const Tensor& t : outputs) {
    out.push_back({t.dims(), t.strides()});
    buffers.push_back(t.data());
  }
  const auto bound = kernel.bind({in, out, true});
  const auto scratch = Buffer::allocate(bound->scratch_bytes);
  const auto shared = Buffer::allocate(bound->shared_bytes);
  bound->run_all({buffers.data(), scratch->data(), shared->data()});
}

namespace {

/// The relative bound of a result: that of the coarsest type it was rounded to on the way.
double relative_bound(const Graph& graph, ValueId output, DType own) {
  const auto bound_of = [](DType type) {
    return !is_float(type) || type == DType::kF64 ? 1e-9 : type == DType::kF32 ? 1e-4 : 1e-2;
  };
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

}  // namespace

std::string compare_outputs(const Graph& graph, const std::vector<Tensor>& expected,
                            const std::vector<Tensor>& got,
                            const std::vector<std::vector<double>>& slack, double* worst) {
  constexpr double kFarOff = 1e9;  // of a value where nothing may differ, or NaN
  for (size_t k = 0; k < expected.size(); ++k) {
    const std::string& name_of = graph.value(graph.outputs[k]).name;
    if (expected[k].dims() != got[k].dims() || expected[k].dtype() != got[k].dtype())
      return fmt::format("output '{}': dims {} instead of {}", name_of, to_text(got[k].dims()),
                         to_text(expected[k].dims()));
    const std::vector<double> want = expected[k].to_doubles(), have = got[k].to_doubles();
    const bool exact = !is_float(expected[k].dtype());
    double largest = 0;
    for (double v : want)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    const double relative =
        exact ? 0 : relative_bound(graph, graph.outputs[k], expected[k].dtype());
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]) && std::isnan(have[i])) continue;
      if (want[i] == have[i]) continue;
      const double bound = relative * std::fabs(want[i]) + relative * 0.1 * largest +
                           (slack.empty() ? 0 : kNoise * slack[k][i]);
      const double apart = std::fabs(want[i] - have[i]);
      if (worst) {
        const double units = apart / bound;  // 0 / 0 cannot be: equal values were skipped
        *worst = std::max(*worst, units < kFarOff ? units : kFarOff);
      }
      if (apart <= bound) continue;
      return fmt::format("output '{}' at element {}: {} instead of {}", name_of, i, have[i],
                         want[i]);
    }
  }
  return {};
}

namespace {

/// The strides `operand` has with these dims.
Dims strides_of(const Operand& operand, const Dims& dims, const Symbols& symbols) {
  return operand.contiguous() ? contiguous_strides(dims) : evaluate(operand.strides, symbols);
}

/// Lays the operands out as the kernel was made for, runs it and compares with the reference.
std::string check(const Graph& graph, const StepSpec& spec, const Kernel& kernel,
                  const std::vector<Tensor>& graph_inputs, const Symbols& symbols, double* worst) {
  std::vector<Tensor> operands, laid_out;
  size_t next = 0;
  for (const Operand& operand : spec.inputs) {
    const Tensor data = operand.constant ? operand.constant : graph_inputs[next++];
    operands.push_back(with_strides(data, strides_of(operand, data.dims(), symbols)));
    if (!operand.constant) laid_out.push_back(operands.back());
  }
  // An operand that repeats elements (stride 0) holds one of each: the reference reads the same.
  const std::vector<Tensor> expected = reference_outputs(graph, laid_out);
  std::vector<Tensor> outputs;
  for (size_t k = 0; k < expected.size(); ++k)
    outputs.push_back(with_strides(Tensor(expected[k].dtype(), expected[k].dims()),
                                   strides_of(spec.outputs[k], expected[k].dims(), symbols)));
  run_region(kernel, operands, outputs);
  double plain = 0;
  const std::string different = compare_outputs(graph, expected, outputs, {}, &plain);
  const bool products = std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
    return graph.node(n).op->tolerance == Tolerance::kContraction;
  });
  if (different.empty() || !products) {
    if (worst) *worst = std::max(*worst, plain);
    return different;
  }
  return compare_outputs(graph, expected, outputs, noise(graph, laid_out, expected), worst);
}

/// The symbols of the operands' dims, solved from concrete dims where a dim is a lone symbol.
void solve(const StepSpec& spec, const std::vector<Tensor>& graph_inputs, Symbols& out) {
  size_t next = 0;
  for (const Operand& operand : spec.inputs) {
    if (operand.constant) continue;
    const Tensor& t = graph_inputs[next++];
    for (size_t axis = 0; axis < operand.dims.size(); ++axis)
      if (const auto symbol = operand.dims[axis].as_symbol()) out.emplace(*symbol, t.dims()[axis]);
  }
}

}  // namespace

std::string verify_synthetic(const Graph& graph, const StepSpec& spec, const Kernel& kernel,
                             double* worst) {
  std::vector<std::string> names;
  for (const Operand& operand : spec.inputs) {
    for (const Dim& d : operand.dims) d.collect_symbols(names);
    for (const Dim& d : operand.strides) d.collect_symbols(names);
  }
  const bool scalar_only = std::all_of(graph.order().begin(), graph.order().end(), [&](NodeId n) {
    return graph.node(n).op->scalar != nullptr;
  });
  constexpr int64_t kMaxElements = 1 << 16;
  constexpr std::array<int64_t, 7> kSizes{1, 2, 17, 3, 16, 5, 33};
  std::mt19937_64 random(20240229);
  const size_t rounds = names.empty() ? 1 : kSizes.size();
  for (size_t round = 0; round < rounds; ++round) {
    Symbols symbols;
    for (size_t k = 0; k < names.size(); ++k)
      symbols[names[k]] = kSizes[(round + k) % kSizes.size()];
    std::vector<Tensor> inputs;
    try {
      int64_t total = 0;
      for (const Operand& operand : spec.inputs) {
        const Dims dims = evaluate(operand.dims, symbols);
        total += element_count(dims);
        if (total > kMaxElements && round + 1 < rounds) break;
        if (!operand.constant)
          inputs.push_back(random_tensor(operand.dtype, dims, random, scalar_only));
      }
      if (total > kMaxElements * 4) continue;
    } catch (const Error&) {
      continue;  // these sizes do not go together
    }
    if (inputs.size() != graph.inputs.size()) continue;
    std::string different;
    try {
      different = check(graph, spec, kernel, inputs, symbols, worst);
    } catch (const Error& error) {
      if (error.status() == Status::kInternal) return error.message();
      continue;  // sizes the operators refuse
    }
    if (!different.empty()) {
      std::string sizes;
      for (const auto& [symbol, value] : symbols) sizes += fmt::format(" {}={}", symbol, value);
      return fmt::format("on made-up inputs{}: {}", sizes, different);
    }
  }
  return {};
}

std::string verify_live(const Graph& graph, const StepSpec& spec, const Kernel& kernel,
                        const std::vector<Tensor>& inputs, Symbols symbols, double* worst) {
  solve(spec, inputs, symbols);
  return check(graph, spec, kernel, inputs, symbols, worst);
}

}  // namespace xc
