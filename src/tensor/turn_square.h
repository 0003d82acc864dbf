#pragma once
// A square of a matrix turned in registers of 16 bytes, which every target of the library has.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace xc {

constexpr size_t kTurnedRowBytes = 16;
/// Rows and columns of the square.
template <class T>
constexpr int kTurnedRows = static_cast<int>(kTurnedRowBytes / sizeof(T));

template <class T>
struct TurnedRow {
  using type [[gnu::vector_size(kTurnedRowBytes)]] = T;
};

/// Lanes first, first + 1, ... of `a` and of `b`, in turn.
template <class T, int first, int... i>
[[gnu::always_inline]] inline typename TurnedRow<T>::type interleaved(
    typename TurnedRow<T>::type a, typename TurnedRow<T>::type b,
    std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * kTurnedRows<T>)...);
}

/// to[c * to_row + r] = from[r * from_row + c]: the first half of the rows interleaved with the
/// second, as often as the square has halves (the perfect shuffle; H. S. Stone, Parallel Processing
/// with the Perfect Shuffle, IEEE Transactions on Computers C-20, 1971). Always in line: files
/// built for different instruction sets include it.
template <class T>
[[gnu::always_inline]] inline void turn_square(const T* from, int64_t from_row, T* to,
                                               int64_t to_row) {
  constexpr int kRows = kTurnedRows<T>, kLevels = std::countr_zero(unsigned{kRows});
  constexpr auto kLanes = std::make_integer_sequence<int, kRows>();
  typename TurnedRow<T>::type rows[kRows], next[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) std::memcpy(&rows[i], from + i * from_row, kTurnedRowBytes);
#pragma GCC unroll 4
  for (int level = 0; level < kLevels; ++level) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows / 2; ++i) {
      next[2 * i] = interleaved<T, 0>(rows[i], rows[i + kRows / 2], kLanes);
      next[2 * i + 1] = interleaved<T, kRows / 2>(rows[i], rows[i + kRows / 2], kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) std::memcpy(to + i * to_row, &rows[i], kTurnedRowBytes);
}

}  // namespace xc
