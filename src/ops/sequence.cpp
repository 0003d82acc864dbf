// Sequences of tensors: made, split off, read, changed, measured and joined.

#include <algorithm>

#include "ops/checks.h"
#include "ops/containers.h"

namespace xc {

namespace {

using Values = std::vector<Tensor>;

/// Checks that input i, where present, is one integer.
void check_position(const InferContext& c, size_t i) {
  check_dtype(c, i, kIndices);
  if (c.has(i) && c.rank_known(i)) require_scalar(c, i);
}

/// The number input i gives; `otherwise` where it is absent.
int64_t position_of(const Values& inputs, size_t i, int64_t otherwise) {
  if (i >= inputs.size() || !inputs[i]) return otherwise;
  if (inputs[i].count() != 1) fail(Status::kRange, "a position of {} elements", inputs[i].count());
  return inputs[i].to_int64s()[0];
}

/// The place of one of `size` elements.
std::ptrdiff_t place_of(int64_t position, size_t size) {
  return static_cast<std::ptrdiff_t>(
      checked_index(position, static_cast<int64_t>(size), "position"));
}

// ---- SequenceEmpty, SequenceConstruct -----------------------------------------------------------

void infer_empty(InferContext& c) {
  c.outputs[0] = sequence_type(Type::tensor(dtype_attr(c.attrs().get_int("dtype", 1))));
}

Values evaluate_empty(const Node&, const Values&) {
  return {make_sequence({})};
}

void infer_construct(InferContext& c) {
  Type element = c.type(0);
  for (size_t i = 1; i < c.input_count(); ++i)
    element = merge_elements(c, element, c.type(i), "elements of a sequence");
  if (element.kind != Type::Kind::kTensor) c.error("elements are {}", element.text());
  c.outputs[0] = sequence_type(element);
}

Values evaluate_construct(const Node&, const Values& inputs) {
  return {make_sequence(inputs)};
}

// ---- SequenceInsert, SequenceErase --------------------------------------------------------------

void infer_insert(InferContext& c) {
  check_position(c, 2);
  const Type element = merge_elements(c, element_type(c, 0), c.type(1), "elements of a sequence");
  if (element.kind != Type::Kind::kTensor) c.error("elements would be {}", element.text());
  c.outputs[0] = sequence_type(element);
}

Values evaluate_insert(const Node&, const Values& inputs) {
  const auto old = elements_of(inputs[0]);
  const auto size = static_cast<int64_t>(old.size());
  const int64_t position = position_of(inputs, 2, size);
  // Behind the last element is a place too.
  if (position == size) return {appended(inputs[0], inputs[1])};
  Values elements;
  elements.reserve(old.size() + 1);
  elements.assign(old.begin(), old.end());
  elements.insert(elements.begin() + place_of(position, old.size()), inputs[1]);
  return {make_sequence(std::move(elements))};
}

void infer_erase(InferContext& c) {
  check_position(c, 1);
  c.outputs[0] = sequence_type(element_type(c, 0));
}

Values evaluate_erase(const Node&, const Values& inputs) {
  const auto old = elements_of(inputs[0]);
  if (old.empty()) fail(Status::kRange, "nothing to erase from an empty sequence");
  Values elements(old.begin(), old.end());
  elements.erase(elements.begin() + place_of(position_of(inputs, 1, -1), elements.size()));
  return {make_sequence(std::move(elements))};
}

// ---- SequenceAt, SequenceLength -----------------------------------------------------------------

void infer_at(InferContext& c) {
  check_position(c, 1);
  c.outputs[0] = one_element(c, element_type(c, 0));
}

Values evaluate_at(const Node&, const Values& inputs) {
  const auto elements = elements_of(inputs[0]);
  return {elements[static_cast<size_t>(place_of(position_of(inputs, 1, 0), elements.size()))]};
}

void infer_length(InferContext& c) {
  element_type(c, 0);
  c.set(0, DType::kI64, {});
}

Values evaluate_length(const Node&, const Values& inputs) {
  return {Tensor::scalar(static_cast<int64_t>(elements_of(inputs[0]).size()))};
}

// ---- SplitToSequence ----------------------------------------------------------------------------

void infer_split(InferContext& c) {
  const DType t = check_dtype(c, 0, kAnyType);
  check_dtype(c, 1, kIndices);
  SymDims dims = c.dims(0);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), dims.size());
  if (!c.has(1) && c.attrs().get_int("keepdims", 1) == 0)
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  else
    dims[axis] = c.has(1) ? c.fresh("split") : Dim(1);
  c.outputs[0] = sequence_type(Type::tensor(t, dims));
}

/// Lengths of the pieces of `extent`.
std::vector<int64_t> piece_lengths(const Tensor& split, int64_t extent) {
  std::vector<int64_t> out;
  if (!split || split.rank() == 0) {
    const int64_t length = split ? split.to_int64s()[0] : 1;
    if (length <= 0) fail(Status::kRange, "pieces of length {}", length);
    for (int64_t begin = 0; begin < extent; begin += length)
      out.push_back(std::min(length, extent - begin));
    return out;
  }
  out = split.to_int64s();
  int64_t sum = 0;
  for (int64_t length : out) {
    if (length < 0) fail(Status::kRange, "a piece of length {}", length);
    sum = checked_add(sum, length);
  }
  if (sum != extent) fail(Status::kRange, "pieces of {} in all do not split {}", sum, extent);
  return out;
}

