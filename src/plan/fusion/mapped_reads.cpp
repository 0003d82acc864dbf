#include "plan/fusion/mapped_reads.h"

#include <algorithm>
#include <cmath>

namespace xc {

using loop::Affine;
using loop::Expr;
using Part = IndexMap::Part;

namespace {

constexpr uint32_t kInside = 0, kOutside = 1;  // pieces of a Pad

Expr both(const Expr& a, const Expr& b) {
  return !a ? b : !b ? a : loop::bit_and(a, b);
}

OperandDims product(OperandDims a, const OperandDims& b) {
  a.constant *= b.constant;
  a.factors.insert(a.factors.end(), b.factors.begin(), b.factors.end());
  return a;
}

/// What stands where no part is; zero when undefined.
Expr filling_of(DType type, const Tensor& filling) {
  return filling ? literal(filling) : loop::constant_bits(loop::value_type(type), 0);
}

/// The loop that moves along an axis and those inside it; subscripts count its steps.
size_t loop_of(const std::vector<const LoopAxis*>& axes, uint32_t axis) {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const LoopAxis* loop) {
    return loop->shifted && loop->first == axis;
  });
  XC_CHECK(it != axes.end());
  return static_cast<size_t>(it - axes.begin());
}

/// Where the element at `position` from the first one comes from, of `size` that are repeated.
/// `once`: it is less than `size` away from them.
Expr repeated(IndexMap::Around around, const Expr& position, const Expr& size, bool once) {
  const Expr zero = loop::i64(0), one = loop::i64(1);
  if (around == IndexMap::Around::kEdge) return loop::max(loop::min(position, size - one), zero);
  if (around == IndexMap::Around::kWrap) {
    if (!once) return loop::mod(position, size);
    const Expr low = loop::select(loop::lt(position, zero), position + size, position);
    return loop::select(loop::ge(low, size), low - size, low);
  }
  // There and back without repeating the ends.
  const Expr back = (size - one) * loop::i64(2);
  if (once) {
    const Expr there = loop::max(position, -position);
    return loop::min(there, back - there);
  }
  const Expr period = loop::max(back, one);
  const Expr there = loop::mod(position, period);
  return loop::min(loop::min(there, period - there), size - one);
}

}  // namespace

Verdict MappedReads::analyse() {
  const size_t operands = spec_.inputs.size() + spec_.outputs.size();
  reads_.direct.assign(operands, false);
  std::fill(reads_.direct.begin() + static_cast<std::ptrdiff_t>(spec_.inputs.size()),
            reads_.direct.end(), true);
  reads_.shifted.assign(region_.space.size(), false);
  reads_.counted.assign(region_.space.size(), false);
  for (NodeId id : graph_.order()) {
    if (auto map = index_map(graph_, id)) {
      if (const Verdict v = add(id, std::move(*map)); !v.yes()) return v;
      continue;
    }
    for (ValueId v : graph_.node(id).inputs)
      if (const auto it = operand_of_.find(v); it != operand_of_.end())
        reads_.direct[it->second] = true;
  }
  return Verdict::ok();
}

Verdict MappedReads::add(NodeId id, IndexMap map) {
  const Node& node = graph_.node(id);
  const SymDims& result = *graph_.value(node.outputs[0]).type.dims;
  if (result.size() > region_.space.size())
    return Verdict::no("an index map has more dims than the iteration space");
  Mapped m;
  m.lead = region_.space.size() - result.size();
  for (const IndexMap::Shift& shift : map.shifts) {
    if (!(result[shift.axis] == region_.space[m.lead + shift.axis]))
      return Verdict::no("an index map moves along an axis that is broadcast");
    reads_.shifted[m.lead + shift.axis] = true;
    if (map.repeats()) reads_.counted[m.lead + shift.axis] = true;
  }
  for (const Part& part : map.parts) {
    const auto operand = operand_of_.find(node.inputs[part.input]);
    if (operand == operand_of_.end())
      return Verdict::no("an index map of what the region computes");
    MappedRead read;
    read.operand = operand->second;
    read.axes.assign(region_.space.size(), -1);
    read.shifted.assign(region_.space.size(), false);
    for (const IndexMap::Shift& shift : map.shifts) read.shifted[m.lead + shift.axis] = true;
    for (uint32_t a = 0; a < part.axes.size(); ++a) {
      if (part.axes[a] == Part::kPicked)
        read.picked.push_back(a);
      else
        read.axes[m.lead + static_cast<size_t>(part.axes[a])] = static_cast<int32_t>(a);
    }
    m.operands.push_back(read.operand);
    m.reads.push_back(static_cast<uint32_t>(reads_.reads.size()));
    reads_.reads.push_back(std::move(read));
  }
  if (map.kind == IndexMap::Kind::kGather) {
    const bool coordinates = !reads_.reads[m.reads[1]].picked.empty();
    int64_t k = 0;
    for (uint32_t axis : reads_.reads[m.reads[0]].picked) {
      const RegionPick pick{m.operands[1], spec_.inputs[m.operands[1]].dtype,
                            coordinates ? std::optional(k++) : std::nullopt, m.operands[0], axis};
      if (std::find(picks_.begin(), picks_.end(), pick) == picks_.end()) picks_.push_back(pick);
    }
  }
  if (map.repeats())
    for (uint32_t axis : reads_.reads[m.reads[0]].picked) repeats_.push_back({m.operands[0], axis});
  m.map = std::move(map);
  maps_.emplace(node.outputs[0], std::move(m));
  order_.push_back(node.outputs[0]);
  return Verdict::ok();
}

