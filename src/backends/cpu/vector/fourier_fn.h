#pragma once
// Discrete Fourier transforms in f64 (what cancels comes near zero), one table per instruction set.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// One pass of Stockham's transform, which sorts itself: of radix * rest numbers, `stride` such
/// sequences side by side (lines, and results of the passes before), becomes radix times as many of
/// a radix-th of the length. Forward; with real and imaginary parts exchanged it is the inverse.
struct FourierPass {
  const double *re, *im;
  double *to_re, *to_im;
  int64_t radix, rest, stride;
  const double *root_re, *root_im;  ///< e^(-2 pi i k / length) of the whole transform
  int64_t step;                     ///< the length over radix * rest
};
using FourierFn = void (*)(const FourierPass&);
FourierFn fourier_pass(Isa isa);

namespace baseline {
FourierFn fourier_pass();
}
namespace avx2 {
FourierFn fourier_pass();
}
namespace avx512 {
FourierFn fourier_pass();
}

}  // namespace xc::cpu
