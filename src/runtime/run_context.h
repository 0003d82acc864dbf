#pragma once
// What one run needs of its own: arenas, resolved pointers, tensors made on the way. Leased for a
// run, kept by a prepared call. Never shared by two runs at once.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/bound.h"
#include "runtime/engine.h"
#include "runtime/growing_memory.h"
#include "runtime/staged_inputs.h"

namespace xc {

struct SignatureEntry;
struct Version;
class BoundTimes;

/// How one run takes an entry (Program::take_turn()).
struct Turn {
  Version* version = nullptr;
  int side = 0;                 ///< 0 active, 1 challenger
  bool timed = false;           ///< the run is one that is looked at
  bool trial = false;           ///< its time is what a trial waits for
  uint32_t stands_for = 1;      ///< so many runs when the tier is told of it; 0 = it is not
  BoundTimes* times = nullptr;  ///< where its times go; null = nowhere
  uint64_t look = 0;            ///< the run looks at the values it reads: ValueFacts::due()
};

/// Pointers of one Bound resolved in this context.
struct ResolvedBound {
  uint64_t serial = 0;  ///< of the Bound; 0 = nothing resolved
  std::vector<void*> pointers;
};

struct RunContext {
  explicit RunContext(const Engine& engine) : scratch(engine), staged(engine) {}

  /// Epoch of the run in progress, 0 when idle; read by the reclaimer (epoch.h).
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint64_t> runs{0};  ///< by this context: sampling and trial alternation; one writer
  std::vector<int64_t> key;       ///< of the run's signature, for looking it up
  const SignatureEntry* last_entry = nullptr;
  uint64_t last_generation = 0;
  std::vector<std::shared_ptr<SignatureEntry>> passing;  ///< of the run alone, in no table
  std::shared_ptr<const Bound> passed;  ///< what the last run was bound to, where that was such

  /// One per segment and side of a trial: alternating between two Bounds resolves nothing anew.
  struct SegmentState {
    explicit SegmentState(const Engine& engine) : arena(engine) {}
    GrowingMemory arena;
    ResolvedBound resolved[2];
    SignatureEntry* last_entry = nullptr;  ///< of a later segment, with the generation it is of
    uint64_t last_generation = 0;
    std::shared_ptr<const Bound> passed;  ///< as RunContext::passed
  };
  std::vector<SegmentState> segments;
  struct LaterTurn {
    SignatureEntry* entry;
    Turn turn;
  };
  std::vector<LaterTurn> later;  ///< how the run took its later segments, in order
  bool on_trial = false;         ///< the run takes part in a trial with some segment
  int ended = 0;                 ///< runs in a row that the host ended
  uint64_t last_ended = 0;       ///< the last of them, as `runs` counted it
  struct Counted {
    BoundTimes* times;
    uint32_t step;
    uint64_t ticks;
  };
  std::vector<Counted> counted;  ///< times of steps whose run has not ended yet
  GrowingMemory scratch;
  std::vector<void*> bases;      ///< per PlanBuffer of the plan being run
  std::vector<Tensor> dynamic;   ///< per PlanBuffer: tensors made by dynamic and control steps
  std::vector<int64_t> symbols;  ///< multi-segment plans
  StagedInputs staged;
  uint64_t given_back = 0;  ///< when it was last, as Program::given_back_ counts

  /// Whether it holds memory that drop_memory() gives back.
  bool holds_memory() const;
  /// Gives back memory far larger than what runs lately asked for. Between runs.
  void trim();
  /// Gives back all of it.
  void drop_memory();
};

}  // namespace xc
