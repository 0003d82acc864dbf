#pragma once
// 128-bit content hashing (xxHash3): region identities, cache keys, common subexpressions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xc {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  /// 32 hexadecimal digits.
  std::string text() const;
};

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline Hash128 hash_text(std::string_view text) {
  return hash_bytes(text.data(), text.size());
}

struct HashOfHash128 {
  size_t operator()(const Hash128& h) const noexcept { return static_cast<size_t>(h.low); }
};

}  // namespace xc
