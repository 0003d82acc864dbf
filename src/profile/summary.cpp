#include "profile/summary.h"

#include <nlohmann/json.hpp>

namespace xc {

using nlohmann::ordered_json;

ordered_json to_json(const Event& event) {
  ordered_json out{{"kind", name(event.kind)},
                   {"time_ns", event.time_ns},
                   {"run", event.run},
                   {"queue", event.queue}};
  if (event.region != Hash128{}) out["region"] = event.region.text();
  if (!event.subject.empty()) out["subject"] = event.subject;
  if (!event.detail.empty()) out["detail"] = event.detail;
  const auto index = static_cast<size_t>(event.kind) - 1;
  if (index >= event_kinds().size()) return out;
  for (const EventField& field : event_kinds()[index].fields) {
    if (field.real)
      out[std::string(field.name)] = event.*field.real;
    else
      out[std::string(field.name)] = event.*field.whole;
  }
  return out;
}

ordered_json to_json(const RegionSummary& region) {
  ordered_json out{{"identity", region.identity.text()},
                   {"name", region.name},
                   {"program", region.program},
                   {"state", region.state},
                   {"reason", region.reason},
                   {"uses", region.uses},
                   {"base_us", region.base_us},
                   {"fused_us", region.fused_us},
                   {"predicted_us", region.predicted_us},
                   {"compile_ms", region.compile_ms},
                   {"code_bytes", region.code_bytes},
                   {"calls", region.calls},
                   {"net_saved_ms", region.net_saved_ms},
                   {"worst_error", region.worst_error},
                   {"shapes", ordered_json::array()}};
  for (const ShapeSummary& s : region.shapes)
    out["shapes"].push_back({{"shape", s.shape},
                             {"calls", s.calls},
                             {"live_calls", s.live_calls},
                             {"before_us", s.before_us},
                             {"before_estimated", s.before_estimated},
                             {"fused_us", s.fused_us},
                             {"now_us", s.now_us},
                             {"predicted_us", s.predicted_us},
                             {"saved_ms", s.saved_ms}});
  out["inputs"] = ordered_json::array();
  for (const ValueSummary& v : region.inputs) {
    ordered_json input{{"name", v.name},
                       {"looks", v.looks},
                       {"elements", v.elements},
                       {"zeros", v.zeros},
                       {"scalar", v.scalar}};
    if (v.scalar) {
      input["constant"] = v.constant;
      input["value"] = v.value;
    }
    out["inputs"].push_back(std::move(input));
  }
  if (!region.listing.empty()) out["listing"] = region.listing;
  return out;
}

ordered_json to_json(const FusionReport& report) {
  ordered_json out;
  out["parts"] = report.parts;
  out["proven"] = report.proven;
  out["states"] = report.states;
  out["candidates"] = report.candidates;
  out["alternatives"] = ordered_json::array();
  for (const FusionReport::Alternative& a : report.alternatives)
    out["alternatives"].push_back({{"nodes", a.nodes},
                                   {"places", a.places},
                                   {"chosen", a.chosen},
                                   {"fused_us", a.fused_us},
                                   {"separate_us", a.separate_us},
                                   {"reason", a.reason}});
  return out;
}

ordered_json to_json(const SizeSummary& size) {
  ordered_json values = ordered_json::array();
  for (const auto& [value, share] : size.frequent)
    values.push_back({{"value", value}, {"share", share}});
  return {{"program", size.program},
          {"symbol", size.symbol},
          {"runs", size.runs},
          {"multiples", size.multiples},
          {"values", values}};
}

ordered_json to_json(const ProfileSummary& summary) {
  ordered_json out{{"counters",
                    {{"runs", summary.runs},
                     {"signatures", summary.signatures},
                     {"compiled_regions", summary.compiled_regions},
                     {"swapped", summary.swapped},
                     {"rolled_back", summary.rolled_back},
                     {"rejected", summary.rejected},
                     {"compile_ms", summary.compile_ms},
                     {"net_saved_ms", summary.net_saved_ms},
                     {"code_bytes", summary.code_bytes},
                     {"bound_bytes", summary.bound_bytes},
                     {"working_bytes", summary.working_bytes},
                     {"queued", summary.queued},
                     {"events_dropped", summary.events_dropped}}},
                   {"regions", ordered_json::array()},
                   {"sizes", ordered_json::array()},
                   {"events", ordered_json::array()}};
  for (const RegionSummary& region : summary.regions) out["regions"].push_back(to_json(region));
  for (const SizeSummary& size : summary.sizes) out["sizes"].push_back(to_json(size));
  for (const Event& event : summary.events) out["events"].push_back(to_json(event));
  return out;
}

std::string dump(const ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

void EventLog::add(Event event) {
  if (events_.size() >= kMaxEvents) {
    constexpr auto kFirst = static_cast<ptrdiff_t>(kMaxEvents / 4);
    events_.erase(events_.begin() + kFirst, events_.begin() + 2 * kFirst);
    dropped_ += kFirst;
  }
  events_.push_back(std::move(event));
}

}  // namespace xc
