// Restarts with a warm cache: the first process fills the directory, the others start with it.

#include <algorithm>

#include "bench.h"
#include "process.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

constexpr size_t kEarly = 100;  // runs looked at one by one
constexpr size_t kTenth = 9;    // position of the tenth run
constexpr size_t kWindow = 11;  // a single run is noise: the median of so many from there on

/// Median of the window of early runs from `at` on, against the final median.
double ratio_at(const ordered_json& row, size_t at) {
  const auto early = row["early_us"].get<std::vector<double>>();
  const auto begin = early.begin() + static_cast<std::ptrdiff_t>(std::min(at, early.size() - 1));
  const auto end = early.end() - begin > static_cast<std::ptrdiff_t>(kWindow)
                       ? begin + static_cast<std::ptrdiff_t>(kWindow)
                       : early.end();
  return median({begin, end}) / row["median_us"].get<double>();
}

/// The first run (from 1) from which on the ratio is within 5 %; 0 = none of those looked at.
size_t reached_at(const ordered_json& row) {
  for (size_t at = 0; at + kWindow <= kEarly; ++at)
    if (ratio_at(row, at) <= 1.05) return at + 1;
  return 0;
}

}  // namespace

ordered_json measure_restart(const BenchFlags& flags, const std::string& model,
                             const std::vector<std::string>& base_arguments) {
  flags.engine.check_cache();
  if (!flags.stream.empty()) {
    run_self(base_arguments);
    return ordered_json::parse(run_self(base_arguments));
  }
  std::vector<std::string> arguments = base_arguments;
  arguments.insert(arguments.end(), {"--early", std::to_string(kEarly)});
  Progress progress;
  progress.show(model + ": filling the cache");
  const ordered_json filling = ordered_json::parse(run_self(arguments));
  std::vector<ordered_json> rows;
  for (int round = 0; round < flags.rounds; ++round) {
    progress.show(fmt::format("{}: restart {} of {}", model, round + 1, flags.rounds));
    rows.push_back(ordered_json::parse(run_self(arguments)));
  }
  const auto middle = [&](auto value) {
    std::vector<double> values;
    for (const ordered_json& row : rows) values.push_back(value(row));
    return rounded(median(values), 3);
  };
  const auto key = [&](const char* name) {
    return middle([name](const ordered_json& row) { return row[name].get<double>(); });
  };
  ordered_json out;
  for (const char* name : {"model", "threads", "jit"}) out[name] = rows[0][name];
  out["restarts"] = rows.size();
  out["load_ms"] = key("load_ms");
  out["first_us"] = key("first_us");
  out["median_us"] = key("median_us");
  out["tenth_over_final"] = middle([](const auto& row) { return ratio_at(row, kTenth); });
  out["final_from_run"] =
      middle([](const auto& row) { return static_cast<double>(reached_at(row)); });
  out["compiled_regions"] = key("compiled_regions");
  out["swapped"] = key("swapped");
  out["compile_ms"] = key("compile_ms");
  for (const char* name : {"first_us", "median_us", "compiled_regions", "swapped", "compile_ms"})
    out[std::string("filling_") + name] = filling[name];
  out["filling_tenth_over_final"] = rounded(ratio_at(filling, kTenth), 3);
  return out;
}

}  // namespace tool
