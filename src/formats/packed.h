#pragma once
// Tensors as files hold them: little-endian, row-major, types below a byte packed as one stream of
// bits, low bits first (so 6-bit elements cross bytes: four of them take three).

#include <functional>
#include <memory>
#include <string>

#include "tensor/tensor.h"

namespace xc {

/// Bytes of `count` packed elements; not for strings.
int64_t packed_bytes(DType dtype, int64_t count);

/// The `count` elements in the packed_bytes() at `packed`, to one byte each; signed types
/// sign-extended. For types below a byte.
void unpack_elements(DType dtype, const uint8_t* packed, int64_t count, uint8_t* out);

/// A tensor over packed bytes that `owner` holds at `offset` (already checked to lie inside). It is
/// a view when the address suits the type, otherwise a copy; `on_copy` is told its size before it
/// is made. Bool bytes other than 0 and 1 read as 1.
Tensor tensor_from_packed(DType dtype, const Dims& dims, const std::shared_ptr<Buffer>& owner,
                          int64_t offset, const std::function<void(int64_t)>& on_copy = {});

/// The packed bytes of a tensor of any strides; not for strings.
std::string pack_tensor(const Tensor& tensor);

}  // namespace xc
