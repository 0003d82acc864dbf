#include "backends/cpu/matmul_problem.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/strided_space.h"

namespace xc::cpu {
namespace {

/// Work worth a task: some 20 us on one core.
constexpr double kTaskFlops = 2e6;
constexpr int64_t kMostTasks = 64;
constexpr int64_t kColumnUnit = 64, kRowUnit = 32;
/// Of a part's left side, where the right side is read once per part, and rows at most.
constexpr int64_t kLeftBytes = 2 << 20, kMostRows = 512;
// What a product costs per term, in cycles, where each part copies its columns of the right side: a
// copied element one, as measured (64 rows of 2000x2000 at two thirds of the speed of many).
// Estimates: a row that is copied from as much as kNarrow columns more, for the machine fetches by
// pages; an element of the left side, which each part of the columns reads; a thread that is late.
constexpr double kProductsPerCycle = 32, kReread = 0.25, kNarrow = 256, kLate = 0.1;

}  // namespace

MatMulProblem matmul_problem(const BoundOperand& left, const BoundOperand& right,
                             const BoundOperand& result, bool transpose_left,
                             bool transpose_right) {
  MatMulProblem p;
  const size_t left_rank = left.dims.size(), right_rank = right.dims.size();
  const bool left_vector = left_rank == 1, right_vector = right_rank == 1;
  if (left_vector) {
    p.k = left.dims[0];
    p.a_k = left.strides[0];
  } else {
    const size_t m = left_rank - (transpose_left ? 1 : 2), k = left_rank - (transpose_left ? 2 : 1);
    p.m = left.dims[m];
    p.a_m = left.strides[m];
    p.k = left.dims[k];
    p.a_k = left.strides[k];
  }
  int64_t right_k;
  if (right_vector) {
    right_k = right.dims[0];
    p.b_k = right.strides[0];
  } else {
    const size_t k = right_rank - (transpose_right ? 1 : 2),
                 n = right_rank - (transpose_right ? 2 : 1);
    right_k = right.dims[k];
    p.b_k = right.strides[k];
    p.n = right.dims[n];
    p.b_n = right.strides[n];
  }
  if (right_k != p.k)
    fail(Status::kInvalidModel, "inner dims {} and {} of a matrix product differ", p.k, right_k);
  size_t batch_rank = result.dims.size();
  if (!right_vector) p.c_n = result.strides[--batch_rank];
  if (!left_vector) p.c_m = result.strides[--batch_rank];
  const auto batch = result.dims.first(batch_rank);
  p.batch.assign(batch.begin(), batch.end());
  p.batches = element_count(batch);
  const auto leading = [&](const BoundOperand& operand) {
    const size_t rank = operand.dims.size() - std::min<size_t>(2, operand.dims.size());
    return strides_over(batch, operand.dims.first(rank), operand.strides.first(rank));
  };
  p.a_batch = leading(left);
  p.b_batch = leading(right);
  p.c_batch.assign(result.strides.begin(),
                   result.strides.begin() + static_cast<ptrdiff_t>(batch_rank));
  return p;
}

namespace {

/// One axis in place of axes [0, dims.size()), when the strides allow it.
struct FoldedAxis {
  int64_t size = 1;
  int64_t stride = 0;
  bool add(int64_t dim, int64_t dim_stride) {  // from the innermost axis outwards
    if (dim == 1) return true;
    if (size == 1)
      stride = dim_stride;
    else if (dim_stride != stride * size)
      return false;
    size *= dim;
    return true;
  }
};

/// Makes the innermost `axes` leading dims part of the rows.
bool fold_axes(MatMulProblem& p, const BindContext& context, size_t first_extra, size_t axes,
               FoldedContext& out) {
  if (p.batches == 0 || p.m == 0 || p.n == 0) return false;
  const size_t outer = p.batch.size() - axes;
  FoldedAxis a, c;
  if (!a.add(p.m, p.a_m) || !c.add(p.m, p.c_m)) return false;
  for (size_t axis = p.batch.size(); axis-- > outer;) {
    if (p.batch[axis] > 1 && p.b_batch[axis] != 0) return false;
    if (!a.add(p.batch[axis], p.a_batch[axis]) || !c.add(p.batch[axis], p.c_batch[axis]))
      return false;
  }
  const auto result = context.outputs[0].dims;
  // With a vector on the right the result has no columns axis.
  const size_t row_axes = result.size() - (context.inputs[1].dims.size() > 1 ? 1 : 0);
  out.storage.clear();
  out.storage.reserve(2 * (context.inputs.size() + 1));
  /// Dims or strides: the outer ones stay, then rows and columns.
  const auto keep = [&](std::span<const int64_t> all, int64_t rows,
                        int64_t columns) -> std::span<const int64_t> {
    Dims& values = out.storage.emplace_back(outer + 2);
    std::copy_n(all.begin(), outer, values.begin());
    values[outer] = rows;
    values[outer + 1] = columns;
    return values;
  };
  out.inputs.assign(context.inputs.size(), BoundOperand{});
  for (size_t i = first_extra; i < context.inputs.size(); ++i) {
    const Dims strides = strides_over(result, context.inputs[i].dims, context.inputs[i].strides);
    FoldedAxis rows;
    for (size_t axis = row_axes; axis-- > outer;)
      if (!rows.add(result[axis], strides[axis])) return false;
    const int64_t column = row_axes < result.size() ? strides[row_axes] : 0;
    out.inputs[i] = {keep(result, c.size, p.n), keep(strides, rows.stride, column)};
  }
  out.outputs = {{keep(result, c.size, p.n), keep(context.outputs[0].strides, c.stride, p.c_n)}};
  p.m = c.size;
  p.a_m = a.stride;
  p.c_m = c.stride;
  for (Dims* dims : {&p.batch, &p.a_batch, &p.b_batch, &p.c_batch}) dims->resize(outer);
  p.batches = element_count(p.batch);
  return true;
}

}  // namespace

bool fold_rows(MatMulProblem& p, const BindContext& context, size_t first_extra,
               FoldedContext& out) {
  return fold_axes(p, context, first_extra, p.batch.size(), out);
}

bool fold_shared_rows(MatMulProblem& p, const BindContext& context, size_t first_extra,
                      FoldedContext& out) {
  for (size_t axes = p.batch.size(); axes > 0; --axes)
    if (p.batch[p.batch.size() - axes] > 1 && fold_axes(p, context, first_extra, axes, out))
      return true;
  return false;
}

BatchOffsets batch_offsets(const MatMulProblem& p, int64_t batch) {
  BatchOffsets out;
  for (size_t axis = p.batch.size(); axis-- > 0;) {
    const int64_t index = batch % p.batch[axis];
    batch /= p.batch[axis];
    out.a += index * p.a_batch[axis];
    out.b += index * p.b_batch[axis];
    out.c += index * p.c_batch[axis];
  }
  return out;
}

int64_t slice_begin(int64_t n, int64_t slices, int64_t index) {
  if (index >= slices) return n;
  return std::min(n, ceil_div(n, kColumnUnit) * index / slices * kColumnUnit);
}

namespace {

/// Of a batch: more would be too small.
int64_t most_parts(const MatMulProblem& p) {
  const auto worth = static_cast<int64_t>(p.flops() / kTaskFlops);
  return ceil_div(std::clamp<int64_t>(worth, 1, kMostTasks), p.batches);
}

}  // namespace

std::vector<MatMulPart> split_evenly(const MatMulProblem& p, int64_t rows, int64_t columns) {
  std::vector<MatMulPart> parts;
  for (int64_t batch = 0; batch < p.batches; ++batch)
    for (int64_t r = 0; r < rows; ++r) {
      // Columns innermost: neighbours share the rows of A.
      const int64_t unit_rows = ceil_div(p.m, kRowUnit);
      const int64_t m0 = std::min(p.m, unit_rows * r / rows * kRowUnit);
      const int64_t m1 = r + 1 == rows ? p.m : std::min(p.m, unit_rows * (r + 1) / rows * kRowUnit);
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t n0 = slice_begin(p.n, columns, c), n1 = slice_begin(p.n, columns, c + 1);
        if (m0 < m1 && n0 < n1) parts.push_back({batch, m0, m1, n0, n1});
      }
    }
  return parts;
}

