#pragma once
// What BatchNormalization is at inference time: a factor and an addend per channel.

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// Per channel: y = scale * x + shift.
struct Affine {
  std::vector<double> scale, shift;
};

/// Nullopt for other nodes, for parameters that are no finite constants, and where more outputs
/// than the first are wanted.
std::optional<Affine> inference_affine(const Graph& graph, const Node& norm);

}  // namespace xc
