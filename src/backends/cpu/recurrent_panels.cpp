#include "backends/cpu/recurrent_panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/vector/casts_fn.h"
#include "backends/cpu/vector/cells_fn.h"
#include "ops/matmul.h"
#include "ops/recurrent.h"

namespace xc::cpu {

GatePanels::GatePanels(int64_t gates, int64_t units, int64_t k)
    : gates_(gates), units_(units), k_(k) {
  for (int64_t first = 0; first < gates;) {
    const int64_t count = gates - first >= 4 ? 4 : gates - first >= 2 ? 2 : 1;
    const int64_t each = panel_units(count, units);
    pieces_.push_back({first, count, each, floats_});
    floats_ += ceil_div(units, each) * pieces_.back().panel() * k;
    first += count;
  }
}

void GatePanels::pack(const float* matrix, float* to) const {
  std::memset(to, 0, static_cast<size_t>(floats_) * sizeof(float));
  for (const Piece& piece : pieces_)
    for (int64_t gate = 0; gate < piece.gates; ++gate)
      for (int64_t unit = 0; unit < units_; unit += piece.each)
        lay_out(matrix + ((piece.first + gate) * units_ + unit) * k_,
                {k_, std::min(piece.each, units_ - unit)}, {1, k_}, k_,
                gate_columns_together(cpu_info().isa, piece.panel()), 0, gate * piece.each,
                to + piece.at + unit * piece.gates * k_);
}

void RoundedPanels::pack(const float* codes, uint8_t* to) const {
  std::memset(to, kZero, static_cast<size_t>(bytes()));
  for (int64_t j = 0; j < columns; ++j, codes += k) {
    uint8_t* group = to + j / kPanelColumns * panel_bytes() + j % kPanelColumns * 4;
    int64_t d = 0;
    for (; d + 4 <= k; d += 4, group += kGroupBytes) {
      std::array<uint8_t, 4> bytes;
      for (size_t i = 0; i < 4; ++i) bytes[i] = byte_of(codes[d + static_cast<int64_t>(i)]);
      std::memcpy(group, bytes.data(), 4);
    }
    for (int64_t i = d; i < k; ++i) group[i - d] = byte_of(codes[i]);
  }
}

namespace {

constexpr int64_t kLeastRoundedBytes = 32 << 10;  ///< of R as floats: products by bytes pay

/// Splits rows of k weights into integers of 8 bits, in `codes`, and a scale each; whether their
/// values are such products, as quantisers leave them. A scale is the largest one that does it.
bool split_rows(const float* weights, int64_t rows, int64_t k, float* codes, float* scales) {
  const CellFns& fns = cell_fns(cpu_info().isa);
  for (int64_t row = 0; row < rows; ++row, weights += k, codes += k) {
    const float most = fns.largest(weights, k);
    int64_t largest = 1;  // code
    scales[row] = most;
    if (most == 0) {
      scales[row] = 1;
      std::fill_n(codes, k, 0.0f);
      continue;
    }
    if (!std::isfinite(most) || most < 128 * std::numeric_limits<float>::min()) return false;
    while (!fns.split(weights, k, scales[row], codes)) {
      if (++largest > 128) return false;
      scales[row] = most / static_cast<float>(largest);
    }
  }
  return true;
}

/// Whether narrow weights are worth widening: what the caches near the core hold is read faster.
bool widens(const LayerPanels& panels) {
  return cell_fns(cpu_info().isa).takes_narrow &&
         panels.state.floats() * 4 > cpu_info().l2_bytes / 2;
}

/// Whether weights may be bf16: in fast numerics, or as they are just that.
bool held_in_halves(const StepSpec& spec, const Tensor& w, const Tensor& r) {
  return spec.numerics == Numerics::kFast ||
         (holds_exactly(DType::kBF16, w.as<float>(), w.count()) &&
          holds_exactly(DType::kBF16, r.as<float>(), r.count()));
}

/// Packs weights that are integers of 8 bits and a scale per row as such: a step of one sample
/// takes as long as reading R does. Whether they are.
bool pack_bytes(const StepSpec& spec, LayerPanels& out, const Tensor& w, const Tensor& r) {
  const int64_t dirs = r.dims()[0], width = r.dims()[1];
  const int64_t inputs = w.dims()[2], units = r.dims()[2];
  const int64_t float_bytes = out.state.floats() * 4;
  // A step of few units spends its time on functions.
  if (spec.op->name == "LSTM" && spec.attrs().get_int(kLeftInBytes.name, 0) != 0 &&
      float_bytes > kLeastRoundedBytes && std::max(inputs, units) <= kLongestBlock)
    out.rounds = byte_fns(cpu_info(), false);
  if (!out.rounds && !widens(out)) return false;
  std::vector<float> scales(static_cast<size_t>(dirs * 2 * out.scale_count()), 0.0f);
  std::vector<float> codes(static_cast<size_t>(width * std::max(inputs, units)));
  std::vector<float> panels(static_cast<size_t>(std::max(out.input.floats(), out.state.floats())));
  const int64_t bytes = out.rounds ? out.bytes() : out.floats();
  const auto buffer = Buffer::allocate(dirs * bytes);
  auto* to = reinterpret_cast<uint8_t*>(buffer->data());
  float* scale = scales.data();
  for (int64_t d = 0; d < dirs; ++d)
    for (const bool state : {false, true}) {
      const Tensor& matrix = state ? r : w;
      const int64_t k = matrix.dims()[2];
      if (!split_rows(matrix.as<float>() + d * width * k, width, k, codes.data(), scale)) {
        out.rounds = nullptr;
        return false;
      }
      scale += out.scale_count();
      if (out.rounds) {
        out.rounded(state).pack(codes.data(), to);
        to += out.rounded(state).bytes();
        continue;
      }
      const GatePanels& form = state ? out.state : out.input;
      form.pack(codes.data(), panels.data());
      to = std::transform(panels.data(), panels.data() + form.floats(), to, [](float code) {
        return static_cast<uint8_t>(static_cast<int8_t>(code));
      });
    }
  out.scales = std::move(scales);
  out.buffer = buffer;
  return true;
}

}  // namespace

std::shared_ptr<const LayerPanels> pack_layer(const StepSpec& spec, const Tensor& weights,
                                              const Tensor& recurrence) {
  const Tensor w = weights.held(), r = recurrence.held();
  const int64_t dirs = r.dims()[0], width = r.dims()[1], units = r.dims()[2];
  const int64_t inputs = w.dims()[2];
  auto out = std::make_shared<LayerPanels>(cell_kind(spec.op->name).gates, units, inputs);
  if (spec.numerics != Numerics::kStrict && pack_bytes(spec, *out, w, r)) return out;
  out->halves = widens(*out) && held_in_halves(spec, w, r);
  const auto buffer = Buffer::allocate(dirs * out->bytes());
  std::vector<float> panels(static_cast<size_t>(out->halves ? out->floats() : 0));
  for (int64_t d = 0; d < dirs; ++d) {
    std::byte* const at = buffer->data() + d * out->bytes();
    float* const to = out->halves ? panels.data() : reinterpret_cast<float*>(at);
    out->pack(w.as<float>() + d * width * inputs, r.as<float>() + d * width * units, to);
    if (out->halves)
      cast_fn(DType::kF32, DType::kBF16,
              cpu_info().isa)({{panels.data()}, {1}, at, out->floats(), nullptr});
  }
  out->buffer = buffer;
  return out;
}

}  // namespace xc::cpu