Expr MappedReads::value(ValueId v, Point point) const {
  const Mapped& m = maps_.at(v);
  switch (m.map.kind) {
    case IndexMap::Kind::kGather:
      return gather(m, point);
    case IndexMap::Kind::kConcat:
      return concat(m, point);
    case IndexMap::Kind::kPad:
      return m.map.repeats() ? repeat(m, point) : pad(m, point);
  }
  return {};
}

Expr MappedReads::load(const Mapped& m, size_t part, Point& point, const Expr& guard) const {
  const auto operands = static_cast<uint32_t>(spec_.inputs.size() + spec_.outputs.size());
  // Subscripts of loops that do not move the operand would hide that it is the same for all.
  std::vector<loop::Index> at = point.at;
  for (size_t k = 0; k < point.axes.size(); ++k)
    if (point.axes[k]->strides[operands + m.reads[part]].literal == 0) at[k] = 0;
  const auto element = point.access.buffer(operands + m.reads[part], point.axes).at(std::move(at));
  return guard ? element.guarded(guard) : Expr(element);
}

/// The size of a part along an axis of its own.
OperandDims MappedReads::extent(const Mapped& m, size_t part, uint32_t axis) const {
  const Dim& dim = spec_.inputs[m.operands[part]].dims[axis];
  if (dim.is_constant()) return {.factors = {}, .constant = dim.value()};
  return {.factors = {{m.operands[part], axis}}};
}

Expr MappedReads::gather(const Mapped& m, Point& point) const {
  const std::vector<uint32_t>& picked = reads_.reads[m.reads[0]].picked;
  const bool coordinates = !reads_.reads[m.reads[1]].picked.empty();
  std::vector<loop::Index> subscripts;
  for (size_t k = 0; k < picked.size(); ++k) {
    Point place = point;
    if (coordinates) place.at.emplace_back(static_cast<int64_t>(k));
    const Expr index = loop::cast(DType::kI64, load(m, 1, place, {}));
    const Expr size = loop::affine_value(point.access.size(extent(m, 0, picked[k])));
    subscripts.push_back(
        loop::checked(loop::select(loop::lt(index, loop::i64(0)), index + size, index), size));
  }
  point.at.insert(point.at.end(), subscripts.begin(), subscripts.end());
  return load(m, 0, point, {});
}

std::vector<MappedReads::Range> MappedReads::ranges(const Mapped& m, Point& point,
                                                    size_t loop) const {
  const OperandDims& inside = point.axes[loop]->inside;
  std::vector<Range> out;
  Affine begin = 0;
  for (size_t k = 0; k < m.map.parts.size(); ++k) {
    const OperandDims size = product(extent(m, k, m.map.shifts[0].axis), inside);
    if (size.constant == 0) continue;
    const Affine end = begin + point.access.size(size);
    out.push_back({k, begin, end});
    begin = end;
  }
  return out;
}