std::vector<MatMulPart> split_matmul(const MatMulProblem& p, int64_t slices, int threads) {
  if (p.batches == 0 || p.m == 0 || p.n == 0) return {};
  const int64_t per_batch = most_parts(p);
  int64_t columns = slices, rows = 1;
  if (columns == 0) {
    columns = 1;
    // A tall product is split over rows, which share the packed right side.
    if (p.m <= p.n) columns = std::clamp<int64_t>(p.n / (2 * kColumnUnit), 1, per_batch);
  }
  rows = std::clamp<int64_t>(p.m / (2 * kRowUnit), 1, std::max<int64_t>(1, per_batch / columns));
  // In one part it would occupy one thread; 32 rows take 3 % longer than half of 64.
  if (threads > 1 && p.batches * columns * rows == 1 && per_batch >= 2 && p.m > kRowUnit) rows = 2;
  return split_evenly(p, rows, columns);
}

int64_t rows_in_cache(int64_t row_bytes) {
  return std::clamp<int64_t>(kLeftBytes / std::max<int64_t>(1, row_bytes), 2 * kRowUnit, kMostRows);
}

std::vector<MatMulPart> split_slices(const MatMulProblem& p, int64_t slices, int64_t most_rows,
                                     int threads) {
  if (p.batches == 0 || p.m == 0 || p.n == 0) return {};
  int64_t rows = ceil_div(p.m, most_rows);
  if (threads > 1) {
    const int64_t enough = ceil_div(int64_t{4} * threads, p.batches * slices);
    const int64_t worth = std::clamp<int64_t>(p.m / (2 * kRowUnit), 1, most_parts(p));
    rows = std::max(rows, std::min(enough, worth));
  }
  return split_evenly(p, rows, slices);
}

