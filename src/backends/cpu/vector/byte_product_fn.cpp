#include "backends/cpu/vector/byte_product_fn.h"

#include <algorithm>

namespace xc::cpu {

const ByteFns* byte_fns([[maybe_unused]] const CpuInfo& cpu, [[maybe_unused]] bool four_bits) {
#if defined(__x86_64__)
  if (cpu.isa >= Isa::kAvx512 && cpu.avx512_vnni) return &avx512::byte_fns_vnni();
  // Pairs of products are added in 16 bits, which those of whole bytes may leave.
  if (four_bits && cpu.isa >= Isa::kAvx512) return &avx512::byte_fns();
  if (four_bits && cpu.isa >= Isa::kAvx2) return &avx2::byte_fns();
#endif
  return nullptr;
}

void multiply_as_given(const float* x, const BytePanel& panel, float* y) {
  const int64_t rows = group_rows(panel.four_bits);
  std::fill_n(y, kPanelColumns, 0.0f);
  for (int64_t d = 0; d < panel.k; ++d) {
    const uint8_t* const codes = panel.data + d / rows * kGroupBytes + d % 4;
    const int64_t line = d / panel.block * kPanelColumns;
    const int bits = d % rows < 4 ? 0 : 4;
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      const unsigned code = panel.four_bits ? codes[4 * j] >> bits & 15 : codes[4 * j];
      const int whole = static_cast<int>(code) - panel.zeros[line + j];
      y[j] += x[d] * (static_cast<float>(whole) * panel.scales[line + j]);
    }
  }
}

}  // namespace xc::cpu
