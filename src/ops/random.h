#pragma once
// Random numbers for operators whose result is random by definition. A seed fixes the numbers of
// every run; without one each run draws others.

#include <bit>
#include <optional>
#include <random>

#include "ir/attrs.h"

namespace xc {

class RandomSource {
 public:
  explicit RandomSource(std::optional<uint64_t> seed)
      : engine_(seed ? *seed : (uint64_t{std::random_device{}()} << 32) + std::random_device{}()) {}
  /// Seeded by the attribute `seed`, an integer or the bits of a float, where present.
  static RandomSource of(const Attrs& attrs) {
    const Attr* seed = attrs.find("seed");
    if (!seed) return RandomSource(std::nullopt);
    if (const auto* whole = std::get_if<int64_t>(seed))
      return RandomSource(static_cast<uint64_t>(*whole));
    return RandomSource(std::bit_cast<uint64_t>(attrs.get_float("seed", 0)));
  }

  /// In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// Mean 0, deviation 1.
  double normal() { return normal_(engine_); }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

}  // namespace xc
