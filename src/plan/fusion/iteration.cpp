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

/// The stride of an operand along axis `a` of the space.
AxisStride stride_of(const Operand& o, uint32_t index, const SymDims& space, size_t a, bool reduced,
                     size_t row_axes) {
  // Dims are aligned at the last axis, as broadcasting has it; those of a reduction that dropped
  // its axes at the first.
  const size_t lead = reduced ? 0 : space.size() - o.dims.size();
  const bool absent = reduced ? a >= space.size() - row_axes : a < lead;
  if (absent) return still();
  const auto axis = static_cast<uint32_t>(a - lead);
  const Dim& dim = o.dims[axis];
  if (dim == Dim(1)) return still();
  return moving(o, index, axis, !(dim == space[a]));
}

AxisStride stride_of(const Operand& o, const MappedRead& read, const Dim& extent, size_t a) {
  if (read.axes[a] < 0) return still();
  const auto axis = static_cast<uint32_t>(read.axes[a]);
  if (read.shifted[a]) return moving(o, read.operand, axis, false);
  const Dim& dim = o.dims[axis];
  return dim == Dim(1) ? still() : moving(o, read.operand, axis, !(dim == extent));
}

/// A cell may walk its space in any order: channels innermost where its values lie so.
void follow_memory(const Region& region, const StepSpec& spec, std::vector<LoopAxis>& axes) {
  if (axes.size() < 3) return;
  for (const auto* operands : {&spec.outputs, &spec.inputs})
    for (const Operand& o : *operands) {
      if (!(o.dims == region.space)) continue;
      if (is_channels_last(o.dims, o.strides))
        std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
      return;  // the first operand of the whole space decides
    }
}

}  // namespace

Verdict build_iteration(const Region& region, const StepSpec& spec,
                        const std::vector<bool>& reduced, const IndexedReads& indexed,
                        Iteration& out) {
  const SymDims& space = region.space;
  const size_t operands = spec.inputs.size() + spec.outputs.size();
  const auto row_axes = static_cast<size_t>(region.row_axes);
  std::vector<LoopAxis> axes(space.size());
  for (size_t a = 0; a < space.size(); ++a) {
    axes[a].size = space[a];
    axes[a].first = static_cast<uint32_t>(a);
    axes[a].shifted = indexed.shifted[a];
    bool found = space[a].is_constant();
    if (found) axes[a].extent.constant = space[a].value();
    for (size_t k = 0; k < operands; ++k) {
      const Operand& o = operand_at(spec, k);
      if (!indexed.direct[k]) {
        axes[a].strides.push_back(still());
        continue;
      }
      const bool dropped = k >= spec.inputs.size() && reduced[k - spec.inputs.size()];
      if (!dropped && o.dims.size() > space.size())
        return Verdict::no("an operand has more dims than the iteration space");
      axes[a].strides.push_back(stride_of(o, static_cast<uint32_t>(k), space, a, dropped,
                                          region.aggregate ? space.size() : row_axes));
      if (found) continue;
      const size_t lead = dropped ? 0 : space.size() - o.dims.size();
      if (a >= lead && a - lead < o.dims.size() && o.dims[a - lead] == space[a]) {
        axes[a].extent.factors = {{static_cast<uint32_t>(k), static_cast<uint32_t>(a - lead)}};
        found = true;
      }
    }
    for (const MappedRead& read : indexed.reads) {
      const Operand& o = spec.inputs[read.operand];
      axes[a].strides.push_back(stride_of(o, read, space[a], a));
      if (found || read.axes[a] < 0 || !(o.dims[static_cast<size_t>(read.axes[a])] == space[a]))
        continue;
      axes[a].extent.factors = {{read.operand, static_cast<uint32_t>(read.axes[a])}};
      found = true;
    }
    if (!found) return Verdict::no("size " + space[a].text() + " is no dim of an operand");
  }
  if (row_axes == 0) follow_memory(region, spec, axes);
  // Collapse from the inside: axes a and a+1 are one loop when every operand steps evenly over
  // both.
  const size_t boundary = space.size() - row_axes;
  std::vector<LoopAxis> merged;
  for (size_t a = space.size(); a-- > 0;) {
    // An axis of one element folds into any loop, which stays what it was.
    const bool unit = axes[a].size == Dim(1) && !axes[a].shifted;
    const bool same_side =
        !merged.empty() && !(row_axes > 0 && a + 1 == boundary) && (!merged.back().shifted || unit);
    if (same_side) {
      LoopAxis& inner = merged.back();
      const bool even =
          std::all_of(axes[a].strides.begin(), axes[a].strides.end(), [&](const AxisStride& s) {
            const AxisStride& i = inner.strides[static_cast<size_t>(&s - axes[a].strides.data())];
            return s.value == i.value * inner.size || axes[a].size == Dim(1);
          });
      if (even || inner.size == Dim(1)) {
        if (inner.size == Dim(1) && !inner.shifted) inner.strides = axes[a].strides;
        inner.size = inner.size * axes[a].size;
        if (!inner.shifted) {
          inner.first = axes[a].first;
          inner.shifted = axes[a].shifted;
          inner.inside = inner.extent;
        }
        inner.extent.constant *= axes[a].extent.constant;
        inner.extent.factors.insert(inner.extent.factors.end(), axes[a].extent.factors.begin(),
                                    axes[a].extent.factors.end());
        if (a == boundary && row_axes > 0) {
          out.row.insert(out.row.begin(), merged.rbegin(), merged.rend());
          merged.clear();
        }
        continue;
      }
    }
    merged.push_back(axes[a]);
    if (a == boundary && row_axes > 0) {
      out.row.insert(out.row.begin(), merged.rbegin(), merged.rend());
      merged.clear();
    }
  }
  out.outer.assign(merged.rbegin(), merged.rend());
  return Verdict::ok();
}

}  // namespace xc
