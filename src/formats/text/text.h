#pragma once
// The text IR (ir/text.h) as a file format: small models written by hand.

#include <string>
#include <string_view>

#include "formats/format.h"

namespace xc::text {

/// Parses the text form; fails with kFormat and line and column.
Graph read(std::string_view text, const LoadOptions& options);

/// The text form with every constant written out; fails with kUnsupported for graphs whose
/// constants are too large to be read by people.
std::string write(const Graph& graph);

}  // namespace xc::text
