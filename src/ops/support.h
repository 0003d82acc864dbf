// What operator files share: type sets, axes, broadcasting of symbolic dims, and strided, typed
// loops for reference kernels. Everything here fails with kInvalidModel unless said otherwise; the
// driver adds the node to the message.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/op.h"
#include "ops/registry.h"
#include "tensor/half.h"

namespace xc {

/// Thrown by InferContext::dims() where the rank is not known. The driver answers it: the node's
/// outputs get their dtypes and no dims.
struct UnknownRank : Error {
  explicit UnknownRank(size_t i)
      : Error(Status::kUnsupported,
              fmt::format("the rank of input {} is not known, and the operator's results cannot be "
                          "told without it: declare it in the model",
                          i)),
        input(i) {}
  size_t input;
};

// ---- type sets ----------------------------------------------------------------------------------

using TypeSet = uint32_t;  ///< bit per DType
constexpr TypeSet type_set(std::initializer_list<DType> types) {
  TypeSet out = 0;
  for (DType t : types) out |= TypeSet{1} << static_cast<int>(t);
  return out;
}
inline constexpr TypeSet kFloats = type_set({DType::kF32, DType::kF64, DType::kF16, DType::kBF16});
/// The 8-bit floats that are numbers of their own; E8M0 is a scale.
inline constexpr TypeSet kFloat8s =
    type_set({DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ});
inline constexpr TypeSet kComplex = type_set({DType::kC64, DType::kC128});
inline constexpr TypeSet kSignedInts =
    type_set({DType::kI8, DType::kI16, DType::kI32, DType::kI64});
inline constexpr TypeSet kUnsignedInts =
    type_set({DType::kU8, DType::kU16, DType::kU32, DType::kU64});
inline constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr TypeSet kNumbers = kFloats | kInts;
inline constexpr TypeSet kBools = type_set({DType::kBool});
inline constexpr TypeSet kIndices = type_set({DType::kI32, DType::kI64});
inline constexpr TypeSet kAnyType = ~type_set({DType::kUndefined, DType::kTensor});

inline bool contains(TypeSet set, DType t) {
  return (set >> static_cast<int>(t)) & 1;
}
std::string text(TypeSet set);
/// Checks the dtype of input i (present or not); returns it (kUndefined when absent).
DType check_dtype(const InferContext& c, size_t i, TypeSet allowed);
/// The dtype of input i as it is read: f32 where it is stored in the halves that kHeldIn names.
DType read_dtype(const InferContext& c, size_t i);
/// Checks that present inputs [first, last) have one dtype; returns it.
DType check_same_dtype(const InferContext& c, size_t first, size_t last);

/// The type an attribute such as Cast's `to` names: attributes keep the numbers of ONNX
/// (TensorProto.DataType, onnx_number() of a type), which are not those of DType.
DType dtype_attr(int64_t number);
/// An attribute that names a type; `none`: 0 stands for no choice.
AttrSpec dtype_spec(std::string_view name, bool required = false, bool none = false);

// ---- axes and dims ------------------------------------------------------------------------------

/// `axis` in [-rank, rank) as an index; `what` names it in messages.
size_t normalise_axis(int64_t axis, size_t rank, std::string_view what = "axis");
/// As above for a list; refuses duplicates; sorted ascending when `sorted`.
std::vector<size_t> normalise_axes(const std::vector<int64_t>& axes, size_t rank,
                                   bool sorted = false, std::string_view what = "axes");

/// Numpy broadcasting of shapes; see broadcast() in tensor/dim.h for dims.
SymDims broadcast_dims(const SymDims& a, const SymDims& b);
SymDims broadcast_dims(std::span<const SymDims> all);
/// Broadcast of the dims of inputs [first, last), absent ones left out.
SymDims broadcast_inputs(const InferContext& c, size_t first, size_t last);

/// Dims that must be equal: a constant wins over a symbol; two different constants fail with
/// `what`.
Dim same_dim(const Dim& a, const Dim& b, std::string_view what);
/// The same; `what` is called for its text where they may differ. Sizes are checked at every bind.
template <std::invocable What>
Dim same_dim(const Dim& a, const Dim& b, const What& what) {
  return a == b ? a : same_dim(a, b, what());
}
/// Output 0 has dims and dtype of input 0.
void infer_same(InferContext& c);

/// Output k has a dtype and no known rank.
void set_unknown_rank(InferContext& c, size_t output, DType dtype);
/// As many fresh dims.
SymDims fresh_dims(const InferContext& c, size_t rank, const std::string& hint);

/// Product of dims [begin, end).
Dim product(const SymDims& dims, size_t begin, size_t end);
int64_t product(std::span<const int64_t> dims, size_t begin, size_t end);

/// Elements of input `i` of a node, for view functions: from constant or propagated elements.
std::optional<std::vector<Dim>> known_elements(const Graph& graph, const Node& node, size_t i);
std::optional<std::vector<int64_t>> known_ints(const Graph& graph, const Node& node, size_t i);

// ---- reference loops ----------------------------------------------------------------------------

/// Strides of a view broadcast to `dims` (0 along broadcast axes). Fails with kRange when it does
/// not broadcast.
Dims broadcast_strides(const TensorView& view, std::span<const int64_t> dims);
/// Offset in elements of the index `at` (any integer type) under `strides`.
inline int64_t offset_of(std::span<const int64_t> at, std::span<const int64_t> strides) {
  int64_t out = 0;
  for (size_t i = 0; i < at.size(); ++i) out += at[i] * strides[i];
  return out;
}
/// Visits every index of `dims` in row-major order: body(std::span<const int64_t> index).
template <class Body>
void for_each_coordinate(std::span<const int64_t> dims, Body&& body) {
  const int64_t n = element_count(dims);
  Dims at(dims.size(), 0);
  for (int64_t flat = 0; flat < n; ++flat) {
    body(std::span<const int64_t>(at));
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}
/// Visits every index of `dims` in row-major order with the element offset of N operands:
/// body(const std::array<int64_t, N>& offsets).
template <size_t N, class Body>
void for_each_offset(std::span<const int64_t> dims,
                     const std::array<std::span<const int64_t>, N>& strides, Body&& body) {
  const int64_t n = element_count(dims);
  std::array<int64_t, 16> few;
  Dims many(dims.size() > few.size() ? dims.size() : 0);
  int64_t* const at = many.empty() ? few.data() : many.data();
  std::fill_n(at, dims.size(), 0);
  std::array<int64_t, N> offsets{};
  for (int64_t flat = 0; flat < n; ++flat) {
    body(offsets);
    for (size_t axis = dims.size(); axis-- > 0;) {
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][axis];
      if (++at[axis] < dims[axis]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][axis] * dims[axis];
      at[axis] = 0;
    }
  }
}

/// Copies in row-major order between views of equal dtype and element count, whatever their dims.
void copy_row_major(const TensorView& from, const TensorView& to);
/// A view of the same memory with other dims and strides, starting `offset` elements further.
TensorView restrided(const TensorView& view, std::span<const int64_t> dims,
                     std::span<const int64_t> strides, int64_t offset = 0);

/// Elements of an integer or bool view in row-major order; empty when absent.
std::vector<int64_t> int_values(const TensorView& view);
/// Elements of a numeric view as double.
std::vector<double> double_values(const TensorView& view);
/// The single element of a view.
double scalar_value(const TensorView& view);
int64_t scalar_int(const TensorView& view);
/// Index with negative values counting from the end; fails with kRange outside [-extent, extent).
int64_t checked_index(int64_t index, int64_t extent, std::string_view what = "index");

/// 16-bit floats as C++ values, so that templates over element types cover them.
struct F16 {
  uint16_t bits;
  F16() = default;
  explicit F16(double v) : bits(float_to_f16(static_cast<float>(v))) {}
  explicit operator double() const { return f16_to_float(bits); }
};
struct BF16 {
  uint16_t bits;
  BF16() = default;
  explicit BF16(double v) : bits(float_to_bf16(static_cast<float>(v))) {}
  explicit operator double() const { return bf16_to_float(bits); }
};
/// Type in which a reference computes: double for floats, the type itself for integers.
template <class T>
using ComputeOf = std::conditional_t<std::is_integral_v<T>, T, double>;

/// Calls f.template operator()<T>() with the C++ element type of a float dtype.
template <class F>
decltype(auto) dispatch_float(DType t, F&& f) {
  switch (t) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF16:
      return f.template operator()<F16>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    default:
      fail(Status::kUnsupported, "unsupported: elements of type {} here", name(t));
  }
}
/// As above for floats and integers (bool as bool).
template <class F>
decltype(auto) dispatch_number(DType t, F&& f) {
  switch (t) {
    case DType::kI8:
      return f.template operator()<int8_t>();
    case DType::kI16:
      return f.template operator()<int16_t>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kU8:
      return f.template operator()<uint8_t>();
    case DType::kU16:
      return f.template operator()<uint16_t>();
    case DType::kU32:
      return f.template operator()<uint32_t>();
    case DType::kU64:
      return f.template operator()<uint64_t>();
    case DType::kBool:
      return f.template operator()<bool>();
    default:
      return dispatch_float(t, std::forward<F>(f));
  }
}
struct Bytes16 {
  uint64_t low, high;
};
/// By element size, for ops that only move elements: uint8_t, 16, 32, 64, Bytes16, std::string.
template <class F>
decltype(auto) dispatch_storage(DType t, F&& f) {
  if (t == DType::kString) return f.template operator()<std::string>();
  switch (element_size(t)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<Bytes16>();
    default:
      fail(Status::kInternal, "element type {} has no storage", name(t));
  }
}

/// Stores an integer, wrapping it to the type's width (store_int64 saturates).
void store_wrapped(void* data, DType dtype, int64_t index, int64_t value);
/// The number of an integer type with its low bits; of other types the number itself.
int64_t wrapped(DType dtype, int64_t value);

/// The whole numbers of 64 bits that a type has, all between the two; a type without any has low >
/// high.
struct WholeRange {
  int64_t low, high;
};
WholeRange whole_range(DType dtype);

}  // namespace xc
