// xc config: the table of settings with the values in effect; "engine" marks those that no session
// has of its own.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common.h"

namespace tool {
namespace {

int execute(const EngineFlags& flags, bool as_json) {
  const xcrt::Config config = flags.config();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const xc_config_option_info& info : xcrt::Config::options()) {
    const std::string name(xcrt::view(info.name));
    const std::string value = config.get(name);
    const std::string choices(xcrt::view(info.choices));
    const std::string legal = info.is_text             ? "text"
                              : !choices.empty()       ? choices
                              : info.high == INT64_MAX ? fmt::format("{}..", info.low)
                                                       : fmt::format("{}..{}", info.low, info.high);
    const std::string environment(xcrt::view(info.environment)), doc(xcrt::view(info.doc));
    rows.push_back({{"name", name},
                    {"value", value},
                    {"legal", legal},
                    {"environment", environment},
                    {"engine_only", info.engine_only != 0},
                    {"doc", doc}});
    if (!as_json)
      fmt::print("{:<20} {:<12} {:<28} {:<24} {:<7} {}\n", name, value.empty() ? "-" : value, legal,
                 environment, info.engine_only ? "engine" : "-", doc);
  }
  if (as_json) print_json(rows);
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& exit_code) {
  struct Arguments {
    EngineFlags flags;
    bool as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "config",
      "list all options: value in effect, legal values, XC_* variable, whether they are of an "
      "engine alone");
  a->flags.add_to(*sub);
  sub->add_flag("--json", a->as_json, "as JSON");
  sub->callback([a, &exit_code] { exit_code = execute(a->flags, a->as_json); });
}

}  // namespace tool
