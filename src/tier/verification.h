#pragma once
// Is a region's kernel right? Compared with the graph it replaces: on made-up inputs, on a copy of
// one live run's inputs, and now and then on a copy of what a live run made (the sentinel).
//
// It runs between fences (fenced_memory.h): operands, scratch and shared memory are all surrounded
// by bytes that have to stay, its inputs have to stay what they are, its outputs are NaN until they
// are written. Twice per set of values: with operands at multiples of 64 bytes, as the arena lays
// them, and one element behind, as a caller may.

#include <string>
#include <unordered_map>
#include <vector>

#include "plan/fusion/region.h"
#include "runtime/engine.h"
#include "tier/comparison.h"

namespace xc {

/// Values of size symbols.
using Symbols = std::unordered_map<std::string, int64_t>;
/// Looks them up. `symbols` outlives it.
Dim::Lookup lookup_in(const Symbols& symbols);

/// A region and what to hold it against.
struct Verification {
  const RegionGraph& extracted;  ///< from the model
  const StepSpec& spec;          ///< the layouts it was made for
  const Kernel& kernel;
  bool guard_pages = false;  ///< tests: inaccessible pages in place of fences
  Symbols seen = {};         ///< sizes of a run that the kernel is for; none = not known
  int64_t compared = 0;      ///< elements of results compared so far
  double worst = 0;  ///< the largest deviation seen so far, in units of what is allowed there
};

/// Elements of the largest result that the nodes of a region have at these sizes: scores of
/// attention are quadratic in all that a region reads and writes. Overflow fails.
int64_t largest_result(const Graph& graph, const Symbols& symbols);
/// The most such elements that a live run is compared at: reference kernels have all of them in
/// memory, in f64 too.
inline constexpr int64_t kMostCompared = int64_t{1} << 22;

/// Made-up inputs over edge sizes (1, 2, vector widths and their neighbours), one set with edge
/// values and one of positive numbers; larger ones, and at last those of `seen`, where the results
/// have no element at these (behind a window or a slice). Empty = no difference was found;
/// Verification::compared says whether anything was looked at.
std::string verify_synthetic(Verification& v);

/// On copies of a live run's inputs (the region graph's, without constants). `symbols`: those of
/// the run that are known; the others follow from the inputs' dims.
std::string verify_live(Verification& v, const std::vector<Tensor>& inputs, Symbols symbols);

}  // namespace xc
