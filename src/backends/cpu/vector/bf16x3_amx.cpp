// Thirty-two rows by 32 columns in four tiles of sums, which stay in the units for all terms of a
// span. A step is 32 terms: six products of each tile, 384 cycles, for which 12 KiB come from the
// second-level cache. They are fetched a step ahead, for tiles are loaded a line at a time.

#include "backends/cpu/vector/bf16x3_fn.h"
#include "backends/cpu/vector/vec.h"
#include "backends/cpu/vector/widened.h"

namespace xc::cpu::XC_ISA {
namespace {

constexpr int64_t kTile = 16;  ///< rows of one; and columns of sums
constexpr int64_t kTerms = kBf16x3Step;
constexpr int64_t kTileBytes = 1024, kLine = 64;
constexpr int64_t kParts = 3;
constexpr int64_t kColumns = 2 * kTile;
/// Of a step: two tiles of each part, the parts in falling order of size. Of the left side they
/// hold 16 rows by 32 terms, of the right side 16 pairs of terms by 16 columns.
constexpr int64_t kStepBytes = kParts * 2 * kTileBytes;

XC_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
constexpr int64_t steps_of(int64_t terms) {
  return (terms + kTerms - 1) / kTerms;
}
constexpr int64_t blocks_of(int64_t rows) {
  return (rows + kBf16x3Rows - 1) / kBf16x3Rows;
}
/// Lanes of a vector that are there where `count` elements are.
XC_INLINE int64_t lanes_of(int64_t count) {
  return count < 0 ? 0 : least(count, kTile);
}

/// What lies in memory: for each row the bits of its largest element; the steps of 32 columns of
/// the right side and of the next 32; those of the left side, block by block.
struct Room {
  XC_INLINE Room(std::byte* memory, int64_t rows, int64_t terms)
      : most(reinterpret_cast<uint32_t*>(memory)),
        right(memory + blocks_of(rows) * kBf16x3Rows * 4),
        left(right + 2 * steps_of(terms) * kStepBytes) {}
  uint32_t* most;
  std::byte* right;
  std::byte* left;
};

/// Sixteen numbers as three of bf16 each, in the upper halves of 32 bits. The first two are
/// rounded, ties away from 0, the last one is what is left. Infinities and what rounds to them
/// leave NaN.
struct Split {
  __m512i part[kParts];
};
XC_INLINE Split split(__m512i x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u)),
                half = _mm512_set1_epi32(0x8000);
  Split out;
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    out.part[i] = _mm512_and_si512(_mm512_add_epi32(x, half), upper);
    x = _mm512_castps_si512(
        _mm512_sub_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(out.part[i])));
  }
  out.part[2] = x;
  return out;
}

/// Lines of the next step, fetched between products.
XC_INLINE void fetch(const std::byte* from) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    _mm_prefetch(reinterpret_cast<const char*>(from + i * kLine), _MM_HINT_T0);
}
/// `two`: of the upper rows alone.
template <bool two>
XC_INLINE void products(const std::byte* next) {
  _tile_dpbf16ps(0, 4, 6);
  fetch(next);
  _tile_dpbf16ps(1, 4, 7);
  fetch(next + 8 * kLine);
  if constexpr (!two) _tile_dpbf16ps(2, 5, 6);
  fetch(next + 16 * kLine);
  if constexpr (!two) _tile_dpbf16ps(3, 5, 7);
  fetch(next + 24 * kLine);
}
template <bool two>
XC_INLINE void load_left(const std::byte* step, int part) {
  _tile_loadd(4, step + part * 2 * kTileBytes, kLine);
  if constexpr (!two) _tile_loadd(5, step + (part * 2 + 1) * kTileBytes, kLine);
}
XC_INLINE void load_right(const std::byte* step, int part) {
  _tile_loadd(6, step + part * 2 * kTileBytes, kLine);
  _tile_loadd(7, step + (part * 2 + 1) * kTileBytes, kLine);
}

/// The first n of sixteen weights; the others are 0.
template <class E>
XC_INLINE F32 weights_at(const E* at, int64_t n) {
  if constexpr (sizeof(E) == 4) {
    return widened(at, n);
  } else {
    // Without the copy that few halves are loaded by elsewhere.
    return widened(at, (Halves)_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), at));
  }
}

/// Up to 32 columns of the right side on their way into three parts, two terms at a time.
template <class E>
struct RightSide {
  const E* from;
  int64_t row, terms, columns;  ///< elements from a term to the next
  std::byte* to;
  int64_t pair = 0;

