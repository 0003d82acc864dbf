// Events and summaries as data.
#include "profile/summary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "profile/run_trace.h"

using namespace xc;

TEST_CASE("profile/event: every kind has a name of its own and its numbers as fields") {
  std::set<std::string_view> names;
  for (size_t k = 0; k < event_kinds().size(); ++k) {
    const EventKindRow& row = event_kinds()[k];
    CHECK(static_cast<size_t>(row.kind) == k + 1);
    CHECK(names.insert(row.name).second);
    CHECK(name(row.kind) == row.name);
    CHECK_FALSE(row.doc.empty());
    Event event;
    event.kind = row.kind;
    double value = 1;
    for (const EventField& field : row.fields)
      if (field.real)
        event.*field.real = value++ + 0.5;
      else
        event.*field.whole = static_cast<int64_t>(value++);
    const auto json = nlohmann::json::parse(to_json(event));
    value = 1;
    for (const EventField& field : row.fields) {
      const double there = json.at(std::string(field.name));
      CHECK(there == value + (field.real ? 0.5 : 0.0));
      ++value;
    }
  }
  CHECK(name(static_cast<EventKind>(200)) == "unknown");
}

TEST_CASE("profile/event: JSON survives names that are no UTF-8, and numbers that are none") {
  Event event;
  event.kind = EventKind::kVerified;
  event.time_ns = 12;
  event.region = {1, 2};
  event.subject = "cell \"\xff\" </script>";
  event.worst_error = std::nan("");
  const auto back = nlohmann::json::parse(to_json(event));
  CHECK(back["time_ns"] == 12);
  CHECK(back["region"] == event.region.text());
  CHECK(back["subject"].get<std::string>().find("</script>") != std::string::npos);
  CHECK(back["worst_error"].is_null());
}

TEST_CASE("profile/event: a full log keeps how it began and what came last, and counts the rest") {
  EventLog log;
  constexpr int64_t kMany = 20'000;
  for (int64_t k = 0; k < kMany; ++k) {
    Event event;
    event.time_ns = k;
    log.add(std::move(event));
  }
  const auto& kept = log.events();
  CHECK(kept.size() <= EventLog::kMaxEvents);
  CHECK(static_cast<int64_t>(kept.size()) + log.dropped() == kMany);
  CHECK(kept.front().time_ns == 0);
  CHECK(kept[EventLog::kMaxEvents / 4 - 1].time_ns == EventLog::kMaxEvents / 4 - 1);
  CHECK(kept.back().time_ns == kMany - 1);
  for (size_t k = 1; k < kept.size(); ++k) REQUIRE(kept[k].time_ns > kept[k - 1].time_ns);
}

TEST_CASE("profile/trace: the last runs are kept, as many as fit") {
  RunTrace trace(10);
  for (uint64_t k = 0; k < 7; ++k) {
    TracedRun run;
    run.begin = k;
    run.steps.resize(3);
    trace.add(std::move(run));
  }
  const RunTrace::Snapshot snapshot = trace.snapshot();
  REQUIRE(snapshot.runs.size() == 3);
  CHECK(snapshot.dropped == 4);
  CHECK(snapshot.runs.front().begin == 4);
}
