#include "record.h"

#include <algorithm>

#include "sizes.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

constexpr int kIntervals = 400;       // of a series
constexpr size_t kShapesShown = 200;  // the others are counted
constexpr size_t kTracedSteps = 200'000;
constexpr size_t kTimesKept = 4096;  // per shape, for its median: the first ones

/// The values of a series are added together, one per interval.
class Series {
 public:
  explicit Series(double began_ms) : began_ms_(began_ms) {}

  void add(xcrt::Session& session, std::vector<double>& interval_us, int64_t calls) {
    const xc_counters c = session.counters();
    const auto put = [&](const char* name, ordered_json value) {
      out_[name].push_back(std::move(value));
    };
    put("t_s", (now_ms() - began_ms_) / 1000);
    put("calls", calls);
    put("latency_us", interval_us.empty() ? ordered_json() : ordered_json(median(interval_us)));
    put("net_saved_ms", c.net_saved_ms);
    put("compile_ms", c.compile_ms);
    put("queued", c.queued);
    put("code_bytes", c.code_bytes);
    put("bound_bytes", c.bound_bytes);
    put("working_bytes", c.working_bytes);
    put("rss_bytes", resident_mb() * (1 << 20));
    interval_us.clear();
  }
  ordered_json take() { return std::move(out_); }

 private:
  double began_ms_;
  ordered_json out_ = ordered_json::object();
};

struct ShapeTimes {
  std::string text;
  int64_t calls = 0;
  double first_us = 0, total_us = 0;
  std::vector<double> times;

  void add(double us) {
    if (calls++ == 0) first_us = us;
    total_us += us;
    if (times.size() < kTimesKept) times.push_back(us);
  }
};

std::string shapes_text(const xcrt::Model& model, const std::vector<xcrt::Tensor>& inputs) {
  std::string out;
  const std::vector<xcrt::Port> ports = model.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto dims = inputs[i].dims();
    out +=
        fmt::format("{}{}[{}]", i ? " " : "", ports[i].name, dims_text({dims.begin(), dims.end()}));
  }
  return out.empty() ? "no input" : out;
}

/// What the calls of the recording take in turn: one set of inputs, or one per size of a stream.
class Calls {
 public:
  Calls(const Loaded& loaded, const RecordFlags& flags) {
    if (flags.stream.empty()) {
      add(loaded, 0, flags.inputs.make(loaded.model, true));
      order_.push_back(0);
      return;
    }
    const Stream stream = parse_stream(flags.stream);
    order_ = sizes_of(stream, flags.calls);
    for (int64_t size : order_)
      if (!inputs_.contains(size))
        add(loaded, size,
            random_inputs(loaded.model, dims_for(loaded.model, flags.inputs.shapes, stream, size),
                          flags.inputs.random));
  }
  int64_t size(int64_t call) const { return order_[static_cast<size_t>(call) % order_.size()]; }
  const std::vector<xcrt::Tensor>& inputs(int64_t size) const { return inputs_.at(size); }
  ShapeTimes& times(int64_t size) { return times_.at(size); }
  std::vector<ShapeTimes> take() {
    std::vector<ShapeTimes> out;
    for (auto& [size, times] : times_)
      if (times.calls > 0) out.push_back(std::move(times));
    return out;
  }

 private:
  void add(const Loaded& loaded, int64_t size, std::vector<xcrt::Tensor> inputs) {
    times_[size].text = shapes_text(loaded.model, inputs);
    inputs_.emplace(size, std::move(inputs));
  }
  std::vector<int64_t> order_;
  std::map<int64_t, std::vector<xcrt::Tensor>> inputs_;
  std::map<int64_t, ShapeTimes> times_;
};

/// In the order of the stream's sizes; of more than can be shown, those with the most calls.
void add_shapes(ordered_json& out, std::vector<ShapeTimes> shapes) {
  int64_t left_out = 0;
  if (shapes.size() > kShapesShown) {
    std::vector<int64_t> calls;
    for (const ShapeTimes& s : shapes) calls.push_back(s.calls);
    std::nth_element(calls.begin(), calls.begin() + kShapesShown, calls.end(), std::greater<>());
    const int64_t least = calls[kShapesShown];
    size_t kept = 0;
    std::erase_if(shapes, [&](const ShapeTimes& s) {
      if (s.calls >= least && kept++ < kShapesShown) return false;
      left_out += 1;
      return true;
    });
  }
  out["shapes"] = ordered_json::array();
  for (ShapeTimes& s : shapes)
    out["shapes"].push_back({{"shape", s.text},
                             {"calls", s.calls},
                             {"first_us", s.first_us},
                             {"median_us", median(std::move(s.times))},
                             {"total_ms", s.total_us / 1000}});
  out["shapes_left_out"] = left_out;
}

}  // namespace

ordered_json record(const RecordFlags& flags) {
  xcrt::Config config = flags.engine.config();
  if (!flags.trace.empty() && config.get("trace_steps") == "0")
    config.set("trace_steps", std::to_string(kTracedSteps));
  flags.engine.check_cache();
  Loaded loaded = load(flags.model, config);
  Calls calls(loaded, flags);

  ordered_json out{{"model", flags.model},
                   {"version", xc_runtime_version()},
                   {"jit", config.get("jit")},
                   {"threads", config.get("threads")},
                   {"stream", flags.stream}};
  out["load_ms"] = loaded.load_ms;
  // What the calls take to prepare (made-up inputs) is no part of the recording.
  const double begin = now_ms(), end = begin + flags.seconds * 1000;
  const double interval = flags.seconds * 1000 / kIntervals;
  Series series(loaded.began_ms);
  std::vector<double> interval_us;
  double next = begin;
  int64_t call = 0;
  Progress progress;
  for (; call == 0 || now_ms() < end; ++call) {
    const int64_t size = calls.size(call);
    const double started = now_ms();
    {
      const std::vector<xcrt::Tensor> results = tool::run(loaded.session, calls.inputs(size));
    }
    const double us = (now_ms() - started) * 1000;
    if (call == 0) out["first_us"] = us;
    calls.times(size).add(us);
    interval_us.push_back(us);
    if (now_ms() < next) continue;
    series.add(loaded.session, interval_us, call + 1);
    while (next <= now_ms()) next += interval;  // a slow call may take several
    progress.show(fmt::format("{}: call {}, {:.0f} of {:.0f} s", flags.model, call + 1,
                              (now_ms() - begin) / 1000, flags.seconds));
  }
  series.add(loaded.session, interval_us, call);
  out["seconds"] = (now_ms() - loaded.began_ms) / 1000;
  out["began_s"] = (begin - loaded.began_ms) / 1000;
  out["series"] = series.take();
  add_shapes(out, calls.take());
  out["explain"] = ordered_json::parse(loaded.session.explain(true));
  out["profile"] = ordered_json::parse(loaded.session.profile().json());
  if (!flags.trace.empty()) write_file(flags.trace, loaded.session.trace());
  return out;
}

}  // namespace tool
