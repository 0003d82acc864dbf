#include "runtime/trace.h"

#include <map>
#include <nlohmann/json.hpp>

namespace xc {
namespace {

using nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr int kBackground = 1;  ///< track of the compile thread; runs have the next ones

class Writer {
 public:
  void complete(int track, const std::string& name, std::string_view category, double ts_us,
                double dur_us, ordered_json args) {
    events_.push_back({{"name", name},
                       {"cat", category},
                       {"ph", "X"},
                       {"ts", ts_us},
                       {"dur", std::max(0.0, dur_us)},
                       {"pid", kProcess},
                       {"tid", track},
                       {"args", std::move(args)}});
  }
  void instant(const std::string& name, double ts_us, ordered_json args) {
    events_.push_back({{"name", name},
                       {"cat", "decision"},
                       {"ph", "i"},
                       {"s", "p"},
                       {"ts", ts_us},
                       {"pid", kProcess},
                       {"tid", kBackground},
                       {"args", std::move(args)}});
  }
  void counter(const std::string& name, double ts_us, int64_t value) {
    events_.push_back({{"name", name},
                       {"ph", "C"},
                       {"ts", ts_us},
                       {"pid", kProcess},
                       {"tid", kBackground},
                       {"args", {{"jobs", value}}}});
  }
  void label(std::string_view what, int track, const std::string& text) {
    events_.push_back({{"name", what},
                       {"ph", "M"},
                       {"pid", kProcess},
                       {"tid", track},
                       {"args", {{"name", text}}}});
  }
  int track_of(std::thread::id thread) {
    const auto [it, fresh] =
        tracks_.try_emplace(thread, kBackground + 1 + static_cast<int>(tracks_.size()));
    if (fresh) label("thread_name", it->second, fmt::format("runs {}", tracks_.size()));
    return it->second;
  }
  ordered_json take() { return std::move(events_); }

 private:
  ordered_json events_ = ordered_json::array();
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

/// Returns how many older runs are missing.
int64_t add_runs(Writer& writer, const Program& program) {
  int64_t dropped = 0;
  if (const RunTrace* trace = program.trace()) {
    const RunTrace::Snapshot snapshot = trace->snapshot();
    dropped = snapshot.dropped;
    const auto us = [&](uint64_t ticks) { return program.engine().age_ns(ticks) * 1e-3; };
    for (const TracedRun& run : snapshot.runs) {
      const int track = writer.track_of(run.thread);
      ordered_json args{{"plan", run.plan->serial}, {"challenger", run.challenger}};
      for (size_t k = 0; k < run.symbols.size(); ++k)
        args[run.plan->symbols[k].name] = run.symbols[k];
      writer.complete(track, "run " + program.name(), "run", us(run.begin),
                      us(run.end) - us(run.begin), std::move(args));
      for (const TracedStep& traced : run.steps) {
        const Step& step = *run.plan->steps[traced.step];
        writer.complete(track, ops_of(program.graph(), step), "step", us(traced.begin),
                        us(traced.end) - us(traced.begin),
                        {{"kernel", step.kernel_name}, {"node", step.name}});
      }
    }
  }
  for (const auto& child : program.children()) dropped += add_runs(writer, *child);
  return dropped;
}

}  // namespace

std::string chrome_trace(const Program& program, const ProfileSummary& summary) {
  Writer writer;
  writer.label("process_name", kBackground, "xc " + program.name());
  writer.label("thread_name", kBackground, "background");
  for (const Event& event : summary.events) {
    const double ts_us = static_cast<double>(event.time_ns) * 1e-3;
    const std::string name(xc::name(event.kind));
    // A trial lasts as long as the runs it looks at: its decision is a moment, like the others.
    const bool work = event.kind == EventKind::kCompiled || event.kind == EventKind::kVerified ||
                      event.kind == EventKind::kPrepared || event.kind == EventKind::kSearched;
    if (work && event.wall_ms > 0)
      writer.complete(kBackground, event.subject.empty() ? name : name + " " + event.subject,
                      "background", ts_us - event.wall_ms * 1e3, event.wall_ms * 1e3,
                      to_json(event));
    else
      writer.instant(event.subject.empty() ? name : name + " " + event.subject, ts_us,
                     to_json(event));
    writer.counter("compile queue", ts_us, event.queue);
  }
  const int64_t dropped = add_runs(writer, program);
  return dump({{"traceEvents", writer.take()},
               {"displayTimeUnit", "ns"},
               {"otherData",
                {{"runtime", "xc"},
                 {"model", program.name()},
                 {"runs", summary.runs},
                 {"runs_dropped", dropped},
                 {"events_dropped", summary.events_dropped}}}});
}

}  // namespace xc
