#pragma once
// MatMul, Gemm and their like as one form: for each batch, C[m,n] = alpha * sum_k A[m,k] B[k,n],
// with element strides of any sign, and the parts it is split into.

#include "backends/step.h"

namespace xc::cpu {

struct MatMulProblem {
  int64_t m = 1, n = 1, k = 1;
  Dims batch;  ///< broadcast leading dims
  int64_t batches = 1;
  Dims a_batch, b_batch, c_batch;  ///< strides over `batch`
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;

  double flops() const {
    return 2.0 * static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

/// `left` and `right` are MatMul's operands (1-D ones as numpy has it); `transpose_*` those of
/// Gemm.
MatMulProblem matmul_problem(const BoundOperand& left, const BoundOperand& right,
                             const BoundOperand& result, bool transpose_left, bool transpose_right);

/// Element offsets of one batch's operands.
struct BatchOffsets {
  int64_t a = 0, b = 0, c = 0;
};
BatchOffsets batch_offsets(const MatMulProblem& problem, int64_t batch);

/// Operands of the step as a result [m, n] sees them, for an epilogue over a folded product.
struct FoldedContext {
  std::vector<Dims> storage;
  std::vector<BoundOperand> inputs, outputs;
  bool background = false;
  BindContext context() const { return {inputs, outputs, background}; }
};
/// Makes the leading dims part of the rows, when the right side has none and every stride allows
/// it, those of inputs [first_extra, ...) over the result included. Leaves `p` alone when not.
bool fold_rows(MatMulProblem& p, const BindContext& context, size_t first_extra,
               FoldedContext& out);
/// The same for as many of the inner leading dims as the right side is repeated over: heads that
/// share their keys read these once. The others stay in front, in `out` too.
bool fold_shared_rows(MatMulProblem& p, const BindContext& context, size_t first_extra,
                      FoldedContext& out);

/// A part of a product: rows [m0, m1) and columns [n0, n1) of one batch.
struct MatMulPart {
  int64_t batch = 0;
  int64_t m0 = 0, m1 = 0, n0 = 0, n1 = 0;
};
/// Parts that depend on the shape alone, so that results do not depend on the number of threads.
/// Batches first, then columns (multiples of 64), then rows. `slices` > 0 fixes the columns' parts.
/// Where a row's sums do not change with how many rows there are, `threads` > 1 cuts them finer.
std::vector<MatMulPart> split_matmul(const MatMulProblem& problem, int64_t slices = 0,
                                     int threads = 1);
/// For right sides packed in `slices` of columns that are read from memory once per part, where a
/// row's sums do not change with how many rows there are: up to `most_rows`, fewer where `threads`
/// would be idle. Rows first, then columns.
std::vector<MatMulPart> split_slices(const MatMulProblem& problem, int64_t slices,
                                     int64_t most_rows, int threads);
/// So many parts of the rows, at multiples of 32, and of the columns, at multiples of 64, for each
/// batch. Rows first.
std::vector<MatMulPart> split_evenly(const MatMulProblem& problem, int64_t rows, int64_t columns);
/// As many rows as leave a second-level cache room beside a left side of `row_bytes` each.
int64_t rows_in_cache(int64_t row_bytes);
/// For a kernel that copies a part's columns of the right side in each part and whose sums do not
/// depend on the part: as few parts of the rows as `threads` and `tile`, the elements of a part's
/// result that should not be many more, allow.
std::vector<MatMulPart> split_copying(const MatMulProblem& problem, int threads, int64_t tile);
/// First column of slice `index` of `slices` of n columns; a multiple of 64.
int64_t slice_begin(int64_t n, int64_t slices, int64_t index);

}  // namespace xc::cpu
