// xc cache: what a persistent cache holds, whether it is sound, and making room in it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common.h"

namespace tool {
namespace {

struct CacheFlags {
  std::string directory;
  double max_mb = 0;
  bool as_json = false;
};

/// "3 min", "5 h", "12 d"
std::string age_text(int64_t seconds) {
  if (seconds < 3600) return fmt::format("{} min", std::max<int64_t>(0, seconds) / 60);
  return seconds < 48 * 3600 ? fmt::format("{} h", seconds / 3600)
                             : fmt::format("{} d", seconds / 86400);
}

int list(const CacheFlags& flags) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  int64_t total = 0;
  const int64_t now = std::time(nullptr);
  xcrt::visit_cache(flags.directory, [&](const xc_cache_entry& entry) {
    using xcrt::view;
    total += entry.bytes;
    if (!flags.as_json) {
      const std::string_view what =
          view(entry.problem).empty() ? view(entry.subject) : view(entry.problem);
      fmt::print("{:<8} {:>9} B {:>8}  {}  {}\n",
                 entry.kind == 0 ? "ignored" : view(entry.kind_name), entry.bytes,
                 age_text(now - entry.last_use), view(entry.name), what);
      return;
    }
    rows.push_back({{"name", view(entry.name)},
                    {"kind", view(entry.kind_name)},
                    {"bytes", entry.bytes},
                    {"last_use", entry.last_use},
                    {"worth_ms", entry.worth_s * 1e3},
                    {"subject", view(entry.subject)},
                    {"problem", view(entry.problem)}});
  });
  if (flags.as_json)
    print_json(rows);
  else
    fmt::print("{:.3f} MB\n", static_cast<double>(total) / (1 << 20));
  return 0;
}

int verify(const CacheFlags& flags) {
  int64_t sound = 0, unsound = 0;
  xcrt::visit_cache(flags.directory, [&](const xc_cache_entry& entry) {
    const std::string_view problem = xcrt::view(entry.problem);
    ++(problem.empty() ? sound : unsound);
    if (!problem.empty()) fmt::print("{}: {}\n", xcrt::view(entry.name), problem);
  });
  fmt::print("{} sound, {} ignored\n", sound, unsound);
  return unsound == 0 ? 0 : 1;
}

int prune(const CacheFlags& flags, int64_t max_bytes) {
  const xcrt::PrunedCache pruned = xcrt::prune_cache(flags.directory, max_bytes);
  fmt::print("{} files removed, {:.3f} MB left\n", pruned.removed,
             static_cast<double>(pruned.left_bytes) / (1 << 20));
  return 0;
}

/// At least a byte: 0 would clear.
int64_t bytes_of(double mb) {
  constexpr double kMost = 8e12;  // fits 64 bits
  return std::max<int64_t>(1, std::llround(std::min(mb, kMost) * (1 << 20)));
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CacheFlags>();
  CLI::App* sub =
      app.add_subcommand("cache", "look at a persistent cache, check it, make room in it");
  sub->add_option("directory", flags->directory, "the directory of XC_CACHE_DIR or --cache")
      ->required();
  sub->require_subcommand(0, 1);
  sub->add_flag("--json", flags->as_json, "the list as JSON");
  CLI::App* listing = sub->add_subcommand("list", "every entry (what happens without a word)");
  listing->add_flag("--json", flags->as_json, "as JSON");
  CLI::App* verifying = sub->add_subcommand("verify", "exit 1 when an entry would be ignored");
  CLI::App* clearing = sub->add_subcommand("clear", "remove every entry");
  CLI::App* pruning = sub->add_subcommand("prune", "remove what is worth least");
  pruning->add_option("--max-mb", flags->max_mb, "what may be left, in MB")
      ->required()
      ->check(check_positive);
  sub->callback([=, &exit_code] {
    if (flags->as_json && !listing->parsed() && !sub->get_subcommands().empty())
      throw Usage("--json is for the list");
    if (verifying->parsed())
      exit_code = verify(*flags);
    else if (clearing->parsed())
      exit_code = prune(*flags, 0);
    else if (pruning->parsed())
      exit_code = prune(*flags, bytes_of(flags->max_mb));
    else
      exit_code = list(*flags);
  });
}

}  // namespace tool
