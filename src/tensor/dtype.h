#pragma once
// Element types. The numbers are those of <xc/types.h> and of the .xcg format; they never change.

#include <cstdint>
#include <optional>
#include <string_view>

namespace xc {

enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kI8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kU8 = 9,
  kU16 = 10,
  kU32 = 11,
  kU64 = 12,
  kBool = 13,
  kString = 14,
  kC64 = 15,
  kC128 = 16,
  // Storage types of the standard: quantised tensors only.
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kF8E8M0 = 21,
  kF4E2M1 = 22,
  kI4 = 23,
  kU4 = 24,
  kI2 = 25,
  kU2 = 26,
  /// The elements are tensors: how a sequence is held. Types of a graph say "sequence" instead.
  kTensor = 27,
  kF6E2M3 = 28,
  kF6E3M2 = 29,
};
inline constexpr int kDTypeCount = 30;

enum class DTypeKind : uint8_t {
  kNone,
  kFloat,
  kSigned,
  kUnsigned,
  kBool,
  kString,
  kComplex,
  kTensor
};

/// One row per type.
struct DTypeInfo {
  std::string_view name;  ///< as in the text IR: "f32"
  DTypeKind kind;
  uint8_t bits;  ///< of one element; 0 for strings and tensors, which are objects
};

const DTypeInfo& info(DType type);
inline std::string_view name(DType type) {
  return info(type).name;
}
inline bool is_float(DType type) {
  return info(type).kind == DTypeKind::kFloat;
}
inline bool is_signed(DType type) {
  return info(type).kind == DTypeKind::kSigned;
}
inline bool is_unsigned(DType type) {
  return info(type).kind == DTypeKind::kUnsigned;
}
inline bool is_integer(DType type) {
  return is_signed(type) || is_unsigned(type);
}

/// Elements are C++ objects, which no plain memory can hold: strings and tensors.
inline bool holds_objects(DType type) {
  return type == DType::kString || type == DType::kTensor;
}

/// Bytes of one element in memory. Sub-byte types are held one element per byte once loaded
/// (packed only in files); a string element is a std::string object, a tensor element a Tensor.
int64_t element_size(DType type);

/// Not for kTensor, which no file names.
std::optional<DType> dtype_from_name(std::string_view name);

/// The type that TensorProto.DataType of ONNX has under a number; kUndefined for 0, nullopt for a
/// number that no version of the standard knows.
std::optional<DType> dtype_from_onnx_number(int64_t number);
inline constexpr int64_t kLargestOnnxNumber = 28;

/// The other way round; 0 for kUndefined and kTensor.
int64_t onnx_number(DType type);

/// Maps a C++ type to its DType.
template <class T>
inline constexpr DType kDTypeOf = DType::kUndefined;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kU16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kU32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kU64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;

}  // namespace xc
