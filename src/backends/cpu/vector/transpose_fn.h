#pragma once
// Blocked transposition: to[r * row_to + c] = from[r + c * col_from].

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Elements of 1, 2, 4, 8 or 16 bytes. Reads columns of `rows` adjacent elements, writes rows of
/// `cols` adjacent elements.
void transpose(const void* from, void* to, int64_t rows, int64_t cols, int64_t col_from,
               int64_t row_to, int64_t element_bytes);

/// Whether so many columns, or rows, are channels of dense pixels, which transpose() does without
/// blocks: all at once.
bool few_channels(int64_t count, int64_t pixel_stride, int64_t element_bytes);

/// Rows of elements some steps apart: to[r * to_row + i] = from[r * from_row + i * step], i < n.
struct EveryCopy {
  int64_t rows, n, step, from_row, to_row;
};
/// False, and nothing is done, for elements that are not of 4 bytes and steps that registers are
/// not picked from. Reads what lies between the elements, too.
bool copy_every(const void* from, void* to, const EveryCopy& copy, int64_t element_bytes);
/// Whether it takes less than a transposition where the elements in between are wanted as well.
bool every_beats_transpose(int64_t step, int64_t element_bytes);

namespace baseline {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
bool copy_every_4(const uint32_t* from, uint32_t* to, const EveryCopy& copy);
}  // namespace baseline
namespace avx2 {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
bool copy_every_4(const uint32_t* from, uint32_t* to, const EveryCopy& copy);
}  // namespace avx2
namespace avx512 {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
bool copy_every_4(const uint32_t* from, uint32_t* to, const EveryCopy& copy);
}  // namespace avx512

}  // namespace xc::cpu
