// Which values lie channels-last is decided one after the other, as the base plan is made. Here the
// same is decided for all at once, as a minimum cut, and what is moved between orders compared.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <queue>

#include "backends/backend.h"
#include "conv_network.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "support.h"
#include "support/paths.h"
#include "tier/engine_factory.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Least cost of giving every variable one of two orders: an edge from a to b costs its capacity
/// when a is channels-last and b is not. Augmenting paths (Edmonds and Karp 1972).
class MinimumCut {
 public:
  static constexpr size_t kChannelsLast = 0, kRowMajor = 1;
  size_t add() {
    edges_.emplace_back();
    return edges_.size() - 1;
  }
  void differ(size_t a, size_t b, int64_t cost) {
    edges_[a][b] += cost;
    edges_[b][a] += cost;
  }
  void prefer(size_t variable, size_t order, int64_t cost) {
    if (order == kChannelsLast)
      edges_[kChannelsLast][variable] += cost;
    else
      edges_[variable][kRowMajor] += cost;
  }
  int64_t solve() {
    int64_t total = 0;
    while (true) {
      std::vector<size_t> from(edges_.size(), SIZE_MAX);
      std::queue<size_t> next;
      next.push(kChannelsLast);
      from[kChannelsLast] = kChannelsLast;
      while (!next.empty() && from[kRowMajor] == SIZE_MAX) {
        const size_t at = next.front();
        next.pop();
        for (const auto& [to, capacity] : edges_[at])
          if (capacity > 0 && from[to] == SIZE_MAX) {
            from[to] = at;
            next.push(to);
          }
      }
      if (from[kRowMajor] == SIZE_MAX) return total;
      int64_t least = INT64_MAX;
      for (size_t at = kRowMajor; at != kChannelsLast; at = from[at])
        least = std::min(least, edges_[from[at]][at]);
      for (size_t at = kRowMajor; at != kChannelsLast; at = from[at]) {
        edges_[from[at]][at] -= least;
        edges_[at][from[at]] += least;
      }
      total += least;
    }
  }

 private:
  std::vector<std::map<size_t, int64_t>> edges_ = std::vector<std::map<size_t, int64_t>>(2);
};

struct Costs {
  int64_t decided = 0,
          least = 0;  ///< bytes of values that a step does not find or give as it works
  int variables = 0, channels_last = 0;
};

/// Of a base plan; symbols are 2.
class PlanCosts {
 public:
  explicit PlanCosts(const Plan& plan) : plan_(plan) {
    for (const auto& step : plan.steps)
      for (const uint32_t v : step->outputs) add_variable(v);
    for (const auto& step : plan.steps) add_step(*step);
    costs_.least += cut_.solve();
  }
  const Costs& result() const { return costs_; }

 private:
  static constexpr size_t kChannelsLast = MinimumCut::kChannelsLast,
                          kRowMajor = MinimumCut::kRowMajor;

  const PlanValue& value(uint32_t v) const { return plan_.values[v]; }
  Storage storage(uint32_t v) const { return plan_.buffers[value(v).buffer].storage; }
  int64_t bytes(uint32_t v) const {
    int64_t out = element_size(value(v).dtype);
    for (const Dim& dim : value(v).dims)
      out *= std::max<int64_t>(1, dim.evaluate([](const std::string&) { return 2; }).value_or(1));
    return out;
  }
  /// Where the two orders are one, as of [n, c, 1, 1], there is nothing to decide.
  bool has_order(uint32_t v) const {
    const SymDims& dims = value(v).dims;
    return dims.size() >= 3 && is_channels_last(dims, channels_last_strides(dims));
  }
  /// Views that permute or reshape lie as what they are views of makes them.
  bool is_view(uint32_t v) const {
    const auto found = shapes_.find(value(v).buffer);
    if (found == shapes_.end()) return false;
    SymDims dims = value(v).dims;
    if (dims.size() != found->second.size()) return true;
    dims[1] = found->second[1];  // a part of a Concat's result
    return !(dims == found->second);
  }

  /// A variable per buffer of the arena that could lie either way; the rest lies as it does.
  void add_variable(uint32_t v) {
    if (v == kNoValue || storage(v) != Storage::kArena || variables_.count(value(v).buffer) ||
        !has_order(v))
      return;
    const size_t place = variables_[value(v).buffer] = cut_.add();
    decided_[place] = value(v).strides[1] == Dim(1) && !(value(v).dims[1] == Dim(1));
    shapes_[value(v).buffer] = value(v).dims;
    ++costs_.variables;
    costs_.channels_last += decided_[place] ? 1 : 0;
  }
  size_t place_of(uint32_t v) const {
    const auto found = variables_.find(value(v).buffer);
    if (found != variables_.end()) return found->second;
    return is_channels_last(value(v).dims, value(v).strides) ? kChannelsLast : kRowMajor;
  }

  /// So much is moved where the two lie differently.
  void differ(size_t a, size_t b, int64_t cost) {
    if (a == b) return;
    if (decided_[a] != decided_[b]) costs_.decided += cost;
    if (a > kRowMajor && b > kRowMajor)
      cut_.differ(a, b, cost);
    else if (a > kRowMajor || b > kRowMajor)
      cut_.prefer(std::max(a, b), std::min(a, b), cost);
    else
      costs_.least += cost;
  }

