#include "support/graph_fuzz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "ir/text.h"
#include "ops/infer.h"
#include "runtime/session.h"
#include "support/evaluate.h"
#include "support/sessions.h"
#include "tier/verification.h"

namespace xc::test {
namespace {

// Few differences need more than a look at a few roundings.
constexpr std::array kShakes = {16, 200, 3000};

/// What one rounding in an operator may do to a value.
double unit_of(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x1p-50;
    case DType::kF32:
      return 0x1p-21;
    case DType::kF16:
      return 0x1p-10;
    default:
      return 0x1p-7;
  }
}

/// Moved by up to its unit, and by up to `absolute`; what is as small may become 0, or does
/// (`vanishes`).
Tensor shaken(const Tensor& t, std::mt19937_64& random, double absolute = 0,
              bool vanishes = false) {
  Tensor out(t.dtype(), t.dims());
  copy_elements(t.view(), out.view());
  const double unit = unit_of(t.dtype());
  for (int64_t i = 0; i < out.count(); ++i) {
    const double by = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    const double moved = load_double(out.data(), t.dtype(), i) * (1 + by * unit) + by * absolute;
    const bool gone = std::fabs(moved) < 2 * absolute && (vanishes || random() % 4 == 0);
    store_double(out.data(), t.dtype(), i, gone ? 0 : moved);
  }
  return out;
}

bool any_of(const Tensor& t, const std::function<bool(double)>& is) {
  if (!t || !is_float(t.dtype())) return false;
  const auto values = t.to_doubles();
  return std::any_of(values.begin(), values.end(), is);
}

/// Results that nothing pins down: overflow of f16, sums whose terms leave the range of the type
/// they are summed in, norms of infinities, sines of what is beyond their documented range.
bool undefined(const Node& node, const std::vector<Tensor>& operands, const Tensor& result) {
  // Half numbers between operators may be kept wider, by a rule or in a vendor's post-op.
  const auto infinite = [](double v) { return std::isinf(v); };
  if (result.dtype() == DType::kF16 && any_of(result, infinite)) return true;
  if (node.op->name == "Sin" || node.op->name == "Cos" || node.op->name == "Tan")
    return any_of(operands[0], [](double v) { return std::fabs(v) > 0x1p20; });
  if (node.op->name == "MaxPool")  // oneDNN's maximum passes over a NaN, the reference keeps it
    return any_of(operands[0], [](double v) { return std::isnan(v); });
  if (node.op->name == "LpNormalization" || node.op->name == "ReduceL2")  // squares that vanish
    if (any_of(operands[0], [](double v) { return v != 0 && std::fabs(v) < 1e-18; })) return true;
  if (node.op->name == "Mean") return any_of(result, [&](double v) { return std::fabs(v) > 1e37; });
  if (node.op->name == "ReduceProd" && is_float(operands[0].dtype())) {
    double up = 0, down = 0;  // of partial products, in powers of two
    for (double v : operands[0].to_doubles())
      if (v != 0 && std::isfinite(v)) (std::fabs(v) > 1 ? up : down) += std::log2(std::fabs(v));
    return up > 120 || down < -120;
  }
  if (node.op->tolerance < Tolerance::kReduction) return false;
  if (node.op->name.find("Normalization") != std::string_view::npos &&
      std::any_of(operands.begin(), operands.end(), [](const Tensor& t) {
        return any_of(t, [](double v) { return !std::isfinite(v); });
      }))
    return true;
  return std::any_of(operands.begin(), operands.end(), [](const Tensor& t) {
    const double large = t && t.dtype() == DType::kF64 ? 1e140 : 1e16;
    return any_of(t, [&](double v) { return std::isfinite(v) && std::fabs(v) > large; });
  });
}

/// What the roundings of a mean do to a norm of rows that hardly vary, which moved operands do not
/// show: they leave the sum over a row as it is.
double error_of_mean(const Node& node, const std::vector<Tensor>& operands) {
  const bool instance = node.op->name == "InstanceNormalization";
  if (!instance && node.op->name != "LayerNormalization") return 0;
  const Dims& dims = operands[0].dims();
  int64_t first = instance ? 2 : node.attrs.get_int("axis", -1);
  if (first < 0) first += static_cast<int64_t>(dims.size());
  int64_t length = 1;
  for (size_t a = static_cast<size_t>(first); a < dims.size(); ++a) length *= dims[a];
  const std::vector<double> x = operands[0].to_doubles();
  double worst = 0, scale = 0;
  for (size_t r = 0; length > 0 && r < x.size(); r += static_cast<size_t>(length)) {
    double sum = 0, squares = 0;
    for (size_t i = r; i < r + static_cast<size_t>(length); ++i)
      sum += x[i], squares += x[i] * x[i];
    const double mean = sum / static_cast<double>(length);
    const double variance = std::max(0.0, squares / static_cast<double>(length) - mean * mean);
    worst = std::max(worst, std::fabs(mean) * unit_of(operands[0].dtype()) /
                                std::sqrt(variance + node.attrs.get_float("epsilon", 1e-5)));
  }
  for (double v : operands[1].to_doubles()) scale = std::max(scale, std::fabs(v));
  return std::isfinite(worst * scale) ? worst * scale : 0;
}

/// The library's Clip behind a convolution passes over a NaN.
bool clips_a_convolution(const Graph& graph, const Node& node,
                         const std::vector<Tensor>& operands) {
  const NodeId producer = graph.value(node.inputs[0]).producer;
  return node.op->name == "Clip" && producer != kNone && graph.node(producer).op->name == "Conv" &&
         any_of(operands[0], [](double v) { return std::isnan(v); });
}

/// The reference with every inexact operator's result, and the operands of sums, moved by a
/// rounding or so.
std::vector<Tensor> evaluate_shaken(const Graph& graph, const std::vector<Tensor>& inputs,
                                    std::mt19937_64& random) {
  std::vector<Tensor> values(graph.value_count());
  for (ValueId id = 0; id < graph.value_count(); ++id) values[id] = graph.value(id).constant;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  // Underflow strikes all elements of a tail alike, those of a Gelu for one.
  const bool vanishes = random() % 4 == 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const Tolerance tolerance = node.op->tolerance;
    std::vector<Tensor> operands;
    for (ValueId v : node.inputs) {
      operands.push_back(v == kNone ? Tensor() : values[v]);
      if (tolerance >= Tolerance::kReduction && operands.back() &&
          is_float(operands.back().dtype()))
        operands.back() = shaken(operands.back(), random);
    }
    const std::vector<Tensor> results = run_reference(node, operands);
    const bool wild =
        undefined(node, operands, results[0]) || (!node.inputs.empty() && node.inputs[0] != kNone &&
                                                  clips_a_convolution(graph, node, operands));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNone) continue;
      Tensor& out = values[node.outputs[k]] = results[k];
      // A cast to a half type may be left out between operators, as any rounding to one.
      const bool halves =
          node.op->name == "Cast" && (out.dtype() == DType::kF16 || out.dtype() == DType::kBF16);
      if ((tolerance == Tolerance::kExact && !wild && !halves) || !is_float(out.dtype())) continue;
      // Functions are approximated in at least f32, with a bound relative to their range; a half
      // number below the least may be kept.
      double absolute = out.dtype() == DType::kF16    ? 0x1p-24
                        : out.dtype() == DType::kBF16 ? 0x1p-133
                                                      : 0;
      if (node.op->name == "Softmax")  // makes no denormal numbers
        absolute = std::max(absolute, out.dtype() == DType::kF64 ? 0x1p-1022 : 0x1p-126);
      // The reference takes the logarithm of a sum in f64.
      if (node.op->weight >= 6 || node.op->name.starts_with("ReduceLog"))
        absolute = out.dtype() == DType::kF64 ? 0x1p-50 : 0x1p-20;
      absolute += error_of_mean(node, operands);
      out = shaken(results[k], random, absolute, vanishes);
      // A power's bound grows with its exponent.
      for (int more = 0; node.op->name == "Pow" && more < 16; ++more) out = shaken(out, random);
      const bool tame = random() % 2;
      for (int64_t i = 0; wild && i < out.count(); ++i) {
        const double finite = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
        const std::array<double, 6> any{finite, 0, 1e3 * finite, NAN, INFINITY, -INFINITY};
        if (const uint64_t pick = random() % (tame ? 4 : 8); pick < any.size())
          store_double(out.data(), out.dtype(), i, any[pick % (tame ? 3 : 6)]);
      }
    }
  }
  std::vector<Tensor> out;
  for (ValueId v : graph.outputs) out.push_back(values[v]);
  return out;
}

