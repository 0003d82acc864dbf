#pragma once
// Loops that only move elements are written once per width, not once per type.

#include <cstdint>

namespace xc::cpu {

struct Bytes16 {  // c128
  uint64_t part[2];
};

/// Calls f with a value-initialised element of `bytes` bytes: 1, 2, 4, 8 or 16.
template <class F>
void with_element_bytes(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Bytes16{});
  }
}

}  // namespace xc::cpu
