#include "backends/cpu/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "backends/cpu/element_bytes.h"
#include "backends/cpu/short_runs.h"
#include "backends/cpu/vector/transpose_fn.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

/// Bytes of a unit where one row is long enough to be split.
constexpr int64_t kPieceBytes = 64 << 10;
constexpr int64_t kTile = 64;        ///< rows of a unit of a transposition
constexpr int64_t kBlock = 4;        ///< rows and columns from which on it goes by blocks
constexpr int64_t kFewRepeats = 16;  ///< of one element, more of which are filled in at a time

/// n times the same element.
template <class T>
void fill(T* to, int64_t n, T value) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kFew = 128 / kSize, kMost = 4096 / kSize;  // of what is copied on
  if (n <= kFew) {
    std::fill_n(to, n, value);
    return;
  }
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  if (std::all_of(bytes, bytes + sizeof(T), [&](unsigned char b) { return b == bytes[0]; })) {
    std::memset(to, bytes[0], static_cast<size_t>(n * kSize));
    return;
  }
  std::fill_n(to, kFew, value);
  for (int64_t done = kFew, more = 0; done < n; done += more) {
    more = std::min({done, kMost, n - done});
    std::memcpy(to + done, to, static_cast<size_t>(more * kSize));
  }
}

template <class T>
void copy_strided(const T* from, T* to, int64_t n, int64_t from_step, int64_t to_step) {
  if (to_step == 1 && from_step == 0) return fill(to, n, *from);
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

/// A transposition of so few columns that a block would be mostly empty: to[r * row_to + c] =
/// from[r + c * col_from].
template <class T>
void interleave(const T* from, T* to, int64_t rows, int64_t cols, int64_t col_from,
                int64_t row_to) {
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) to[r * row_to + c] = from[r + c * col_from];
}

/// The same of any number of columns.
template <class T>
void transpose_rows(const T* from, T* to, int64_t rows, int64_t cols, int64_t col_from,
                    int64_t row_to) {
  constexpr auto size = static_cast<int64_t>(sizeof(T));
  if (cols < kBlock && !few_channels(cols, row_to, size))
    return interleave(from, to, rows, cols, col_from, row_to);
  transpose(from, to, rows, cols, col_from, row_to, size);
}

/// The same, a tile after another.
template <class T>
void transpose_tiles(const T* from, T* to, int64_t rows, int64_t cols, int64_t col_from,
                     int64_t row_to) {
  const bool at_once = few_channels(cols, row_to, static_cast<int64_t>(sizeof(T)));
  const int64_t tile = at_once ? rows : kTile;
  for (int64_t r = 0; r < rows; r += tile)
    transpose_rows(from + r, to + r * row_to, std::min(tile, rows - r), cols, col_from, row_to);
}

/// Whether rows of `channels` are pixels that are quicker split into planes than picked from.
bool splits_pixels(int64_t channels, int64_t pixel_stride, int64_t element_bytes) {
  return few_channels(channels, pixel_stride, element_bytes) &&
         !(channels < 4 && every_beats_transpose(pixel_stride, element_bytes));
}

}  // namespace

void copy_matrix(MatrixCopy m, const void* from, void* to) {
  // Along the axis that is innermost in the result.
  if (m.columns == 1 || (m.rows != 1 && std::abs(m.to_row) < std::abs(m.to_column))) {
    std::swap(m.rows, m.columns);
    std::swap(m.from_row, m.from_column);
    std::swap(m.to_row, m.to_column);
  }
  if (m.from_row == m.from_column * m.columns && m.to_row == m.to_column * m.columns) {
    m.columns *= m.rows;
    m.rows = 1;
  }
  with_element_bytes(m.element_bytes, [&](auto element) {
    using T = decltype(element);
    const T* const source = static_cast<const T*>(from);
    T* const target = static_cast<T*>(to);
    if (m.from_row == 1 && m.to_column == 1 && m.columns > 1 &&
        (m.rows >= kBlock || splits_pixels(m.rows, m.from_column, m.element_bytes)))
      return transpose_tiles(source, target, m.rows, m.columns, m.from_column, m.to_row);
    if (m.from_column == 1 && m.to_column == 1) {
      constexpr auto size = static_cast<int64_t>(sizeof(T));
      return copy_runs(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), m.rows,
                       static_cast<size_t>(m.columns * size), m.to_row * size, m.from_row * size);
    }
    if (m.to_column == 1 &&
        copy_every(from, to, {m.rows, m.columns, m.from_column, m.from_row, m.to_row},
                   m.element_bytes))
      return;
    for (int64_t r = 0; r < m.rows; ++r)
      copy_strided(source + r * m.from_row, target + r * m.to_row, m.columns, m.from_column,
                   m.to_column);
  });
}

