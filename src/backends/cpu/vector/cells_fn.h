#pragma once
// Recurrent cells over dense vectors of one sample: what follows the matrix products of a time
// step.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

inline constexpr int64_t kPanel = 128;  ///< columns

/// y[r, j] += sum over k of x[r, k] * w[k, j]; element (k, j) of w is panels[j / 128 * 128 * K + k
/// * 128 + j % 128], the last panel is whole. Rows of x and y are dense. The order of the sums
/// depends on nothing but K.
struct PanelProduct {
  const float* x;
  int64_t x_row, rows, k;
  const float* panels;
  int64_t n;
  float* y;
  int64_t y_row;
};

struct CellFns {
  /// gates: pre-activations i, o, f, c of n units each. Updates c and h.
  void (*lstm)(const float* gates, float* c, float* h, int64_t n);
  /// GRU, reset before the product: activates z and r in place, writes r * h.
  void (*gru_open)(float* gates, const float* h, float* reset_h, int64_t n);
  /// The rest: gates[2n..] holds the complete pre-activation of the hidden gate. Updates h.
  void (*gru_close)(const float* gates, float* h, int64_t n);
  /// GRU, reset after the product: recurrent = R h for the three gates, bias = Rb of the hidden one
  /// (may be null).
  void (*gru_linear)(const float* gates, const float* recurrent, const float* bias, float* h,
                     int64_t n);
  void (*rnn)(const float* gates, float* h, int64_t n);
  void (*panel_product)(const PanelProduct& p);
};
const CellFns& cell_fns(Isa isa);

namespace baseline {
const CellFns& cell_fns();
}
namespace avx2 {
const CellFns& cell_fns();
}
namespace avx512 {
const CellFns& cell_fns();
}

}  // namespace xc::cpu
