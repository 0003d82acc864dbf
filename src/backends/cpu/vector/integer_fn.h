#pragma once
// What integer products need beside the product itself: sums for zero points, and the way back from
// 32-bit sums to bytes.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// One row of a product's result. 32-bit arithmetic wraps.
struct FinishRow {
  const int32_t* sums;  ///< [n]
  int64_t n;
  const int32_t* add;    ///< [n], or null
  const int32_t* zeros;  ///< [n], or null: `row_sum` times these is subtracted
  int32_t row_sum;
  /// Null: the corrected sums are the result, at `out32` (which may be `sums`).
  const float* scales;  ///< [n]
  float low, high;      ///< bounds of the scaled sum, rounded half to even between them
  int32_t out_zero;     ///< then added
  int32_t* out32;
  uint8_t* out8;  ///< unsigned or signed: the bounds decide
};

/// One pixel of a depthwise convolution: per channel, the sum over taps of data times weight.
struct DepthwisePixel {
  const void* const* taps;  ///< per tap, the bytes [channels] it reads
  int64_t count;
  bool is_signed;
  const int16_t* weights;  ///< [tap][channels]
  int64_t channels;
  int32_t* sums;  ///< [channels]
};

struct IntegerFns {
  void (*finish)(const FinishRow& row);
  /// out[i] = sum of row i of m rows of k bytes.
  void (*row_sums)(const void* a, bool is_signed, int64_t m, int64_t k, int64_t lda, int32_t* out);
  /// out[j] = sum of column j of k rows of n signed bytes.
  void (*column_sums)(const int8_t* b, int64_t k, int64_t n, int64_t ldb, int32_t* out);
  /// Unsigned bytes less 128 as signed ones; in place or not.
  void (*to_signed)(const uint8_t* from, int64_t n, int8_t* to);
  void (*bytes_to_f32)(const void* from, bool is_signed, int64_t n, float* to);
  /// sums += values, which are whole numbers of a magnitude below 2^24.
  void (*add_whole)(const float* values, int64_t n, int32_t* sums);
  /// The least and the greatest of 0 and n values; NaN is passed over.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// out[i] = x[i] / scale, rounded half to even, plus zero, saturated to low..low + 255.
  void (*quantise)(const float* x, int64_t n, float scale, int32_t zero, int32_t low, uint8_t* out);
  /// out[i] = table[x[i]], a table of 256.
  void (*look_up)(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* out);
  void (*depthwise)(const DepthwisePixel& pixel);
};
const IntegerFns& integer_fns(Isa isa);

namespace baseline {
const IntegerFns& integer_fns();
}
namespace avx2 {
const IntegerFns& integer_fns();
}
namespace avx512 {
const IntegerFns& integer_fns();
}

}  // namespace xc::cpu