/// Every value of the graph by its reference.
std::vector<Tensor> evaluate_all(const Graph& graph, const std::vector<Tensor>& inputs) {
  Graph all = graph.clone();
  all.outputs.clear();
  for (ValueId v = 0; v < all.value_count(); ++v) all.outputs.push_back(v);
  return evaluate(all, inputs);
}

/// The same elements in reversed, padded memory.
Tensor laid_out_oddly(const Tensor& t) {
  Dims strides(t.dims().size());
  int64_t span = 2, offset = 0;
  for (size_t k = 0; k < strides.size(); ++k) {
    strides[k] = -span;
    offset += span * std::max<int64_t>(t.dims()[k] - 1, 0);
    span *= std::max<int64_t>(t.dims()[k], 1);
  }
  const Tensor memory(t.dtype(), {span});
  Tensor out(memory.buffer(), offset * element_size(t.dtype()), t.dtype(), t.dims(), strides);
  copy_elements(t.view(), out.view());
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims() || a.dtype() != b.dtype()) return false;
  if (!is_float(a.dtype())) return a.to_int64s() == b.to_int64s();
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::isnan(x[i]) && std::isnan(y[i])) &&
        (x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])))
      return false;
  return true;
}

/// The part of a problem that computes `outputs` when the values `cuts` are given from outside.
/// `fixed`: dims are those of its only run.
Problem part_of(const Problem& from, const std::vector<ValueId>& outputs,
                const std::set<ValueId>& cuts, bool fixed) {
  const Graph& graph = from.graph;
  std::set<ValueId> needed(outputs.begin(), outputs.end());
  std::set<NodeId> nodes;
  for (auto it = graph.order().rbegin(); it != graph.order().rend(); ++it) {
    const Node& node = graph.node(*it);
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v != kNone && needed.count(v) && !cuts.count(v);
    });
    if (!used) continue;
    nodes.insert(*it);
    needed.insert(node.inputs.begin(), node.inputs.end());
  }
  std::vector<std::vector<Tensor>> values;
  for (const auto& run : from.runs) values.push_back(evaluate_all(graph, run));
  Problem out;
  out.graph.name = graph.name;
  out.runs.resize(from.runs.size());
  std::map<ValueId, ValueId> ids{{kNone, kNone}};
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (!needed.count(v)) continue;
    if (value.is_constant()) {
      ids[v] = out.graph.add_constant(value.name, value.constant);
    } else if (value.is_input || cuts.count(v)) {
      Type type = value.type;
      if (fixed) type = Type::tensor(type.dtype, to_symbolic(values[0][v].dims()));
      ids[v] = out.graph.add_input(value.name, type);
      for (size_t run = 0; run < values.size(); ++run) out.runs[run].push_back(values[run][v]);
    }
  }
  for (NodeId id : graph.order()) {
    if (!nodes.count(id)) continue;
    Node node = graph.node(id);
    for (ValueId& v : node.inputs) v = ids.at(v);
    for (ValueId& v : node.outputs)
      if (v != kNone) {
        // A value that is cut and computed all the same (by a node with other results) has no user.
        const ValueId made = out.graph.add_value(cuts.count(v) ? "" : graph.value(v).name);
        if (!cuts.count(v)) ids[v] = made;
        v = made;
      }
    out.graph.add_node(std::move(node));
  }
  for (ValueId v : outputs) out.graph.outputs.push_back(ids.at(v));
  infer_types(out.graph);
  return out;
}

}  // namespace