CopyPlan::CopyPlan(std::span<const int64_t> dims, std::span<const int64_t> from_strides,
                   std::span<const int64_t> to_strides, int64_t element_bytes)
    : element_bytes_(element_bytes) {
  StridedSpace given(dims, 2);
  given.add(from_strides);
  given.add(to_strides);
  const StridedSpace space = given.coalesced(1);
  const auto sizes = space.dims(), from = space.strides(0), to = space.strides(1);
  bytes_ = checked_mul(space.count(), element_bytes);
  if (bytes_ == 0) return;
  const size_t last = space.rank() - 1;
  cols_ = sizes[last];
  col_from_ = from[last];
  col_to_ = to[last];
  size_t row_axis = last;
  if (col_from_ == 1 && col_to_ == 1) {
    kind_ = Kind::kRuns;
    pieces_ = std::max<int64_t>(1, cols_ * element_bytes / kPieceBytes);
  } else {
    kind_ = Kind::kStrided;
    for (size_t axis = 0; axis < last; ++axis)
      if (const Kind kind = kind_with_rows(sizes[axis], from[axis], to[axis]);
          kind != Kind::kStrided) {
        kind_ = kind;
        row_axis = axis;
      }
    if (kind_ != Kind::kStrided) {
      rows_ = sizes[row_axis];
      row_to_ = to[row_axis];
      const int64_t bytes = checked_mul(rows_, cols_) * element_bytes;
      pieces_ = kind_ == Kind::kSplit || few_channels(cols_, row_to_, element_bytes)
                    ? std::max<int64_t>(1, bytes / kPieceBytes)
                    : ceil_div(rows_, kTile);
    }
  }
  for (size_t axis = 0; axis < last; ++axis) {
    if (axis == row_axis) continue;
    outer_dims_.push_back(sizes[axis]);
    outer_from_.push_back(from[axis]);
    outer_to_.push_back(to[axis]);
  }
  units_ = checked_mul(element_count(outer_dims_), pieces_);
}

CopyPlan::Kind CopyPlan::kind_with_rows(int64_t rows, int64_t row_from, int64_t row_to) const {
  if (row_from != 1 || col_to_ != 1 || cols_ == 1) return Kind::kStrided;
  if (splits_pixels(rows, col_from_, element_bytes_)) return Kind::kSplit;
  if (rows < kBlock) return Kind::kStrided;
  // Elements that are repeated are columns of the same place.
  if (col_from_ == 0)
    return cols_ <= kFewRepeats && row_to == cols_ ? Kind::kTransposed : Kind::kStrided;
  return every_beats_transpose(col_from_, element_bytes_) ? Kind::kStrided : Kind::kTransposed;
}

void CopyPlan::run(const void* from, void* to, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  // Odometer over the outer axes.
  const size_t rank = outer_dims_.size();
  int64_t at_store[16] = {};
  Dims at_heap;
  int64_t* at = at_store;
  if (rank > std::size(at_store)) {
    at_heap.assign(rank, 0);
    at = at_heap.data();
  }
  int64_t outer = 0, piece = 0, from_at = 0, to_at = 0;
  if (begin > 0) outer = begin / pieces_, piece = begin % pieces_;
  for (size_t axis = rank; outer > 0 && axis-- > 0;) {
    at[axis] = outer % outer_dims_[axis];
    outer /= outer_dims_[axis];
    from_at += at[axis] * outer_from_[axis];
    to_at += at[axis] * outer_to_[axis];
  }
  // A unit that is whole, as most are, divides nothing: that takes longer than copying a short row.
  const auto part_of = [&](int64_t size, int64_t number) {
    return pieces_ == 1 ? number * size : size * number / pieces_;
  };
  with_element_bytes(element_bytes_, [&](auto element) {
    using T = decltype(element);
    const T* source = static_cast<const T*>(from);
    T* target = static_cast<T*>(to);
    int64_t together = 1;  // units in this turn
    for (int64_t unit = begin; unit < end; unit += together) {
      together = 1;
      const T* f = source + from_at;
      T* t = target + to_at;
      switch (kind_) {
        case Kind::kRuns: {
          if (pieces_ == 1 && rank > 0) {
            constexpr auto size = static_cast<int64_t>(sizeof(T));
            together = std::min(end - unit, outer_dims_.back() - at[rank - 1]);
            copy_runs(reinterpret_cast<std::byte*>(t), reinterpret_cast<const std::byte*>(f),
                      together, static_cast<size_t>(cols_ * size), outer_to_.back() * size,
                      outer_from_.back() * size);
            break;
          }
          const int64_t first = part_of(cols_, piece), last = part_of(cols_, piece + 1);
          std::memcpy(t + first, f + first, static_cast<size_t>(last - first) * sizeof(T));
          break;
        }
        case Kind::kStrided:
          if (col_to_ == 1 && rank > 0) {
            const int64_t rows = std::min(end - unit, outer_dims_.back() - at[rank - 1]);
            if (copy_every(f, t, {rows, cols_, col_from_, outer_from_.back(), outer_to_.back()},
                           element_bytes_)) {
              together = rows;
              break;
            }
          }
          copy_strided(f, t, cols_, col_from_, col_to_);
          break;
        case Kind::kTransposed: {
          const int64_t first = part_of(rows_, piece), last = part_of(rows_, piece + 1);
          transpose_rows(f + first, t + first * row_to_, last - first, cols_, col_from_, row_to_);
          break;
        }
        case Kind::kSplit: {
          const int64_t first = part_of(cols_, piece), last = part_of(cols_, piece + 1);
          transpose(f + first * col_from_, t + first, rows_, last - first, col_from_, row_to_,
                    static_cast<int64_t>(sizeof(T)));
          break;
        }
      }
      if (++piece < pieces_) continue;
      piece = 0;
      for (size_t axis = rank; axis-- > 0;) {
        const int64_t steps = axis + 1 == rank ? together : 1;
        from_at += steps * outer_from_[axis];
        to_at += steps * outer_to_[axis];
        at[axis] += steps;
        if (at[axis] < outer_dims_[axis]) break;
        from_at -= at[axis] * outer_from_[axis];
        to_at -= at[axis] * outer_to_[axis];
        at[axis] = 0;
      }
    }
  });
}

}  // namespace xc::cpu
