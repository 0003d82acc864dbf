#include "backends/cpu/vector/packed_bytes_fn.h"

namespace xc::cpu {

const PackedBytesFns* packed_bytes_fns([[maybe_unused]] const CpuInfo& cpu) {
#if defined(__x86_64__)
  if (cpu.isa >= Isa::kAvx512 && cpu.avx512_vnni) return &avx512::packed_bytes_fns();
#endif
  return nullptr;
}

}  // namespace xc::cpu
