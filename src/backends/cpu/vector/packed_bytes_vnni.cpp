// Products of bytes with dot products of four: one operand of the instruction is unsigned, the
// other signed. The left side is never changed: the right side is packed as what it is not. For a
// signed left side the packed bytes are 128 more than they mean, which costs 128 times the sum of
// the row.

#include "backends/cpu/vector/packed_bytes_fn.h"
#include "backends/cpu/vector/vec.h"

namespace xc::cpu::XC_ISA {
namespace {

constexpr int64_t kPanel = 64;  ///< columns
constexpr int64_t kLanes32 = 16;
using Sums = Vec<int32_t, 16>;

XC_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
/// Columns that a panel holds: whole vectors.
XC_INLINE int64_t panel_width(int64_t n) {
  return (n + kLanes32 - 1) / kLanes32 * kLanes32;
}
XC_INLINE __mmask64 first_bytes(int64_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

/// Four rows of `n` columns, `rows` of which exist, with the bits of `turn` turned over.
XC_INLINE void pack_rows(const uint8_t* from, int64_t row, int64_t rows, int64_t n, uint8_t turn,
                         uint8_t* to) {
  for (int64_t j = 0; j < n; j += kLanes32) {
    const auto there = static_cast<__mmask16>(first_bytes(least(n - j, kLanes32)));
    __m128i x[4];
#pragma GCC unroll 4
    for (int d = 0; d < 4; ++d)
      x[d] = d < rows ? _mm_maskz_loadu_epi8(there, from + d * row + j) : _mm_setzero_si128();
    const __m128i low01 = _mm_unpacklo_epi8(x[0], x[1]), high01 = _mm_unpackhi_epi8(x[0], x[1]);
    const __m128i low23 = _mm_unpacklo_epi8(x[2], x[3]), high23 = _mm_unpackhi_epi8(x[2], x[3]);
    __m512i all = _mm512_castsi128_si512(_mm_unpacklo_epi16(low01, low23));
    all = _mm512_inserti32x4(all, _mm_unpackhi_epi16(low01, low23), 1);
    all = _mm512_inserti32x4(all, _mm_unpacklo_epi16(high01, high23), 2);
    all = _mm512_inserti32x4(all, _mm_unpackhi_epi16(high01, high23), 3);
    _mm512_storeu_si512(to + j * 4,
                        _mm512_xor_si512(all, _mm512_set1_epi8(static_cast<char>(turn))));
  }
}

/// The same where the bytes of a column lie side by side, or anywhere.
XC_INLINE void pack_columns(const uint8_t* from, int64_t row, int64_t column, int64_t rows,
                            int64_t n, uint8_t turn, uint8_t* to) {
  const uint32_t turned = 0x01010101u * turn;
  const bool whole = row == 1 && rows == 4;
  for (int64_t j = 0; j < panel_width(n); ++j) {
    uint32_t four = 0;
    const uint8_t* x = from + j * column;
    if (j < n && whole)
      __builtin_memcpy(&four, x, sizeof(four));
    else if (j < n)
      for (int64_t d = 0; d < rows; ++d) four |= static_cast<uint32_t>(x[d * row]) << (8 * d);
    four ^= turned;
    __builtin_memcpy(to + j * 4, &four, sizeof(four));
  }
}

/// What is behind the last row does not count: the left side has zeros there. In the sums it does.
void sum_panel(const uint8_t* panel, bool left_signed, int64_t k, int64_t n, uint8_t turn,
               int32_t* sums) {
  const int64_t groups = (k + 3) / 4, width = panel_width(n);
  // Rows that are not there are what `turn` made of 0.
  const auto behind =
      static_cast<int32_t>(groups * 4 - k) * (left_signed ? turn : static_cast<int8_t>(turn));
  const auto shift = (left_signed ? -128 * static_cast<int32_t>(k) : 0) - behind;
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t j = 0; j < n; j += kLanes32) {
    __m512i sum = _mm512_set1_epi32(shift);
    for (int64_t g = 0; g < groups; ++g) {
      const __m512i x = _mm512_loadu_si512(panel + (g * width + j) * 4);
      sum = left_signed ? _mm512_dpbusd_epi32(sum, x, ones) : _mm512_dpbusd_epi32(sum, ones, x);
    }
    _mm512_mask_storeu_epi32(sums + j, static_cast<__mmask16>(first_bytes(n - j)), sum);
  }
}

void pack(const BytesToPack& from, bool left_signed, uint8_t* to, int32_t* sums) {
  const auto* bytes = static_cast<const uint8_t*>(from.data);
  // Signed bytes for an unsigned left side, unsigned ones for a signed one.
  const uint8_t turn = from.is_signed == left_signed ? 128 : 0;
  for (int64_t j = 0; j < from.n; j += kPanel) {
    const int64_t n = least(from.n - j, kPanel), width = panel_width(n);
    uint8_t* const panel = to;
    for (int64_t d = 0; d < from.k; d += 4, to += width * 4) {
      const uint8_t* at = bytes + d * from.row + j * from.column;
      const int64_t rows = least(from.k - d, 4);
      if (from.column == 1)
        pack_rows(at, from.row, rows, n, turn, to);
      else
        pack_columns(at, from.row, from.column, rows, n, turn, to);
    }
    if (sums) sum_panel(panel, left_signed, from.k, n, turn, sums + j);
  }
}

/// 128 times the sum of a row of signed bytes.
XC_INLINE int32_t shifted_sum(const uint8_t* row, int64_t k) {
  __m512i sum = _mm512_setzero_si512();
  for (int64_t d = 0; d < k; d += 64)
    sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(static_cast<char>(128)),
                              _mm512_maskz_loadu_epi8(first_bytes(k - d), row + d));
  return _mm512_reduce_add_epi32(sum);
}

template <bool kSigned>
XC_INLINE Sums dot(Sums sum, __m512i left, __m512i right) {
  return (Sums)(kSigned ? _mm512_dpbusd_epi32((__m512i)sum, right, left)
                        : _mm512_dpbusd_epi32((__m512i)sum, left, right));
}

/// R rows of V vectors of columns, of which the last has `columns`.
template <bool kSigned, int R, int V>
XC_INLINE void tile(const uint8_t* left, int64_t left_row, int64_t k, const uint8_t* panel,
                    int64_t width, __mmask16 columns, int32_t* sums, int64_t sums_row) {
  Sums acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const Sums start = splat<Sums>(kSigned ? -shifted_sum(left + r * left_row, k) : 0);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = start;
  }
  int64_t d = 0;
  for (; d + 4 <= k; d += 4, panel += width * 4) {
    __m512i right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = _mm512_loadu_si512(panel + v * 64);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, left + r * left_row + d, sizeof(four));
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = dot<kSigned>(acc[r][v], x, right[v]);
    }
  }
  if (d < k) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t four = 0;
      for (int64_t i = 0; i < k - d; ++i)
        four |= static_cast<int32_t>(static_cast<uint32_t>(left[r * left_row + d + i]) << (8 * i));
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        acc[r][v] = dot<kSigned>(acc[r][v], x, _mm512_loadu_si512(panel + v * 64));
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v + 1 < V; ++v) store(sums + r * sums_row + v * kLanes32, acc[r][v]);
    _mm512_mask_storeu_epi32(sums + r * sums_row + (V - 1) * kLanes32, columns,
                             (__m512i)acc[r][V - 1]);
  }
}

