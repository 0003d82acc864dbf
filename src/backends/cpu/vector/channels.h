// Two to four lines, element by element side by side, and the way back: the channels of an image in
// planes and in pixels. In registers of 16 bytes, whose bytes every level from AVX2 on shuffles.
#pragma once

#include "backends/cpu/vector/vec.h"
#include "tensor/turn_square.h"

namespace xc::cpu::XC_ISA {

template <class T>
using ChannelRow = typename TurnedRow<T>::type;

/// The lanes of a and b in turn: the first half, and the second; and the way back.
template <class T>
XC_INLINE void merge_two(ChannelRow<T>& a, ChannelRow<T>& b) {
  constexpr int N = kTurnedRows<T>;
  constexpr auto low = [](int i) { return i / 2 + i % 2 * N; };
  constexpr auto high = [](int i) { return (N + i) / 2 + i % 2 * N; };
  const ChannelRow<T> first = shuffle<low, T>(a, b);
  b = shuffle<high, T>(a, b);
  a = first;
}
template <class T>
XC_INLINE void split_two(ChannelRow<T>& a, ChannelRow<T>& b) {
  constexpr auto even = [](int i) { return 2 * i; };
  constexpr auto odd = [](int i) { return 2 * i + 1; };
  const ChannelRow<T> first = shuffle<even, T>(a, b);
  b = shuffle<odd, T>(a, b);
  a = first;
}

/// Register k of three channels in turn, and channel k of three registers of them. A shuffle has
/// two operands: the first takes what the first two registers have.
template <class T, int k>
XC_INLINE ChannelRow<T> merged_of_three(const ChannelRow<T> (&v)[3]) {
  constexpr int N = kTurnedRows<T>;
  constexpr auto two = [](int i) {
    const int at = k * N + i;
    return at % 3 < 2 ? at / 3 + at % 3 * N : 0;
  };
  constexpr auto third = [](int i) {
    const int at = k * N + i;
    return at % 3 < 2 ? i : N + at / 3;
  };
  return shuffle<third, T>(shuffle<two, T>(v[0], v[1]), v[2]);
}
template <class T, int k>
XC_INLINE ChannelRow<T> channel_of_three(const ChannelRow<T> (&v)[3]) {
  constexpr int N = kTurnedRows<T>;
  constexpr auto two = [](int i) { return 3 * i + k < 2 * N ? 3 * i + k : 0; };
  constexpr auto third = [](int i) { return 3 * i + k < 2 * N ? i : 3 * i + k - N; };
  return shuffle<third, T>(shuffle<two, T>(v[0], v[1]), v[2]);
}

/// A register of each of C channels, as pixels in v.
template <class T, int C>
XC_INLINE void merge_channels(ChannelRow<T> (&v)[C]) {
  if constexpr (C == 2) {
    merge_two<T>(v[0], v[1]);
  } else if constexpr (C == 3) {
    const ChannelRow<T> out[3] = {merged_of_three<T, 0>(v), merged_of_three<T, 1>(v),
                                  merged_of_three<T, 2>(v)};
    for (int k = 0; k < 3; ++k) v[k] = out[k];
  } else {
    merge_two<T>(v[0], v[2]);
    merge_two<T>(v[1], v[3]);
    merge_two<T>(v[0], v[1]);
    merge_two<T>(v[2], v[3]);
  }
}
template <class T, int C>
XC_INLINE void split_channels(ChannelRow<T> (&v)[C]) {
  if constexpr (C == 2) {
    split_two<T>(v[0], v[1]);
  } else if constexpr (C == 3) {
    const ChannelRow<T> out[3] = {channel_of_three<T, 0>(v), channel_of_three<T, 1>(v),
                                  channel_of_three<T, 2>(v)};
    for (int k = 0; k < 3; ++k) v[k] = out[k];
  } else {
    split_two<T>(v[0], v[1]);
    split_two<T>(v[2], v[3]);
    split_two<T>(v[0], v[2]);
    split_two<T>(v[1], v[3]);
  }
}

/// to[i * C + c] = from[c * line + i], i < n.
template <class T, int C>
void merge_lines(const T* from, T* to, int64_t n, int64_t line) {
  constexpr int N = kTurnedRows<T>;
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    ChannelRow<T> v[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) v[c] = load<ChannelRow<T>>(from + c * line + i);
    merge_channels<T, C>(v);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) store(to + i * C + c * N, v[c]);
  }
  for (; i < n; ++i)
    for (int c = 0; c < C; ++c) to[i * C + c] = from[c * line + i];
}
/// to[c * line + i] = from[i * C + c], i < n.
template <class T, int C>
void split_lines(const T* from, T* to, int64_t n, int64_t line) {
  constexpr int N = kTurnedRows<T>;
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    ChannelRow<T> v[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) v[c] = load<ChannelRow<T>>(from + i * C + c * N);
    split_channels<T, C>(v);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) store(to + c * line + i, v[c]);
  }
  for (; i < n; ++i)
    for (int c = 0; c < C; ++c) to[c * line + i] = from[i * C + c];
}

}  // namespace xc::cpu::XC_ISA