std::vector<Way> all_ways() {
  Config off;
  off.threads = 1;
  off.set_jit(JitMode::kOff);
  off.poison_arena = 1;
  off.verify_passes = 1;
  Config sync = off;
  sync.set_jit(JitMode::kSync);
  const auto with = [](Config config, int64_t Config::* field, int64_t value) {
    config.*field = value;
    return config;
  };
  const auto strict = [&](Config config) { return with(config, &Config::numerics, 2); };
  std::vector<Way> out{
      {.name = "off", .config = off},
      {.name = "interpreter", .config = sync, .interpreted = true},
      {.name = "off, 2 threads", .config = with(off, &Config::threads, 2), .same_bits = "off"},
      {.name = "reference kernels", .config = with(off, &Config::kernels, 1)},
      {.name = "off, no rules", .config = with(off, &Config::rules, 1)},
      {.name = "off, no layouts", .config = with(off, &Config::layouts, 1)},
      {.name = "off, constant dims", .config = off, .constant_dims = true},
      {.name = "off, strict", .config = strict(off)},
      {.name = "off, strict, 2 threads",
       .config = with(strict(off), &Config::threads, 2),
       .same_bits = "off, strict"},
      {.name = "off, odd inputs, again", .config = off, .odd_inputs = true, .passes = 3},
      {.name = "off, shared memory",
       .config = off,
       .shared = true,
       .passes = 2,
       .same_bits = "off"},
  };
#if XC_HAVE_JIT
  out.push_back({.name = "jit", .config = sync, .same_bits = "interpreter"});
  out.push_back(
      {.name = "jit, 2 threads", .config = with(sync, &Config::threads, 2), .same_bits = "jit"});
  out.push_back(
      {.name = "jit, avx2", .config = with(sync, &Config::isa, 2), .same_bits = "interpreter"});
  out.push_back({.name = "jit, baseline", .config = with(sync, &Config::isa, 1)});
  out.push_back({.name = "jit, constant dims", .config = sync, .constant_dims = true});
  out.push_back({.name = "jit, special sizes", .config = sync, .specials = true});
  out.push_back({.name = "jit, no rules", .config = with(sync, &Config::rules, 1)});
  out.push_back({.name = "jit, no layouts", .config = with(sync, &Config::layouts, 1)});
  out.push_back({.name = "jit, no fusion", .config = with(sync, &Config::fusion, 1)});
  out.push_back({.name = "jit, strict", .config = strict(sync), .same_bits = "off, strict"});
  out.push_back({.name = "jit, verified", .config = sync, .verified = true});
  out.push_back({.name = "jit, shared memory", .config = sync, .shared = true, .same_bits = "jit"});
  // Plans with and without regions take turns; one run in sixteen is looked at.
  Config swaps = with(sync, &Config::force_swap, 1);
  swaps.threads = 2;
  out.push_back({.name = "jit, plans swapped", .config = swaps, .passes = 24});
  out.push_back({.name = "jit, strict, plans swapped",
                 .config = strict(swaps),
                 .passes = 4,
                 .same_bits = "off, strict"});
#endif
  return out;
}

