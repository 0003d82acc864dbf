#pragma once
// Copies of matrices whose elements lie side by side in other directions on both sides.

#include <cstddef>
#include <cstdint>
#include <span>

namespace xc {

/// Copies a matrix of dims[0] x dims[1] elements; strides are in elements, of any sign, and the two
/// sides do not overlap. Addresses need no alignment.
using CopyMatrix = void (*)(const std::byte* from, std::byte* to, std::span<const int64_t> dims,
                            std::span<const int64_t> from_strides,
                            std::span<const int64_t> to_strides);

/// For elements of 1, 2, 4 or 8 bytes; null: there is none.
CopyMatrix copy_matrix_of(int64_t element_bytes);

}  // namespace xc
