#pragma once
// Old operator versions -> the newest one, as a table: THE list of what changed its meaning.

#include <span>
#include <string_view>

#include "formats/onnx/draft.h"

namespace xc::onnx {

/// Rewrites a draft of an older version in place, or finishes it (Draft::finish).
using ConvertFn = void (*)(Draft& draft);

/// As `below`.
inline constexpr int kEveryVersion = 99;

struct Conversion {
  std::string_view domain, op;
  int below;  ///< applies to versions older than this one
  ConvertFn convert;
};

/// All rows; those of one op stand in the order in which they apply.
std::span<const Conversion> conversions();

/// Brings the draft to the newest version. Afterwards it holds only what the newest version knows,
/// or is finished.
void normalise(Draft& draft);

}  // namespace xc::onnx