/// What a run must give, and how far the reference itself moves when its roundings do.
struct GraphFuzzer::Oracle {
  std::vector<Tensor> expected;
  bool refused = false;  ///< by the reference: these sizes do not go together
  int shakes = 0;
  std::vector<std::vector<double>> spread;  ///< per output and element
};

GraphFuzzer::GraphFuzzer(std::vector<Way> ways, const Compilers& compilers)
    : ways_(std::move(ways)) {
  for (const Way& way : ways_) {
    std::unique_ptr<RegionCompiler> compiler;
    if (compilers)
      compiler = compilers(way);
    else
      compiler = way.interpreted ? create_interpreting_compiler()
                                 : create_jit_compiler(way.config.isa, 64 << 20, false);
    TierFaults faults;
    faults.unverified = !way.verified;
    faults.specials = way.specials;
    faults.guard_pages = way.verified;
    engines_[way.name] = std::make_shared<Engine>(
        way.config, HostHooks{},
        std::make_unique<Tier>(std::move(compiler), way.config, std::move(faults)));
  }
}
GraphFuzzer::~GraphFuzzer() = default;

std::string GraphFuzzer::compare(const Problem& problem, size_t run, Oracle& oracle,
                                 const std::vector<Tensor>& got) {
  std::string different = compare_outputs(problem.graph, oracle.expected, got);
  for (const int shakes : kShakes)
    if (!different.empty()) different = compare_shaken(problem, run, oracle, got, shakes);
  return different;
}

