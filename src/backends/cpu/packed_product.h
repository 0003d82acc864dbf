#pragma once
// Products with packed weights (packed_weights.h) of f32, or bf16 for operands that may be rounded.
//
// With AVX-512 there are four ways, by the number of rows. Few are multiplied by an own kernel that
// reads the weights once; more by matrix units for bf16, where there are such (bf16x3_product.h);
// elsewhere a primitive is made for their number (up to 15 % faster than own kernels, which read
// the packed weights until it is there). Below AVX-512 the library packs nothing and copies the
// weights at every call: an own kernel multiplies any number of rows with narrow panels
// (vector/panel_product.inc).
//
// Weights in bf16 take half the bytes; each part's rows of the left side are rounded in scratch
// where they are not stored so; sums are f32, and rounded once where the result is stored in bf16.
// The library has a reference kernel only for results with gaps, so that of a slice is written to
// scratch. (The library's own way, primitives of f32 in its bf16 math mode, rounds the weights at
// every call and keeps them in f32: measured 1.3 to 4 times slower, and as slow as f32 for one
// row.)

#include <memory>

#include "backends/cpu/gemm_step.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// `p` and `context` are folded: one batch, a result [m, n]. Rows of both sides are contiguous.
/// Input 0 is the left side, 1 the weights, the result is behind all inputs of `spec`. Without
/// `make` it may stand in for a better one, or be missing: null.
std::shared_ptr<BoundKernel> bind_packed_product(const StepSpec& spec, const BindContext& context,
                                                 const MatMulSettings& settings,
                                                 std::shared_ptr<const PackedWeights> weights,
                                                 const MatMulProblem& p, bool make);

}  // namespace xc::cpu
