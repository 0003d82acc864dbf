#pragma once
// Where the numbers of a plan's size symbols come from: a dim of an input, an element of an input
// that is a shape, or (added by the step that finds it out) a dim that only the run tells. A symbol
// has one source; every other input dim is checked against it.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "plan/plan.h"

namespace xc {

/// Fills Plan::symbols and Plan::input_checks. The plan must outlive it.
class PlanSymbols {
 public:
  explicit PlanSymbols(Plan& plan) : plan_(plan) {}

  /// The symbols that the graph's inputs give, in the order of inputs: lone symbols of dims, then
  /// elements whose symbol is needed in a size or in one of Plan::size_checks, which come first.
  void declare_inputs();
  /// After that: checks for the dims of a graph input that give no symbol.
  void check_input(uint32_t input);
  /// A symbol that was not known.
  void add(PlanSymbol symbol);

  bool known(const std::string& symbol) const { return numbers_.count(symbol) != 0; }
  /// Whether all symbols in the dims are known.
  bool all_known(const SymDims& dims) const;
  /// Index into Plan::symbols by name.
  const std::unordered_map<std::string, uint32_t>& numbers() const { return numbers_; }

 private:
  void declare_dims();
  void declare_elements();

  Plan& plan_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace xc