  XC_INLINE int64_t pairs() const { return steps_of(terms) * kTile; }
  /// Memory takes as long as some steps.
  static constexpr int64_t kPairsAhead = 16;
  XC_INLINE void fetch_pair(const E* at) const {
    constexpr int64_t kOfLine = kLine / static_cast<int64_t>(sizeof(E));
#pragma GCC unroll 2
    for (int term = 0; term < 2; ++term)
#pragma GCC unroll 2
      for (int64_t column = 0; column < kColumns; column += kOfLine)
        _mm_prefetch(reinterpret_cast<const char*>(at + term * row + column), _MM_HINT_T1);
  }
  XC_INLINE void split_pair() {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    const E* const at = from + 2 * pair * row;
    fetch_pair(at + 2 * kPairsAhead * row);
    std::byte* const step = to + pair / kTile * kStepBytes + pair % kTile * kLine;
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t there = lanes_of(columns - half * kTile);
      const E* const x = at + half * kTile;
      const Split a = split((__m512i)weights_at(x, 2 * pair < terms ? there : 0)),
                  b = split((__m512i)weights_at(x + row, 2 * pair + 1 < terms ? there : 0));
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part)
        _mm512_store_si512(step + (part * 2 + half) * kTileBytes,
                           // The bits of b where `upper` has them, of a elsewhere.
                           _mm512_ternarylogic_epi32(upper, b.part[part],
                                                     _mm512_srli_epi32(a.part[part], 16), 0xca));
    }
    ++pair;
  }
  XC_INLINE void split_until(int64_t end) {
    while (pair < end) split_pair();
  }
};

/// Two by two tiles of y, or one by two, whose rows lie `stride` bytes apart. Meanwhile, what is
/// next is split up to a pair: vectors are idle beside matrix units, and memory has time.
template <class E, bool two>
void block_product(const std::byte* left, const std::byte* right, int64_t steps, float* y,
                   int64_t stride, bool add, RightSide<E>& next, int64_t pair) {
  float* const lower = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(y) + kTile * stride);
  if (add) {
    _tile_loadd(0, y, stride);
    _tile_loadd(1, y + kTile, stride);
    if constexpr (!two) {
      _tile_loadd(2, lower, stride);
      _tile_loadd(3, lower + kTile, stride);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step) {
    const std::byte *const a = left + step * kStepBytes, *const b = right + step * kStepBytes;
    // Behind the last step of a block is the first one of the next.
    const std::byte *const next_a = a + kStepBytes, *const next_b =
                                                        step + 1 < steps ? b + kStepBytes : right;
    const int64_t first = next.pair, pairs = (pair - first) / (steps - step);
    const auto split_some = [&](int64_t sixth) { next.split_until(first + pairs * sixth / 6); };
    load_right(b, 0);
    load_left<two>(a, 2);
    products<two>(next_a);
    split_some(1);
    load_left<two>(a, 1);
    products<two>(next_a + 32 * kLine);
    split_some(2);
    load_right(b, 1);
    products<two>(next_a + 64 * kLine);
    split_some(3);
    load_left<two>(a, 0);
    products<two>(next_b);
    split_some(4);
    load_right(b, 2);
    products<two>(next_b + 32 * kLine);
    split_some(5);
    load_right(b, 0);
    products<two>(next_b + 64 * kLine);
    split_some(6);
  }
  _tile_stored(0, y, stride);
  _tile_stored(1, y + kTile, stride);
  if constexpr (!two) {
    _tile_stored(2, lower, stride);
    _tile_stored(3, lower + kTile, stride);
  }
}

void split_left(const FewRows& p, const Bf16x3Terms& terms, std::byte* memory) {
  const int64_t count = terms.end - terms.begin, steps = steps_of(count);
  const Room room(memory, p.rows, count);
  // The upper halves of two vectors, one behind the other.
  using Picks = Vec<int16_t, 32>;
  Picks numbers = {};
#pragma GCC unroll 32
  for (int i = 0; i < 32; ++i) numbers[i] = static_cast<int16_t>(2 * i + 1);
  const auto upper_halves = (__m512i)numbers;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int64_t row = 0; row < blocks_of(p.rows) * kBf16x3Rows; ++row) {
    std::byte* to = room.left + row / kBf16x3Rows * steps * kStepBytes + row % kBf16x3Rows * kLine;
    if (row >= p.rows) {
      for (int64_t step = 0; step < steps; ++step, to += kStepBytes)
        for (int64_t part = 0; part < kParts; ++part)
          _mm512_store_si512(to + part * 2 * kTileBytes, _mm512_setzero_si512());
      continue;
    }
    const float* const x = p.x + row * p.x_row + terms.begin;
    __m512i most = _mm512_setzero_si512();
    for (int64_t step = 0; step < steps; ++step, to += kStepBytes) {
      const int64_t k = step * kTerms;
      const auto low = load_partial<__m512i>(x + k, lanes_of(count - k)),
                 high = load_partial<__m512i>(x + k + kTile, lanes_of(count - k - kTile));
      most = _mm512_max_epu32(most, _mm512_max_epu32(_mm512_and_si512(low, magnitude),
                                                     _mm512_and_si512(high, magnitude)));
      const Split a = split(low), b = split(high);
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part)
        _mm512_store_si512(to + part * 2 * kTileBytes,
                           _mm512_permutex2var_epi16(a.part[part], upper_halves, b.part[part]));
    }
    const uint32_t largest = _mm512_reduce_max_epu32(most);
    room.most[row] = terms.begin > 0 && room.most[row] > largest ? room.most[row] : largest;
  }
}