std::vector<MatMulPart> split_copying(const MatMulProblem& p, int threads, int64_t tile) {
  if (p.batches == 0 || p.m == 0 || p.n == 0) return {};
  const int64_t per_batch = most_parts(p);
  const int64_t most_rows = std::max<int64_t>(1, p.m / (2 * kRowUnit)),
                most_columns = std::max<int64_t>(1, p.n / (2 * kColumnUnit));
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  int64_t best_rows = 1, best_columns = 1;
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t each : {1, 2, 4}) {  // parts of a thread
    const int64_t parts = std::min(per_batch, ceil_div(each * threads, p.batches));
    for (int64_t columns = 1; columns <= std::min(parts, most_columns); ++columns) {
      const int64_t rows = std::min(ceil_div(parts, columns), most_rows);
      const int64_t all = rows * columns * p.batches, turns = ceil_div(all, threads);
      const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
      const double cycles = m * n / kProductsPerCycle + c * m * kReread +
                            r * n * (1 + kNarrow * c / n) +
                            (ceil_div(p.m, rows) * ceil_div(p.n, columns) > tile
                                 ? m * n / static_cast<double>(std::max<int64_t>(1, p.k))
                                 : 0);
      // Turns that not all threads have a part in; and one that is late keeps the others waiting.
      const double idle = static_cast<double>(turns * threads) / static_cast<double>(all),
                   late = threads > 1 ? 1 + kLate / static_cast<double>(turns) : 1;
      if (const double cost = cycles * idle * late; cost < best)
        best = cost, best_rows = rows, best_columns = columns;
    }
  }
  return split_evenly(p, best_rows, best_columns);
}

}  // namespace xc::cpu
