#include "runtime/branch_choice.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/infer.h"
#include "ops/is_op.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"

namespace xc {
namespace {

constexpr size_t kNumbersOnStack = 32;

using Symbols = std::unordered_set<std::string>;

/// What the dims of inputs and the elements of small ones give by themselves.
template <class Visit>  // (symbol, input, index, element)
void for_each_symbol(const Graph& graph, const Visit& visit) {
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (value.type.kind != Type::Kind::kTensor) continue;
    const auto each = [&](const std::vector<Dim>& dims, bool element) {
      for (uint32_t k = 0; k < dims.size(); ++k)
        if (const auto symbol = dims[k].as_symbol()) visit(*symbol, i, k, element);
    };
    if (value.type.dims) each(*value.type.dims, false);
    if (value.elements) each(*value.elements, true);
  }
}

Symbols symbols_of(const Graph& graph) {
  Symbols out;
  for_each_symbol(graph,
                  [&](const std::string& symbol, uint32_t, uint32_t, bool) { out.insert(symbol); });
  return out;
}

bool all_known(const std::vector<Dim>& dims, const Symbols& known) {
  std::vector<std::string> names;
  for (const Dim& d : dims) d.collect_symbols(names);
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return known.count(name) != 0; });
}

/// Do inputs not tell the sizes of all that a node, or what lies in its bodies, gives?
bool leaves_sizes_open(const Graph& graph, const Node& node, const Symbols& known) {
  for (const ValueId v : node.outputs) {
    if (v == kNone) continue;
    const Type& type = graph.value(v).type;
    if (type.kind == Type::Kind::kTensor && (!type.dims || !all_known(*type.dims, known)))
      return true;
  }
  return std::any_of(node.subgraphs.begin(), node.subgraphs.end(), [&](const auto& sub) {
    const std::vector<NodeId>& order = sub->order();
    return std::any_of(order.begin(), order.end(),
                       [&](NodeId id) { return leaves_sizes_open(*sub, sub->node(id), known); });
  });
}

/// The conditions that can be decided, each once.
std::vector<ValueId> open_conditions(const Graph& graph) {
  std::vector<ValueId> out;
  std::optional<Symbols> known;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "If")) continue;
    const Value& condition = graph.value(node.inputs[0]);
    if (!condition.elements || condition.elements->size() != 1 || condition.is_constant() ||
        !to_concrete(*condition.type.dims))
      continue;
    if (!known) known = symbols_of(graph);
    if (all_known(*condition.elements, *known) && leaves_sizes_open(graph, node, *known) &&
        std::find(out.begin(), out.end(), node.inputs[0]) == out.end())
      out.push_back(node.inputs[0]);
  }
  return out;
}

/// Nothing where none comes out (a division by zero, a number out of range).
std::optional<int64_t> value_of(const Dim& condition, const Dim::Lookup& lookup) {
  try {
    return condition.evaluate(lookup);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

int64_t input_element(const TensorView& input, int64_t index) {
  const int64_t at = offset_at(index, input.dims, input.strides);
  return std::max(load_int64(input.data, input.dtype, at), -INT64_MAX);
}

int64_t InputNumber::of(std::span<const TensorView> inputs) const {
  return element ? input_element(inputs[input], index) : inputs[input].dims[index];
}

size_t BranchChoice::index_of(const std::string& symbol) const {
  const auto known = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const InputNumber& s) { return s.symbol == symbol; });
  return static_cast<size_t>(known - sources_.begin());
}

OpenBranches::OpenBranches(const Graph& graph) {
  const std::vector<ValueId> open = open_conditions(graph);
  if (open.empty()) return;
  std::unordered_map<std::string, uint32_t> places;
  for_each_symbol(graph, [&](const std::string& symbol, uint32_t input, uint32_t index, bool el) {
    if (places.emplace(symbol, static_cast<uint32_t>(sources_.size())).second)
      sources_.push_back({symbol, input, index, el});
  });
  for (const ValueId v : open)
    conditions_.emplace_back(std::vector<Dim>{graph.value(v).elements->front()},
                             [&](const std::string& symbol) { return places.at(symbol); });
}

bool OpenBranches::any_follows(std::span<const TensorView> inputs) const {
  std::vector<int64_t> numbers;
  for (const InputNumber& source : sources_) numbers.push_back(source.of(inputs));
  return std::ranges::any_of(conditions_, [&](const DimProgram& condition) {
    int64_t outcome = 0;
    try {
      condition.run(numbers.data(), &outcome);
    } catch (const Error&) {
      return false;
    }
    return true;
  });
}

bool BranchChoice::decide(Graph& graph, std::span<const TensorView> inputs) {
  const std::vector<ValueId> open = open_conditions(graph);
  if (open.empty()) return false;
  std::unordered_map<std::string, InputNumber> sources;
  for_each_symbol(graph, [&](const std::string& symbol, uint32_t input, uint32_t index, bool el) {
    sources.emplace(symbol, InputNumber{symbol, input, index, el});
  });
  Patch patch(graph, "branch-choice");
  for (const ValueId v : open) {
    const Dim condition = graph.value(v).elements->front();
    const auto outcome = value_of(
        condition, [&](const std::string& symbol) { return sources.at(symbol).of(inputs); });
    if (!outcome) continue;
    conditions_.push_back(condition);
    outcomes_.push_back(*outcome);
    std::vector<std::string> names;
    condition.collect_symbols(names);
    for (const std::string& name : names)
      if (index_of(name) == sources_.size()) sources_.push_back(sources.at(name));
    Tensor decided(DType::kBool, to_concrete(*graph.value(v).type.dims).value());
    *decided.as<bool>() = *outcome != 0;
    const std::string name = graph.value(v).name;
    patch.replace(v, patch.add_constant(name, std::move(decided)));
  }
  if (patch.empty()) return false;
  program_ = DimProgram(conditions_, [&](const std::string& symbol) {
    return static_cast<uint32_t>(index_of(symbol));
  });
  patch.apply();
  run_pass(graph, find_pass("inline-branches"), {});
  infer_types_again(graph);
  return true;
}

bool BranchChoice::holds(std::span<const TensorView> inputs) const {
  if (empty()) return true;
  int64_t on_stack[2 * kNumbersOnStack];
  std::vector<int64_t> more;
  int64_t* numbers = on_stack;
  if (sources_.size() + outcomes_.size() > std::size(on_stack)) {
    more.resize(sources_.size() + outcomes_.size());
    numbers = more.data();
  }
  for (size_t k = 0; k < sources_.size(); ++k) numbers[k] = sources_[k].of(inputs);
  int64_t* const found = numbers + sources_.size();
  try {
    program_.run(numbers, found);
  } catch (const Error&) {
    return false;
  }
  return std::equal(outcomes_.begin(), outcomes_.end(), found);
}

bool BranchChoice::may_hold(std::span<const Dims> dims) const {
  for (size_t k = 0; k < conditions_.size(); ++k) {
    const auto found =
        value_of(conditions_[k], [&](const std::string& symbol) -> std::optional<int64_t> {
          const InputNumber& source = sources_[index_of(symbol)];
          if (source.element) return std::nullopt;
          return dims[source.input][source.index];
        });
    if (found && *found != outcomes_[k]) return false;
  }
  return true;
}

std::string BranchChoice::text() const {
  std::string out;
  for (const int64_t outcome : outcomes_)
    out += std::string(out.empty() ? "" : ", ") + (outcome != 0 ? "then" : "else");
  return out;
}

}  // namespace xc
