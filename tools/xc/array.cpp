// Arrays to tensors and back, and elements of every type as numbers.

#include "array.h"

#include <cmath>
#include <cstring>

#include "common.h"

namespace tool {
namespace {

/// A small float: sign, exponent bits with this bias, mantissa bits.
struct MiniFloat {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;     ///< the top exponent holds infinities and NaNs as IEEE 754 has them
  bool unsigned_zero;  ///< FNUZ: the pattern of -0 is NaN, and the only one
};

double decode(uint32_t bits, const MiniFloat& f) {
  const uint32_t mantissa_mask = (1u << f.mantissa_bits) - 1, top = (1u << f.exponent_bits) - 1;
  const uint32_t mantissa = bits & mantissa_mask, exponent = (bits >> f.mantissa_bits) & top;
  const bool negative = (bits >> (f.mantissa_bits + f.exponent_bits)) & 1;
  double value;
  if (f.unsigned_zero && negative && exponent == 0 && mantissa == 0) return NAN;
  if (f.infinities && exponent == top)
    value = mantissa ? NAN : INFINITY;
  else if (!f.infinities && !f.unsigned_zero && f.exponent_bits == 4 && exponent == top &&
           mantissa == mantissa_mask)
    value = NAN;  // E4M3FN
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  else
    value = std::ldexp(mantissa + (1u << f.mantissa_bits),
                       static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

template <class T>
T element_at(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

bool is_complex(xc_dtype dtype) {
  return dtype == XC_DTYPE_C64 || dtype == XC_DTYPE_C128;
}
bool is_float(xc_dtype dtype) {
  return dtype == XC_DTYPE_F32 || dtype == XC_DTYPE_F64 || dtype == XC_DTYPE_F16 ||
         dtype == XC_DTYPE_BF16 || (dtype >= XC_DTYPE_F8E4M3FN && dtype <= XC_DTYPE_F4E2M1) ||
         dtype == XC_DTYPE_F6E2M3 || dtype == XC_DTYPE_F6E3M2;
}

double element(xc_dtype dtype, const void* data, int64_t index) {
  switch (dtype) {
    case XC_DTYPE_F32:
      return element_at<float>(data, index);
    case XC_DTYPE_F64:
      return element_at<double>(data, index);
    case XC_DTYPE_F16:
      return decode(element_at<uint16_t>(data, index), {5, 10, 15, true, false});
    case XC_DTYPE_BF16:
      return decode(element_at<uint16_t>(data, index), {8, 7, 127, true, false});
    case XC_DTYPE_I8:
    case XC_DTYPE_I4:
    case XC_DTYPE_I2:
      return element_at<int8_t>(data, index);
    case XC_DTYPE_I16:
      return element_at<int16_t>(data, index);
    case XC_DTYPE_I32:
      return element_at<int32_t>(data, index);
    case XC_DTYPE_I64:
      return static_cast<double>(element_at<int64_t>(data, index));
    case XC_DTYPE_U8:
    case XC_DTYPE_BOOL:
    case XC_DTYPE_U4:
    case XC_DTYPE_U2:
      return element_at<uint8_t>(data, index);
    case XC_DTYPE_U16:
      return element_at<uint16_t>(data, index);
    case XC_DTYPE_U32:
      return element_at<uint32_t>(data, index);
    case XC_DTYPE_U64:
      return static_cast<double>(element_at<uint64_t>(data, index));
    case XC_DTYPE_C64:
      return element_at<float>(data, 2 * index);
    case XC_DTYPE_C128:
      return element_at<double>(data, 2 * index);
    case XC_DTYPE_F8E4M3FN:
      return decode(element_at<uint8_t>(data, index), {4, 3, 7, false, false});
    case XC_DTYPE_F8E4M3FNUZ:
      return decode(element_at<uint8_t>(data, index), {4, 3, 8, false, true});
    case XC_DTYPE_F8E5M2:
      return decode(element_at<uint8_t>(data, index), {5, 2, 15, true, false});
    case XC_DTYPE_F8E5M2FNUZ:
      return decode(element_at<uint8_t>(data, index), {5, 2, 16, false, true});
    case XC_DTYPE_F8E8M0: {
      const auto bits = element_at<uint8_t>(data, index);
      return bits == 255 ? NAN : std::ldexp(1.0, bits - 127);
    }
    case XC_DTYPE_F4E2M1:
      return decode(element_at<uint8_t>(data, index) & 15u, {2, 1, 1, false, false});
    case XC_DTYPE_F6E2M3:
      return decode(element_at<uint8_t>(data, index) & 63u, {2, 3, 1, false, false});
    case XC_DTYPE_F6E3M2:
      return decode(element_at<uint8_t>(data, index) & 63u, {3, 2, 3, false, false});
    default:
      fail(XC_UNSUPPORTED, "elements of {} are no numbers", xc_dtype_name(dtype));
  }
}

bool holds_as_bytes(const Array& array, xc_dtype dtype) {
  return (array.dtype == XC_DTYPE_I8 || array.dtype == XC_DTYPE_U8) && dtype >= XC_DTYPE_F8E4M3FN &&
         xc_dtype_size(dtype) == 1;
}

xcrt::Tensor to_tensor(const Array& array, xc_dtype wanted, const std::string& name) {
  const bool raw =
      array.dtype == XC_DTYPE_UNDEFINED && xc_dtype_size(wanted) == array.element_bytes;
  const bool narrow = holds_as_bytes(array, wanted);
  if (wanted != XC_DTYPE_UNDEFINED && array.dtype != wanted && !raw && !narrow)
    fail(XC_INVALID_ARGUMENT, "{} has elements of type {}, the model wants {}", name,
         array.dtype ? xc_dtype_name(array.dtype) : "V", xc_dtype_name(wanted));
  xcrt::Tensor out(raw || narrow ? wanted : array.dtype, array.dims);
  if (array.dtype == XC_DTYPE_STRING) {
    const std::vector<std::string_view> views(array.strings.begin(), array.strings.end());
    out.set_strings(views);
  } else if (!array.data.empty()) {
    std::memcpy(out.data(), array.data.data(), array.data.size());
  }
  return out;
}

Array to_array(const xcrt::Tensor& tensor) {
  Array out;
  out.dtype = tensor.dtype();
  out.element_bytes = xc_dtype_size(out.dtype);
  out.dims.assign(tensor.dims().begin(), tensor.dims().end());
  if (out.dtype == XC_DTYPE_STRING) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      out.strings.emplace_back(tensor.string(static_cast<uint64_t>(i)));
    return out;
  }
  out.data.resize(static_cast<size_t>(tensor.size() * out.element_bytes));
  tensor.copy_out(out.data);
  return out;
}

}  // namespace tool
