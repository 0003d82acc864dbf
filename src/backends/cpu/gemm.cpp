#include "backends/cpu/gemm.h"

#include <array>
#include <atomic>

#include "backends/cpu/onednn_common.h"
#include "backends/cpu/vector/product_fn.h"
#include "base/error.h"

namespace xc::cpu {
namespace {

std::array<std::atomic<bool>, 2> warm{};  // by SgemmCode
/// Up to so many flops a step is better off with the own product than with waiting: a tenth of what
/// the library's first call takes.
constexpr double kStandInFlops = 3e-3 * 60e9;
// Where the own product is the faster one (tests/backends/matmul_test.cpp, "timing"): from few rows
// on, as long as its right side, which it copies once per panel, is not read from memory again and
// again; and where the library's way to its kernel is what takes the time.
constexpr int64_t kOwnFromRows = 8;
constexpr double kOwnUpToTerms = 300.0 * 300 * 300, kTinyTerms = 4096;

}  // namespace

SgemmChoice choose_sgemm(int64_t m, int64_t n, int64_t k, bool steady, double step_flops) {
  const double terms = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (terms <= kTinyTerms || (m >= kOwnFromRows && terms <= kOwnUpToTerms)) return {true, false};
  const bool stands_in = !steady && !sgemm_is_warm(sgemm_code(m, n)) && step_flops < kStandInFlops;
  return {stands_in, stands_in};
}

void library_sgemm(const Sgemm& p) {
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha, p.a,
                 p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  if (status != dnnl_success)
    fail(status == dnnl_out_of_memory ? Status::kOutOfMemory : Status::kInternal,
         "sgemm failed with status {}", static_cast<int>(status));
}

template <class T>
void own_gemm(const Gemm<T>& p, Isa isa) {
  product_fn<T>(isa)({.m = p.m,
                      .n = p.n,
                      .k = p.k,
                      .a = p.a,
                      .a_m = p.transpose_a ? 1 : p.lda,
                      .a_k = p.transpose_a ? p.lda : 1,
                      .b = p.b,
                      .b_k = p.transpose_b ? 1 : p.ldb,
                      .b_n = p.transpose_b ? p.ldb : 1,
                      .c = p.c,
                      .c_m = p.ldc,
                      .alpha = p.alpha,
                      .beta = p.beta,
                      .all_rows = p.all_rows > 0 ? p.all_rows : p.m});
}

template void own_gemm(const Gemm<float>& p, Isa isa);
template void own_gemm(const Gemm<double>& p, Isa isa);

SgemmCode sgemm_code(int64_t m, int64_t n) {
  return m == 1 || n == 1 ? SgemmCode::kVector : SgemmCode::kMatrix;
}

bool sgemm_is_warm(SgemmCode code) {
  return warm[static_cast<size_t>(code)].load(std::memory_order_relaxed);
}

void warm_sgemm(SgemmCode code) {
  if (sgemm_is_warm(code)) return;
  const OneThread guard;
  struct Sizes {
    int64_t m, n, k;
  };
  std::array<float, 64 * 64> a{}, b{}, c{};
  const auto call = [&](const Sizes& s) {
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        library_sgemm({transpose_a, transpose_b, s.m, s.n, s.k, 1.0f, a.data(),
                       transpose_a ? s.m : s.k, b.data(), transpose_b ? s.k : s.n, 0.0f, c.data(),
                       s.n});
  };
  if (code == SgemmCode::kVector) {
    call({64, 1, 64});
    call({1, 64, 64});
  } else {
    call({64, 64, 64});
    call({7, 10, 256});  // few rows and columns have a kernel of their own: 1.5 ms
  }
  warm[static_cast<size_t>(code)].store(true, std::memory_order_relaxed);
}

}  // namespace xc::cpu
