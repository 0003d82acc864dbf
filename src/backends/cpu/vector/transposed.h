// Transposition in registers.
#pragma once

#include "backends/cpu/vector/vec.h"

namespace xc::cpu::XC_ISA {

/// For shuffle() of two rows: lane i reads the first row where i is without `bit`, else the second,
/// at its own number but without the bit (lanes_without) or with it (lanes_with).
template <int bit, class T>
constexpr auto lanes_without = [](int i) { return (i & bit) ? kLanes<T> + (i & ~bit) : i; };
template <int bit, class T>
constexpr auto lanes_with = [](int i) { return (i & bit) ? kLanes<T> + i : (i | bit); };

/// Swaps bit `bit` of the row number with the same bit of the lane number, for every pair of rows.
/// Once for every bit of the number of lanes transposes, in any order.
template <int bit, class T>
XC_INLINE void exchange(Vec<T> (&v)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int r = 0; r < kLanes<T>; ++r) {
    if (r & bit) continue;
    const Vec<T> a = v[r], b = v[r | bit];
    v[r] = shuffle<lanes_without<bit, T>, T>(a, b);
    v[r | bit] = shuffle<lanes_with<bit, T>, T>(a, b);
  }
}

/// Swaps rows and lanes. The widest first: where few lanes are used, the others are never moved.
template <class T>
XC_INLINE void transpose_lanes(Vec<T> (&v)[kLanes<T>]) {
  if constexpr (kLanes<T> > 8) exchange<8, T>(v);
  if constexpr (kLanes<T> > 4) exchange<4, T>(v);
  if constexpr (kLanes<T> > 2) exchange<2, T>(v);
  exchange<1, T>(v);
}

/// Adds pairs of lanes whose numbers differ in `bit`: lanes without it get a's sums, others b's.
template <int bit, class T>
XC_INLINE Vec<T> add_pairs(Vec<T> a, Vec<T> b) {
  return shuffle<lanes_without<bit, T>, T>(a, b) + shuffle<lanes_with<bit, T>, T>(a, b);
}
/// The same for rows whose numbers differ in `bit` in units of `unit`, that bit and all above it up
/// to N rows: v[0] is what is left. In this order always, so that sums have the same bits.
template <int bit, int unit, class T, int N>
XC_INLINE void add_rows(Vec<T> (&v)[N]) {
  constexpr int kStep = bit / unit;
  if constexpr (kStep < N) {
#pragma GCC unroll 16
    for (int r = 0; r < N; r += 2 * kStep) v[r] = add_pairs<bit, T>(v[r], v[r + kStep]);
    add_rows<2 * bit, unit, T>(v);
  }
}

/// Rows of up to E elements side by side: e[i] = element i of kLanes<T> rows that begin `stride`
/// apart, i < n. What is missing of `rows` is 0. `whole`: what lies behind a row may be read.
template <class T, int E>
XC_INLINE void load_side_by_side(const T* x, int64_t stride, int64_t rows, int64_t n, bool whole,
                                 Vec<T> (&e)[E]) {
  constexpr int L = kLanes<T>;
#pragma GCC unroll 4
  for (int first = 0; first < E; first += L) {
    const int64_t left = n - first;
    if (left <= 0) break;
    Vec<T> v[L];
    if (whole) {
#pragma GCC unroll 16
      for (int r = 0; r < L; ++r) v[r] = load<Vec<T>>(x + r * stride + first);
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < L; ++r)
        v[r] =
            r < rows ? load_partial<Vec<T>>(x + r * stride + first, left < L ? left : L) : Vec<T>{};
    }
    transpose_lanes<T>(v);
#pragma GCC unroll 16
    for (int i = 0; i < (E < L ? E : L); ++i) e[first + i] = v[i];
  }
}

/// Whether kLanes<T> of `rows` adjacent rows of n elements, from row r on, can be read as rows of
/// E or of whole vectors.
template <class T, int E>
XC_INLINE bool whole_rows(int64_t r, int64_t rows, int64_t stride, int64_t n) {
  constexpr int kSpan = E > kLanes<T> ? E : kLanes<T>;
  return stride == n && (r + kLanes<T> - 1) * n + kSpan <= rows * n;
}

}  // namespace xc::cpu::XC_ISA
