#pragma once
// Which regions a program has: all of them at first, the parts of one where it is not used.

#include <memory>
#include <vector>

#include "tier/core.h"
#include "tier/zeros.h"

namespace xc::tier {

/// All of it holds state.work.
class RegionSearch {
 public:
  RegionSearch(Core& core, ZeroSites& zeros) : core_(core), zeros_(zeros) {}
  /// Finds the regions of a program, once; from then on its runs are watched. Ends in the middle
  /// where the program goes, or is about to be frozen.
  void analyse(Program& program, ProgramState& state);
  /// What is left to win where a region with products is not used at some size: its rows and cells.
  void offer_parts(Program& program, ProgramState& state, Group& group);
  /// That, or of one without products the best regions of half its nodes at most: where it cannot
  /// be lowered or is slower than its steps. What is slow in one half costs the other nothing.
  void offer_smaller(Program& program, ProgramState& state, Group& group);

 private:
  /// Regions without products of what a group has, once.
  void offer_inside(Program& program, ProgramState& state, Group& group, int max_nodes);
  /// Whether nobody will make use of what is found.
  bool is_unwanted(const ProgramState& state) const;
  /// Finds regions, inside of a group where one is given, tells of them and adds them. A search
  /// that fails finds none and says so; for want of memory it may be tried again.
  void find_groups(Program& program, ProgramState& state, FusionOptions options,
                   FusionReport* considered, const Group* inside);
  /// All whose sizes can be written down. What fails adds none.
  void add_groups(Program& program, ProgramState& state, std::vector<Region> regions,
                  const Group* part_of);

  Core& core_;
  ZeroSites& zeros_;
};

}  // namespace xc::tier
