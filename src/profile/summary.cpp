#include "profile/summary.h"

namespace xc {
namespace {

void write(JsonWriter& json, const ShapeSummary& shape) {
  json.object([&] {
    json.field("shape", shape.shape);
    json.field("calls", shape.calls);
    json.field("live_calls", shape.live_calls);
    json.field("before_us", shape.before_us);
    json.field("before_estimated", shape.before_estimated);
    json.field("fused_us", shape.fused_us);
    json.field("now_us", shape.now_us);
    json.field("predicted_us", shape.predicted_us);
    json.field("saved_ms", shape.saved_ms);
  });
}

void write(JsonWriter& json, const ValueSummary& value) {
  json.object([&] {
    json.field("name", value.name);
    json.field("looks", value.looks);
    json.field("elements", value.elements);
    json.field("zeros", value.zeros);
    json.field("scalar", value.scalar);
    if (!value.scalar) return;
    json.field("constant", value.constant);
    json.field("value", value.value);
  });
}

void write(JsonWriter& json, const FusionReport::Alternative& alternative) {
  json.object([&] {
    json.field("nodes", alternative.nodes);
    json.field("places", alternative.places);
    json.field("chosen", alternative.chosen);
    json.field("fused_us", alternative.fused_us);
    json.field("separate_us", alternative.separate_us);
    json.field("reason", alternative.reason);
  });
}

void write_counters(JsonWriter& json, const ProfileSummary& summary) {
  json.object([&] {
    write_totals(json, summary);
    json.field("bound_bytes", summary.bound_bytes);
    json.field("working_bytes", summary.working_bytes);
    json.field("queued", summary.queued);
    json.field("events_dropped", summary.events_dropped);
  });
}

}  // namespace

void write_totals(JsonWriter& json, const ProfileSummary& summary) {
  json.field("runs", summary.runs);
  json.field("signatures", summary.signatures);
  json.field("compiled_regions", summary.compiled_regions);
  json.field("swapped", summary.swapped);
  json.field("rolled_back", summary.rolled_back);
  json.field("rejected", summary.rejected);
  json.field("compile_ms", summary.compile_ms);
  json.field("net_saved_ms", summary.net_saved_ms);
  json.field("code_bytes", summary.code_bytes);
}

void write(JsonWriter& json, const Event& event) {
  json.object([&] {
    json.field("kind", name(event.kind));
    json.field("time_ns", event.time_ns);
    json.field("run", event.run);
    json.field("queue", event.queue);
    if (event.region != Hash128{}) json.field("region", event.region.text());
    if (!event.subject.empty()) json.field("subject", event.subject);
    if (!event.detail.empty()) json.field("detail", event.detail);
    const auto index = static_cast<size_t>(event.kind) - 1;
    if (index >= event_kinds().size()) return;
    for (const EventField& field : event_kinds()[index].fields) {
      if (field.real)
        json.field(field.name, event.*field.real);
      else
        json.field(field.name, event.*field.whole);
    }
  });
}

void write(JsonWriter& json, const RegionSummary& region) {
  json.object([&] {
    json.field("identity", region.identity.text());
    json.field("name", region.name);
    json.field("program", region.program);
    json.field("state", region.state);
    json.field("reason", region.reason);
    json.field("uses", region.uses);
    json.field("base_us", region.base_us);
    json.field("fused_us", region.fused_us);
    json.field("predicted_us", region.predicted_us);
    json.field("compile_ms", region.compile_ms);
    json.field("code_bytes", region.code_bytes);
    json.field("calls", region.calls);
    json.field("net_saved_ms", region.net_saved_ms);
    json.field("worst_error", region.worst_error);
    json.key("shapes").array(region.shapes, [&](const ShapeSummary& s) { write(json, s); });
    json.key("inputs").array(region.inputs, [&](const ValueSummary& v) { write(json, v); });
    if (!region.listing.empty()) json.field("listing", region.listing);
  });
}

void write(JsonWriter& json, const FusionReport& report) {
  json.object([&] {
    json.field("parts", report.parts);
    json.field("proven", report.proven);
    json.field("states", report.states);
    json.field("candidates", report.candidates);
    json.key("alternatives").array(report.alternatives, [&](const auto& a) { write(json, a); });
  });
}

void write(JsonWriter& json, const SizeSummary& size) {
  json.object([&] {
    json.field("program", size.program);
    json.field("symbol", size.symbol);
    json.field("runs", size.runs);
    json.field("multiples", size.multiples);
    json.key("values").array(size.frequent, [&](const SizeHistogram::Frequent& frequent) {
      json.object([&] {
        json.field("value", frequent.value);
        json.field("share", frequent.share);
      });
    });
  });
}

void write(JsonWriter& json, const ProfileSummary& summary) {
  json.object([&] {
    write_counters(json.key("counters"), summary);
    json.key("regions").array(summary.regions, [&](const RegionSummary& r) { write(json, r); });
    json.key("sizes").array(summary.sizes, [&](const SizeSummary& s) { write(json, s); });
    json.key("events").array(summary.events, [&](const Event& e) { write(json, e); });
  });
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
