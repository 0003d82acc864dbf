// xc explain: the plan of a model, and with --profile what each region cost and saved.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"
#include "inputs.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

struct ExplainCommand {
  std::string model;
  InputFlags inputs;
  EngineFlags engine;
  int runs = -1;  ///< < 0: 1, or with --profile as many as `seconds` hold
  double seconds = 2;
  bool profile = false, code = false, as_json = false;

  int execute();
  void run_all(Loaded& loaded, const std::vector<xcrt::Tensor>& given) const;
};

void ExplainCommand::run_all(Loaded& loaded, const std::vector<xcrt::Tensor>& given) const {
  const double end = now_ms() + seconds * 1000;
  const bool timed = profile && runs < 0;
  const int count = runs < 0 ? 1 : runs;
  Progress progress;
  for (int i = 0; timed ? i == 0 || now_ms() < end : i < count; ++i) {
    progress.show(timed ? fmt::format("run {}", i + 1) : fmt::format("run {} of {}", i + 1, count));
    tool::run(loaded.session, given);
  }
}

/// "12.3" or "-" for what was never measured.
std::string measured(double value, bool estimated = false) {
  return value > 0 ? fmt::format("{}{:.2f}", estimated ? "~" : "", value) : "-";
}

/// Columns as wide as their widest cell; the first is left-aligned.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t k = 0; k < row.size(); ++k) {
      widths.resize(std::max(widths.size(), row.size()));
      widths[k] = std::max(widths[k], row[k].size());
    }
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t k = 0; k < row.size(); ++k)
      line += k == 0 ? fmt::format(" {:<{}}", row[k], widths[k])
                     : fmt::format("  {:>{}}", row[k], widths[k]);
    fmt::print("{}\n", line);
  }
}

void print_profile(const xcrt::Profile& profile) {
  const std::vector<xc_region> regions = profile.regions();
  using xcrt::view;
  fmt::print(
      "\nprofile: times per call; before and fused are medians of the trial (before: the mean "
      "until then, ~ = from the trial's ratio), now is the mean of sampled calls\n");
  if (regions.empty())
    fmt::print("  no region was found, or the runs were too few to look for one\n");
  for (uint32_t r = 0; r < regions.size(); ++r) {
    const xc_region& region = regions[r];
    fmt::print(
        "\n{} [{}], {} places, {} calls: compile {:.2f} ms, {} bytes of code, net {:+.3f} ms\n",
        view(region.name), view(region.state), region.uses, region.calls, region.compile_ms,
        region.code_bytes, region.net_saved_ms);
    if (region.worst_error > 0)
      fmt::print("  verified: worst deviation {:.3g} of what is allowed\n", region.worst_error);
    if (region.reason.size > 0) fmt::print("  last refusal: {}\n", view(region.reason));
    std::vector<std::vector<std::string>> rows{
        {"shape", "calls", "fused", "before us", "fused us", "now us", "predicted us", "saved ms"}};
    for (const xc_region_shape& s : profile.shapes(r))
      rows.push_back(
          {std::string(view(s.shape)), fmt::format("{}", s.calls), fmt::format("{}", s.live_calls),
           measured(s.before_us, s.before_estimated != 0), measured(s.fused_us), measured(s.now_us),
           measured(s.predicted_us), fmt::format("{:+.3f}", s.saved_ms)});
    if (rows.size() > 1) print_table(rows);
  }
  const xc_counters counters = profile.counters();
  fmt::print(
      "\n{} calls: {:.2f} ms of CPU spent on search, compiling and checks, net {:+.3f} ms "
      "saved\n",
      counters.runs, counters.compile_ms, counters.net_saved_ms);
}

void print_code(const xcrt::Profile& profile) {
  const ordered_json document = ordered_json::parse(profile.json());
  for (const ordered_json& region : document["regions"])
    if (const auto listing = region.find("listing"); listing != region.end())
      fmt::print("\ncode of {}\n{}", region["name"].get<std::string>(),
                 listing->get<std::string>());
}

/// Runs the model first, so that the plan has sizes, times and regions to show.
int ExplainCommand::execute() {
  xcrt::Config config = engine.config();
  if (code) config.set("trace_compiles", "1");
  engine.check_cache();
  Loaded loaded = load(model, config);
  const bool given_sizes =
      !inputs.shapes.texts.empty() || !inputs.arrays.empty() || !inputs.file.empty();
  std::vector<xcrt::Tensor> given;
  std::vector<xc_shape> shapes;
  if (given_sizes || runs != 0) {
    given = inputs.make(loaded.model, true);
    try {
      run_all(loaded, given);
      for (const xcrt::Tensor& input : given)
        shapes.push_back({input.dims().data(), static_cast<uint32_t>(input.dims().size()), 0});
    } catch (const xcrt::Error& error) {
      if (given_sizes) throw;
      // Sizes of 1 are a guess of ours, which not every model takes.
      fmt::print(stderr,
                 "xc: with every free size 1 the model does not run ({}): the plan without "
                 "sizes; give them with --shape\n",
                 error.what());
    }
  }
  std::string text = loaded.session.explain(as_json, shapes);
  if (as_json && (profile || code)) {
    ordered_json document = ordered_json::parse(text);
    document["profile"] = ordered_json::parse(loaded.session.profile().json());
    text = json_text(document);
  }
  if (!text.ends_with('\n')) text += '\n';
  fmt::print("{}", text);
  if (profile && !as_json) print_profile(loaded.session.profile());
  if (code && !as_json) print_code(loaded.session.profile());
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* sub =
      app.add_subcommand("explain", "print the plan: kernels chosen and refused, fused regions");
  sub->add_option("model", command->model, "model file")->required();
  command->inputs.add_to(*sub);
  sub->add_option("--runs", command->runs,
                  "runs before, default 1; 0 without sizes: the plan without sizes")
      ->check(check_from_zero);
  sub->add_flag("--profile", command->profile,
                "also per region and shape: calls, times now and before, prices and net saving");
  sub->add_flag("--code", command->code,
                "also loop IR and assembly of what was compiled here (nothing is taken from a "
                "cache); with --jit sync of all regions");
  sub->add_option("--seconds", command->seconds, "how long --profile runs the model without --runs")
      ->check(check_positive)
      ->capture_default_str();
  command->engine.add_to(*sub);
  sub->add_flag("--json", command->as_json, "as JSON");
  sub->callback([command, &exit_code] { exit_code = command->execute(); });
}

}  // namespace tool
