#pragma once
// The order in which bands of an image's rows go through a chain of convolutions, so that what each
// hands to the next is still in the cache.

#include <cstdint>
#include <span>
#include <vector>

#include "ops/window.h"

namespace xc {

/// One step of the chain computes some rows.
struct BandCall {
  uint32_t step = 0;
  int64_t part = 0;  ///< the rows are BandSchedule::rows[step][part]
  // Of the memory between this step and the next, which holds some rows of the result:
  int64_t first_row = 0;               ///< that it begins with from now on
  int64_t kept_at = 0, kept_rows = 0;  ///< of its rows, those that are moved to its start before
};

/// Of one image; images do not differ.
struct BandSchedule {
  std::vector<std::vector<RowRange>> rows;  ///< per step; of different chunks they may overlap
  std::vector<BandCall> calls;
  /// Calls [chunks[i], chunks[i + 1]) need those of no other chunk.
  std::vector<size_t> chunks;
  std::vector<int64_t> room;  ///< per step but the last: rows that the memory behind it holds
};

/// `axes`: the rows' axis of each step; the output of one is the input of the next. The last step's
/// rows are divided into `chunks`, at most as many as there are, and these into bands of at most
/// `height` rows.
BandSchedule schedule_bands(std::span<const WindowAxis> axes, int64_t chunks, int64_t height);

/// Rows of each step's input that a band of `height` rows of the last one's result takes; behind
/// them `height`.
std::vector<int64_t> rows_in_band(std::span<const WindowAxis> axes, int64_t height);

}  // namespace xc
