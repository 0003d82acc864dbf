#pragma once
// How much memory there is at all.

#include <cstdint>

namespace xc {

/// Bytes of memory and swap space of the machine: what is larger no process can fill. INT64_MAX
/// where the system does not tell. A call of the system.
int64_t machine_memory_bytes();

}  // namespace xc
