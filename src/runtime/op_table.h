#pragma once
// What this build supports, from the operator table, the versions of the standard and the kernel
// lists of a backend.

#include <string>
#include <vector>

#include "backends/backend.h"

namespace xc {

struct OpSupport {
  std::string domain, name;
  std::vector<int> versions;  ///< of the standard; empty for our own
  int deprecated_since = 0;   ///< 0: it is not
  /// Element types of each required input; empty where they do not tell (see ops/input_types.h).
  std::vector<std::vector<std::string>> input_types;
  /// In the order in which they are asked. "import": rewritten into others as a file is read.
  /// "runtime": control flow and containers. Empty: not supported.
  std::vector<std::string> implementations;
  /// "elementwise", "reduction", "composite" (of these), "product", "view"; empty: a step of its
  /// own.
  std::string fusion;
};

/// Every operator of the standard and of our own, by domain and name.
std::vector<OpSupport> op_table(const Backend& backend);

/// The same as a table in Markdown, or as JSON (a list of objects with the fields' names).
std::string op_table_text(const Backend& backend, bool json);

}  // namespace xc
