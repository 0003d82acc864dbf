// Streams of sizes: which dims the inputs of the next call have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.h"

namespace tool {

/// --stream NAME=LO:HI:KIND.
struct Stream {
  std::string name;  ///< of a symbolic dim, or of an input with one such dim
  std::string kind;  ///< constant, uniform, bimodal, alternating, growing
  int64_t low = 1, high = 1;
};
/// The help line of the option.
inline constexpr const char* kStreamHelp =
    "NAME=LO:HI:KIND: a stream of sizes for a symbolic dim or input; KIND: constant, uniform, "
    "bimodal, alternating, growing";
/// Throws Usage with the form and the kinds.
Stream parse_stream(const std::string& text);

/// The sizes of `calls` calls, by the definitions of the adaptive benchmark: bimodal is three low
/// to one high, growing goes from low to high over the calls. The same at every call.
std::vector<int64_t> sizes_of(const Stream& stream, int calls);

/// Dims of all inputs for one size of the stream. Throws Usage when no dim has the stream's name.
std::vector<std::vector<int64_t>> dims_for(const xcrt::Model& model, const ShapeFlags& shapes,
                                           const Stream& stream, int64_t size);

}  // namespace tool
