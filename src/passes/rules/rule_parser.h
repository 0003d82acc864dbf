#pragma once
// Text -> rules. Private to this folder and its tests.

#include <string>
#include <string_view>
#include <vector>

#include "passes/rules/rule.h"

namespace xc {

struct ParsedRules {
  std::vector<Rule> rules;
  std::vector<std::string> notes;  ///< of rules with operators that do not exist
};

/// `library`: operators of the host that may occur, null = none. Fails with kFormat and "line L,
/// column C". Bounded in rules, terms and nesting.
ParsedRules parse_rules(std::string_view text, const OpLibrary* library = nullptr);

}  // namespace xc
