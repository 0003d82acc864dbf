#pragma once
// What the processor offers this process. Read once, immutable afterwards.

#include <cstdint>
#include <string>
#include <string_view>

namespace xc {

/// Instruction sets own kernels are compiled for, in rising order.
enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };
std::string_view name(Isa isa);  ///< "baseline", "avx2", "avx512"

struct CpuInfo {
  Isa isa = Isa::kBaseline;  ///< highest level the processor and the system support
  bool avx512_vnni = false;  ///< int8 dot products
  bool avx512_vbmi = false;  ///< bytes picked from registers
  bool avx512_bf16 = false;  ///< bf16 dot products
  bool avx512_fp16 = false;  ///< f16 arithmetic
  bool amx_tile = false, amx_bf16 = false, amx_int8 = false;
  int64_t l1_bytes = 32 << 10;   ///< data cache of a core
  int64_t l2_bytes = 512 << 10;  ///< of a core
  int64_t l3_bytes = 8 << 20;    ///< of a socket; 0 when there is none
  int64_t line_bytes = 64;
  /// Maker, family, model, stepping and feature bits: what code and timings kept for later
  /// processes are good for. "unknown" where the processor does not say.
  std::string model = "unknown";
  int cores = 1;  ///< usable by this process: online, in its affinity mask, within its cgroup quota
};

/// Of this host, detected at the first call. Thread-safe.
const CpuInfo& cpu_info();

/// Whether this process may use the matrix units for bf16 (AMX). The first call asks the system,
/// which has to save the registers of every thread that does from then on. Thread-safe.
bool grant_matrix_units();

/// Rounded-up processors of a cgroup quota; 0 = unlimited. `text` is the content of cgroup v2's
/// cpu.max ("200000 100000" or "max 100000").
int cores_of_cgroup_quota(std::string_view text);

}  // namespace xc
