#pragma once
// Products of bytes with exact 32-bit sums (modulo 2^32), on every instruction set.
//
// With VNNI the library's integer kernels add four products straight into 32 bits. Without it they
// add pairs in 16 bits, which saturates (255 * 127 * 2), or halve the weights first: then the bytes
// go through f32 products over at most 512 terms each, whose sums f32 holds exactly.

#include "backends/cpu/packed_weights.h"
#include "backends/cpu/vector/integer_fn.h"

namespace xc::cpu {

/// Are the library's integer kernels exact on this processor?
bool library_integers_are_exact();

/// sums[m, n] = left[m, k] * right[k, n], all row-major; right is signed.
struct IntegerProduct {
  int64_t m, n, k;
  const void* left;  ///< i8 or u8
  bool left_signed;
  int64_t left_stride;
  const int8_t* right;
  int64_t right_stride;
  int32_t* sums;
  int64_t sums_stride;
};
/// Bytes of scratch integer_product() wants for these sizes; 64-byte aligned.
int64_t integer_product_scratch(int64_t m, int64_t n, int64_t k, bool exact_library);
/// Creates no primitive. The caller holds a OneThread.
void integer_product(const IntegerProduct& product, void* scratch, bool exact_library);

/// Fns of this processor.
inline const IntegerFns& integer_fns() {
  return integer_fns(cpu_info().isa);
}

/// u8 weights less 128 as i8, row-major; i8 ones row-major.
Tensor signed_weights(const Tensor& weights);

}  // namespace xc::cpu