Expr MappedReads::concat(const Mapped& m, Point& point) const {
  const size_t loop = loop_of(point.axes, static_cast<uint32_t>(m.lead) + m.map.shifts[0].axis);
  const std::vector<Range> parts = ranges(m, point, loop);
  const Affine position = point.at[loop].affine;
  const Expr here = loop::affine_value(position);
  const auto part_at = [&](const Range& range, const Expr& guard) {
    point.at[loop] = loop::Index(position - range.begin);
    const Operand& o = spec_.inputs[m.operands[range.part]];
    return is_scalar_constant(o) ? literal(o.constant) : load(m, range.part, point, guard);
  };
  if (point.piece) return part_at(parts[*point.piece], {});
  Expr out;
  for (size_t k = parts.size(); k-- > 0;) {
    Expr before, behind;
    if (k > 0) behind = loop::ge(here, loop::affine_value(parts[k].begin));
    if (k + 1 < parts.size()) before = loop::lt(here, loop::affine_value(parts[k].end));
    const Expr e = part_at(parts[k], both(behind, before));
    out = out ? loop::select(before, e, out) : e;
  }
  // Nothing but empty parts: the space is empty.
  return out ? out : filling_of(spec_.inputs[m.operands[0]].dtype, {});
}

Expr MappedReads::pad(const Mapped& m, Point& point) const {
  const Expr filling = filling_of(spec_.inputs[m.operands[0]].dtype, m.map.filling);
  if (point.piece == kOutside) return filling;
  Expr inside;
  for (const IndexMap::Shift& shift : m.map.shifts) {
    const size_t loop = loop_of(point.axes, static_cast<uint32_t>(m.lead) + shift.axis);
    const OperandDims& steps = point.axes[loop]->inside;
    const Affine position = point.at[loop].affine;
    const Affine before = point.access.size(steps) * shift.before;
    const bool known = point.piece && (loop + 1 < point.axes.size() || loop == 0);
    if (shift.before > 0 && !known)
      inside = both(inside, loop::ge(loop::affine_value(position), loop::affine_value(before)));
    if (shift.after > 0 && !known) {
      const Affine end = before + point.access.size(product(extent(m, 0, shift.axis), steps));
      inside = both(inside, loop::lt(loop::affine_value(position), loop::affine_value(end)));
    }
    point.at[loop] = loop::Index(position - before);
  }
  const Expr e = load(m, 0, point, inside);
  // What the guard leaves out reads as zero.
  if (!inside || filling->bits == 0) return e;
  return loop::select(inside, e, filling);
}

Expr MappedReads::repeat(const Mapped& m, Point& point) const {
  std::vector<loop::Index> subscripts;
  for (const IndexMap::Shift& shift : m.map.shifts) {
    const size_t loop = loop_of(point.axes, static_cast<uint32_t>(m.lead) + shift.axis);
    const Affine position = point.at[loop].affine - Affine(shift.before);
    if (point.piece == kInside && loop + 1 == point.axes.size()) {
      subscripts.emplace_back(position);
      continue;
    }
    const Expr size = loop::affine_value(point.access.size(extent(m, 0, shift.axis)));
    const Dim& least = spec_.inputs[m.operands[0]].dims[shift.axis];
    const bool once = least.lower_bound().value_or(0) > std::max(shift.before, shift.after);
    subscripts.push_back(
        loop::checked(repeated(m.map.around, loop::affine_value(position), size, once), size));
  }
  point.at.insert(point.at.end(), subscripts.begin(), subscripts.end());
  return load(m, 0, point, {});
}

ValueId MappedReads::split(const std::vector<const LoopAxis*>& axes, size_t most) const {
  // Joined rows first: their guards differ from lane to lane.
  ValueId found = kNone;
  for (ValueId v : order_) {
    const Mapped& m = maps_.at(v);
    if (m.map.kind == IndexMap::Kind::kGather) continue;
    const bool joins = m.map.kind == IndexMap::Kind::kConcat;
    if (joins ? m.map.parts.size() < 2 || m.map.parts.size() > most : most < 2) continue;
    bool outer = false, inner = false;
    for (const IndexMap::Shift& shift : m.map.shifts) {
      const bool pads = joins || shift.before > 0 || shift.after > 0;
      (is_innermost(m, shift, axes) ? inner : outer) |= pads;
    }
    if (joins && inner) return v;
    if (m.map.repeats()) {
      if (inner && most > 2 && found == kNone) found = v;
      continue;
    }
    const bool flat = axes.size() == 1 && m.map.shifts.size() == 1 && most > 2;
    if ((outer || (inner && flat)) && found == kNone) found = v;
  }
  return found;
}

bool MappedReads::is_innermost(const Mapped& m, const IndexMap::Shift& shift,
                               const std::vector<const LoopAxis*>& axes) const {
  return loop_of(axes, static_cast<uint32_t>(m.lead) + shift.axis) + 1 == axes.size();
}

