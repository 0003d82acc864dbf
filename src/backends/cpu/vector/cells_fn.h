#pragma once
// Recurrent cells over dense vectors of one sample: what follows the matrix products of a time
// step.

#include <cstdint>

#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {

/// Units whose columns for some gates (1, 2 or 4) lie in one panel of 128 columns, fewer in layers
/// with few units: a power of two.
constexpr int64_t panel_units(int64_t gates, int64_t units) {
  int64_t each = 16;
  while (each < units && each * gates < 128) each *= 2;
  return each;
}

/// Columns of such a panel that lie together, row by row.
constexpr int64_t gate_columns_together(Isa isa, int64_t panel) {
  return isa < Isa::kAvx512 ? panel_columns(isa) : panel;
}

/// y[r, g, u] = start[r, g, u] + sum over k of x[r, k] * w[k, g, u] for units [first, end). With U
/// = `each`, of panel_units, P = gates * U and c = gate_columns_together(isa, P), element (k, g, u)
/// of w is panels[u / U * P * K + (j / c * K + k) * c + j % c], j = g * U + u % U; panels are
/// whole. Within start and y gates are `units` apart. `first` is a multiple of U (of 32 for one
/// gate). x is dense along a row. The order of the sums depends on nothing but K. Where `scales` is
/// given (as start is, for one row), panels are of int8_t and the sum is multiplied by it; with
/// `halves` they are of bf16.
struct GateProduct {
  const float* x = nullptr;
  int64_t x_row = 0, rows = 0, k = 0;
  const void* panels = nullptr;
  const float* scales = nullptr;
  bool halves = false;
  int64_t gates = 0, each = 0, units = 0, first = 0, end = 0;
  const float* start = nullptr;
  int64_t start_row = 0;  ///< 0: the same for all
  float* y = nullptr;
  int64_t y_row = 0;
  /// The last panel first: weights that exceed a cache and are read in alternating order are found
  /// there but for what exceeds it; always in the same order, none are.
  bool backwards = false;
};

/// The function of a gate; the standard says which of them have parameters.
struct CellActivation {
  enum class Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus
  };
  Kind kind = Kind::kSigmoid;
  float alpha = 0, beta = 0;
};

/// What the cells of a direction compute.
struct CellForm {
  CellActivation gate;                                    ///< i, o, f; z, r
  CellActivation candidate{CellActivation::Kind::kTanh};  ///< for the state
  CellActivation cell{CellActivation::Kind::kTanh};       ///< LSTM: of the state itself
  float clip = __builtin_inff();  ///< bound of the arguments of the first two
  bool coupled = false;           ///< LSTM: f = 1 - i
};

/// Gates are `stride` apart; n units.
struct CellSteps {
  /// gates: pre-activations i, o, f, c. Updates c, writes h. `peephole`: weights of the state for
  /// i, o, f, or null.
  void (*lstm)(const CellForm& form, const float* gates, const float* peephole, int64_t stride,
               float* c, float* h, int64_t n);
  /// GRU, reset before the product: activates z and r in place, writes r * h.
  void (*gru_open)(const CellForm& form, float* gates, int64_t stride, const float* h,
                   float* reset_h, int64_t n);
  /// The rest: the third gate holds the complete pre-activation of the hidden one.
  void (*gru_close)(const CellForm& form, const float* gates, int64_t stride, const float* h,
                    float* next, int64_t n);
  /// GRU, reset after the product: recurrent = R h + Rb for the three gates.
  void (*gru_linear)(const CellForm& form, const float* gates, const float* recurrent,
                     int64_t stride, const float* h, float* next, int64_t n);
  void (*rnn)(const CellForm& form, const float* gates, float* h, int64_t n);
};
struct CellFns {
  CellSteps usual;   ///< of a CellForm as it is made, without peepholes
  CellSteps chosen;  ///< of any
  void (*product)(const GateProduct& p);
  float (*largest)(const float* weights, int64_t k);  ///< magnitude; not NaN's
  /// Whether k weights are integers of 8 bits, which become `codes`, times `scale`, each rounded
  /// once: a weight, the quotient and the product.
  bool (*split)(const float* weights, int64_t k, float scale, float* codes);
  bool takes_narrow = false;  ///< panels of bytes and bf16
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
