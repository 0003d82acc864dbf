#include "runtime/trace.h"

#include <map>

#include "base/function_ref.h"

namespace xc {
namespace {

constexpr int kProcess = 1;
constexpr int kBackground = 1;  ///< track of the compile thread; runs have the next ones

/// Events in the order of the calls, each an object of the array that is open.
class TraceEvents {
 public:
  explicit TraceEvents(JsonWriter& json) : json_(json) {}

  /// `args` writes an object.
  void complete(int track, const std::string& name, std::string_view category, double ts_us,
                double dur_us, FunctionRef<void()> args) {
    json_.object([&] {
      json_.field("name", name);
      json_.field("cat", category);
      json_.field("ph", "X");
      json_.field("ts", ts_us);
      json_.field("dur", std::max(0.0, dur_us));
      where(track);
      json_.key("args");
      args();
    });
  }
  void instant(const std::string& name, double ts_us, const Event& event) {
    json_.object([&] {
      json_.field("name", name);
      json_.field("cat", "decision");
      json_.field("ph", "i");
      json_.field("s", "p");
      json_.field("ts", ts_us);
      where(kBackground);
      write(json_.key("args"), event);
    });
  }
  void counter(std::string_view name, double ts_us, int64_t value) {
    json_.object([&] {
      json_.field("name", name);
      json_.field("ph", "C");
      json_.field("ts", ts_us);
      where(kBackground);
      json_.key("args").object([&] { json_.field("jobs", value); });
    });
  }
  void label(std::string_view what, int track, const std::string& text) {
    json_.object([&] {
      json_.field("name", what);
      json_.field("ph", "M");
      where(track);
      json_.key("args").object([&] { json_.field("name", text); });
    });
  }
  int track_of(std::thread::id thread) {
    const auto [it, fresh] =
        tracks_.try_emplace(thread, kBackground + 1 + static_cast<int>(tracks_.size()));
    if (fresh) label("thread_name", it->second, fmt::format("runs {}", tracks_.size()));
    return it->second;
  }

 private:
  void where(int track) {
    json_.field("pid", kProcess);
    json_.field("tid", track);
  }

  JsonWriter& json_;
  std::map<std::thread::id, int> tracks_;
};

std::string ops_of(const Graph& graph, const Step& step) {
  std::string out;
  for (NodeId n : step.nodes) {
    if (out.size() > 80) return out + "+...";
    out += (out.empty() ? "" : "+") + std::string(graph.node(n).op->name);
  }
  return out.empty() ? "copy" : out;
}

void add_run(JsonWriter& json, TraceEvents& events, const Program& program, const TracedRun& run) {
  const auto us = [&](uint64_t ticks) { return program.engine().age_ns(ticks) * 1e-3; };
  const int track = events.track_of(run.thread);
  const auto sizes = [&] {
    json.object([&] {
      json.field("plan", run.plan->serial);
      json.field("challenger", run.challenger);
      for (size_t k = 0; k < run.symbols.size(); ++k)
        json.field(run.plan->symbols[k].name, run.symbols[k]);
    });
  };
  events.complete(track, "run " + program.name(), "run", us(run.begin), us(run.end) - us(run.begin),
                  sizes);
  for (const TracedStep& traced : run.steps) {
    const Step& step = *run.plan->steps[traced.step];
    const auto kernel = [&] {
      json.object([&] {
        json.field("kernel", step.kernel_name);
        json.field("node", step.name);
      });
    };
    events.complete(track, ops_of(program.graph(), step), "step", us(traced.begin),
                    us(traced.end) - us(traced.begin), kernel);
  }
}

/// Returns how many older runs are missing.
int64_t add_runs(JsonWriter& json, TraceEvents& events, const Program& program) {
  int64_t dropped = 0;
  if (const RunTrace* trace = program.trace()) {
    const RunTrace::Snapshot snapshot = trace->snapshot();
    dropped = snapshot.dropped;
    for (const TracedRun& run : snapshot.runs) add_run(json, events, program, run);
  }
  for (const auto& child : program.children()) dropped += add_runs(json, events, *child);
  return dropped;
}

void add_decision(JsonWriter& json, TraceEvents& events, const Event& event) {
  const double ts_us = static_cast<double>(event.time_ns) * 1e-3;
  std::string name(xc::name(event.kind));
  if (!event.subject.empty()) name += " " + event.subject;
  // A trial lasts as long as the runs it looks at: its decision is a moment, like the others.
  const bool work = event.kind == EventKind::kCompiled || event.kind == EventKind::kVerified ||
                    event.kind == EventKind::kPrepared || event.kind == EventKind::kSearched;
  if (work && event.wall_ms > 0)
    events.complete(kBackground, name, "background", ts_us - event.wall_ms * 1e3,
                    event.wall_ms * 1e3, [&] { write(json, event); });
  else
    events.instant(name, ts_us, event);
  events.counter("compile queue", ts_us, event.queue);
}

}  // namespace

std::string chrome_trace(const Program& program, const ProfileSummary& summary) {
  JsonWriter json;
  TraceEvents events(json);
  int64_t dropped = 0;
  json.object([&] {
    json.key("traceEvents").array([&] {
      events.label("process_name", kBackground, "xc " + program.name());
      events.label("thread_name", kBackground, "background");
      for (const Event& event : summary.events) add_decision(json, events, event);
      dropped = add_runs(json, events, program);
    });
    json.field("displayTimeUnit", "ns");
    json.key("otherData").object([&] {
      json.field("runtime", "xc");
      json.field("model", program.name());
      json.field("runs", summary.runs);
      json.field("runs_dropped", dropped);
      json.field("events_dropped", summary.events_dropped);
    });
  });
  return json.take();
}

}  // namespace xc
