// A recorded stretch of a session's life: what a report is made of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common.h"
#include "inputs.h"

namespace tool {

struct RecordFlags {
  std::string model;
  InputFlags inputs;
  EngineFlags engine;
  std::string stream;
  int calls = 1000;  ///< of a stream, before it starts over
  double seconds = 5;
  std::string trace;  ///< file of the Chrome trace; empty = none
};

/// Runs the model for `seconds` and returns
///   {model, version, jit, threads, stream, seconds, load_ms, first_us, explain{}, profile{},
///    series{t_s[], calls[], latency_us[], net_saved_ms[], compile_ms[], queued[], code_bytes[],
///           bound_bytes[], working_bytes[], rss_bytes[]},
///    shapes[{shape, calls, first_us, median_us, total_ms}], shapes_left_out}.
/// Times are seconds since the engine was made, as those of events; a series has a value per
/// interval of equal length, latency_us the median of the calls that ended in it (null: none did).
nlohmann::ordered_json record(const RecordFlags& flags);

}  // namespace tool
