// A value owns a buffer, or it is a view: of another value, or of the Concat that it is a part of
// (in_place_concat.h). Strides are asked of the Layout, which has decided or says row-major.
#include "plan/plan_values.h"

#include "base/checked.h"
#include "base/error.h"

namespace xc {

PlanValues::PlanValues(Plan& plan, const Layout& layout, const InPlaceConcats& concats)
    : plan_(plan),
      graph_(*plan.graph),
      layout_(layout),
      concats_(concats),
      value_of_(graph_.value_count(), kNoValue) {}

uint32_t PlanValues::value_for(ValueId id) {
  if (id == kNone) return kNoValue;
  if (value_of_[id] == kNoValue && graph_.value(id).is_constant())
    add_source(id, Storage::kConstant, 0, graph_.value(id).constant);
  if (value_of_[id] == kNoValue)
    fail(Status::kInternal, "value '{}' is used before it is made", graph_.value(id).name);
  return value_of_[id];
}

uint32_t PlanValues::operand_value(ValueId id) {
  if (id == kNone) return kNoValue;
  if (value_of_[id] != kNoValue || graph_.value(id).is_constant()) return value_for(id);
  const Type& type = graph_.value(id).type;
  PlanBuffer buffer;
  buffer.dtype = type.dtype;
  return add_value(kNone, std::move(buffer), type.dims ? *type.dims : SymDims{},
                   type.dims.has_value());
}

uint32_t PlanValues::add_source(ValueId id, Storage storage, uint32_t index,
                                const Tensor& constant) {
  const Value& value = graph_.value(id);
  PlanBuffer buffer;
  buffer.storage = storage;
  buffer.index = index;
  buffer.dtype = constant ? constant.dtype() : value.type.memory_dtype();
  buffer.constant = constant ? constant.to_contiguous() : Tensor();
  SymDims dims;
  const bool known = constant || value.type.dims.has_value();
  if (constant)
    dims = to_symbolic(constant.dims());
  else if (known)
    dims = *value.type.dims;
  return add_value(id, std::move(buffer), std::move(dims), known);
}

uint32_t PlanValues::add_result(ValueId id) {
  if (value_of_[id] != kNoValue) return value_of_[id];  // by a part of it that was made before
  const Value& value = graph_.value(id);
  const InPlaceConcats::Place* place = concats_.place(id);
  if (!place) {
    PlanBuffer buffer;
    buffer.dtype = value.type.memory_dtype();
    return add_value(id, std::move(buffer), value.type.dims ? *value.type.dims : SymDims{},
                     value.type.dims.has_value());
  }
  if (value_of_[place->whole] == kNoValue) add_result(place->whole);
  PlanValue part = plan_.values[value_of_[place->whole]];
  part.offset = part.offset + place->before * part.strides[place->axis];
  part.id = id;
  part.dims = *value.type.dims;
  part.strides = strides_of(id);
  return add_view(std::move(part));
}

uint32_t PlanValues::add_value(ValueId id, PlanBuffer buffer, SymDims dims, bool rank_known) {
  buffer.segment = static_cast<uint32_t>(plan_.segments.empty() ? 0 : plan_.segments.size() - 1);
  PlanValue value;
  value.id = id;
  value.buffer = static_cast<uint32_t>(plan_.buffers.size());
  value.dtype = buffer.dtype;
  value.strides = buffer.storage == Storage::kArena && id != kNone ? layout_.strides(id, dims)
                                                                   : contiguous_strides(dims);
  value.rank_known = rank_known;
  buffer.elements = element_count(dims);
  value.dims = std::move(dims);
  plan_.buffers.push_back(std::move(buffer));
  plan_.values.push_back(std::move(value));
  const auto index = static_cast<uint32_t>(plan_.values.size() - 1);
  if (id != kNone) value_of_[id] = index;
  return index;
}

uint32_t PlanValues::add_view(PlanValue view) {
  const auto index = static_cast<uint32_t>(plan_.values.size());
  value_of_[view.id] = index;
  plan_.values.push_back(std::move(view));
  return index;
}

SymDims PlanValues::strides_of(ValueId id) const {
  const SymDims& dims = *graph_.value(id).type.dims;
  const InPlaceConcats::Place* place = concats_.place(id);
  return place ? strides_inside(dims, strides_of(place->whole)) : layout_.strides(id, dims);
}

Operand PlanValues::operand_of(uint32_t value) const {
  if (value == kNoValue) return {};
  const PlanValue& v = plan_.values[value];
  Operand out;
  out.dtype = v.dtype;
  out.dims = v.dims;
  out.strides = v.strides;
  const PlanBuffer& buffer = plan_.buffers[v.buffer];
  // A constant operand carries its data, as the view the step will see.
  if (buffer.storage == Storage::kConstant && v.rank_known) {
    const auto dims = to_concrete(v.dims);
    const auto strides = to_concrete(v.strides);
    if (dims && strides && v.offset.is_constant())
      out.constant = Tensor(
          buffer.constant.buffer(),
          buffer.constant.byte_offset() + checked_mul(v.offset.value(), element_size(v.dtype)),
          v.dtype, *dims, *strides);
  }
  return out;
}

Operand PlanValues::result_of(ValueId id) const {
  Operand out;
  if (id == kNone) return out;
  const Type& type = graph_.value(id).type;
  out.dtype = type.dtype;
  if (!type.dims) return out;
  out.dims = *type.dims;
  out.strides = strides_of(id);
  return out;
}

}  // namespace xc
