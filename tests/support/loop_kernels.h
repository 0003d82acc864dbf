// Kernels that several tests use, as a fusion template would build them (not yet scheduled).
#pragma once

#include <cstdint>

#include "loop/kernel.h"

namespace xc::test {

// y = 0.5 x' (1 + tanh(0.79788456 (x' + 0.044715 x'^3))), x' = x[i,j] + b[j]; dims n m, strides xs
// ys.
loop::Kernel gelu_chain();
// y = (x + r - mean) / sqrt(var + eps) * g[j] + b[j] by row; the row waits in scratch.
loop::Kernel norm_chain();
// y = softmax(scale * x + mask[j]) by row.
loop::Kernel masked_softmax();
// index and value of the largest element of each row: outputs i64 index, f32 value.
loop::Kernel row_arg(loop::AccOp op);
// y[i] = x[i] op b with one flat loop: split by the default schedule.
loop::Kernel flat_relu();
// y[j] = sum_i x[i, j]: the column loop is vectorized, the accumulator sequential.
loop::Kernel column_sum();
// y[i, j] = table[ids[i], j], the range of ids checked.
loop::Kernel gather_rows();

// z = (x t(x)) x by blocks of 32 rows: the rows of a block lie in vector lanes, the first product
// of a block in scratch; loops: b (blocks), k0 r0 (staging), j1 r1 k1 and r2 k2 j2 (products).
loop::Kernel gram();
// y[i] = d0 + d1 * d2 - d3, dot products in 16 lanes of row i with multiples of b; loops i, j.
loop::Kernel narrow_products();

// A random kernel over x0 x1 [n, m], b [m], s [n] of random types: elementwise, with row reductions
// when `rows`. The same seed gives the same kernel.
loop::Kernel random_kernel(uint64_t seed, bool rows);

}  // namespace xc::test