size_t MappedReads::joins_along(const std::vector<const LoopAxis*>& axes) const {
  size_t most = 0;
  for (const auto& [v, m] : maps_)
    if (m.map.kind == IndexMap::Kind::kConcat && is_innermost(m, m.map.shifts.front(), axes))
      most = std::max(most, m.map.parts.size());
  return most;
}

namespace {

// 1 for positions from `begin` on, and in front of `end`: bounds of loops know no comparison.
Expr from(const Affine& position, const Affine& begin) {
  return loop::max(loop::min(loop::affine_value(position - begin + 1), loop::i64(1)), loop::i64(0));
}
Expr until(const Affine& position, const Affine& end) {
  return loop::max(loop::min(loop::affine_value(end - position), loop::i64(1)), loop::i64(0));
}
Expr times(const Expr& a, const Expr& b) {
  return a ? a * b : b;
}

}  // namespace

std::vector<MappedReads::Piece> MappedReads::pieces(ValueId split, Point point,
                                                    const Expr& columns) const {
  const Mapped& m = maps_.at(split);
  if (m.map.kind == IndexMap::Kind::kConcat) return pieces_of_concat(m, point, columns);
  if (point.axes.size() == 1 || m.map.repeats()) return pieces_along_row(m, point, columns);
  return pieces_of_padded_rows(m, point, columns);
}

/// The parts of a Concat, along the innermost loop or row by row.
std::vector<MappedReads::Piece> MappedReads::pieces_of_concat(const Mapped& m, Point point,
                                                              const Expr& columns) const {
  const size_t innermost = point.axes.size() - 1;
  const size_t loop = loop_of(point.axes, static_cast<uint32_t>(m.lead) + m.map.shifts[0].axis);
  const std::vector<Range> parts = ranges(m, point, loop);
  std::vector<Piece> out;
  for (uint32_t k = 0; k < parts.size(); ++k) {
    const bool last = k + 1 == parts.size();
    if (loop == innermost) {
      out.push_back({loop::affine_value(parts[k].begin),
                     last ? columns : loop::affine_value(parts[k].end), k});
      continue;
    }
    Expr here;
    if (k > 0) here = from(point.at[loop].affine, parts[k].begin);
    if (!last) here = times(here, until(point.at[loop].affine, parts[k].end));
    out.push_back({loop::i64(0), times(here, columns), k});
  }
  return out;
}

/// Padding at the ends of the innermost loop.
std::vector<MappedReads::Piece> MappedReads::pieces_along_row(const Mapped& m, Point point,
                                                              const Expr& columns) const {
  const size_t innermost = point.axes.size() - 1;
  const IndexMap::Shift& shift =
      *std::find_if(m.map.shifts.begin(), m.map.shifts.end(), [&](const IndexMap::Shift& s) {
        return loop_of(point.axes, static_cast<uint32_t>(m.lead) + s.axis) == innermost;
      });
  const OperandDims& steps = point.axes[innermost]->inside;
  const Affine before = point.access.size(steps) * std::max<int64_t>(0, shift.before);
  const Expr begin = loop::affine_value(before);
  std::vector<Piece> out;
  if (shift.before > 0) out.push_back({loop::i64(0), begin, kOutside});
  if (shift.after <= 0) {
    out.push_back({begin, columns, kInside});
  } else {
    const Expr end =
        loop::affine_value(before + point.access.size(product(extent(m, 0, shift.axis), steps)));
    out.push_back({begin, end, kInside});
    out.push_back({end, columns, kOutside});
  }
  return out;
}

/// Padding along outer loops: a whole row is inside or outside.
std::vector<MappedReads::Piece> MappedReads::pieces_of_padded_rows(const Mapped& m, Point point,
                                                                   const Expr& columns) const {
  const size_t innermost = point.axes.size() - 1;
  Expr inside;
  for (const IndexMap::Shift& shift : m.map.shifts) {
    const size_t loop = loop_of(point.axes, static_cast<uint32_t>(m.lead) + shift.axis);
    if (loop == innermost) continue;
    const OperandDims& steps = point.axes[loop]->inside;
    const Affine before = point.access.size(steps) * shift.before;
    if (shift.before > 0) inside = times(inside, from(point.at[loop].affine, before));
    if (shift.after > 0)
      inside = times(inside,
                     until(point.at[loop].affine,
                           before + point.access.size(product(extent(m, 0, shift.axis), steps))));
  }
  const Expr none = loop::i64(0);
  return {{none, inside * columns, kInside}, {none, (loop::i64(1) - inside) * columns, kOutside}};
}

}  // namespace xc