  void add_step(const Step& step) {
    const auto rows = cpu_backend().implementations();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Implementation& r) {
      return asked_for(r.op, *step.spec.op) && r.name == step.kernel_name;
    });
    const std::vector<Order> orders =
        row != rows.end() && row->preferred ? row->preferred(step.spec) : std::vector<Order>{};
    const auto order_of = [&](size_t operand) {
      return operand < orders.size() ? orders[operand] : Order::kRowMajor;
    };
    const size_t inputs = step.inputs.size(), first_output = step.spec.inputs.size();
    const uint32_t result = step.outputs.at(0);
    const bool follows = result != kNoValue && has_order(result) && !is_view(result) &&
                         order_of(first_output) == Order::kAny;
    for (size_t k = 0; k < inputs + step.outputs.size(); ++k) {
      const uint32_t v = k < inputs ? step.inputs[k] : step.outputs[k - inputs];
      if (v == kNoValue || storage(v) == Storage::kConstant || !has_order(v) || is_view(v))
        continue;
      const Order order = order_of(k < inputs ? k : first_output + k - inputs);
      if (order != Order::kAny)
        differ(place_of(v), order == Order::kChannelsLast ? kChannelsLast : kRowMajor, bytes(v));
      else if (k < inputs && follows && value(result).dims.size() == value(v).dims.size())
        differ(place_of(v), place_of(result), bytes(v));
    }
  }

  const Plan& plan_;
  MinimumCut cut_;
  Costs costs_;
  std::map<uint32_t, size_t> variables_;  // by buffer
  std::map<uint32_t, SymDims> shapes_;
  std::map<size_t, bool> decided_{{kChannelsLast, true}, {kRowMajor, false}};
};

}  // namespace

TEST_CASE("tiering/layout_cost: the cut finds what trying every choice finds") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % 8;
    struct Term {
      size_t a, b;
      int64_t cost;
    };
    std::vector<Term> terms;
    MinimumCut cut;
    for (size_t k = 0; k < count; ++k) cut.add();
    for (size_t k = 0; k < 3 * count; ++k) {
      const Term term{2 + random() % count, random() % (count + 2),
                      static_cast<int64_t>(random() % 20)};
      if (term.a == term.b) continue;
      terms.push_back(term);
      if (term.b < 2)
        cut.prefer(term.a, term.b, term.cost);
      else
        cut.differ(term.a, term.b, term.cost);
    }
    int64_t least = INT64_MAX;
    for (size_t choice = 0; choice < size_t{1} << count; ++choice) {
      const auto last = [&](size_t v) {
        return v < 2 ? v == MinimumCut::kChannelsLast : (choice >> (v - 2) & 1) != 0;
      };
      int64_t sum = 0;
      for (const Term& term : terms) sum += last(term.a) != last(term.b) ? term.cost : 0;
      least = std::min(least, sum);
    }
    CHECK(cut.solve() == least);
  }
}

namespace {

Costs costs_of(std::shared_ptr<const Model> model) {
  Session session(std::move(model), Config{});
  return PlanCosts(*session.program().base_plan()).result();
}

Config without_jit() {
  Config config;
  config.set_jit(JitMode::kOff);
  return config;
}

}  // namespace

TEST_CASE("tiering/layout_cost: of random networks little more is moved than has to be") {
  Costs sum;
  int more = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const ConvNetwork network(seed, seed > 100);
    const Costs found =
        costs_of(Model::create(create_engine(without_jit(), {}), parse_graph(network.text())));
    CHECK(found.decided >= found.least);
    more += found.decided > found.least ? 1 : 0;
    sum.decided += found.decided;
    sum.least += found.least;
    sum.variables += found.variables;
    sum.channels_last += found.channels_last;
  }
  CHECK(sum.channels_last > 100);
  CHECK(sum.decided <= sum.least + sum.least / 2);
  CHECK(more <= 50);
}

TEST_CASE("tiering/layout_cost: convolution networks move what they have to") {
  if (!test::have_shared("bench/small")) return;
  for (const std::string name : {"resnet50", "mobilenet_v2", "unet"}) {
    CAPTURE(name);
    const Costs found =
        costs_of(Model::load(create_engine(without_jit(), {}),
                             test::shared_dir() + "/bench/small/" + name + "/model.onnx"));
    CHECK(found.channels_last >= 4);
    CHECK(found.decided == found.least);
  }
}

// XC_MODELS: where they are. Prints; asserts nothing.
TEST_CASE("tiering/layout_cost: models from a directory" * doctest::skip()) {
  const char* const models = std::getenv("XC_MODELS");
  if (!models) return;
  for (const auto& file : std::filesystem::directory_iterator(models)) {
    if (file.path().extension() != ".onnx") continue;
    const Costs found =
        costs_of(Model::load(create_engine(without_jit(), {}), file.path().string()));
    if (found.variables > 0)
      std::printf("%-40s %9.1f KB moved, %9.1f at best; %d of %d channels-last\n",
                  file.path().filename().c_str(), static_cast<double>(found.decided) / 1024,
                  static_cast<double>(found.least) / 1024, found.channels_last, found.variables);
  }
}
