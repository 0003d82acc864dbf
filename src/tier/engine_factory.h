#pragma once
// Engines with the adaptive tier attached: what capi/ creates.

#include <memory>

#include "runtime/engine.h"

namespace xc {

/// Config as given (0 = default); fails with kInvalidArgument for values out of range.
std::shared_ptr<Engine> create_engine(const Config& config, HostHooks hooks);

}  // namespace xc
