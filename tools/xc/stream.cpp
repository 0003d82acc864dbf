// Streams of sizes, and option sets compared in alternating processes.

#include <algorithm>
#include <cmath>

#include "bench.h"
#include "process.h"
#include "sizes.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

/// The first call that took longest against the median of what near sizes take: that ratio, and the
/// size.
std::pair<double, int64_t> worst_first(const std::map<int64_t, std::vector<double>>& times) {
  double worst = 0;
  int64_t worst_size = 0;
  for (const auto& [size, list] : times) {
    std::vector<double> near;
    for (const auto& [other, others] : times)
      if (std::abs(other - size) <= std::max<int64_t>(2, size / 8))
        near.insert(near.end(), others.begin(), others.end());
    const double ratio = list.front() / std::max(median(near), 1e-9);
    if (ratio > worst) {
      worst = ratio;
      worst_size = size;
    }
  }
  return {worst, worst_size};
}

}  // namespace

ordered_json measure_stream(const BenchFlags& flags, const std::string& model) {
  const Stream stream = parse_stream(flags.stream);
  const std::vector<int64_t> sizes = sizes_of(stream, flags.calls);
  const xcrt::Config config = flags.engine.config();
  Loaded loaded = load(model, config);
  std::map<int64_t, std::vector<xcrt::Tensor>> inputs;
  for (int64_t size : sizes)
    if (!inputs.contains(size))
      inputs.emplace(
          size, random_inputs(loaded.model, dims_for(loaded.model, flags.shapes, stream, size), 1));

  ordered_json row;
  row["model"] = model;
  row["stream"] = flags.stream;
  row["threads"] = std::stoi(config.get("threads"));
  row["jit"] = config.get("jit");
  row["load_ms"] = rounded(loaded.load_ms, 6);
  double total_ms = loaded.load_ms, memory = 0;
  std::map<int64_t, std::vector<double>> times;
  std::vector<double> all;
  Progress progress;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<xcrt::Tensor>& in = inputs.at(sizes[i]);
    const double begin = now_ms();
    {
      const std::vector<xcrt::Tensor> outputs = tool::run(loaded.session, in);
    }
    const double took = now_ms() - begin;
    total_ms += took;
    times[sizes[i]].push_back(took);
    all.push_back(took);
    const size_t calls = i + 1;
    if (calls == 1 || calls == 10 || calls == 100 || calls == 1000 || calls == sizes.size())
      row[fmt::format("t{}_s", calls)] = rounded(total_ms / 1000, 6);
    if (calls == 10) memory = resident_mb();
    progress.show(fmt::format("{}: call {} of {}", model, calls, sizes.size()));
  }
  const auto [worst, worst_size] = worst_first(times);
  row["median_us"] = rounded(median(all) * 1000, 6);
  row["worst_first_ratio"] = rounded(worst, 6);
  row["worst_first_us"] = rounded(times.empty() ? 0 : times.at(worst_size).front() * 1000, 6);
  row["worst_first_size"] = worst_size;
  row["rss_growth_mb"] = sizes.size() >= 10 ? rounded(resident_mb() - memory, 6) : 0;
  row["shapes"] = times.size();
  row["runs"] = sizes.size();
  add_session(row, loaded);
  return row;
}

namespace {

/// Two-sided exact permutation test of the difference of rank sums: how often chance alone would
/// part two groups this far.
double chance(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::pair<double, bool>> all;
  for (double v : a) all.emplace_back(v, true);
  for (double v : b) all.emplace_back(v, false);
  std::sort(all.begin(), all.end());
  const size_t n = all.size();
  std::vector<double> rank(n);
  for (size_t i = 0; i < n;) {  // ties share their mean rank
    size_t end = i;
    while (end < n && all[end].first == all[i].first) ++end;
    for (size_t k = i; k < end; ++k) rank[k] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  double observed = 0, mean = static_cast<double>(a.size()) * static_cast<double>(n - 1) / 2;
  for (size_t i = 0; i < n; ++i) observed += all[i].second ? rank[i] : 0;
  const double distance = std::abs(observed - mean) - 1e-9;
  uint64_t extreme = 0, total = 0;
  for (uint32_t mask = 0; mask < (1u << n); ++mask) {
    if (static_cast<size_t>(__builtin_popcount(mask)) != a.size()) continue;
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += mask >> i & 1 ? rank[i] : 0;
    extreme += std::abs(sum - mean) >= distance;
    ++total;
  }
  return static_cast<double>(extreme) / static_cast<double>(total);
}

}  // namespace

ordered_json compare_against(const BenchFlags& flags, const std::string& model,
                             const std::vector<std::string>& base_arguments) {
  const OptionSet other = parse_option_set(flags.against);
  std::vector<std::string> other_arguments = base_arguments;
  other_arguments.insert(other_arguments.end(), other.flags.begin(), other.flags.end());
  std::vector<ordered_json> here, there;
  Progress progress;
  for (int round = 0; round < flags.rounds; ++round) {
    progress.show(fmt::format("{}: round {} of {}", model, round + 1, flags.rounds));
    // The order changes from round to round: a drift of the machine meets both alike.
    for (int side = 0; side < 2; ++side) {
      if ((side ^ round) & 1)
        there.push_back(ordered_json::parse(run_self(other_arguments, other.environment)));
      else
        here.push_back(ordered_json::parse(run_self(base_arguments)));
    }
  }
  ordered_json out;
  out["model"] = model;
  out["against"] = flags.against;
  out["rounds"] = flags.rounds;
  for (const auto& [key, value] : here.front().items()) {
    const bool cumulative = key.starts_with('t') && key.ends_with("_s");
    if (!cumulative && key != "load_ms" && key != "first_us" && key != "median_us" &&
        key != "p99_us" && key != "worst_first_us")
      continue;
    std::vector<double> a, b;
    for (const ordered_json& row : here) a.push_back(row.value(key, 0.0));
    for (const ordered_json& row : there) b.push_back(row.value(key, 0.0));
    const double p = chance(a, b);
    out["comparison"].push_back({{"key", key},
                                 {"this", median(a)},
                                 {"against", median(b)},
                                 {"ratio", median(b) > 0 ? median(a) / median(b) : 0.0},
                                 {"p", p},
                                 {"noise", p > 0.05}});
  }
  out["this_runs"] = here;
  out["against_runs"] = there;
  return out;
}

}  // namespace tool
