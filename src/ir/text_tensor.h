#pragma once
// Literals of types and tensors in the text form. Private to src/ir, src/passes and tests.

#include <string>

#include "ir/cursor.h"
#include "ir/graph.h"

namespace xc {

/// Bytes of tensors one text may make; a few characters (`splat`) could ask for any size.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 20;
inline constexpr size_t kMaxDimText = 512;

/// "f32[n, 3072]"; as Type::text(), with symbols quoted that would not read back.
std::string print_type(const Type& type);
Type parse_type(TextCursor& in, int depth = 0);

/// The elements: `[1, 2.5]` in row-major order whatever the rank, a bare element for rank 0,
/// `splat 0` when all are equal and there are more than `max_elements`, else
/// `<elided xxh3 HASH>`. NaNs print as `nan`: their payload is not kept.
std::string print_elements(const Tensor& tensor, int64_t max_elements);
/// `budget` is what is left of kMaxParsedBytes.
Tensor parse_elements(TextCursor& in, DType dtype, const Dims& dims, int64_t& budget);

/// 1 -> "1.0": a double that reads back as one and not as an integer.
std::string print_real(double value);

}  // namespace xc
