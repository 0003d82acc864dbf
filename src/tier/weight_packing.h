#pragma once
// Steps of the base plan that want their weights packed have that done in the background.

#include "tier/core.h"
#include "tier/restore.h"

namespace xc::tier {

class WeightPacking {
 public:
  WeightPacking(Core& core, Restore& restore) : core_(core), restore_(restore) {}
  /// Posts it where there is anything to pack, in mode auto. At nobody's cost: mode off does it
  /// too.
  void post(const Program& program, const StatePtr& state);
  /// All of it, now. Holds state.work.
  void pack(Program& program, ProgramState& state);

 private:
  struct Progress {
    int64_t begin_ns = 0, part_ns = 0;  ///< of the first part; how long the next one takes
    size_t packed = 0;                  ///< steps
  };
  Progress begin() const;
  /// A job for each part: in between, others may have state.work.
  void post_part(const StatePtr& state, Progress progress);
  /// In parts, as where the host is slow to give memory hundreds of megabytes take seconds: behind
  /// each what is bound takes what is packed. Whether there are more.
  bool pack_part(Program& program, ProgramState& state, Progress& progress);
  void bind_again(Program& program, ProgramState& state);

  Core& core_;
  Restore& restore_;
};

}  // namespace xc::tier
