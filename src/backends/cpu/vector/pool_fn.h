#pragma once
// Pooling windows: one pixel over channels that are adjacent in memory, or a line of pixels that
// are.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// A window along a line. Of n results, elements up to (n + 16) * stride + kernel * dilation are
/// read.
struct LineWindow {
  int64_t kernel, dilation, stride;
};
constexpr int64_t kLineSlack = 16;  ///< results beyond the last whose elements are read

/// Elements of a line, and where each was found.
struct FoundLine {
  float* value;
  int32_t* where;
};
/// Of padding: behind every place.
constexpr int32_t kNowhere = INT32_MAX;

/// A line of results: where the rows of its windows begin, where it goes, in elements, and what an
/// average is divided by beside its columns.
struct PoolLine {
  const int64_t* taps;
  int64_t count;  ///< none: all of the windows is padding
  int64_t y;
  float rows;
};
/// What is the same for all lines. Of `buffer`, which may hold any number of them, line i has
/// `pitch` elements, its windows begin at `first` and its input at `inside`: a multiple of 16, as
/// `pitch` is. What lies around the input holds the padding.
struct PoolLines {
  LineWindow window;
  int64_t input, output, first, inside, pitch;
  float padding;
  float* buffer;
};

/// Pixels in a row whose windows have the same taps, and the elements from one to the next.
struct PixelRun {
  int64_t pixels = 1, x_step = 0, y_step = 0;
};

struct PoolFns {
  /// Of each pixel p, y[p * y_step + c] = the largest of x[p * x_step + taps[k] + c] (NaN wins);
  /// taps in elements, one at least.
  void (*max)(const float* x, const int64_t* taps, int64_t count, float* y, int64_t channels,
              const PixelRun& run);
  /// The same of bf16, and of bytes.
  void (*max_bf16)(const uint16_t* x, const int64_t* taps, int64_t count, uint16_t* y,
                   int64_t channels, const PixelRun& run);
  void (*max_i8)(const int8_t* x, const int64_t* taps, int64_t count, int8_t* y, int64_t channels,
                 const PixelRun& run);
  void (*max_u8)(const uint8_t* x, const int64_t* taps, int64_t count, uint8_t* y, int64_t channels,
                 const PixelRun& run);
  /// The same with the sum of those elements, divided by `divisor`.
  void (*average)(const float* x, const int64_t* taps, int64_t count, float divisor, float* y,
                  int64_t channels, const PixelRun& run);
  /// Lines of results whose elements are adjacent, from rows whose are, in two steps: the rows of
  /// the windows folded into one in the buffer, then y[o] = the largest of it in the window (NaN
  /// wins).
  void (*max_lines)(const float* x, float* y, const PoolLine* lines, int64_t count,
                    const PoolLines& all);
  /// The same with the sum, divided by columns[o] * rows.
  void (*average_lines)(const float* x, float* y, const PoolLine* lines, int64_t count,
                        const PoolLines& all, const float* columns);
  /// The first of the largest: y.value[i] = x[taps[k] + i], y.where[i] = places[k] + i * step for
  /// that k of the largest element (NaN wins) whose place is least. Places rise.
  void (*find_max)(const float* x, const int64_t* taps, const int32_t* places, int64_t count,
                   int32_t step, const FoundLine& y, int64_t n);
  /// The same along a line, from what find_max() gave of its elements: of row[o * stride + k *
  /// dilation], the one whose place is least.
  void (*find_max_line)(const FoundLine& row, const LineWindow& window, const FoundLine& y,
                        int64_t n);
};
const PoolFns& pool_fns(Isa isa);

namespace baseline {
const PoolFns& pool_fns();
}
namespace avx2 {
const PoolFns& pool_fns();
}
namespace avx512 {
const PoolFns& pool_fns();
}

}  // namespace xc::cpu
