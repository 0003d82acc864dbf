#include "backends/cpu/vector/transpose_fn.h"

#include <array>

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

/// By rising level.
template <class T>
using ByIsa = std::array<void (*)(const T*, T*, int64_t, int64_t, int64_t, int64_t), 3>;
#if defined(__x86_64__)
constexpr ByIsa<uint8_t> kTranspose1{baseline::transpose_1, avx2::transpose_1, avx512::transpose_1};
constexpr ByIsa<uint16_t> kTranspose2{baseline::transpose_2, avx2::transpose_2,
                                      avx512::transpose_2};
constexpr ByIsa<uint32_t> kTranspose4{baseline::transpose_4, avx2::transpose_4,
                                      avx512::transpose_4};
constexpr std::array kEvery4{baseline::copy_every_4, avx2::copy_every_4, avx512::copy_every_4};
template <class Fns>
auto of_isa(const Fns& fns) {
  return fns[static_cast<size_t>(cpu_info().isa)];
}
#else
constexpr ByIsa<uint8_t> kTranspose1{baseline::transpose_1};
constexpr ByIsa<uint16_t> kTranspose2{baseline::transpose_2};
constexpr ByIsa<uint32_t> kTranspose4{baseline::transpose_4};
constexpr std::array kEvery4{baseline::copy_every_4};
template <class Fns>
auto of_isa(const Fns& fns) {
  return fns[0];
}
#endif

}  // namespace

void transpose(const void* from, void* to, int64_t rows, int64_t cols, int64_t col_from,
               int64_t row_to, int64_t element_bytes) {
  switch (element_bytes) {
    case 1: {
      static const auto run = of_isa(kTranspose1);
      return run(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), rows, cols, col_from,
                 row_to);
    }
    case 2: {
      static const auto run = of_isa(kTranspose2);
      return run(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), rows, cols,
                 col_from, row_to);
    }
    case 4: {
      static const auto run = of_isa(kTranspose4);
      return run(static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), rows, cols,
                 col_from, row_to);
    }
    case 8:
      return transpose_scalar<uint64_t>(from, to, rows, cols, col_from, row_to);
    default:
      return transpose_scalar<Wide>(from, to, rows, cols, col_from, row_to);
  }
}

bool few_channels(int64_t count, int64_t pixel_stride, int64_t element_bytes) {
  return count >= 2 && count <= 4 && pixel_stride == count && element_bytes <= 4;
}

bool copy_every(const void* from, void* to, const EveryCopy& copy, int64_t element_bytes) {
  static const auto run = of_isa(kEvery4);
  return element_bytes == 4 &&
         run(static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), copy);
}

bool every_beats_transpose(int64_t step, int64_t element_bytes) {
  return element_bytes == 4 && step >= 2 && step <= (cpu_info().isa == Isa::kBaseline ? 2 : 4);
}

}  // namespace xc::cpu