std::string GraphFuzzer::compare_shaken(const Problem& problem, size_t run, Oracle& oracle,
                                        const std::vector<Tensor>& got, int shakes) {
  std::mt19937_64 random(static_cast<uint64_t>(oracle.shakes + 1));
  if (oracle.spread.empty())
    for (const Tensor& t : oracle.expected)
      oracle.spread.emplace_back(static_cast<size_t>(t.count()), 0.0);
  for (; oracle.shakes < shakes; ++oracle.shakes) {
    const auto moved = evaluate_shaken(problem.graph, problem.runs[run], random);
    for (size_t k = 0; k < moved.size(); ++k) {
      if (moved[k].dims() != oracle.expected[k].dims()) return "dims move with roundings";
      const auto a = oracle.expected[k].to_doubles(), b = moved[k].to_doubles();
      for (size_t i = 0; i < a.size(); ++i) {
        const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
        const double by = both_nan || a[i] == b[i] ? 0 : std::fabs(a[i] - b[i]);
        oracle.spread[k][i] = std::max(oracle.spread[k][i], std::isnan(by) ? INFINITY : by);
      }
    }
  }
  // Where the reference moves by a good part of the difference, the difference says nothing.
  std::vector<Tensor> excused;
  for (size_t k = 0; k < got.size(); ++k) {
    if (got[k].dims() != oracle.expected[k].dims() || got[k].dtype() != oracle.expected[k].dtype())
      return compare_outputs(problem.graph, oracle.expected, got);
    Tensor t = got[k].to_contiguous();
    const Tensor want = oracle.expected[k].to_contiguous();
    const auto a = want.to_doubles(), b = t.to_doubles();
    const auto size = static_cast<size_t>(element_size(t.dtype()));
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      const double by = std::fabs(a[i] - b[i]);
      const double spread = oracle.spread[k][i];
      if (!(8 * spread >= by) && spread != INFINITY && !(spread > 0.25 * std::fabs(a[i]))) continue;
      std::memcpy(static_cast<std::byte*>(t.data()) + i * size,
                  static_cast<const std::byte*>(want.data()) + i * size, size);
      ++counts_.excused;
    }
    excused.push_back(t);
  }
  return compare_outputs(problem.graph, oracle.expected, excused);
}

