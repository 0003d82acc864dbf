#pragma once
// Blocked transposition: to[r * row_to + c] = from[r + c * col_from].

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Elements of 1, 2, 4, 8 or 16 bytes. Reads columns of `rows` adjacent elements, writes rows of
/// `cols` adjacent elements.
void transpose(const void* from, void* to, int64_t rows, int64_t cols, int64_t col_from,
               int64_t row_to, int64_t element_bytes);

namespace baseline {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
}  // namespace baseline
namespace avx2 {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
}  // namespace avx2
namespace avx512 {
void transpose_1(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_2(const uint16_t* from, uint16_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
void transpose_4(const uint32_t* from, uint32_t* to, int64_t rows, int64_t cols, int64_t col_from,
                 int64_t row_to);
}  // namespace avx512

}  // namespace xc::cpu
