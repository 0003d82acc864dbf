#include "backends/cpu/gemm.h"

#include "backends/cpu/vector/product_fn.h"

namespace xc::cpu {

template <class T>
void own_gemm(const Gemm<T>& p, Isa isa) {
  product_fns<T>(isa).run({.m = p.m,
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
                           .all_rows = p.all_rows > 0 ? p.all_rows : p.m,
                           .room = p.room,
                           .room_elements = p.room_elements});
}

template <class T>
int64_t gemm_room(int64_t m, int64_t n, int64_t k, Isa isa) {
  return product_fns<T>(isa).room(m, n, k);
}

template <class T>
bool gemm_narrow(int64_t m, int64_t n, int64_t k, Isa isa) {
  return product_fns<T>(isa).narrow(m, n, k);
}

template void own_gemm(const Gemm<float>& p, Isa isa);
template void own_gemm(const Gemm<double>& p, Isa isa);
template void own_gemm(const Gemm<uint32_t>& p, Isa isa);
template void own_gemm(const Gemm<uint64_t>& p, Isa isa);
template int64_t gemm_room<float>(int64_t m, int64_t n, int64_t k, Isa isa);
template int64_t gemm_room<double>(int64_t m, int64_t n, int64_t k, Isa isa);
template int64_t gemm_room<uint32_t>(int64_t m, int64_t n, int64_t k, Isa isa);
template int64_t gemm_room<uint64_t>(int64_t m, int64_t n, int64_t k, Isa isa);
template bool gemm_narrow<float>(int64_t m, int64_t n, int64_t k, Isa isa);
template bool gemm_narrow<double>(int64_t m, int64_t n, int64_t k, Isa isa);
template bool gemm_narrow<uint32_t>(int64_t m, int64_t n, int64_t k, Isa isa);
template bool gemm_narrow<uint64_t>(int64_t m, int64_t n, int64_t k, Isa isa);

}  // namespace xc::cpu
