#pragma once
// Kernels for some of a region's sizes: where a size is frequent, a kernel that takes its value (or
// that whole vectors fill it) for granted may be faster. It is a region of its own to the tier: it
// earns its compile, is verified, and has its trial against the general kernel.

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "tier/code_room.h"
#include "tier/core.h"
#include "tier/special_policy.h"

namespace xc::tier {

class Specials {
 public:
  Specials(Core& core, CodeRoom& room) : core_(core), room_(room) {}
  /// Counts runs of a region in use; posts a special kernel for the sizes at hand where these are
  /// frequent and none was made. Under state.data.
  void consider(const StatePtr& state, Group& group, std::span<const int64_t> symbols, double runs,
                double now_s);
  /// A candidate: it has to earn its compile like any region. Null where there is one already, or
  /// nothing to take for granted. Holds state.work.
  Group* add(Program& program, ProgramState& state, Group& general,
             const std::vector<SizeFact>& facts);
  /// Whether another kernel of the same region may be had; one that saves clearly less is let go.
  /// Holds state.work.
  bool admit(Program& program, ProgramState& state, Group& special);

  /// What a special kernel would take where `taken_s` is spent now. Under state.data.
  double predicted_s(const ProgramState& state, const Group& special, int size,
                     std::span<const int64_t> symbols, double taken_s, double now_s) const;
  /// A trial of a special kernel, which took `fused_s`, against what took `base_s`, is over. Under
  /// state.data.
  void learn(const ProgramState& state, const Group& special, const Trial& trial,
             const SignatureEntry& entry, double base_s, double fused_s);

 private:
  /// The share of a region's time that a special kernel would save.
  double expected_gain(const ProgramState& state, const Group& group,
                       std::span<const int64_t> symbols, double now_s) const;

  Core& core_;
  CodeRoom& room_;
  mutable std::mutex mutex_;
  policy::SpecialGain gain_;  ///< guarded by mutex_
};

}  // namespace xc::tier
