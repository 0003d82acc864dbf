#pragma once
// What the parts of the tier share.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tier/faults.h"
#include "tier/persistence.h"
#include "tier/program_state.h"
#include "tier/queue.h"
#include "tier/region_compiler.h"
#include "tier/shared_code.h"

namespace xc::tier {

/// The persistent caches of an engine. Thread-safe; its lock is a leaf.
class PersistentCaches {
 public:
  /// `compiler` outlives this.
  explicit PersistentCaches(RegionCompiler& compiler) : compiler_(compiler) {}
  /// That of the program's directory; null without one.
  Persistence* of(const Program& program);

 private:
  RegionCompiler& compiler_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Persistence>> by_directory_;
};

struct Core {
  /// `take_out_condemned`: JobQueue's.
  Core(std::unique_ptr<RegionCompiler> region_compiler, const Config& config, TierFaults planted,
       JobQueue::Job take_out_condemned);

  const std::unique_ptr<RegionCompiler> compiler;
  const TierFaults faults;
  SharedCode code;
  PersistentCaches caches;
  JobQueue queue;

  /// Delivers an event (work.h), with the queue's figures.
  void emit(ProgramState& state, const Program& program, Event event);
  /// Tells what the program's cache could not do.
  void report_problems(Program& program, ProgramState& state);
};

/// plan_choice.h's event_of(), taking ProgramState::data.
Event event_now(ProgramState& state, EventKind kind, const Group& group);

/// The steady clock in seconds, by which policies go.
double steady_s();
double ms_since(int64_t begin_ns);

}  // namespace xc::tier
