#pragma once
// Everything the adaptive engine decides is an event with its numbers.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace xc {

/// Which numbers an event of a kind carries: event_kinds().
enum class EventKind : uint8_t {
  kCandidate = 1,     ///< a region was found
  kCompiled = 2,      ///< lowered, compiled and linked
  kRefused = 3,       ///< not compiled or not kept, with the reason
  kVerified = 4,      ///< agrees with what it replaces
  kMismatch = 5,      ///< does not agree: banned for good
  kTrial = 6,         ///< a trial on live runs began
  kAccepted = 7,      ///< measured faster and published
  kRejected = 8,      ///< measured not faster: banned with back-off
  kRolledBack = 9,    ///< was accepted, became slower: taken out
  kPrepared = 10,     ///< weights packed and bound kernels replaced
  kJitDisabled = 11,  ///< the JIT is off for this process, with the reason
  kQueued = 12,       ///< running on without the region has cost what compiling it does
  kTrialSample = 13,  ///< a trial was looked at and is not decided yet
  kKept = 14,         ///< a trial found that a doubted region is still worth keeping
  kPostponed = 15,    ///< background work waits for the budget of compile CPU
  kEvicted = 16,      ///< plans bound to shapes were dropped to stay below a memory cap
  kSearched = 17,     ///< the graph was searched for regions
  kFrozen = 18,       ///< the host ended adaptation
  kLoaded = 19,       ///< code of an earlier process, from the persistent cache
  kCache = 20         ///< the cache, or an entry of it, is not used: the reason
};
std::string_view name(EventKind kind);

struct Event {
  EventKind kind = EventKind::kCandidate;
  int64_t time_ns = 0;    ///< since the engine was made; never goes back
  Hash128 region{};       ///< zero when not about a region
  std::string subject{};  ///< region's name: "cell Add+Mul+Tanh (6 nodes)"
  std::string detail{};   ///< reason or note
  double compile_ms = 0;  ///< CPU time of lowering and compiling
  double base_us = 0;     ///< measured time of what the region replaces, per call
  double fused_us = 0;    ///< measured time of the region, per call
  double predicted_us = 0;
  int64_t code_bytes = 0;
  uint64_t run = 0;        ///< runs of the session so far
  double wall_ms = 0;      ///< how long what is reported took; it ended at time_ns
  double regret_ms = 0;    ///< what running on without the region has cost
  double price_ms = 0;     ///< what regret has to reach before compiling pays
  double worst_error = 0;  ///< largest deviation in units of what is allowed; above 1 = wrong
  double back_off_s = 0;   ///< until a banned region may come back; negative = never
  double budget_ms = 0;    ///< compile CPU that may be spent now; negative = overdrawn
  int64_t samples = 0;     ///< timed runs of the side of a trial that has fewer
  int64_t shapes = 0;      ///< input signatures that took part, or were dropped
  int64_t places = 0;      ///< of the region in the model, or regions found
  int64_t queue = 0;       ///< background jobs waiting
  int64_t bytes = 0;       ///< of memory let go
};

/// A number of an event by name; exactly one member is set.
struct EventField {
  std::string_view name;
  double Event::* real = nullptr;
  int64_t Event::* whole = nullptr;
};
struct EventKindRow {
  EventKind kind;
  std::string_view name;
  std::string_view doc;
  std::span<const EventField> fields;  ///< besides time, run and queue, which every event has
};
/// All kinds in the order of their numbers. Static storage.
std::span<const EventKindRow> event_kinds();

}  // namespace xc