Failure GraphFuzzer::check_way(const Problem& problem, const Way& way, std::vector<Oracle>& oracles,
                               std::map<std::string, std::vector<std::vector<Tensor>>>& results) {
  std::shared_ptr<Session> session;
  auto& mine = results[way.name];
  mine.resize(problem.runs.size());
  ++counts_.problems[way.name];
  const auto close = [&](size_t run) -> Failure {
    if (!session) return {};
    const ProfileSummary profile = session->profile();
    counts_.regions[way.name] += profile.compiled_regions;
    for (const RegionSummary& region : profile.regions) {
      if (region.reason.empty()) continue;
      // A kernel of too many operations is declined; the region stays as it was.
      const bool declined = region.reason.find("operations, of") != std::string::npos;
      if (region.reason.starts_with("compile failed") && !declined)
        return {way.name, run, "compile", region.name + ": " + region.reason};
      ++counts_.refused[(way.verified ? "verified: " : "") + region.name + ": " + region.reason];
    }
    return {};
  };
  const auto runs = problem.runs.size();
  for (size_t step = 0; step < runs * static_cast<size_t>(way.passes); ++step) {
    const size_t run = step % runs;
    try {
      if (!session || way.constant_dims) {
        if (const Failure failure = close(run)) return failure;
        Graph graph;
        if (way.constant_dims) {
          if (oracles[run].refused) continue;
          Problem fixed{problem.graph.clone(), {problem.runs[run]}};
          graph = part_of(fixed, problem.graph.outputs, {}, true).graph;
          // Inputs that nobody reads are gone.
        } else {
          graph = problem.graph.clone();
        }
        session = std::make_shared<Session>(Model::create(engines_.at(way.name), std::move(graph)),
                                            Config{});
      }
      std::vector<Tensor> inputs;
      if (way.constant_dims) {
        for (const PortInfo& port : session->model().inputs())
          for (size_t i = 0; i < problem.graph.inputs.size(); ++i)
            if (problem.graph.value(problem.graph.inputs[i]).name == port.name)
              inputs.push_back(problem.runs[run][i]);
      } else {
        inputs = problem.runs[run];
      }
      if (way.odd_inputs)
        for (Tensor& t : inputs) t = laid_out_oddly(t);
      mine[run] = way.shared && !oracles[run].refused
                      ? testing::run_in_memory_of_inputs(*session, inputs, oracles[run].expected,
                                                         &counts_.shared)
                      : testing::run(*session, inputs);
    } catch (const std::exception& error) {
      if (oracles[run].refused) continue;
      return {way.name, run, "throws", error.what()};
    }
    if (oracles[run].refused) continue;
    for (const Tensor& t : mine[run]) counts_.elements += t.count();
    if (const std::string text = compare(problem, run, oracles[run], mine[run]); !text.empty())
      return {way.name, run, "differs", text};
    const auto other = results.find(way.same_bits);
    if (other == results.end()) continue;
    for (size_t k = 0; k < mine[run].size(); ++k)
      if (!same_bits(mine[run][k], other->second[run][k]))
        return {way.name, run, "other bits",
                fmt::format("output {} has not the bits of '{}'", k, way.same_bits)};
  }
  return close(0);
}

Failure GraphFuzzer::check(const Problem& problem, const std::vector<std::string>& names) {
  std::set<std::string> wanted(names.begin(), names.end());
  for (auto it = ways_.rbegin(); it != ways_.rend(); ++it)
    if (wanted.count(it->name) && !it->same_bits.empty()) wanted.insert(it->same_bits);
  std::vector<Oracle> oracles(problem.runs.size());
  for (size_t run = 0; run < problem.runs.size(); ++run) {
    ++counts_.runs;
    try {
      oracles[run].expected = evaluate(problem.graph, problem.runs[run]);
    } catch (const Error& error) {
      if (error.status() == Status::kInternal) return {"reference", run, "throws", error.what()};
      oracles[run].refused = true;
      ++counts_.refused_runs;
    }
  }
  std::map<std::string, std::vector<std::vector<Tensor>>> results;
  for (const Way& way : ways_)
    if (wanted.count(way.name))
      if (Failure failure = check_way(problem, way, oracles, results)) return failure;
  return {};
}

