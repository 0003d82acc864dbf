#pragma once
// Rows of floats rounded to 8 bits in blocks, as a model allows it for the left side of a product
// with small weights (kLeftInBytes): the rule that kernels and references share.

#include <cstdint>

#include "tensor/tensor.h"

namespace xc {

/// Blocks are rounded whose largest magnitude is within these, or 0: elsewhere scales and what is
/// made of them would be denormal or infinite.
constexpr float kLeastRounded = 0x1p-60f, kMostRounded = 0x1p60f;
/// Elements of a block, at most: sums of their products with bytes stay within 32 bits.
constexpr int64_t kLongestBlock = INT32_MAX / (127 * 255);

/// Each block of `block` elements (the last may have fewer) becomes n * s for whole numbers n of
/// -127 to 127, ties to even, where s is the block's largest magnitude / 127. A row with an element
/// that is not finite, or with a block out of the range above, stays as it is.
void round_blocks(float* row, int64_t count, int64_t block);

/// Whether a left side can be rounded beside `k` rows of weights with these scales (f32): blocks
/// fill vectors, their sums fit 32 bits, and what a scale of either side makes of the other's stays
/// within f32.
bool rounds_beside(int64_t k, int64_t block, const Tensor& scales);

}  // namespace xc
