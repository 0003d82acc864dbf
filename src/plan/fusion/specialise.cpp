#include "plan/fusion/specialise.h"

#include <algorithm>

#include "plan/fusion/iteration.h"

namespace xc {
namespace {

/// Where an operand's dim is the symbol itself.
bool find_symbol(const StepSpec& spec, const SizeFact& fact, SizeGuard::Check& out) {
  const size_t operands = spec.inputs.size() + spec.outputs.size();
  for (uint32_t k = 0; k < operands; ++k) {
    const SymDims& dims = operand_at(spec, k).dims;
    for (uint32_t axis = 0; axis < dims.size(); ++axis)
      if (dims[axis].as_symbol() == fact.symbol) {
        out = {k, axis, fact.value, fact.divisor};
        return true;
      }
  }
  return false;
}

}  // namespace

std::string to_text(std::span<const SizeFact> facts) {
  std::string out;
  for (const SizeFact& fact : facts)
    out += (out.empty() ? "" : ", ") + (fact.value >= 0
                                            ? fmt::format("{}={}", fact.symbol, fact.value)
                                            : fmt::format("{}%{}=0", fact.symbol, fact.divisor));
  return out;
}

bool SizeGuard::holds(const BindContext& context) const {
  return std::all_of(checks.begin(), checks.end(), [&](const Check& check) {
    const int64_t dim = operand_at(context, check.operand).dims[check.axis];
    return check.value >= 0 ? dim == check.value : dim % check.divisor == 0;
  });
}

std::string SizeGuard::text() const {
  std::string out;
  for (const Check& check : checks)
    out += fmt::format(";{}.{}={}%{}", check.operand, check.axis, check.value, check.divisor);
  return out;
}

std::string quotient_symbol(const SizeFact& fact) {
  return fmt::format("{}/{}", fact.symbol, fact.divisor);
}

SpecialRegion specialise(const Graph& graph, const Region& region, const StepSpec& spec,
                         std::span<const SizeFact> facts) {
  SpecialRegion out;
  for (const SizeFact& fact : facts)
    if (SizeGuard::Check check{}; find_symbol(spec, fact, check)) {
      out.guard.checks.push_back(check);
      out.facts.push_back(fact);
    }
  const auto known = [&](const std::string& symbol) -> std::optional<Dim> {
    for (const SizeFact& fact : out.facts)
      if (fact.symbol == symbol)
        return fact.value >= 0 ? Dim(fact.value)
                               : Dim::symbol(quotient_symbol(fact)) * Dim(fact.divisor);
    return std::nullopt;
  };
  const auto put_in = [&](std::vector<Dim>& dims) {
    for (Dim& dim : dims) dim = dim.substitute(known);
  };

  RegionGraph extracted = extract_region(graph, region);
  out.graph = std::move(extracted.graph);
  for (ValueId v = 0; v < out.graph.value_count(); ++v) {
    Value& value = out.graph.value(v);
    if (value.is_constant()) continue;
    if (value.type.dims) put_in(*value.type.dims);
    if (value.elements) put_in(*value.elements);
  }
  out.region = region;
  out.region.nodes = out.graph.order();
  out.region.inputs = std::move(extracted.operands);
  out.region.outputs = out.graph.outputs;
  put_in(out.region.space);
  out.region.identity = hash_text(region.identity.text() + out.guard.text());
  out.spec = spec;
  for (auto* operands : {&out.spec.inputs, &out.spec.outputs})
    for (Operand& o : *operands) {
      put_in(o.dims);
      put_in(o.strides);
    }
  return out;
}

}  // namespace xc
