#pragma once
// Which of Winograd's minimal filters serves a convolution, and how its result is cut into tiles.

#include <optional>
#include <vector>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/vector/winograd_fn.h"

namespace xc::cpu {

/// For both axes of a window; of a window over one axis, that is the columns. A kernel with more
/// taps than the filter goes by pieces of as many, the last with zeros behind its own: each has
/// inputs and weights of its own, and their sums are transformed back as one.
struct WinogradForm {
  WinogradAxis rows, cols;
  int64_t row_taps = 1, col_taps = 1;  ///< of the kernel
  int points() const { return rows.points * cols.points; }
  int64_t row_pieces() const { return ceil_div(row_taps, int64_t{rows.taps()}); }
  int64_t col_pieces() const { return ceil_div(col_taps, int64_t{cols.taps()}); }
  int64_t pieces() const { return row_pieces() * col_pieces(); }
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
  /// Inputs that a tile reads, `dilation` apart.
  int64_t reach() const { return form.outputs - 1 + align_up(axis.kernel, int64_t{form.taps()}); }
  /// Tiles in front of group `g`.
  int64_t tiles(int64_t g) const;
  int64_t tiles() const { return tiles(groups()); }
  /// A tile's first result.
  int64_t first(int64_t tile) const {
    return tile / axis.dilation * group() + tile % axis.dilation;
  }
};

}  // namespace xc::cpu
