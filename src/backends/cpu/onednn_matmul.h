#pragma once
// Pieces of onednn_matmul.cpp that other matrix kernels share.

#include "backends/cpu/matmul_problem.h"

namespace xc::cpu {

/// How one operand of a product is handed to sgemm: in place, or packed into scratch first.
struct SgemmOperand {
  bool transposed = false;
  bool copied = false;
  int64_t leading = 1;
};
/// `rows` and `cols` with their strides, as sgemm sees it (row-major, not transposed).
SgemmOperand sgemm_operand(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);

}  // namespace xc::cpu
