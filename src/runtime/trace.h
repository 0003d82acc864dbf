#pragma once
// A session's past as a Chrome trace, which chrome://tracing, Perfetto and Speedscope show.

#include <string>

#include "profile/summary.h"
#include "runtime/program.h"

namespace xc {

/// JSON in the trace event format ("Trace Event Format", the Chromium project): sampled runs and
/// their steps as complete events (X) on the thread that ran them, one track per thread; background
/// work on a track of its own; decisions as instant events (i); the compile queue as a counter (C).
/// Times in microseconds since the engine was made. Bodies of control flow are included.
std::string chrome_trace(const Program& program, const ProfileSummary& summary);

}  // namespace xc
