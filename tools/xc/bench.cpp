// xc bench: latency of models, on one shape or on a stream of sizes, alone or against other
// options.

#include "bench.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <future>
#include <optional>
#include <thread>

#include "process.h"
#include "sizes.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

double now_us() {
  return now_ms() * 1000;
}

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

/// A second thread that sleeps, as hosts have. A process with one takes short cuts through locks
/// and counters of the C library, which lets mode off, without a thread of its own, look 40 ns
/// quicker.
class OtherThread {
 public:
  OtherThread() : thread_([this] { done_.get_future().wait(); }) {}
  ~OtherThread() {
    done_.set_value();
    thread_.join();
  }
  OtherThread(const OtherThread&) = delete;
  OtherThread& operator=(const OtherThread&) = delete;

 private:
  std::promise<void> done_;
  std::thread thread_;
};

/// One timed run through the path that is measured.
class Runner {
 public:
  Runner(xcrt::Session& session, const std::vector<xcrt::Tensor>& inputs, bool prepared)
      : session_(session), outputs_(session.model().outputs().size()) {
    for (const xcrt::Tensor& input : inputs) inputs_.push_back(input.handle());
    if (prepared) call_ = session.prepare(inputs_);
  }
  double run() {
    const double begin = now_us();
    if (call_) {
      call_->run();
    } else {
      session_.run_into(inputs_, outputs_);
      for (xc_tensor*& output : outputs_) {
        xc_tensor_release(output);
        output = nullptr;
      }
    }
    return now_us() - begin;
  }

 private:
  xcrt::Session& session_;
  std::vector<const xc_tensor*> inputs_;
  std::vector<xc_tensor*> outputs_;
  std::optional<xcrt::Call> call_;
};

/// Columns are as wide as their key or first value.
class Table {
 public:
  void print(const ordered_json& row) {
    if (widths_.empty()) {
      std::string header;
      for (const auto& [key, value] : row.items()) {
        widths_.push_back(std::max(key.size(), text(value).size()) + 1);
        header += fmt::format("{:>{}}", key, widths_.back());
      }
      fmt::print("{}\n", header);
    }
    size_t column = 0;
    for (const auto& [key, value] : row.items())
      fmt::print("{:>{}}", text(value), widths_[column++]);
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  static std::string text(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  std::vector<size_t> widths_;
};

/// Arguments that repeat this measurement in another process, without --against; a --cache becomes
/// a mere setting.
std::vector<std::string> arguments_of(const BenchFlags& flags, const std::string& model) {
  std::vector<std::string> out = {"bench", model, "--json"};
  if (flags.stream.empty())
    out.insert(out.end(), {"--seconds", fmt::format("{}", flags.seconds)});
  else
    out.insert(out.end(), {"--calls", fmt::format("{}", flags.calls)});
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {name, value});
  };
  if (flags.warmup >= 0) add("--warmup", fmt::format("{}", flags.warmup));
  add("--threads", flags.engine.threads);
  add("--jit", flags.engine.jit);
  if (!flags.engine.cache.empty()) add("--set", "cache_dir=" + flags.engine.cache);
  add("--stream", flags.stream);
  for (const std::string& setting : flags.engine.settings) add("--set", setting);
  for (const std::string& shape : flags.shapes.texts) add("--shape", shape);
  if (flags.prepared) out.push_back("--prepared");
  return out;
}

ordered_json measure_alone(const BenchFlags& flags, const std::string& model) {
  std::vector<std::string> arguments = arguments_of(flags, model);
  if (flags.early > 0) arguments.insert(arguments.end(), {"--early", std::to_string(flags.early)});
  return ordered_json::parse(run_self(arguments));
}

void print_comparison(const ordered_json& result) {
  fmt::print("{}: {} rounds of alternating processes, this / against, lower is better\n",
             result["model"].get<std::string>(), result["rounds"].get<int>());
  for (const ordered_json& row : result["comparison"])
    fmt::print("  {:<14} {:>12.3f} / {:>12.3f} = {:.3f}  {}\n", row["key"].get<std::string>(),
               row["this"].get<double>(), row["against"].get<double>(), row["ratio"].get<double>(),
               row["noise"].get<bool>() ? fmt::format("noise (p = {:.2f})", row["p"].get<double>())
                                        : fmt::format("real (p = {:.3f})", row["p"].get<double>()));
}

