// What a dot accumulator by matrix units is made of; its semantics: kernel.h.
#pragma once

#include <cstdint>

namespace xc::loop {

struct Kernel;

// Terms that are summed apart before they are added to a sum.
constexpr int kDotBf16Terms = 32;

// A dot_bf16x3 accumulator's factors have to reach this power of two.
constexpr int kDotBf16x3Least = -40;
// Scratch that a kernel with such accumulators has behind its buffers, for what its code lays out
// for the units; in bytes.
constexpr int64_t kDotBf16x3Room = 561 << 10;
bool has_dot_bf16x3(const Kernel& kernel);

// Which products it splits. What is laid out has to be used often enough: attention of as many rows
// as columns, of 64 terms, took (Xeon, 3.5 GHz) 1.05 of the time at 64 rows, 0.95 at 96, 0.88 at
// 128 and 0.7 at 512; of 512 rows by 77 1.07. Columns and terms are taken 32 at a time, and so many
// in 4 of those have to be there.
constexpr int64_t kSplitRows = 96, kSplitAtOnce = 32, kSplitFourths = 3, kSplitWork = 3 << 18;
constexpr bool splits_product(int64_t rows, int64_t columns, int64_t terms) {
  const auto fills = [](int64_t size) {
    const int64_t times = (size + kSplitAtOnce - 1) / kSplitAtOnce;
    return size >= kSplitAtOnce && 4 * size >= kSplitFourths * times * kSplitAtOnce;
  };
  return rows >= kSplitRows && fills(columns) && fills(terms) &&
         rows * columns >= kSplitWork / terms;
}

}  // namespace xc::loop
