#include "formats/packed.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"

namespace xc {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

int64_t packed_bytes(DType dtype, int64_t count) {
  const int bits = info(dtype).bits;
  XC_CHECK(bits > 0);
  return bits >= 8 ? checked_mul(count, bits / 8) : ceil_div(count, 8 / bits);
}

void unpack_elements(DType dtype, uint8_t byte, int64_t count, uint8_t* out) {
  const int bits = info(dtype).bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const auto sign = static_cast<uint8_t>(is_signed(dtype) ? 1 << (bits - 1) : 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<uint8_t>((byte >> (i * bits)) & mask);
    out[i] = static_cast<uint8_t>(value & sign ? value | ~mask : value);
  }
}

Tensor tensor_from_packed(DType dtype, const Dims& dims, const std::shared_ptr<Buffer>& owner,
                          int64_t offset, const std::function<void(int64_t)>& on_copy) {
  const std::byte* data = owner->data() + offset;
  const int64_t count = element_count(dims);
  const int64_t bytes = packed_bytes(dtype, count);
  const int bits = info(dtype).bits;
  const auto* octets = reinterpret_cast<const uint8_t*>(data);
  const bool odd_bool =
      dtype == DType::kBool && std::any_of(octets, octets + bytes, [](uint8_t b) { return b > 1; });
  // Complex numbers align like their parts.
  const int64_t alignment =
      info(dtype).kind == DTypeKind::kComplex ? element_size(dtype) / 2 : element_size(dtype);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0;
  if (bits >= 8 && aligned && !odd_bool && count > 0) return Tensor(owner, offset, dtype, dims);

  if (on_copy) on_copy(checked_mul(count, element_size(dtype)));
  Tensor out(dtype, dims);
  if (count == 0) return out;
  if (bits < 8) {
    const int64_t per_byte = 8 / bits;
    for (int64_t i = 0; i < count; i += per_byte)
      unpack_elements(dtype, octets[i / per_byte], std::min(per_byte, count - i),
                      out.as<uint8_t>() + i);
  } else {
    std::memcpy(out.data(), data, static_cast<size_t>(bytes));
    if (odd_bool)
      for (int64_t i = 0; i < count; ++i) out.as<uint8_t>()[i] = octets[i] != 0;
  }
  return out;
}

std::string pack_tensor(const Tensor& tensor) {
  const Tensor t = tensor.to_contiguous();
  const int bits = info(t.dtype()).bits;
  const int64_t count = t.count();
  std::string out(static_cast<size_t>(packed_bytes(t.dtype(), count)), '\0');
  if (count == 0) return out;
  if (bits >= 8) {
    std::memcpy(out.data(), t.data(), out.size());
    return out;
  }
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t i = 0; i < count; ++i) {
    char& byte = out[static_cast<size_t>(i / per_byte)];
    const int shift = static_cast<int>(i % per_byte) * bits;
    byte = static_cast<char>(static_cast<uint8_t>(byte) | ((t.as<uint8_t>()[i] & mask) << shift));
  }
  return out;
}

}  // namespace xc
