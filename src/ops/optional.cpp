// Optionals: a value that may be missing. At the run it is the value itself, or nothing.

#include "ir/cursor.h"
#include "ir/text_tensor.h"
#include "ops/containers.h"

namespace xc {

namespace {

using Values = std::vector<Tensor>;

void infer_optional(InferContext& c) {
  if (c.has(0)) {
    c.outputs[0] = optional_type(c.type(0));
    return;
  }
  if (!c.attrs().has("type")) c.error("neither a value nor a type is given");
  const std::string text = c.attrs().get_string("type", "");
  TextCursor cursor(text);
  c.outputs[0] = optional_type(parse_type(cursor));
}

Values evaluate_optional(const Node&, const Values& inputs) {
  return {inputs.empty() ? Tensor() : inputs[0]};
}

void infer_has_element(InferContext& c) {
  c.set(0, DType::kBool, {});
}

Values evaluate_has_element(const Node&, const Values& inputs) {
  return {Tensor::scalar(!inputs.empty() && inputs[0])};
}

void infer_get_element(InferContext& c) {
  const Type& type = c.type(0);
  c.outputs[0] = type.kind == Type::Kind::kOptional ? one_element(c, *type.element) : type;
}

Values evaluate_get_element(const Node&, const Values& inputs) {
  if (!inputs[0]) fail(Status::kRange, "the optional has no value");
  return {inputs[0]};
}

}  // namespace

void register_optional(OpList& ops) {
  ops.push_back({.name = "Optional",
                 .min_inputs = 0,
                 .attrs = {{"type", AttrKind::kString}},
                 .infer = infer_optional,
                 .evaluate = evaluate_optional});
  ops.push_back({.name = "OptionalHasElement",
                 .min_inputs = 0,
                 .infer = infer_has_element,
                 .evaluate = evaluate_has_element});
  ops.push_back(
      {.name = "OptionalGetElement", .infer = infer_get_element, .evaluate = evaluate_get_element});
}

}  // namespace xc