int execute(const BenchFlags& flags) {
  ordered_json rows = ordered_json::array();
  Table table;
  for (const std::string& model : flags.models) {
    ordered_json row;
    if (!flags.against.empty()) {
      row = compare_against(flags, model, arguments_of(flags, model));
      if (!flags.as_json) print_comparison(row);
    } else {
      // Several models: a process each, so that memory and start-up belong to one.
      if (!flags.engine.cache.empty())
        row = measure_restart(flags, model, arguments_of(flags, model));
      else if (flags.models.size() > 1)
        row = measure_alone(flags, model);
      else {
        const OtherThread other;
        row = flags.stream.empty() ? measure(flags, model) : measure_stream(flags, model);
      }
      if (!flags.as_json) table.print(row);
    }
    rows.push_back(std::move(row));
  }
  if (flags.as_json) print_json(rows.size() == 1 ? rows[0] : rows);
  return 0;
}

}  // namespace

void add_session(ordered_json& row, Loaded& loaded) {
  const xc_counters counters = loaded.session.counters();
  row["compiled_regions"] = counters.compiled_regions;
  row["swapped"] = counters.swapped;
  row["rolled_back"] = counters.rolled_back;
  row["compile_ms"] = rounded(counters.compile_ms, 3);
  row["net_saved_ms"] = rounded(counters.net_saved_ms, 3);
  row["code_bytes"] = counters.code_bytes;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  row["peak_rss_mb"] = rounded(static_cast<double>(usage.ru_maxrss) / 1024, 3);
}

ordered_json measure(const BenchFlags& flags, const std::string& model) {
  const xcrt::Config config = flags.engine.config();
  const std::string threads = config.get("threads"), jit = config.get("jit");
  Loaded loaded = load(model, config);
  const std::vector<xcrt::Tensor> inputs =
      random_inputs(loaded.model, input_dims(loaded.model, flags.shapes.parse()), 1);
  const double begin = now_us();
  Runner runner(loaded.session, inputs, flags.prepared);
  runner.run();
  const double first = now_us() - begin;
  std::vector<double> early;
  while (early.size() + 1 < static_cast<size_t>(flags.early)) early.push_back(runner.run());

  Progress progress;
  const double warmup = flags.warmup >= 0 ? flags.warmup : jit == "auto" ? 1.0 : 0.1;
  const int least = warmup > 0 ? 100 : 0;
  // Runs that take long are not repeated a hundred times to warm up.
  for (double start = now_ms(), i = 0;
       now_ms() - start < warmup * 1000 || (i < least && now_ms() - start < 20 * warmup * 1000);
       ++i) {
    progress.show(fmt::format("{}: warming up", model));
    runner.run();
  }
  std::vector<double> times;
  for (const double start = now_ms();
       times.size() < 3 || now_ms() - start < flags.seconds * 1000;) {
    times.push_back(runner.run());
    if (times.size() % 64 == 0) progress.show(fmt::format("{}: {} runs", model, times.size()));
  }
  std::sort(times.begin(), times.end());

  ordered_json row;
  row["model"] = model;
  row["threads"] = std::stoi(threads);
  row["jit"] = jit;
  row["load_ms"] = rounded(loaded.load_ms, 3);
  row["first_us"] = rounded(first, 3);
  row["median_us"] = rounded(percentile(times, 0.5), 3);
  row["min_us"] = rounded(times.front(), 3);
  row["p99_us"] = rounded(percentile(times, 0.99), 3);
  row["runs"] = times.size();
  add_session(row, loaded);
  if (flags.early > 0) {
    early.insert(early.begin(), first);
    row["early_us"] = early;
  }
  return row;
}

void add_bench(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* sub = app.add_subcommand("bench", "measure models on random inputs");
  sub->add_option("models", flags->models, "model files")->required();
  flags->shapes.add_to(*sub);
  flags->engine.add_to(*sub);
  CLI::Option* stream = sub->add_option("--stream", flags->stream, kStreamHelp);
  sub->add_option("--seconds", flags->seconds, "measuring time per model")
      ->check(check_positive)
      ->excludes(stream)
      ->capture_default_str();
  sub->add_option("--warmup", flags->warmup,
                  "seconds before measuring; default: 1 in mode auto, else 0.1")
      ->check(check_from_zero)
      ->excludes(stream);
  sub->add_flag("--prepared", flags->prepared, "measure a prepared call instead of a session's run")
      ->excludes(stream);
  sub->add_option("--calls", flags->calls, "runs of a stream")
      ->check(check_positive)
      ->needs(stream)
      ->capture_default_str();
  sub->add_option("--against", flags->against,
                  "compare with another option set, e.g. '--jit off' or 'XC_FUSION=off', in "
                  "alternating processes");
  sub->add_option("--rounds", flags->rounds,
                  "processes of each option set for --against, of restarts for --cache")
      ->check(CLI::Range(2, 10))
      ->capture_default_str();
  sub->add_option("--early", flags->early, "also report the times of the first runs, one by one")
      ->check(CLI::Range(0, 10000))
      ->excludes(stream)
      ->capture_default_str();
  sub->add_flag("--json", flags->as_json, "report as JSON");
  sub->callback([flags, &exit_code] { exit_code = execute(*flags); });
}

}  // namespace tool
