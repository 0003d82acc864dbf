#pragma once
// A region for some of its sizes only: the same nodes with a size replaced by a number, or by a
// multiple of another. Lowering then knows how long rows are, or that whole vectors fill them.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/fusion/region.h"

namespace xc {

/// What is taken for granted of a size symbol: its value, or a divisor of it.
struct SizeFact {
  std::string symbol;
  int64_t value = -1;   ///< -1 = not known
  int64_t divisor = 1;  ///< where the value is not known
  bool holds(int64_t of) const { return value >= 0 ? of == value : of % divisor == 0; }
  friend bool operator==(const SizeFact&, const SizeFact&) = default;
};
/// "s=128, n%16=0"
std::string to_text(std::span<const SizeFact> facts);

/// The facts in terms of the region's operands (inputs then outputs), whatever the symbols of the
/// graph are called: asked once per bind.
struct SizeGuard {
  struct Check {
    uint32_t operand, axis;
    int64_t value;    ///< -1 = any
    int64_t divisor;  ///< of the dim
  };
  std::vector<Check> checks;
  /// Nanoseconds; any number of threads.
  bool holds(const BindContext& context) const;
  std::string text() const;
};

struct SpecialRegion {
  Graph graph;    ///< the region's own, as extract_region() gives it, with the sizes put in
  Region region;  ///< all nodes of `graph`; identity is that of the region and the guard
  StepSpec spec;
  SizeGuard guard;
  std::vector<SizeFact> facts;  ///< those used
};

/// The symbol that stands for `symbol / divisor` in a special region.
std::string quotient_symbol(const SizeFact& fact);

/// `spec`: the operands the region was planned with. Facts about symbols that are no dim of an
/// operand by themselves, which nothing could check, are left out.
SpecialRegion specialise(const Graph& graph, const Region& region, const StepSpec& spec,
                         std::span<const SizeFact> facts);

}  // namespace xc
