#include "backends/cpu/vector/transpose_fn.h"

namespace xc::cpu {
namespace {

struct Wide {
  uint64_t part[2];
};

template <class T>
void transpose_scalar(const void* from_data, void* to_data, int64_t rows, int64_t cols,
                      int64_t col_from, int64_t row_to) {
  const T* from = static_cast<const T*>(from_data);
  T* to = static_cast<T*>(to_data);
  constexpr int64_t kBlock = 16;
  for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
    const int64_t c1 = c0 + kBlock < cols ? c0 + kBlock : cols;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = c0; c < c1; ++c) to[r * row_to + c] = from[r + c * col_from];
  }
}

}  // namespace

void transpose(const void* from, void* to, int64_t rows, int64_t cols, int64_t col_from,
               int64_t row_to, int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return transpose_scalar<uint8_t>(from, to, rows, cols, col_from, row_to);
    case 2:
      return transpose_scalar<uint16_t>(from, to, rows, cols, col_from, row_to);
    case 4: {
      const auto* f = static_cast<const uint32_t*>(from);
      auto* t = static_cast<uint32_t*>(to);
#if defined(__x86_64__)
      if (cpu_info().isa >= Isa::kAvx512)
        return avx512::transpose_4(f, t, rows, cols, col_from, row_to);
      if (cpu_info().isa >= Isa::kAvx2)
        return avx2::transpose_4(f, t, rows, cols, col_from, row_to);
#endif
      return baseline::transpose_4(f, t, rows, cols, col_from, row_to);
    }
    case 8:
      return transpose_scalar<uint64_t>(from, to, rows, cols, col_from, row_to);
    default:
      return transpose_scalar<Wide>(from, to, rows, cols, col_from, row_to);
  }
}

}  // namespace xc::cpu
