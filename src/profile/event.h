#pragma once
// Everything the adaptive engine decides is an event with its numbers.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace xc {

enum class EventKind : uint8_t {
  kCandidate = 1,     ///< a region was found: predicted saving per call
  kCompiled = 2,      ///< compiled and linked: compile_ms, code_bytes
  kRefused = 3,       ///< not compiled or not kept, with the reason
  kVerified = 4,      ///< agreed with what it replaces on synthetic and live inputs
  kMismatch = 5,      ///< verification failed: the kernel is banned
  kTrial = 6,         ///< a trial on live runs began
  kAccepted = 7,      ///< measured faster and published: base_us, fused_us
  kRejected = 8,      ///< measured not faster: banned with back-off
  kRolledBack = 9,    ///< was accepted, became slower: taken out
  kPrepared = 10,     ///< weights packed and bound kernels replaced
  kJitDisabled = 11,  ///< the JIT is off for this process, with the reason
  kLoaded = 12,       ///< code of an earlier process, from the persistent cache: code_bytes
  kCache = 13         ///< the cache, or an entry of it, is not used: the reason
};
std::string_view name(EventKind kind);

struct Event {
  EventKind kind = EventKind::kCandidate;
  int64_t time_ns = 0;  ///< steady clock
  Hash128 region;       ///< zero when not about a region
  std::string subject;  ///< region's name: "cell Add+Mul+Tanh (6 nodes)"
  std::string detail;   ///< reason or note
  double compile_ms = 0;
  double base_us = 0;   ///< measured time of what the region replaces, per call
  double fused_us = 0;  ///< measured time of the region, per call
  double predicted_us = 0;
  int64_t code_bytes = 0;
  uint64_t run = 0;  ///< runs of the session so far
};

}  // namespace xc