Values evaluate_split(const Node& node, const Values& inputs) {
  const Tensor& x = inputs[0];
  const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), x.dims().size());
  const Tensor split = inputs.size() > 1 ? inputs[1] : Tensor();
  const bool drop_axis = !split && node.attrs.get_int("keepdims", 1) == 0;
  Values pieces;
  int64_t begin = 0;
  for (const int64_t length : piece_lengths(split, x.dims()[axis])) {
    Dims dims = x.dims();
    dims[axis] = length;
    const int64_t offset = begin * x.strides()[axis] * element_size(x.dtype());
    Tensor piece =
        Tensor(x.buffer(), x.byte_offset() + offset, x.dtype(), dims, x.strides()).to_contiguous();
    begin += length;
    if (drop_axis) {
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
      piece = piece.reshaped(dims);
    }
    pieces.push_back(std::move(piece));
  }
  return {make_sequence(pieces)};
}

// ---- ConcatFromSequence -------------------------------------------------------------------------

void infer_join(InferContext& c) {
  const Type& element = element_type(c, 0);
  if (element.kind != Type::Kind::kTensor) c.error("elements are {}", element.text());
  const bool stack = c.attrs().get_int("new_axis", 0) != 0;
  if (!element.dims) return set_unknown_rank(c, 0, element.dtype);
  SymDims dims = *one_element(c, element).dims;
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), dims.size() + (stack ? 1 : 0));
  if (stack)
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), c.fresh("sequence"));
  else
    dims[axis] = c.fresh("sequence");
  c.set(0, element.dtype, dims);
}

Values evaluate_join(const Node& node, const Values& inputs) {
  const auto elements = elements_of(inputs[0]);
  if (elements.empty()) fail(Status::kRange, "an empty sequence cannot be joined");
  const bool stack = node.attrs.get_int("new_axis", 0) != 0;
  const Dims& first = elements[0].dims();
  const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), first.size() + (stack ? 1 : 0));
  Values parts;
  int64_t extent = 0;
  for (const Tensor& element : elements) {
    Dims dims = element.dims();
    if (stack && axis <= dims.size())
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    parts.push_back(element.to_contiguous().reshaped(dims));
    Dims expected = parts[0].dims();
    if (dims.size() == expected.size()) expected[axis] = dims[axis];
    if (dims != expected || element.dtype() != elements[0].dtype())
      fail(Status::kRange, "elements {} and {} cannot be joined", to_text(first),
           to_text(element.dims()));
    extent = checked_add(extent, dims[axis]);
  }
  Dims dims = parts[0].dims();
  dims[axis] = extent;
  Tensor out(elements[0].dtype(), dims);
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const int64_t offset = begin * out.strides()[axis] * element_size(out.dtype());
    const Tensor slot(out.buffer(), offset, out.dtype(), part.dims(), out.strides());
    copy_elements(part.view(), slot.view());
    begin += part.dims()[axis];
  }
  return {out};
}

OpDef sequence_op(std::string_view name, int min_inputs, int max_inputs, InferFn infer,
                  EvaluateFn evaluate) {
  OpDef op;
  op.name = name;
  op.min_inputs = min_inputs;
  op.max_inputs = max_inputs;
  op.infer = infer;
  op.evaluate = evaluate;
  return op;
}

}  // namespace

void register_sequence(OpList& ops) {
  OpDef empty = sequence_op("SequenceEmpty", 0, 0, infer_empty, evaluate_empty);
  empty.attrs = {dtype_spec("dtype")};
  ops.push_back(std::move(empty));
  ops.push_back(sequence_op("SequenceConstruct", 1, -1, infer_construct, evaluate_construct));
  ops.push_back(sequence_op("SequenceInsert", 2, 3, infer_insert, evaluate_insert));
  ops.push_back(sequence_op("SequenceErase", 1, 2, infer_erase, evaluate_erase));
  ops.push_back(sequence_op("SequenceAt", 2, 2, infer_at, evaluate_at));
  ops.push_back(sequence_op("SequenceLength", 1, 1, infer_length, evaluate_length));
  OpDef split = sequence_op("SplitToSequence", 1, 2, infer_split, evaluate_split);
  split.attrs = {{"axis", AttrKind::kInt}, {"keepdims", AttrKind::kInt, false, 0, 1}};
  ops.push_back(std::move(split));
  OpDef join = sequence_op("ConcatFromSequence", 1, 1, infer_join, evaluate_join);
  join.attrs = {{"axis", AttrKind::kInt, true}, {"new_axis", AttrKind::kInt, false, 0, 1}};
  ops.push_back(std::move(join));
}

}  // namespace xc