template <bool kSigned, int R, int V>
XC_INLINE void rows_at_once(const BytesProduct& p, int64_t& i, const uint8_t* panel,
                            __mmask16 columns, int32_t* sums) {
  for (; i + R <= p.m; i += R)
    tile<kSigned, R, V>(static_cast<const uint8_t*>(p.left) + i * p.left_row, p.left_row, p.k,
                        panel, V * kLanes32, columns, sums + i * p.sums_row, p.sums_row);
}

/// As many rows at a time as leave sums, right sides and one left side in registers.
template <bool kSigned, int V>
void multiply_panel(const BytesProduct& p, const uint8_t* panel, int64_t n, int32_t* sums) {
  const auto columns = static_cast<__mmask16>(first_bytes(n - (V - 1) * kLanes32));
  int64_t i = 0;
  constexpr int kMost = V == 1 ? 12 : V == 2 ? 12 : V == 3 ? 8 : 6;
  rows_at_once<kSigned, kMost, V>(p, i, panel, columns, sums);
  if constexpr (kMost > 6) rows_at_once<kSigned, 6, V>(p, i, panel, columns, sums);
  rows_at_once<kSigned, 3, V>(p, i, panel, columns, sums);
  rows_at_once<kSigned, 1, V>(p, i, panel, columns, sums);
}

template <bool kSigned>
void multiply_columns(const BytesProduct& p) {
  const uint8_t* panel = p.right;
  for (int64_t j = 0; j < p.n; j += kPanel) {
    const int64_t n = least(p.n - j, kPanel), width = panel_width(n);
    switch (width / kLanes32) {
      case 1:
        multiply_panel<kSigned, 1>(p, panel, n, p.sums + j);
        break;
      case 2:
        multiply_panel<kSigned, 2>(p, panel, n, p.sums + j);
        break;
      case 3:
        multiply_panel<kSigned, 3>(p, panel, n, p.sums + j);
        break;
      default:
        multiply_panel<kSigned, 4>(p, panel, n, p.sums + j);
        break;
    }
    panel += (p.k + 3) / 4 * 4 * width;
  }
}

void multiply(const BytesProduct& p) {
  p.left_signed ? multiply_columns<true>(p) : multiply_columns<false>(p);
}

}  // namespace

const PackedBytesFns& packed_bytes_fns() {
  static constexpr PackedBytesFns kFns{pack, multiply};
  return kFns;
}

}  // namespace xc::cpu::XC_ISA
