#include "plan/fusion/iteration.h"

#include <algorithm>

#include "plan/layout.h"

namespace xc {
namespace {

/// The operand stays where it is.
AxisStride still() {
  AxisStride out;
  out.literal = 0;
  out.value = 0;
  return out;
}

/// The operand moves by its own stride; `broadcast`: unless its dim is 1.
AxisStride moving(const Operand& o, uint32_t index, uint32_t axis, bool broadcast) {
  AxisStride out;
  const Dim& stride = o.strides[axis];
  out.ref = {index, axis, broadcast};
  if (!broadcast && stride.is_constant()) out.literal = stride.value();
  // An operand whose dim may be 1 has no stride of its own to compare: a symbol nobody else has.
  out.value =
      broadcast ? Dim::symbol("?" + std::to_string(index) + "_" + std::to_string(axis)) : stride;
  return out;
}

/// The axis of an operand that moves along axis `a` of the space. `dropped`: axes of the space that
/// a reduction left out; the others are aligned at the last one, as broadcasting has it.
std::optional<uint32_t> axis_at(const Operand& o, const SymDims& space, size_t a, RowAxes dropped) {
  if (dropped.has(a)) return std::nullopt;
  const auto left = static_cast<size_t>(dropped.count);
  const size_t place = a < static_cast<size_t>(dropped.first) ? a : a - left;
  const size_t lead = space.size() - left - o.dims.size();
  if (place < lead) return std::nullopt;
  return static_cast<uint32_t>(place - lead);
}

/// The stride of an operand along axis `a` of the space.
AxisStride stride_of(const Operand& o, uint32_t index, const SymDims& space, size_t a,
                     RowAxes dropped) {
  const auto axis = axis_at(o, space, a, dropped);
  if (!axis || o.dims[*axis] == Dim(1)) return still();
  return moving(o, index, *axis, !(o.dims[*axis] == space[a]));
}

AxisStride stride_of(const Operand& o, const MappedRead& read, const Dim& extent, size_t a) {
  if (read.axes[a] < 0) return still();
  const auto axis = static_cast<uint32_t>(read.axes[a]);
  if (read.shifted[a]) return moving(o, read.operand, axis, false);
  const Dim& dim = o.dims[axis];
  return dim == Dim(1) ? still() : moving(o, read.operand, axis, !(dim == extent));
}

/// An operand of the whole space whose elements all have places of their own: what a view repeats
/// says nothing of how the others lie.
bool fills(const Operand& o, const SymDims& space) {
  if (!(o.dims == space)) return false;
  for (size_t a = 0; a < space.size(); ++a)
    if (o.strides[a] == Dim(0) && !(space[a] == Dim(1))) return false;
  return true;
}

/// A cell may walk its space in any order: channels innermost where its values lie so.
void follow_memory(const Region& region, const StepSpec& spec, std::vector<LoopAxis>& axes) {
  if (axes.size() < 3) return;
  for (const auto* operands : {&spec.outputs, &spec.inputs})
    for (const Operand& o : *operands) {
      if (!fills(o, region.space)) continue;
      if (is_channels_last(o.dims, o.strides))
        std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
      return;  // the first operand of the whole space decides
    }
}

/// Puts row axes behind the others, and of those, where the row's elements lie apart, the one whose
/// elements lie side by side behind the rest. Tells whether it did the latter.
bool follow_memory_of_rows(const Region& region, const StepSpec& spec, const IndexedReads& indexed,
                           std::vector<LoopAxis>& axes) {
  const RowAxes& row = region.row_axes;
  const auto at = [&](int axis) { return axes.begin() + axis; };
  std::rotate(at(row.first), at(row.first + row.count), axes.end());
  const auto rows = axes.end() - row.count;
  for (size_t k = 0; k < spec.inputs.size() + spec.outputs.size(); ++k) {
    if (!indexed.direct[k] || !fills(operand_at(spec, k), region.space)) continue;
    const auto dense = [&](const LoopAxis& axis) { return axis.strides[k].value == Dim(1); };
    // The first operand of the whole space decides.
    if (std::any_of(rows, axes.end(), dense)) return false;
    const auto side = std::find_if(axes.begin(), rows, dense);
    if (side == rows) break;
    std::rotate(side, side + 1, rows);
    return true;
  }
  return !row.trailing(region.space) && rows != axes.begin();
}

/// The size of axis `a` of the space by the dims of what is joined or padded along it, where no
/// operand is as long: a reduction's result is not.
std::optional<OperandDims> sum_of_parts(const Dim& size, const StepSpec& spec,
                                        const IndexedReads& indexed, size_t a) {
  OperandDims out;
  Dim rest = size;
  for (const MappedRead& read : indexed.reads) {
    if (rest.is_constant()) break;
    if (read.axes[a] < 0 || !read.shifted[a]) continue;
    const auto axis = static_cast<uint32_t>(read.axes[a]);
    const Dim& part = spec.inputs[read.operand].dims[axis];
    if (part.is_constant()) continue;
    out.addends.push_back({read.operand, axis});
    rest = rest - part;
  }
  if (!rest.is_constant() || out.addends.empty()) return std::nullopt;
  out.offset = rest.value();
  return out;
}

/// Axis `a` of the space: how every operand moves along it, and a dim of one that tells its size.
Verdict describe_axis(const Region& region, const StepSpec& spec, const std::vector<bool>& reduced,
                      const IndexedReads& indexed, size_t a, LoopAxis& out) {
  const SymDims& space = region.space;
  const RowAxes dropped =
      region.aggregate ? RowAxes{0, static_cast<int>(space.size())} : region.row_axes;
  out.size = space[a];
  out.first = static_cast<uint32_t>(a);
  out.shifted = indexed.shifted[a];
  out.counted = indexed.counted[a];
  bool found = space[a].is_constant();
  if (found) out.extent.constant = space[a].value();
  for (size_t k = 0; k < spec.inputs.size() + spec.outputs.size(); ++k) {
    const Operand& o = operand_at(spec, k);
    if (!indexed.direct[k]) {
      out.strides.push_back(still());
      continue;
    }
    const bool less = k >= spec.inputs.size() && reduced[k - spec.inputs.size()];
    if (!less && o.dims.size() > space.size())
      return Verdict::no("an operand has more dims than the iteration space");
    const RowAxes without = less ? dropped : RowAxes{};
    out.strides.push_back(stride_of(o, static_cast<uint32_t>(k), space, a, without));
    if (found) continue;
    if (const auto axis = axis_at(o, space, a, without); axis && o.dims[*axis] == space[a]) {
      out.extent.factors = {{static_cast<uint32_t>(k), *axis}};
      found = true;
    }
  }
  for (const MappedRead& read : indexed.reads) {
    const Operand& o = spec.inputs[read.operand];
    out.strides.push_back(stride_of(o, read, space[a], a));
    if (found || read.axes[a] < 0 || !(o.dims[static_cast<size_t>(read.axes[a])] == space[a]))
      continue;
    out.extent.factors = {{read.operand, static_cast<uint32_t>(read.axes[a])}};
    found = true;
  }
  if (!found)
    if (auto sum = sum_of_parts(space[a], spec, indexed, a)) {
      out.extent = std::move(*sum);
      found = true;
    }
  return found ? Verdict::ok()
               : Verdict::no("size " + space[a].text() + " is no dim of an operand");
}

/// An axis of one element folds into any loop, which stays what it was.
bool is_unit(const LoopAxis& axis) {
  return axis.size == Dim(1) && !axis.shifted;
}

/// Are an axis and the loop inside of it one loop? Every operand then steps evenly over both.
bool folds_into(const LoopAxis& axis, const LoopAxis& inner) {
  if (inner.shifted && !is_unit(axis)) return false;
  if (inner.size == Dim(1)) return true;
  if ((inner.counted || axis.counted) && !is_unit(axis)) return false;
  for (size_t k = 0; k < axis.strides.size(); ++k)
    if (!(axis.strides[k].value == inner.strides[k].value * inner.size) && !(axis.size == Dim(1)))
      return false;
  return true;
}

void fold(const LoopAxis& axis, LoopAxis& inner) {
  if (is_unit(inner)) inner.strides = axis.strides;
  inner.size = inner.size * axis.size;
  if (!inner.shifted) {
    inner.first = axis.first;
    inner.shifted = axis.shifted;
    inner.counted = axis.counted;
    inner.inside = inner.extent;
  }
  if (!axis.extent.addends.empty()) {  // shifted, as no axis is that it folds into: the only sum
    inner.extent.addends = axis.extent.addends;
    inner.extent.offset = axis.extent.offset;
  }
  inner.extent.constant *= axis.extent.constant;
  inner.extent.factors.insert(inner.extent.factors.end(), axis.extent.factors.begin(),
                              axis.extent.factors.end());
}

/// As few loops as there can be, from the inside; outermost first, as the axes.
std::vector<LoopAxis> collapsed(std::span<const LoopAxis> axes) {
  std::vector<LoopAxis> out;
  for (size_t a = axes.size(); a-- > 0;) {
    if (!out.empty() && folds_into(axes[a], out.back()))
      fold(axes[a], out.back());
    else
      out.push_back(axes[a]);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Verdict build_iteration(const Region& region, const StepSpec& spec,
                        const std::vector<bool>& reduced, const IndexedReads& indexed,
                        Iteration& out) {
  std::vector<LoopAxis> axes(region.space.size());
  for (size_t a = 0; a < axes.size(); ++a)
    if (const Verdict verdict = describe_axis(region, spec, reduced, indexed, a, axes[a]);
        !verdict.yes())
      return verdict;
  const auto row_axes = static_cast<size_t>(region.row_axes.count);
  if (row_axes == 0)
    follow_memory(region, spec, axes);
  else
    out.rows_abreast = follow_memory_of_rows(region, spec, indexed, axes);
  const std::span<const LoopAxis> ordered(axes);
  out.outer = collapsed(ordered.first(axes.size() - row_axes));
  out.row = collapsed(ordered.last(row_axes));
  return Verdict::ok();
}

int64_t elements_inside(std::span<const LoopAxis> outer, const LoopAxis* row,
                        const LoopAxis* abreast, int64_t most) {
  const auto about = [](const LoopAxis& axis, int64_t otherwise) {
    return axis.size.is_constant() ? std::max<int64_t>(1, axis.size.value()) : otherwise;
  };
  int64_t elements = std::min(row ? about(*row, 256) : 256, most);
  const auto times = [&](int64_t count) {
    elements = count > most / elements ? most : elements * count;
  };
  if (abreast) times(outer.empty() ? kRowsAbreast : about(*abreast, kRowsAbreast));
  for (size_t k = 1; k < outer.size(); ++k) times(about(outer[k], 16));
  return elements;
}

}  // namespace xc
