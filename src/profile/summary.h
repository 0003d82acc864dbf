#pragma once
// What a session has learnt, as plain data: the source of xc_profile, explain and reports.

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json_writer.h"
#include "plan/fusion/report.h"
#include "profile/event.h"
#include "profile/size_histogram.h"

namespace xc {

/// A region on one class of shapes; times per call in microseconds, 0 = not measured.
struct ShapeSummary {
  std::string shape;  ///< "n=128 m=4"; "fixed" without free sizes, "others" for the rest together
  int64_t calls = 0;  ///< estimated from samples
  int64_t live_calls = 0;  ///< of those, by the region's own kernel
  double before_us = 0;    ///< by what the region replaces: the trial's median, until then a mean
  double fused_us = 0;     ///< by the region: the trial's median
  double now_us = 0;       ///< mean of what runs now
  double predicted_us = 0;
  double saved_ms = 0;  ///< on all live calls
  bool before_estimated =
      false;  ///< never measured on these shapes: follows from the trial's ratio
};

/// What sampled runs saw of a value that a region reads: profile/value_facts.h.
struct ValueSummary {
  std::string name;
  int64_t looks = 0;
  int64_t elements = 0;   ///< looked at
  double zeros = 0;       ///< share of those
  bool scalar = false;    ///< it has one element
  bool constant = false;  ///< that was the same in every look
  double value = 0;       ///< of a scalar, in the last look
};

struct RegionSummary {
  Hash128 identity;
  std::string name;
  std::string program;  ///< graph or body it is part of
  std::string state;    ///< candidate, queued, verifying, ready, trial, live, banned
  std::string reason;   ///< of the last refusal
  int64_t uses = 0;     ///< places in the model
  double base_us = 0;   ///< measured, per call; 0 = not measured
  double fused_us = 0;
  double predicted_us = 0;
  double compile_ms = 0;
  int64_t code_bytes = 0;
  int64_t calls = 0;        ///< estimated from samples
  double net_saved_ms = 0;  ///< time saved on calls and in trials, minus compile_ms
  double worst_error = 0;   ///< verification's largest deviation in units of what is allowed
  std::vector<ShapeSummary> shapes;  ///< most calls first
  std::vector<ValueSummary> inputs;  ///< of its first place, those that were looked at
  std::string listing;               ///< loop IR and assembly, with Config::trace_compiles
};

/// Which values a size took, of recent runs.
struct SizeSummary {
  std::string program;  ///< graph or body
  std::string symbol;
  double runs = 0;       ///< that count: older ones are forgotten
  double multiples = 0;  ///< share of values that are multiples of SizeHistogram::kVector
  std::vector<SizeHistogram::Frequent> frequent;  ///< most frequent first
};

/// What the search for regions of one program considered.
struct SearchSummary {
  std::string program;  ///< graph or body
  FusionReport report;
};

struct ProfileSummary {
  int64_t runs = 0;
  int64_t signatures = 0;  ///< input signatures bound, again where evicted
  int64_t compiled_regions = 0;
  int64_t swapped = 0;  ///< plans published after acceptance
  int64_t rolled_back = 0;
  int64_t rejected = 0;
  double compile_ms = 0;    ///< CPU of background work: packing, search, compiling, verification
  double net_saved_ms = 0;  ///< time saved on runs so far minus compile_ms
  int64_t code_bytes = 0;   ///< executable memory in use
  int64_t bound_bytes = 0;
  int64_t working_bytes = 0;   ///< arenas, scratch and outputs of the engine's runs
  int64_t queued = 0;          ///< background jobs waiting, of all sessions of the engine
  int64_t events_dropped = 0;  ///< not kept: see kMaxEvents
  std::vector<RegionSummary> regions;
  std::vector<SearchSummary> searches;  ///< with details, of programs that were searched
  std::vector<SizeSummary> sizes;       ///< with details
  std::vector<Event> events;            ///< by time
};

/// With the numbers of its kind by name: {kind, time_ns, run, queue, region, subject, detail, ...}.
void write(JsonWriter& json, const Event& event);
void write(JsonWriter& json, const RegionSummary& region);
/// {program, symbol, runs, multiples, values[{value, share}]}.
void write(JsonWriter& json, const SizeSummary& size);
/// {parts, proven, states, candidates, alternatives[]}.
void write(JsonWriter& json, const FusionReport& report);
/// The fields that `explain` shows too, of an object that is open: runs to code_bytes.
void write_totals(JsonWriter& json, const ProfileSummary& summary);
/// {counters{}, regions[], sizes[], events[]}.
void write(JsonWriter& json, const ProfileSummary& summary);

/// The text of one of these by itself.
template <class T>
std::string to_json(const T& of) {
  JsonWriter json;
  write(json, of);
  return json.take();
}

/// The events of a program, oldest first, at most kMaxEvents: when full, the oldest are dropped
/// except for the first quarter, which tells how it began.
class EventLog {
 public:
  static constexpr size_t kMaxEvents = 4096;
  void add(Event event);
  const std::vector<Event>& events() const { return events_; }
  int64_t dropped() const { return dropped_; }

 private:
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

}  // namespace xc
