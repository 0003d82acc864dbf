// Schedules as text, for tests and tools: steps separated by ';', each the name of a primitive of
// schedule.h or schedule_tiles.h with its arguments: "split i 64; vectorize j 16; unroll k 4;
// parallelize i; fuse i j; reorder i; tile i j 32 64; stage x i; tensorize i j 6 32; default".
// Applied in order.
#pragma once

#include <string_view>

#include "loop/kernel.h"

namespace xc::loop {

// Throws xc::Error naming the step that is malformed (kFormat) or not legal.
Kernel apply_schedule(Kernel kernel, std::string_view steps);

}  // namespace xc::loop
