#pragma once
// What a session has learnt, as plain data: the source of xc_profile, explain and reports.

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "profile/event.h"

namespace xc {

struct RegionSummary {
  Hash128 identity;
  std::string name;
  std::string state;   ///< candidate, queued, verifying, ready, trial, live, banned
  std::string reason;  ///< of the last refusal
  int64_t uses = 0;    ///< places in the model
  double base_us = 0;  ///< measured, per call; 0 = not measured
  double fused_us = 0;
  double predicted_us = 0;
  double compile_ms = 0;
  int64_t code_bytes = 0;
};

struct ProfileSummary {
  int64_t runs = 0;
  int64_t signatures = 0;  ///< distinct input signatures bound
  int64_t compiled_regions = 0;
  int64_t swapped = 0;  ///< plans published after acceptance
  int64_t rolled_back = 0;
  int64_t rejected = 0;
  double compile_ms = 0;    ///< CPU spent on search, compile and verification
  double net_saved_ms = 0;  ///< time saved on runs so far minus compile_ms
  int64_t code_bytes = 0;   ///< executable memory in use
  int64_t bound_bytes = 0;
  std::vector<RegionSummary> regions;
  std::vector<Event> events;  ///< the last few thousand
};

}  // namespace xc
