#include "backends/cpu/winograd_form.h"

#include <algorithm>

namespace xc::cpu {
namespace {

// Figures of one core of a server, which decide alike everywhere: multiplications and additions per
// second by the library and by the products of few rows, bytes per second through the transforms,
// and of weights.
constexpr double kLibraryRate = 265e9, kOwnRate = 220e9;
constexpr double kTransformRate = 60e9, kWeightRate = 28e9;
constexpr double kFixedTime = 1e-6;  ///< of a call
/// Fewer leave vectors empty.
constexpr int64_t kLeastChannels = 16;
/// Less is gained than the other convolutions of a network vary by.
constexpr double kLeastGain = 0.9;

/// Of a kernel in pieces, which all are kept at the points of a block.
constexpr int64_t kMostTapsInPieces = 33;
/// Of weights at the points of a form, where a kernel goes by pieces: 6.6 times those of 7x7.
constexpr double kMostWeightBytes = 32 << 20;

std::vector<WinogradAxis> axis_forms(int64_t taps) {
  if (taps == 1) return {{1, 1}};
  if (taps == 3) return {{6, 4}, {4, 2}};
  if (taps == 5) return {{6, 2}};
  if (taps > 3 && taps <= kMostTapsInPieces) return {{6, 4}};
  return {};
}

}  // namespace

std::vector<WinogradForm> winograd_forms(int64_t row_taps, int64_t col_taps) {
  std::vector<WinogradForm> out;
  for (const WinogradAxis& rows : axis_forms(row_taps))
    for (const WinogradAxis& cols : axis_forms(col_taps))
      if (winograd_fns(Isa::kBaseline, rows, cols).input)
        out.push_back({rows, cols, row_taps, col_taps});
  return out;
}

int64_t TiledAxis::tiles(int64_t g) const {
  const int64_t whole = std::min(g, groups() - 1), rest = axis.output - whole * group();
  return whole * axis.dilation + (g == whole ? 0 : std::min(axis.dilation, rest));
}

std::optional<WinogradForm> fastest_form(const ConvProblem& problem) {
  const WindowAxis rows = problem.axes.size() > 1 ? problem.axes[0] : WindowAxis{},
                   cols = problem.axes.back();
  if (problem.axes.size() > 2 || problem.groups != 1 || rows.stride != 1 || cols.stride != 1 ||
      problem.in_channels < kLeastChannels || problem.out_channels < kLeastChannels ||
      problem.batch * rows.output * cols.output * rows.input * cols.input == 0)
    return {};
  const auto in = static_cast<double>(problem.in_channels),
             out = static_cast<double>(problem.out_channels);
  double least = kLeastGain * problem.flops() / kLibraryRate;
  std::optional<WinogradForm> best;
  for (const WinogradForm& form : winograd_forms(rows.kernel, cols.kernel)) {
    const auto tiles = static_cast<double>(problem.batch * TiledAxis{form.rows, rows}.tiles() *
                                           TiledAxis{form.cols, cols}.tiles());
    const double points = form.points(), terms = static_cast<double>(form.pieces()) * in;
    if (form.pieces() > 1 && 4 * points * terms * out > kMostWeightBytes) continue;
    // Weights are read while others are multiplied.
    const double products = std::max(2 * tiles * points * terms * out / kOwnRate,
                                     4 * points * terms * out / kWeightRate);
    const double time = kFixedTime + products + 4 * tiles * points * (terms + out) / kTransformRate;
    if (time >= least) continue;
    least = time;
    best = form;
  }
  return best;
}

}  // namespace xc::cpu
