#include "backends/cpu/vector/byte_product_fn.h"

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

}  // namespace xc::cpu
