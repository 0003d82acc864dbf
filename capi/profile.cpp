// xc/profile.h.

#include "capi/handles.h"

namespace xc::capi {

xc_event to_c(const Event& event) {
  xc_event out = XC_EVENT_INIT;
  out.kind = static_cast<int32_t>(event.kind);
  out.time_ns = event.time_ns;
  out.region[0] = event.region.high;
  out.region[1] = event.region.low;
  out.kind_name = to_view(name(event.kind));
  out.subject = to_view(event.subject);
  out.detail = to_view(event.detail);
  out.compile_ms = event.compile_ms;
  out.base_us = event.base_us;
  out.fused_us = event.fused_us;
  out.predicted_us = event.predicted_us;
  out.code_bytes = event.code_bytes;
  out.run = event.run;
  return out;
}

namespace {

xc_region region_to_c(const RegionSummary& region) {
  xc_region out = XC_REGION_INIT;
  out.identity[0] = region.identity.high;
  out.identity[1] = region.identity.low;
  out.name = to_view(region.name);
  out.state = to_view(region.state);
  out.reason = to_view(region.reason);
  out.uses = region.uses;
  out.base_us = region.base_us;
  out.fused_us = region.fused_us;
  out.predicted_us = region.predicted_us;
  out.compile_ms = region.compile_ms;
  out.code_bytes = region.code_bytes;
  return out;
}

xc_counters counters_to_c(const ProfileSummary& summary) {
  xc_counters out = XC_COUNTERS_INIT;
  out.runs = summary.runs;
  out.signatures = summary.signatures;
  out.compiled_regions = summary.compiled_regions;
  out.swapped = summary.swapped;
  out.rolled_back = summary.rolled_back;
  out.rejected = summary.rejected;
  out.code_bytes = summary.code_bytes;
  out.bound_bytes = summary.bound_bytes;
  out.compile_ms = summary.compile_ms;
  out.net_saved_ms = summary.net_saved_ms;
  return out;
}

template <class T>
const T& at(const std::vector<T>& items, uint32_t index, const char* what) {
  if (index >= items.size())
    fail(Status::kInvalidArgument, "no {} {}: there are {}", what, index, items.size());
  return items[index];
}

bool alive(const xc_profile* profile) {
  return profile && profile->magic == xc_profile::kMagic;
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_profile_counters(const xc_profile* profile, xc_counters* out_counters) {
  return guard(nullptr, [&] {
    write_struct(out_counters, counters_to_c(live(profile).summary), "out_counters");
  });
}

uint32_t xc_profile_region_count(const xc_profile* profile) {
  return alive(profile) ? static_cast<uint32_t>(profile->summary.regions.size()) : 0;
}
xc_status xc_profile_region(const xc_profile* profile, uint32_t index, xc_region* out_region) {
  return guard(nullptr, [&] {
    const RegionSummary& region = at(live(profile).summary.regions, index, "region");
    write_struct(out_region, region_to_c(region), "out_region");
  });
}

uint32_t xc_profile_event_count(const xc_profile* profile) {
  return alive(profile) ? static_cast<uint32_t>(profile->summary.events.size()) : 0;
}
xc_status xc_profile_event(const xc_profile* profile, uint32_t index, xc_event* out_event) {
  return guard(nullptr, [&] {
    const Event& event = at(live(profile).summary.events, index, "event");
    write_struct(out_event, to_c(event), "out_event");
  });
}

void xc_profile_destroy(xc_profile* profile) {
  destroy(profile);
}