/// Whether one of the results is infinite or NaN.
bool not_finite(const float* y, int64_t stride, int64_t rows, int64_t columns) {
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  __m512i most = _mm512_setzero_si512();
  for (int64_t row = 0; row < rows; ++row, y += stride)
    for (int64_t j = 0; j < columns; j += kTile)
      most = _mm512_max_epu32(
          most, _mm512_and_si512(load_partial<__m512i>(y + j, lanes_of(columns - j)), exponent));
  return _mm512_cmpeq_epi32_mask(most, exponent) != 0;
}

/// Rows of up to 32 results each, `from_row` and `to_row` elements apart.
XC_INLINE void copy_block(const float* from, int64_t from_row, float* to, int64_t to_row,
                          int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, from += from_row, to += to_row)
    for (int64_t j = 0; j < columns; j += kTile) {
      const int64_t n = lanes_of(columns - j);
      store_masked(to + j, load_partial<F32>(from + j, n), n);
    }
}

struct alignas(64) Palette {
  uint8_t palette = 1, start = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
struct alignas(64) Results {
  float at[kBf16x3Rows * kColumns];
};

template <class E>
void multiply(const FewRows& p, const Bf16x3Terms& terms, std::byte* memory) {
  const int64_t count = terms.end - terms.begin, steps = steps_of(count);
  const Room room(memory, p.rows, count);
  const int64_t weights_row = p.panel > 0 ? kFewColumns : p.n;
  const auto weights = [&](int64_t column) {
    const int64_t at = p.panel > 0 ? column / kFewColumns * p.panel + column % kFewColumns : column;
    return static_cast<const E*>(p.panels) + at + (terms.begin - terms.held) * weights_row;
  };
  Palette palette;
  for (int tile = 0; tile < 8; ++tile) {
    palette.row_bytes[tile] = kLine;
    palette.rows[tile] = kTile;
  }
  _tile_loadconfig(&palette);
  const bool add = terms.begin > 0;
  Results edge;
  const auto side = [&](int64_t column, std::byte* to) {
    return RightSide<E>{weights(column), weights_row, count, least(kColumns, p.n - column), to};
  };
  std::byte *here = room.right, *there = here + steps * kStepBytes;
  RightSide<E> first = side(0, here);
  first.split_until(first.pairs());
  const int64_t blocks = blocks_of(p.rows);
  for (int64_t column = 0; column < p.n; column += kColumns) {
    const int64_t columns = least(kColumns, p.n - column);
    const bool more = column + kColumns < p.n;
    RightSide<E> next = side(more ? column + kColumns : column, there);
    const int64_t pairs = more ? next.pairs() : 0;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = block * kBf16x3Rows, rows = least(kBf16x3Rows, p.rows - row);
      float* const target = p.y + row * p.y_row + column;
      const bool whole = rows == kBf16x3Rows && columns == kColumns;
      float* const y = whole ? target : edge.at;
      const int64_t y_row = whole ? p.y_row : kColumns;
      if (!whole && add) copy_block(target, p.y_row, edge.at, kColumns, rows, columns);
      const auto run = rows > kTile ? block_product<E, false> : block_product<E, true>;
      run(room.left + block * steps * kStepBytes, here, steps, y, y_row * 4, add, next,
          pairs * (block + 1) / blocks);
      if (!whole) copy_block(edge.at, kColumns, target, p.y_row, rows, columns);
    }
    std::byte* const done = here;
    here = there;
    there = done;
  }
  _tile_release();
}

void multiply_any(const FewRows& p, const Bf16x3Terms& terms, std::byte* memory) {
  switch (p.format) {
    case WeightFormat::kF16:
      return multiply<F16>(p, terms, memory);
    case WeightFormat::kBF16:
      return multiply<BF16>(p, terms, memory);
    default:
      return multiply<float>(p, terms, memory);
  }
}

/// Whether units would take too much of a row for 0.
XC_INLINE bool is_tiny(uint32_t most) {
  return most != 0 && most < static_cast<uint32_t>(127 - kBf16x3Exponent) << 23;
}

bool failed(const FewRows& p, int64_t row, const std::byte* memory) {
  const Room room(const_cast<std::byte*>(memory), p.rows, 0);
  const int64_t rows = least(kBf16x3Rows, p.rows - row);
  for (int64_t i = row; i < row + rows; ++i)
    if (is_tiny(room.most[i])) return true;
  return not_finite(p.y + row * p.y_row, p.y_row, rows, p.n);
}

int64_t memory_bytes(int64_t rows, int64_t terms) {
  return blocks_of(rows) * kBf16x3Rows * 4 + (2 + blocks_of(rows)) * steps_of(terms) * kStepBytes;
}

constexpr Bf16x3Fns kFns{split_left, multiply_any, failed, memory_bytes};

}  // namespace

const Bf16x3Fns& bf16x3_fns() {
  return kFns;
}

}  // namespace xc::cpu::XC_ISA
