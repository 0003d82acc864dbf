#include "ops/containers.h"

namespace xc {

namespace {

const Dim& any_dim() {
  static const Dim any = Dim::symbol("_");
  return any;
}

Type generalised(Type type) {
  if (type.kind != Type::Kind::kTensor) {
    if (type.element) type.element = std::make_shared<const Type>(generalised(*type.element));
  } else if (type.dims) {
    for (Dim& d : *type.dims)
      if (!d.is_constant()) d = any_dim();
  }
  return type;
}

Type container(Type::Kind kind, Type element) {
  return {kind, DType::kUndefined, std::nullopt,
          std::make_shared<const Type>(generalised(std::move(element)))};
}

}  // namespace

Type sequence_type(Type element) {
  return container(Type::Kind::kSequence, std::move(element));
}
Type optional_type(Type element) {
  return container(Type::Kind::kOptional, std::move(element));
}

const Type& element_type(const InferContext& c, size_t i) {
  const Type& type = c.type(i);
  if (type.kind != Type::Kind::kSequence || !type.element)
    c.error("input {} is {}, expected a sequence", i, type.text());
  return *type.element;
}

Type one_element(const InferContext& c, const Type& element) {
  Type out = element;
  if (out.kind == Type::Kind::kTensor && out.dims)
    for (Dim& d : *out.dims)
      if (!d.is_constant()) d = c.fresh("element");
  return out;
}

Type merge_elements(const InferContext& c, const Type& a, const Type& b, std::string_view what) {
  const bool opt_a = a.kind == Type::Kind::kOptional, opt_b = b.kind == Type::Kind::kOptional;
  if (opt_a != opt_b)
    return optional_type(merge_elements(c, opt_a ? *a.element : a, opt_b ? *b.element : b, what));
  if (a.kind != b.kind || a.dtype != b.dtype || !a.element != !b.element)
    c.error("{}: types {} and {} do not agree", what, a.text(), b.text());
  if (a.element) return container(a.kind, merge_elements(c, *a.element, *b.element, what));
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return Type::tensor(a.dtype);
  Type out = generalised(a);
  for (size_t i = 0; i < out.dims->size(); ++i)
    if ((*a.dims)[i] != (*b.dims)[i]) (*out.dims)[i] = any_dim();
  return out;
}

std::span<Tensor> elements_of(const Tensor& sequence) {
  if (sequence.dtype() != DType::kTensor || sequence.rank() != 1)
    fail(Status::kInvalidModel, "a sequence is expected, given is {}",
         sequence ? name(sequence.dtype()) : "nothing");
  return {sequence.as<Tensor>(), static_cast<size_t>(sequence.count())};
}

Tensor make_sequence(const std::vector<Tensor>& elements) {
  Tensor out(DType::kTensor, {static_cast<int64_t>(elements.size())});
  std::copy(elements.begin(), elements.end(), out.as<Tensor>());
  return out;
}

}  // namespace xc
