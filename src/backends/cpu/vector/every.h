// Elements of a line some steps apart, in a register.
#pragma once

#include "backends/cpu/vector/vec.h"

namespace xc::cpu::XC_ISA {

/// Steps up to which registers are picked from instead of single elements loaded: a load each.
constexpr int64_t kFewSteps = kPicksLanes ? kLanes<int32_t> / 2 : 2;

/// Elements 0, step, 2 step, ... of what chunk(j), the j-th register of the line, loads.
template <class T, class Chunk>
XC_INLINE Vec<T> pick_every(int64_t step, Chunk chunk) {
  constexpr auto even = [](int i) { return 2 * i; };
  if (step == 2) return shuffle<even, T>(chunk(0), chunk(1));
  Vec<T> v = {};
#if defined(__AVX2__)
  static_assert(sizeof(T) == 4);
  constexpr int kWidth = kLanes<T>;
  I32 picked = {};
  U32 lane = bits_as<U32>(lane_numbers<I32, int32_t>() * static_cast<int32_t>(step));
  for (int64_t j = 0; j < step; ++j, lane -= kWidth) {
    const I32 here = pick_lanes(bits_as<I32>(chunk(j)), bits_as<I32>(lane));
    picked = lane < kWidth ? here : picked;
  }
  v = bits_as<Vec<T>>(picked);
#endif
  return v;
}

/// Elements 0, step, 2 step, ... from p on; of few steps those in between are read as well, and as
/// many behind the last one.
template <class T>
XC_INLINE Vec<T> load_every(const T* p, int64_t step) {
  constexpr int kWidth = kLanes<T>;
  if (step == 1) return load<Vec<T>>(p);
  if (step <= kFewSteps)
    return pick_every<T>(step, [&](int64_t j) __attribute__((always_inline)) {
      return load<Vec<T>>(p + j * kWidth);
    });
  Vec<T> v = {};
  for (int i = 0; i < kWidth; ++i) v[i] = p[i * step];
  return v;
}

/// The first n of these for 2 to kFewSteps, nothing read behind the last; the other lanes are any.
template <class T>
XC_INLINE Vec<T> load_every_n(const T* p, int64_t step, int64_t n) {
  constexpr int kWidth = kLanes<T>;
  const int64_t readable = (n - 1) * step + 1;
  return pick_every<T>(step, [&](int64_t j) __attribute__((always_inline)) {
    const int64_t left = readable - j * kWidth;
    return left > 0 ? load_n(p + j * kWidth, left) : Vec<T>{};
  });
}

}  // namespace xc::cpu::XC_ISA
