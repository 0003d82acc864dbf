#include "base/machine_memory.h"

#include <sys/sysinfo.h>

#include <cstdint>

namespace xc {

int64_t machine_memory_bytes() {
  struct sysinfo info{};
  int64_t units = 0, bytes = 0;
  if (sysinfo(&info) != 0 || info.totalram == 0 ||
      __builtin_add_overflow(info.totalram, info.totalswap, &units) ||
      __builtin_mul_overflow(units, info.mem_unit, &bytes))
    return INT64_MAX;
  return bytes;
}

}  // namespace xc