Problem GraphFuzzer::shrink(const Problem& problem, Failure& failure) {
  Problem best{problem.graph.clone(), problem.runs};
  if (failure.way == "reference") return best;
  const auto take = [&](Problem candidate) {
    Failure now;
    try {
      now = check(candidate, {failure.way});
    } catch (const std::exception&) {
      return false;
    }
    if (now.way != failure.way || now.kind != failure.kind) return false;
    failure = now;
    best = std::move(candidate);
    return true;
  };
  const auto attempt = [&](const std::vector<ValueId>& outputs, const std::set<ValueId>& cuts,
                           bool fixed) {
    try {
      return take(part_of(best, outputs, cuts, fixed));
    } catch (const std::exception&) {
      return false;  // not every part is a problem
    }
  };
  if (best.runs.size() > 1) take({best.graph.clone(), {best.runs[failure.run]}});
  if (best.runs.size() == 1) attempt(best.graph.outputs, {}, true);
  const bool fixed =
      best.runs.size() == 1 &&
      std::all_of(best.graph.inputs.begin(), best.graph.inputs.end(), [&](ValueId v) {
        const auto& dims = *best.graph.value(v).type.dims;
        return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
      });
  for (int round = 0; round < 4; ++round) {
    const size_t before = best.graph.order().size() + best.graph.outputs.size();
    for (ValueId v : std::vector<ValueId>(best.graph.outputs))
      if (attempt({v}, {}, fixed)) break;
    for (NodeId n : std::vector<NodeId>(best.graph.order()))
      if (best.graph.node(n).outputs[0] != kNone &&
          attempt({best.graph.node(n).outputs[0]}, {}, fixed))
        break;
    for (size_t k = best.graph.outputs.size(); k-- > 0 && best.graph.outputs.size() > 1;) {
      std::vector<ValueId> outputs = best.graph.outputs;
      outputs.erase(outputs.begin() + static_cast<ptrdiff_t>(k));
      attempt(outputs, {}, fixed);
    }
    // Ids change with every part taken, so values are remembered by name.
    std::vector<std::string> names;
    for (auto it = best.graph.order().rbegin(); it != best.graph.order().rend(); ++it)
      for (ValueId v : best.graph.node(*it).outputs)
        if (v != kNone && !best.graph.is_output(v)) names.push_back(best.graph.value(v).name);
    for (const std::string& name : names) {
      const auto v = best.graph.find_value(name);
      if (v && best.graph.value(*v).producer != kNone) attempt(best.graph.outputs, {*v}, fixed);
    }
    if (best.graph.order().size() + best.graph.outputs.size() == before) break;
  }
  return best;
}

std::string to_text(const Problem& problem) {
  PrintOptions options;
  options.max_elements = 64;
  std::string out = print(problem.graph, options);
  for (const auto& run : problem.runs) {
    out += "run on\n";
    for (size_t i = 0; i < run.size(); ++i) {
      out += fmt::format("  %{}: {}{}", problem.graph.value(problem.graph.inputs[i]).name,
                         name(run[i].dtype()), xc::to_text(run[i].dims()));
      if (run[i].count() <= 200) {
        out += " =";
        for (double v : run[i].to_doubles()) out += fmt::format(" {}", v);
      }
      out += "\n";
    }
  }
  return out;
}

std::string GraphFuzzer::report(const Problem& problem, Failure failure, const std::string& seed) {
  std::string out = fmt::format("{}: '{}' {} in run {}: {}\n{}", seed, failure.way, failure.kind,
                                failure.run, failure.text, to_text(problem));
  const Problem small = shrink(problem, failure);
  out += fmt::format("smaller: '{}' {}: {}\n{}", failure.way, failure.kind, failure.text,
                     to_text(small));
  return out;
}

std::string GraphFuzzer::summary() const {
  std::string out = fmt::format(
      "{} runs ({} refused by the reference), {} elements compared, {} excused, {} "
      "outputs in the memory of an input\n",
      counts_.runs, counts_.refused_runs, counts_.elements, counts_.excused, counts_.shared);
  for (const auto& [way, count] : counts_.problems) {
    const auto regions = counts_.regions.find(way);
    out += fmt::format("  {}: {} graphs, {} regions\n", way, count,
                       regions == counts_.regions.end() ? 0 : regions->second);
  }
  for (const auto& [reason, count] : counts_.refused)
    out += fmt::format("  {} x {}\n", count, reason);
  return out;
}

}  // namespace xc::test
