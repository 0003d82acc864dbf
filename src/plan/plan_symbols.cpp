// Dims win over elements, earlier inputs over later ones: the first place that is nothing but the
// symbol gives its number, without an equation to solve.
#include "plan/plan_symbols.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace xc {

void PlanSymbols::add(PlanSymbol symbol) {
  numbers_.emplace(symbol.name, static_cast<uint32_t>(plan_.symbols.size()));
  plan_.symbols.push_back(std::move(symbol));
}

bool PlanSymbols::all_known(const SymDims& dims) const {
  std::vector<std::string> names;
  for (const Dim& d : dims) d.collect_symbols(names);
  return std::all_of(names.begin(), names.end(), [&](const std::string& n) { return known(n); });
}

void PlanSymbols::declare_inputs() {
  declare_dims();
  declare_elements();
}

void PlanSymbols::declare_dims() {
  const Graph& graph = *plan_.graph;
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const Type& type = graph.value(graph.inputs[i]).type;
    if (!type.dims) continue;
    for (uint32_t axis = 0; axis < type.dims->size(); ++axis) {
      const auto symbol = (*type.dims)[axis].as_symbol();
      if (symbol && !known(*symbol)) add({*symbol, PlanSymbol::Source::kInputDim, i, axis});
    }
  }
}

void PlanSymbols::declare_elements() {
  const Graph& graph = *plan_.graph;
  std::vector<std::string> names;  // symbols that appear in any size or check
  for (uint32_t v = 0; v < graph.value_count(); ++v)
    if (graph.value(v).type.dims)
      for (const Dim& d : *graph.value(v).type.dims) d.collect_symbols(names);
  for (const Plan::SizeCheck& check : plan_.size_checks) check.given.collect_symbols(names);
  const std::unordered_set<std::string> used(names.begin(), names.end());
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (!value.elements) continue;
    for (uint32_t k = 0; k < value.elements->size(); ++k) {
      const auto symbol = (*value.elements)[k].as_symbol();
      if (symbol && used.count(*symbol) && !known(*symbol))
        add({*symbol, PlanSymbol::Source::kInputElement, i, k});
    }
  }
}

void PlanSymbols::check_input(uint32_t input) {
  const Graph& graph = *plan_.graph;
  const Type& type = graph.value(graph.inputs[input]).type;
  if (!type.dims) return;
  for (uint32_t axis = 0; axis < type.dims->size(); ++axis) {
    const Dim& dim = (*type.dims)[axis];
    if (!all_known({dim}))
      fail(Status::kInvalidModel,
           "input '{}': no input gives the sizes in its dim {} by themselves",
           graph.value(graph.inputs[input]).name, dim.text());
    const auto symbol = dim.as_symbol();
    const PlanSymbol* s = symbol ? &plan_.symbols[numbers_.at(*symbol)] : nullptr;
    if (!s || s->operand != input || s->index != axis)
      plan_.input_checks.push_back({input, axis, dim});
  }
}

}  // namespace xc
