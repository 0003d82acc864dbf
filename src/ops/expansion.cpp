#include "ops/expansion.h"

#include "ops/registry.h"
#include "ops/support.h"

namespace xc {

std::optional<int64_t> Expansion::rank(size_t i) const {
  if (!type(i).dims) return std::nullopt;
  return static_cast<int64_t>(type(i).dims->size());
}

ValueId Expansion::add(std::string_view op, std::vector<ValueId> inputs, const AttrList& attrs) {
  Attrs all;
  for (const auto& [name, value] : attrs) all.set(name, value);
  return patch_.add_node(get_op(op), std::move(inputs), 1, std::move(all), node_.name)[0];
}

ValueId Expansion::reduce(std::string_view op, ValueId data, std::vector<int64_t> axes) {
  return add(op, {data, ints(std::move(axes))}, {{"keepdims", int64_t{1}}});
}

ValueId Expansion::scalar(double value) {
  Tensor tensor(working(), {});
  store_double(tensor.data(), working(), 0, value);
  return patch_.add_constant(node_.name + "_constant", std::move(tensor));
}

ValueId Expansion::integer(int64_t value) {
  return patch_.add_constant(node_.name + "_integer", Tensor::scalar(value));
}

ValueId Expansion::ints(std::vector<int64_t> values) {
  return patch_.add_constant(node_.name + "_ints", Tensor::of(values));
}

DType Expansion::working() const {
  const DType type = dtype(0);
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

ValueId Expansion::cast(ValueId value, DType from, DType to) {
  if (from == to) return value;
  return add("Cast", {value}, {{"to", onnx_number(to)}});
}

}  // namespace xc
