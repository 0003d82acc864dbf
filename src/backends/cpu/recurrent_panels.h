#pragma once
// Weights of recurrent layers (recurrent.cpp) as its products read them.
//
// Constant weights that are more than the nearest caches hold are kept narrow and widened in
// registers where they can be: integers of 8 bits times a scale per row, as quantisers leave them
// behind a DequantizeLinear, as such; what bf16 holds, or fast numerics let it, as bf16. Sums are
// those of the floats, but for rounding. Where the model lets the products' other side be rounded
// to 8 bits (kLeftInBytes) and the processor multiplies such bytes, x and h are, row by row
// (ops/rounded_blocks.h).

#include <array>
#include <memory>
#include <vector>

#include "backends/cpu/own_product.h"
#include "backends/cpu/vector/byte_product_fn.h"
#include "backends/step.h"
#include "ops/rounded_blocks.h"
#include "tensor/tensor.h"

namespace xc::cpu {

/// How a matrix [gates * units, k] of one direction is packed: in panels (GateProduct) for some
/// gates each, as the numbers of gates in a panel are 1, 2 and 4.
class GatePanels {
 public:
  struct Piece {
    int64_t first, gates;                           ///< gates
    int64_t each;                                   ///< units in a panel
    int64_t at;                                     ///< elements
    int64_t panel() const { return gates * each; }  ///< columns
  };
  GatePanels(int64_t gates, int64_t units, int64_t k);
  int64_t floats() const { return floats_; }  ///< or bytes
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Units between which the work can be divided.
  int64_t grain() const { return gates_ == 1 ? 32 : pieces_[0].each; }
  void pack(const float* matrix, float* to) const;

 private:
  int64_t gates_, units_, k_, floats_ = 0;
  std::vector<Piece> pieces_;
};

/// How a matrix [columns, k] of bytes is packed for ByteFns: BytePanels of 64 columns, in one
/// block.
struct RoundedPanels {
  int64_t columns, k;
  RoundedPanels(int64_t columns, int64_t k) : columns(columns), k(k) {}
  int64_t block() const { return align_up(k, group_rows(false)); }
  int64_t panel_bytes() const { return block() * kPanelColumns; }
  int64_t count() const { return ceil_div(columns, kPanelColumns); }
  int64_t bytes() const { return count() * panel_bytes(); }
  static constexpr uint8_t kZero = 128;
  static uint8_t byte_of(float code) {
    return static_cast<uint8_t>(static_cast<int32_t>(code) + kZero);
  }
  void pack(const float* codes, uint8_t* to) const;
};
/// Zero points of a panel.
inline constexpr auto kRoundedZeros = [] {
  std::array<uint8_t, kPanelColumns> zeros{};
  zeros.fill(RoundedPanels::kZero);
  return zeros;
}();

/// W and R of a layer; packed once where they are constant.
struct LayerPanels {
  GatePanels input, state;
  std::shared_ptr<const Buffer> buffer;  ///< null: packed at each run
  /// Of bytes: per direction those of W's rows, then those of R's. Empty: of floats.
  std::vector<float> scales;
  bool halves = false;              ///< bf16
  const ByteFns* rounds = nullptr;  ///< the bytes are RoundedPanels'
  RoundedPanels rounded_input, rounded_state;
  LayerPanels(int64_t gates, int64_t units, int64_t inputs)
      : input(gates, units, inputs),
        state(gates, units, units),
        rounded_input(gates * units, inputs),
        rounded_state(gates * units, units) {}
  int64_t floats() const { return input.floats() + state.floats(); }  ///< of a direction
  int64_t element_bytes() const { return !scales.empty() ? 1 : halves ? 2 : 4; }
  const RoundedPanels& rounded(bool of_state) const {
    return of_state ? rounded_state : rounded_input;
  }
  /// Of a direction's W and R, as packed.
  int64_t bytes() const {
    return rounds ? rounded_input.bytes() + rounded_state.bytes() : floats() * element_bytes();
  }
  /// Units between which the work can be divided.
  int64_t grain() const { return rounds ? kPanelColumns : state.grain(); }
  /// Scales of a matrix of a direction: whole panels.
  int64_t scale_count() const { return align_up(rounded_state.columns, kPanelColumns); }
  void pack(const float* w, const float* r, float* to) const {
    input.pack(w, to);
    state.pack(r, to + input.floats());
  }
};

/// Packs constant weights W [directions, gates * units, inputs] and R [.., .., units] of a step.
std::shared_ptr<const LayerPanels> pack_layer(const StepSpec& spec, const Tensor& weights,
                                              const Tensor& recurrence);

}  // namespace xc::cpu
