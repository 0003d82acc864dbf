#pragma once
// The equation of an Einsum, and what floats expand to.

#include <map>
#include <string>
#include <vector>

#include "ops/op.h"

namespace xc::einsum {

/// One label: a letter, or a digit for an axis under an ellipsis (0 = the innermost).
using Label = char;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> terms;  ///< of each operand, in axis order
  Labels output;
};

/// Parses the equation for operands of given ranks.
Equation parse(std::string text, const std::vector<size_t>& ranks);

/// Sizes of all labels: axes broadcast.
std::map<Label, Dim> sizes_of(const Equation& equation, const std::vector<SymDims>& dims);

/// Diagonals, sums, products of two operands at a time (OpDef::expand).
std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch);

}  // namespace xc::einsum
