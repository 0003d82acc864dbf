// Schedule primitives over tiles: blocks of two loops, copies of what a tile reads, register tiles.
// Like those of schedule.h they keep every result bit and throw xc::Error where they are not legal.
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

// A loop and the loop that is its whole body, in blocks: outer_o, inner_o over blocks, outer and
// inner inside from 0. A reduction may not be accumulated across the tile.
Kernel tile(Kernel kernel, std::string_view outer, std::string_view inner, int64_t outer_factor,
            int64_t inner_factor);

// Copies what loop `at` reads of an input into scratch in front of it, converted to the type it is
// computed with, and reads that. Every iteration of `at` must read the same elements, through one
// index map: loops inside `at` step through them, at most one of which may be of unknown extent.
Kernel stage(Kernel kernel, std::string_view buffer, std::string_view at);

// Makes a register tile of a product: `rows` is a loop over `cols`, whose body accumulates dot
// products in a loop inside. `copies` rows are computed side by side, `lanes` columns at a time.
Kernel tensorize(Kernel kernel, std::string_view rows, std::string_view cols, int copies,
                 int lanes);

}  // namespace xc::loop
