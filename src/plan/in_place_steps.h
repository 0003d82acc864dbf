#pragma once
// Arena buffers of one segment that lie in the same memory: where a kernel reads every element
// before it writes it (BoundKernel::in_place) and nobody reads the operand any more, its result
// takes the operand's place. Such a chain may end in an output of the graph, and lies there then.
// Where it begins at an input of the graph, the caller may have both in one memory.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/memory_plan.h"

namespace xc {

class InPlaceSteps {
 public:
  /// `bound`: sizes and operands evaluated. `arena`: what its segment asks of the arena.
  InPlaceSteps(const Bound& bound, std::span<const ArenaRequest> arena);
  /// BindContext::replaceable of step `k` of the plan, which is bound next.
  uint32_t replaceable(uint32_t k) const;
  /// Step `k` of the plan has been bound. In the order of the steps.
  void add(uint32_t k, const BoundKernel& kernel);
  /// What is left to ask of the arena.
  std::vector<ArenaRequest> requests() const;
  /// Of the buffers that have no place of their own in `arena`, those that lie where another does.
  void place(std::vector<ArenaSlot>& arena) const;
  /// The graph output's buffer in which arena buffer `buffer` lies, or kNone.
  uint32_t output_of(uint32_t buffer) const;
  /// Bound::shared_ports. After every add().
  std::vector<SharedPort> shared_ports() const;

 private:
  struct Member {
    ArenaRequest request;
    uint32_t leader;          ///< position in members_: the first of those in one memory
    uint32_t output = kNone;  ///< of a leader: the buffer all of them lie in
  };
  /// Position of arena buffer `buffer` in members_, or kNone.
  uint32_t member(uint32_t buffer) const {
    const size_t at = buffer - first_buffer_;
    return buffer >= first_buffer_ && at < member_of_.size() ? member_of_[at] : kNone;
  }
  const Member& leader(uint32_t position) const { return members_[members_[position].leader]; }
  /// Bytes of step `k`'s first result where it has memory of its own, which may lie elsewhere.
  std::optional<int64_t> movable_bytes(uint32_t k) const;
  /// Whether that result may take the place of operand `input`, of kernels that say `in_place`.
  bool dies_alike(uint32_t k, size_t input, uint32_t in_place, int64_t bytes) const;
  /// Whether all that step `k` reads of `buffer`, it reads for such a kernel where it writes.
  bool reads_alike(uint32_t k, uint32_t buffer, uint32_t in_place) const;
  /// Keeps that step `k`'s result, in buffer `to`, may lie in a graph input's memory.
  void add_input(uint32_t k, uint32_t in_place, uint32_t to);

  struct FromInput {
    uint32_t to;  ///< buffer of the result
    uint32_t input;
  };
  const Bound& bound_;
  std::vector<Member> members_;
  std::vector<uint32_t> member_of_;  ///< per buffer from the first of the arena's on
  uint32_t first_buffer_ = 0;
  std::vector<FromInput> from_inputs_;
};

}  // namespace xc
