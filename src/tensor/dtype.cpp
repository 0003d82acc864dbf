#include "tensor/dtype.h"

#include <array>
#include <string>

#include "base/error.h"
#include "tensor/tensor.h"

namespace xc {
namespace {

using enum DTypeKind;
constexpr std::array<DTypeInfo, kDTypeCount> kTable{{
    {"undefined", kNone, 0},   {"f32", kFloat, 32},
    {"f64", kFloat, 64},       {"f16", kFloat, 16},
    {"bf16", kFloat, 16},      {"i8", kSigned, 8},
    {"i16", kSigned, 16},      {"i32", kSigned, 32},
    {"i64", kSigned, 64},      {"u8", kUnsigned, 8},
    {"u16", kUnsigned, 16},    {"u32", kUnsigned, 32},
    {"u64", kUnsigned, 64},    {"bool", kBool, 8},
    {"string", kString, 0},    {"c64", kComplex, 64},
    {"c128", kComplex, 128},   {"f8e4m3fn", kFloat, 8},
    {"f8e4m3fnuz", kFloat, 8}, {"f8e5m2", kFloat, 8},
    {"f8e5m2fnuz", kFloat, 8}, {"f8e8m0", kFloat, 8},
    {"f4e2m1", kFloat, 4},     {"i4", kSigned, 4},
    {"u4", kUnsigned, 4},      {"i2", kSigned, 2},
    {"u2", kUnsigned, 2},      {"tensor", DTypeKind::kTensor, 0},
    {"f6e2m3", kFloat, 6},     {"f6e3m2", kFloat, 6},
}};

namespace onnx_numbers {
using enum DType;
/// By number of TensorProto.DataType.
constexpr std::array<DType, kLargestOnnxNumber + 1> kOnnxTypes{
    kUndefined,  kF32, kU8,  kI8,     kU16,    kI16,  kI32,  kI64,      kString,     kBool,
    kF16,        kF64, kU32, kU64,    kC64,    kC128, kBF16, kF8E4M3FN, kF8E4M3FNUZ, kF8E5M2,
    kF8E5M2FNUZ, kU4,  kI4,  kF4E2M1, kF8E8M0, kU2,   kI2,   kF6E2M3,   kF6E3M2};
}  // namespace onnx_numbers
using onnx_numbers::kOnnxTypes;

}  // namespace

const DTypeInfo& info(DType type) {
  const auto index = static_cast<size_t>(type);
  if (index >= kTable.size()) fail(Status::kInvalidArgument, "unknown element type {}", index);
  return kTable[index];
}

int64_t element_size(DType type) {
  if (type == DType::kString) return static_cast<int64_t>(sizeof(std::string));
  if (type == DType::kTensor) return static_cast<int64_t>(sizeof(Tensor));
  return (info(type).bits + 7) / 8;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 1; i < kTable.size(); ++i)
    if (kTable[i].name == name && static_cast<DType>(i) != DType::kTensor)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx_number(int64_t number) {
  if (number < 0 || number > kLargestOnnxNumber) return std::nullopt;
  return kOnnxTypes[static_cast<size_t>(number)];
}

int64_t onnx_number(DType type) {
  for (size_t i = 0; i < kOnnxTypes.size(); ++i)
    if (kOnnxTypes[i] == type) return static_cast<int64_t>(i);
  return 0;
}

}  // namespace xc
