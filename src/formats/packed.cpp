#include "formats/packed.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"

namespace xc {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

namespace {

/// Smaller tensors that lie at no multiple of their type's size are copied when they are read, and
/// any number of readers finds them aligned; larger ones when somebody needs that.
constexpr int64_t kCopiedAtOnce = 16 << 10;

}  // namespace

int64_t packed_bytes(DType dtype, int64_t count) {
  const int bits = info(dtype).bits;
  XC_CHECK(bits > 0);
  return bits >= 8 ? checked_mul(count, bits / 8) : ceil_div(checked_mul(count, bits), 8);
}

void unpack_elements(DType dtype, const uint8_t* packed, int64_t count, uint8_t* out) {
  const int bits = info(dtype).bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const auto sign = static_cast<uint8_t>(is_signed(dtype) ? 1 << (bits - 1) : 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * bits / 8;
    const int shift = static_cast<int>(i * bits % 8);
    unsigned window = packed[at];
    if (shift + bits > 8) window |= unsigned{packed[at + 1]} << 8;  // 6-bit elements cross bytes
    const auto value = static_cast<uint8_t>((window >> shift) & mask);
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
  // Most weights are packed once, by readers of bytes.
  if (bits >= 8 && !odd_bool && bytes >= kCopiedAtOnce)
    return Tensor(Buffer::copy_on_demand(owner, offset, bytes), 0, dtype, dims);
  Tensor out(dtype, dims);
  if (count == 0) return out;
  if (bits < 8) {
    unpack_elements(dtype, octets, count, out.as<uint8_t>());
  } else {
    std::memcpy(out.data(), data, static_cast<size_t>(bytes));
    if (odd_bool)
      for (int64_t i = 0; i < count; ++i) out.as<uint8_t>()[i] = octets[i] != 0;
  }
  return out;
}

std::string pack_tensor(const Tensor& tensor) {
  const Tensor t = tensor.held(true).to_contiguous();
  const int bits = info(t.dtype()).bits;
  const int64_t count = t.count();
  std::string out(static_cast<size_t>(packed_bytes(t.dtype(), count)), '\0');
  if (count == 0) return out;
  if (bits >= 8) {
    std::memcpy(out.data(), t.data(), out.size());
    return out;
  }
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * bits / 8;
    const int shift = static_cast<int>(i * bits % 8);
    const unsigned window = static_cast<unsigned>(t.as<uint8_t>()[i] & mask) << shift;
    const auto put = [&](int64_t byte, unsigned value) {
      char& to = out[static_cast<size_t>(byte)];
      to = static_cast<char>(static_cast<uint8_t>(to) | static_cast<uint8_t>(value));
    };
    put(at, window & 0xff);
    if (shift + bits > 8) put(at + 1, window >> 8);
  }
  return out;
}

}  // namespace xc
