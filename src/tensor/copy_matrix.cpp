// In tiles, so that lines of both sides stay in the cache while they are worked through. Where an
// axis is side by side in each, squares of a tile are turned in registers of 16 bytes, which every
// target of the library has: the first half of the rows interleaved with the second, as often as a
// square of that size has halves (the perfect shuffle; H. S. Stone, Parallel Processing with the
// Perfect Shuffle, IEEE Transactions on Computers C-20, 1971).
#include "tensor/copy_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace xc {
namespace {

constexpr int64_t kTile = 32;
constexpr size_t kRegisterBytes = 16;

/// Rows of a square that is turned at once.
template <class T>
constexpr int kSquare = static_cast<int>(kRegisterBytes / sizeof(T));

template <class T>
struct LanesOf {
  using type [[gnu::vector_size(kRegisterBytes)]] = T;
};
template <class T>
using Lanes = typename LanesOf<T>::type;

/// Lanes first, first + 1, ... of `a` and of `b`, in turn.
template <class T, int first, int... i>
Lanes<T> interleaved(Lanes<T> a, Lanes<T> b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * kSquare<T>)...);
}

template <class T>
void turn_square(const T* from, int64_t from_row, T* to, int64_t to_row) {
  constexpr int kRows = kSquare<T>, kLevels = std::countr_zero(unsigned{kRows});
  constexpr auto kLanes = std::make_integer_sequence<int, kRows>();
  Lanes<T> rows[kRows], next[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) std::memcpy(&rows[i], from + i * from_row, kRegisterBytes);
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
  for (int i = 0; i < kRows; ++i) std::memcpy(to + i * to_row, &rows[i], kRegisterBytes);
}

/// One matrix, of which `from` and `to` are the first elements.
template <class T>
struct Matrix {
  const T* from;
  T* to;
  std::span<const int64_t> from_strides, to_strides;

  /// Elements of rows [i, i_end) and columns [j, j_end), one by one.
  void copy(int64_t i, int64_t i_end, int64_t j, int64_t j_end) const {
    for (; i < i_end; ++i)
      for (int64_t c = j; c < j_end; ++c)
        std::memcpy(to + i * to_strides[0] + c * to_strides[1],
                    from + i * from_strides[0] + c * from_strides[1], sizeof(T));
  }
  /// The same where rows are side by side in one and columns in the other.
  void turn(int64_t i, int64_t i_end, int64_t j, int64_t j_end) const {
    constexpr int64_t kRows = kSquare<T>;
    const int64_t i_squares = i + (i_end - i) / kRows * kRows;
    const int64_t j_squares = j + (j_end - j) / kRows * kRows;
    const bool rows_together = from_strides[1] == 1;
    for (int64_t r = i; r < i_squares; r += kRows)
      for (int64_t c = j; c < j_squares; c += kRows)
        turn_square(from + r * from_strides[0] + c * from_strides[1],
                    from_strides[rows_together ? 0 : 1], to + r * to_strides[0] + c * to_strides[1],
                    to_strides[rows_together ? 1 : 0]);
    copy(i, i_squares, j_squares, j_end);
    copy(i_squares, i_end, j, j_end);
  }
};

template <class T>
void copy_matrix(const std::byte* from, std::byte* to, std::span<const int64_t> dims,
                 std::span<const int64_t> from_strides, std::span<const int64_t> to_strides) {
  const Matrix<T> matrix{reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), from_strides,
                         to_strides};
  const bool turns =
      (from_strides[0] == 1 && to_strides[1] == 1) || (from_strides[1] == 1 && to_strides[0] == 1);
  for (int64_t i = 0; i < dims[0]; i += kTile)
    for (int64_t j = 0; j < dims[1]; j += kTile) {
      const int64_t i_end = std::min(dims[0], i + kTile), j_end = std::min(dims[1], j + kTile);
      turns ? matrix.turn(i, i_end, j, j_end) : matrix.copy(i, i_end, j, j_end);
    }
}

}  // namespace

CopyMatrix copy_matrix_of(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_matrix<uint8_t>;
    case 2:
      return copy_matrix<uint16_t>;
    case 4:
      return copy_matrix<uint32_t>;
    case 8:
      return copy_matrix<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace xc
