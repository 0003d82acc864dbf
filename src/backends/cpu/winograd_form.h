#pragma once
// Which of Winograd's minimal filters serves a convolution, and how its result is cut into tiles.

#include <optional>
#include <vector>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/vector/winograd_fn.h"

namespace xc::cpu {

/// For both axes of a window; of a window over one axis, that is the columns.
struct WinogradForm {
  WinogradAxis rows, cols;
  int points() const { return rows.points * cols.points; }
  bool operator==(const WinogradForm&) const = default;
};

/// The forms there are for a kernel of these sizes.
std::vector<WinogradForm> winograd_forms(int64_t row_taps, int64_t col_taps);
/// The one that is predicted to take the least time; none where the library takes less. The
/// prediction knows the sizes alone, neither the machine nor the number of threads, for results
/// must not depend on them. Any problem of at most two axes.
std::optional<WinogradForm> fastest_form(const ConvProblem& problem);

/// One axis in tiles. The results of a tile are `dilation` apart; so many tiles lie interleaved, a
/// group.
struct TiledAxis {
  WinogradAxis form;
  WindowAxis axis;
  int64_t group() const { return form.outputs * axis.dilation; }  ///< results of one
  int64_t groups() const { return ceil_div(axis.output, group()); }
  /// Tiles in front of group `g`.
  int64_t tiles(int64_t g) const;
  int64_t tiles() const { return tiles(groups()); }
  /// A tile's first result.
  int64_t first(int64_t tile) const {
    return tile / axis.dilation * group() + tile % axis.dilation;
  }
};

}  // namespace xc::cpu
