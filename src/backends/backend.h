#pragma once
// A backend: an ordered list of implementations per op, and the device they run on.

#include <span>
#include <string_view>

#include "ops/op.h"

namespace xc {

struct Implementation;  // step.h
class Device;           // device.h

struct Backend {
  std::string_view name;  ///< "cpu"
  /// All rows; for an op, those with its name or "*" are asked in this order. Reference is last.
  std::span<const Implementation> (*implementations)();
};

/// The CPU backend: oneDNN, own kernels, reference.
const Backend& cpu_backend();
/// Refuses everything; copy it to start a backend, use it to test fallbacks.
const Backend& null_backend();

}  // namespace xc
