#include "backends/cpu/integer_product.h"

#include <algorithm>

#include "backends/cpu/gemm.h"

namespace xc::cpu {
namespace {

/// |left| <= 255 and |right| <= 128: so many products stay below 2^24.
constexpr int64_t kExactTerms = (int64_t{1} << 24) / (255 * 128) / 64 * 64;

struct F32Scratch {
  int64_t terms, right_at, sums_at, room_at, room, bytes;
  F32Scratch(int64_t m, int64_t n, int64_t k) : terms(std::min(k, kExactTerms)) {
    const auto size = [](int64_t count) { return align_up(checked_mul(count, 4), 64); };
    right_at = size(checked_mul(m, terms));
    sums_at = right_at + size(checked_mul(terms, n));
    room_at = sums_at + size(checked_mul(m, n));
    room = gemm_room<float>(m, n, terms);
    bytes = room_at + size(room);
  }
};

/// Rows of bytes as dense floats.
void widen(const void* from, bool is_signed, int64_t rows, int64_t columns, int64_t stride,
           float* to) {
  const int64_t lines = stride == columns || rows == 0 ? 1 : rows;  // dense rows are one line
  for (int64_t i = 0; i < lines; ++i)
    integer_fns().bytes_to_f32(static_cast<const std::byte*>(from) + i * stride, is_signed,
                               rows / lines * columns, to + i * columns);
}

void by_f32(const IntegerProduct& p, void* scratch) {
  const F32Scratch layout(p.m, p.n, p.k);
  const IntegerFns& fns = integer_fns();
  auto* base = static_cast<std::byte*>(scratch);
  auto* left = reinterpret_cast<float*>(base);
  auto* right = reinterpret_cast<float*>(base + layout.right_at);
  auto* sums = reinterpret_cast<float*>(base + layout.sums_at);
  for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.sums + i * p.sums_stride, p.n, 0);
  for (int64_t first = 0; first < p.k; first += layout.terms) {
    const int64_t terms = std::min(layout.terms, p.k - first);
    widen(static_cast<const std::byte*>(p.left) + first, p.left_signed, p.m, terms, p.left_stride,
          left);
    widen(p.right + first * p.right_stride, true, terms, p.n, p.right_stride, right);
    const Sgemm product{
        .m = p.m,
        .n = p.n,
        .k = terms,
        .alpha = 1.0f,
        .a = left,
        .lda = terms,
        .b = right,
        .ldb = p.n,
        .beta = 0.0f,
        .c = sums,
        .ldc = p.n,
        .room = reinterpret_cast<float*>(base + layout.room_at),
        .room_elements = layout.room,
    };
    own_gemm(product);
    const int64_t lines = p.sums_stride == p.n ? 1 : p.m;  // dense rows are one line
    for (int64_t i = 0; i < lines; ++i)
      fns.add_whole(sums + i * p.n, p.m / lines * p.n, p.sums + i * p.sums_stride);
  }
}

}  // namespace

bool library_integers_are_exact() {
  // The library's own bound on instruction sets counts too (ONEDNN_MAX_CPU_ISA).
  static const bool exact = [] {
    constexpr int kVnni = dnnl_cpu_isa_avx512_core_vnni;
    return cpu_info().avx512_vnni && (dnnl_get_effective_cpu_isa() & kVnni) == kVnni;
  }();
  return exact;
}

int64_t integer_product_scratch(int64_t m, int64_t n, int64_t k, bool exact_library) {
  return exact_library ? 0 : F32Scratch(m, n, k).bytes;
}

void integer_product(const IntegerProduct& p, void* scratch, bool exact_library) {
  if (p.k == 0) {
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.sums + i * p.sums_stride, p.n, 0);
    return;
  }
  if (!exact_library) return by_f32(p, scratch);
  const InsideLibrary inside;  // its kernels are static objects
  const int32_t no_offset = 0;
  const auto call = [&](auto* left, auto gemm) {
    return gemm('N', 'N', 'F', p.m, p.n, p.k, 1.0f, left, p.left_stride, 0, p.right, p.right_stride,
                0, 0.0f, p.sums, p.sums_stride, &no_offset);
  };
  const dnnl_status_t status = p.left_signed
                                   ? call(static_cast<const int8_t*>(p.left), dnnl_gemm_s8s8s32)
                                   : call(static_cast<const uint8_t*>(p.left), dnnl_gemm_u8s8s32);
  keep_out_at_exit();
  if (status != dnnl_success)
    fail(status == dnnl_out_of_memory ? Status::kOutOfMemory : Status::kInternal,
         "the library's integer product failed with status {}", static_cast<int>(status));
}

Tensor signed_weights(const Tensor& weights) {
  const Tensor dense = weights.to_contiguous();
  if (dense.dtype() == DType::kI8) return dense;
  Tensor out(DType::kI8, dense.dims());
  integer_fns().to_signed(dense.as<uint8_t>(), dense.count(), out.as<int8_t>());
  return out;
}

}  // namespace xc::cpu
