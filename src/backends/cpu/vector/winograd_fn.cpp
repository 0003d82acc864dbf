#include "backends/cpu/vector/winograd_fn.h"

#include <array>
#include <cmath>

namespace xc::cpu {

WinogradFns winograd_fns([[maybe_unused]] Isa isa, const WinogradAxis& rows,
                         const WinogradAxis& cols) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::winograd_fns(rows, cols);
  if (isa >= Isa::kAvx2) return avx2::winograd_fns(rows, cols);
#endif
  return baseline::winograd_fns(rows, cols);
}

void winograd_factors(const WinogradAxis& axis, int point, double* factors) {
  static constexpr std::array<double, 3> kOfFour{0, 1, -1};
  static const std::array<double, 5> kOfSix{0, std::sqrt(0.5), -std::sqrt(0.5), std::sqrt(2.0),
                                            -std::sqrt(2.0)};
  const int taps = axis.taps();
  if (axis.points == 1) {
    factors[0] = 1;
    return;
  }
  const double* const at = axis.points == 4 ? kOfFour.data() : kOfSix.data();
  if (point == axis.points - 1) {  // infinity: the last coefficient
    for (int k = 0; k < taps; ++k) factors[k] = k == taps - 1;
    return;
  }
  double divisor = 1;
  for (int other = 0; other < axis.points - 1; ++other)
    if (other != point) divisor *= at[point] - at[other];
  double power = 1;
  for (int k = 0; k < taps; ++k, power *= at[point]) factors[k] = power / divisor;
}

}  // namespace xc::cpu
