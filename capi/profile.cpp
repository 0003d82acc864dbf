// xc/profile.h.

#include "capi/handles.h"

namespace xc::capi {
namespace {

/// A number that an event has on both sides of the boundary.
template <class T>
struct Same {
  T xc_event::* theirs;
  T Event::* ours;
};
constexpr Same<double> kReals[] = {
    {&xc_event::compile_ms, &Event::compile_ms}, {&xc_event::base_us, &Event::base_us},
    {&xc_event::fused_us, &Event::fused_us},     {&xc_event::predicted_us, &Event::predicted_us},
    {&xc_event::wall_ms, &Event::wall_ms},       {&xc_event::regret_ms, &Event::regret_ms},
    {&xc_event::price_ms, &Event::price_ms},     {&xc_event::worst_error, &Event::worst_error},
    {&xc_event::back_off_s, &Event::back_off_s}, {&xc_event::budget_ms, &Event::budget_ms},
};
constexpr Same<int64_t> kWholes[] = {
    {&xc_event::time_ns, &Event::time_ns}, {&xc_event::code_bytes, &Event::code_bytes},
    {&xc_event::samples, &Event::samples}, {&xc_event::shapes, &Event::shapes},
    {&xc_event::places, &Event::places},   {&xc_event::queue, &Event::queue},
    {&xc_event::bytes, &Event::bytes},
};

}  // namespace

xc_event to_c(const Event& event) {
  xc_event out = XC_EVENT_INIT;
  out.kind = static_cast<int32_t>(event.kind);
  out.kind_name = to_view(name(event.kind));
  out.region[0] = event.region.high;
  out.region[1] = event.region.low;
  out.subject = to_view(event.subject);
  out.detail = to_view(event.detail);
  out.run = event.run;
  for (const auto& [theirs, ours] : kReals) out.*theirs = event.*ours;
  for (const auto& [theirs, ours] : kWholes) out.*theirs = event.*ours;
  return out;
}

xc_counters to_c(const ProfileSummary& summary) {
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
  out.working_bytes = summary.working_bytes;
  out.queued = summary.queued;
  out.events_dropped = summary.events_dropped;
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
  out.program = to_view(region.program);
  out.calls = region.calls;
  out.net_saved_ms = region.net_saved_ms;
  out.worst_error = region.worst_error;
  return out;
}

xc_region_shape shape_to_c(const ShapeSummary& shape) {
  xc_region_shape out = XC_REGION_SHAPE_INIT;
  out.before_estimated = shape.before_estimated ? 1 : 0;
  out.shape = to_view(shape.shape);
  out.calls = shape.calls;
  out.live_calls = shape.live_calls;
  out.before_us = shape.before_us;
  out.fused_us = shape.fused_us;
  out.now_us = shape.now_us;
  out.predicted_us = shape.predicted_us;
  out.saved_ms = shape.saved_ms;
  return out;
}

std::string text(xc_string_view view) {
  return view.size ? std::string(view.data, view.size) : std::string();
}

/// The event that to_c() gave out.
Event from_c(const xc_event& event) {
  Event out;
  out.kind = static_cast<EventKind>(event.kind);
  out.region = {event.region[1], event.region[0]};
  out.subject = text(event.subject);
  out.detail = text(event.detail);
  out.run = event.run;
  for (const auto& [theirs, ours] : kReals) out.*ours = event.*theirs;
  for (const auto& [theirs, ours] : kWholes) out.*ours = event.*theirs;
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
  return guard(nullptr,
               [&] { write_struct(out_counters, to_c(live(profile).summary), "out_counters"); });
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

uint32_t xc_profile_shape_count(const xc_profile* profile, uint32_t region) {
  if (!alive(profile) || region >= profile->summary.regions.size()) return 0;
  return static_cast<uint32_t>(profile->summary.regions[region].shapes.size());
}
xc_status xc_profile_shape(const xc_profile* profile, uint32_t region, uint32_t index,
                           xc_region_shape* out_shape) {
  return guard(nullptr, [&] {
    const RegionSummary& owner = at(live(profile).summary.regions, region, "region");
    write_struct(out_shape, shape_to_c(at(owner.shapes, index, "shape")), "out_shape");
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

xc_status xc_profile_json(const xc_profile* profile, xc_blob** out_json, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_json, "out_json");
    *out_json = make_blob(to_json(live(profile).summary));
  });
}

xc_status xc_event_json(const xc_event* event, xc_blob** out_json, xc_error** out_error) {
  return guard(out_error, [&] {
    need(event, "event");
    need(out_json, "out_json");
    const xc_event known = read_struct(event, xc_event XC_EVENT_INIT, "event");
    if (known.kind < 1 || known.kind > static_cast<int32_t>(event_kinds().size()))
      fail(Status::kInvalidArgument, "{} is no kind of event", known.kind);
    *out_json = make_blob(to_json(from_c(known)));
  });
}

void xc_profile_destroy(xc_profile* profile) {
  destroy(profile);
}
