#pragma once
// Concats whose parts are written where they belong: they lie dense in the result, or are made by a
// kernel that writes rows with gaps between them as fast as dense ones. A Concat of such parts
// alone needs no step; one of which only some are copies the others.
//
// Decided once per graph, from a base plan with dense values. Later plans of the graph find the
// decision made: a value lies alike in all of them.

#include <span>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "plan/plan.h"

namespace xc {

class InPlaceConcats {
 public:
  /// Where a part lies.
  struct Place {
    ValueId whole = kNone;  ///< the result of the Concat; it may be a part itself
    size_t axis = 0;
    Dim before;       ///< elements of the axis in front of the part
    SymDims strides;  ///< of the part, as the outermost whole has them
  };

  /// `base`: a plan without regions of a graph for which nothing was decided. True when there is
  /// something in place.
  bool decide(const Plan& base, const Backend& backend);

  /// Null: the value has memory of its own.
  const Place* place(ValueId part) const;
  /// Concats with parts in place.
  const std::vector<NodeId>& nodes() const { return nodes_; }
  bool has(NodeId concat) const { return in_place(concat) != Extent::kNone; }
  /// Whether all are: it needs no step.
  bool whole(NodeId concat) const { return in_place(concat) == Extent::kAll; }

 private:
  enum class Extent : uint8_t { kNone, kSome, kAll };
  Extent in_place(NodeId concat) const {
    return concat < extents_.size() ? extents_[concat] : Extent::kNone;
  }

  std::unordered_map<ValueId, Place> places_;
  std::vector<NodeId> nodes_;
  std::vector<Extent> extents_;  // by NodeId: how many of its parts are in place
};

}  // namespace xc
