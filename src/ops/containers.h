#pragma once
// Types of sequences and optionals, for inference. An element type keeps the dims that all elements
// are known to have; the others, which differ from element to element, are the symbol `_`.

#include "ops/support.h"

namespace xc {

/// sequence(element); its dims that are no numbers become `_`.
Type sequence_type(Type element);
Type optional_type(Type element);
/// map(key, value) of i64 or string keys and values of one tensor type without dims.
Type map_type(DType key, DType value);

/// The type with nothing known of the dims of what it holds.
Type without_dims(Type type);

/// The element type of input i, which must be a sequence.
const Type& element_type(const InferContext& c, size_t i);
/// A type taken out of a container: each unknown dim becomes a symbol of its own.
Type one_element(const InferContext& c, const Type& element);

/// What holds for both types, containers included: dims that differ are `_`, ranks that differ
/// unknown. An optional and its element give the optional. Fails with `what` when they do not
/// agree.
Type merge_elements(const InferContext& c, const Type& a, const Type& b, std::string_view what);

/// The elements of a sequence that an op is given; fails with kInvalidModel for anything else.
std::span<Tensor> elements_of(const Tensor& sequence);
Tensor make_sequence(std::vector<Tensor> elements);
/// The sequence with one more element behind it. It shares memory with the sequence, which stays as
/// it is: to append n elements one by one takes time that grows like n.
Tensor appended(const Tensor& sequence, Tensor element);
/// Bytes of a value with all that it holds; what it holds twice counts twice.
int64_t held_bytes(const Tensor& value);

/// A map is the sequence of its keys and its values, two tensors of rank 1 and one length; keys
/// differ. Those that operators make have their keys in ascending order.
struct Map {
  Tensor keys, values;
};
/// True for a tensor of that form with keys and values of these types.
bool is_map(const TensorView& value, DType key, DType element);
/// Both parts, row-major. Fails with kInvalidModel for anything else.
Map map_of(const Tensor& value);
Tensor make_map(Map map);
/// The order in which keys (i64 or string) ascend. Fails with kRange for one that occurs twice.
std::vector<int64_t> ascending_keys(const Tensor& keys);

}  // namespace xc
