// Child processes of this program, for measurements that need a fresh one each.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tool {

/// Runs this program with these arguments and extra environment; returns what it printed. What it
/// says on stderr is said on ours; throws ChildFailure with it when it fails.
std::string run_self(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment = {});

/// An option set as typed after --against: flags, and XC_NAME=VALUE for the environment.
struct OptionSet {
  std::vector<std::string> flags;
  std::vector<std::pair<std::string, std::string>> environment;
};
OptionSet parse_option_set(const std::string& text);

}  // namespace tool
