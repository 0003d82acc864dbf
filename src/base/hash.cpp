#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace xc {

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, size, seed);
  return {h.low64, h.high64};
}

std::string Hash128::text() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace xc
