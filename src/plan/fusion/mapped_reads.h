#pragma once
// What a region reads through index maps (index_map.h), as loads of the loop IR.

#include <unordered_map>
#include <vector>

#include "plan/fusion/access.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/iteration.h"

namespace xc {

class MappedReads {
 public:
  /// `operand_of`: the region graph's inputs and constants that are operands. Everything given must
  /// outlive this.
  MappedReads(const Region& region, const StepSpec& spec, const Graph& graph,
              const std::unordered_map<ValueId, uint32_t>& operand_of)
      : region_(region), spec_(spec), graph_(graph), operand_of_(operand_of) {}

  /// Finds the region's index maps; the reason when one cannot be walked in its space.
  Verdict analyse();

  /// For build_iteration() and Access.
  const IndexedReads& reads() const { return reads_; }
  /// Indices that the kernels check.
  const std::vector<RegionPick>& picks() const { return picks_; }
  /// Axes that have to have elements.
  const std::vector<OperandDims::Ref>& repeats() const { return repeats_; }

  bool has(ValueId v) const { return maps_.count(v) != 0; }

  /// One point of the space in the loops of a kernel.
  struct Point {
    Access& access;
    const std::vector<const LoopAxis*>& axes;
    std::vector<loop::Index> at;         ///< a subscript per loop
    std::optional<uint32_t> piece = {};  ///< of split(): where in it the point is known to be
  };
  /// An index map's result at a point.
  loop::Expr value(ValueId v, Point point) const;

  /// The index map whose pieces get innermost loops of their own, so that no element is looked at
  /// under a guard: one that joins or surrounds in `most` pieces at most. kNone: there is none.
  ValueId split(const std::vector<const LoopAxis*>& axes, size_t most) const;
  /// The most parts that an index map joins along the innermost loop.
  size_t joins_along(const std::vector<const LoopAxis*>& axes) const;
  /// The innermost loops of that map's pieces; together they run over [0, columns). `point` has a
  /// subscript for all other loops.
  struct Piece {
    loop::Expr begin, end;
    uint32_t piece;
  };
  std::vector<Piece> pieces(ValueId split, Point point, const loop::Expr& columns) const;

 private:
  struct Mapped {
    IndexMap map;
    std::vector<uint32_t> operands;  ///< per part
    std::vector<uint32_t> reads;     ///< per part: index into reads_.reads
    size_t lead = 0;                 ///< axes of the space in front of the result's
  };
  /// Where along its loop a part of a Concat lies; those that are never there are left out.
  struct Range {
    size_t part;
    loop::Affine begin, end;
  };

  /// Is the axis of a shift the innermost loop?
  bool is_innermost(const Mapped& m, const IndexMap::Shift& shift,
                    const std::vector<const LoopAxis*>& axes) const;
  Verdict add(NodeId id, IndexMap map);
  loop::Expr load(const Mapped& m, size_t part, Point& point, const loop::Expr& guard) const;
  loop::Expr gather(const Mapped& m, Point& point) const;
  loop::Expr concat(const Mapped& m, Point& point) const;
  loop::Expr pad(const Mapped& m, Point& point) const;
  loop::Expr repeat(const Mapped& m, Point& point) const;
  std::vector<Range> ranges(const Mapped& m, Point& point, size_t loop) const;
  std::vector<Piece> pieces_of_concat(const Mapped& m, Point point,
                                      const loop::Expr& columns) const;
  std::vector<Piece> pieces_along_row(const Mapped& m, Point point,
                                      const loop::Expr& columns) const;
  std::vector<Piece> pieces_of_padded_rows(const Mapped& m, Point point,
                                           const loop::Expr& columns) const;
  OperandDims extent(const Mapped& m, size_t part, uint32_t axis) const;

  const Region& region_;
  const StepSpec& spec_;
  const Graph& graph_;
  const std::unordered_map<ValueId, uint32_t>& operand_of_;
  IndexedReads reads_;
  std::vector<RegionPick> picks_;
  std::vector<OperandDims::Ref> repeats_;
  std::unordered_map<ValueId, Mapped> maps_;
  std::vector<ValueId> order_;  ///< of maps_
};

}  // namespace xc
