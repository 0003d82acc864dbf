#include "base/machine_memory.h"

#include <sys/sysinfo.h>

#include <cstdint>

namespace xc {

int64_t machine_memory_bytes() {
  static const int64_t bytes = [] {
    struct sysinfo info{};
    int64_t units = 0, out = 0;
    if (sysinfo(&info) != 0 || info.totalram == 0 ||
        __builtin_add_overflow(info.totalram, info.totalswap, &units) ||
        __builtin_mul_overflow(units, info.mem_unit, &out))
      return INT64_MAX;
    return out;
  }();
  return bytes;
}

}  // namespace xc
