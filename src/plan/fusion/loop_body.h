#pragma once
// The body of the loops being written: at which point of the space it is, and what values are
// there.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/builder.h"
#include "plan/fusion/access.h"
#include "plan/fusion/loop_region.h"

namespace xc::fusion {

/// Where a loop body is.
struct LoopPoint {
  std::vector<loop::Index> at;  ///< a subscript for each of the loops around
  int stage = 0;                ///< the pass over the row, or that behind which the point lies
  /// Where in the row, unless behind a pass.
  std::optional<loop::Index> column = {};
};

/// An accumulator for a reduction.
loop::Acc accumulator(const LoopRegion& region, loop::KernelBuilder& builder,
                      const std::string& name, NodeId reduction, loop::AccOrder order);

class LoopBody {
 public:
  /// `axes`: the loops around, outermost first. All must outlive this.
  LoopBody(const LoopRegion& region, loop::KernelBuilder& builder, Access& access,
           std::vector<const LoopAxis*> axes)
      : region_(region), builder_(builder), access_(access), axes_(std::move(axes)) {}
  LoopBody(const LoopBody&) = delete;
  LoopBody& operator=(const LoopBody&) = delete;

  const LoopRegion& region() const { return region_; }
  loop::KernelBuilder& builder() { return builder_; }
  Access& access() { return access_; }

  const std::vector<const LoopAxis*>& axes() const { return axes_; }

  /// From here on everything is at this point.
  void enter(LoopPoint point);
  /// Rows abreast: the number of the row in its block, which goes with the points entered from here
  /// on; none: rows come one after another.
  void set_lane(std::optional<loop::Index> lane) { lane_ = std::move(lane); }
  /// The piece of an index map (MappedReads::split()) in whose loop the points are.
  void set_piece(ValueId split, std::optional<uint32_t> piece);

  loop::Expr value(ValueId v);
  /// A node's value, computed here.
  loop::Expr apply(const Node& node);
  /// An element of an input, in memory or in its tile.
  loop::Expr load(uint32_t input);

  /// An element of what a reduction folds.
  void accumulate(NodeId reduction, const loop::Acc& acc);
  /// Computes a value of this point and keeps and puts it out, as far as the region does.
  void store(ValueId v);
  /// Makes a value of the row known.
  void define(ValueId v, const loop::Expr& e);

  /// A new row: nothing is known of it, and what is kept goes to tables for `columns` elements of
  /// `rows` rows.
  void begin_row(const loop::Expr& columns, int64_t rows);

  /// Inputs that are read in tiles, at a place there.
  using Tiles = std::map<uint32_t, loop::Buffer>;
  void set_tiles(Tiles tiles) { tiles_ = std::move(tiles); }
  void set_place_in_tiles(std::vector<loop::Index> place) { in_tile_ = std::move(place); }

 private:
  loop::Element kept(ValueId v) const;
  void put_out(ValueId v, const loop::Expr& e);

  const LoopRegion& region_;
  loop::KernelBuilder& builder_;
  Access& access_;
  const std::vector<const LoopAxis*> axes_;
  LoopPoint point_;
  std::optional<loop::Index> lane_;
  ValueId split_ = kNone;
  std::optional<uint32_t> piece_;                  ///< of split_
  std::unordered_map<ValueId, loop::Expr> known_;  ///< of the point
  std::unordered_map<ValueId, loop::Expr> of_row_;
  std::unordered_map<ValueId, loop::Buffer> kept_;
  Tiles tiles_;
  std::vector<loop::Index> in_tile_;
};

}  // namespace xc::fusion
