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
  std::vector<ValueId> parts;  // of parts, from the inside out: as many as Concats are nested
  ValueId at = id;
  for (; value_of_[at] == kNoValue; at = concats_.place(parts.back())->whole) {
    if (!concats_.place(at)) {
      add_own(at);
      break;
    }
    parts.push_back(at);
  }
  for (; !parts.empty(); parts.pop_back()) add_part(parts.back());
  return value_of_[id];  // it may have been there, made for a part of it
}

void PlanValues::add_own(ValueId id) {
  const Type& type = graph_.value(id).type;
  PlanBuffer buffer;
  buffer.dtype = type.memory_dtype();
  add_value(id, std::move(buffer), type.dims ? *type.dims : SymDims{}, type.dims.has_value());
}

void PlanValues::add_part(ValueId id) {
  const InPlaceConcats::Place& place = *concats_.place(id);
  PlanValue part = plan_.values[value_of_[place.whole]];
  part.offset = part.offset + place.before * part.strides[place.axis];
  part.id = id;
  part.dims = *graph_.value(id).type.dims;
  part.strides = place.strides;
  add_view(std::move(part));
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
  const InPlaceConcats::Place* place = concats_.place(id);
  out.strides = place ? place->strides : layout_.strides(id, out.dims);
  return out;
}

}  // namespace xc
