// In tiles, so that lines of both sides stay in the cache while they are worked through; by squares
// that are turned in registers where an axis is side by side in each.
#include "tensor/copy_matrix.h"

#include <algorithm>
#include <cstring>

#include "tensor/turn_square.h"

namespace xc {
namespace {

constexpr int64_t kTile = 32;
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
    constexpr int64_t kRows = kTurnedRows<T>;
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
