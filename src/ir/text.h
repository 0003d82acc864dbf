#pragma once
// Text form of a graph: what `xc inspect` prints and golden tests hold.
//
//   graph main(%x: f32[n, 3072]) -> (%y) {
//     const %b: f32[2] = [1, 2.5]
//     %t: f32[n, 3072] = Add(%x, %b)
//     %y: f32[n, 3072] = Softmax(%t) {axis = -1} "layer/softmax"
//     %o, %p = If(%c, %cap) {} captures 1 (graph then(%cap: f32[2]) -> (%r) { ... }, graph else
//     ...)
//   }
//
// Names that are not [A-Za-z0-9_.] are written as %"quoted\n". An absent input or output is `_`.
// Other domains: `xc::Op(...)`, quoted where they are no plain name. Large constants of equal
// elements: `splat 0`. Comments: `#`, `//`. README.md has the rest.

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace xc {

struct PrintOptions {
  /// Constants with more elements print as `<elided xxh3 ...>` and cannot be parsed back.
  int64_t max_elements = 16;
  bool types = true;
  bool origins = false;  ///< node names and the passes that made them
};

std::string print(const Graph& graph, const PrintOptions& options = {});

class OpLibrary;  // ops/custom.h

/// Parses the text form and verifies the graph. `library`: operators of the host that may occur,
/// null = none. Fails with kFormat (kUnsupported for an unknown operator) and `where` = "line L,
/// column C". Nesting and sizes are bounded.
Graph parse_graph(std::string_view text, const OpLibrary* library = nullptr);

}  // namespace xc
