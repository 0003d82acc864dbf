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
}};

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

}  // namespace xc
