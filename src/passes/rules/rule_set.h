#pragma once
// Sets of rewrite rules: the built-in ones (*.rules in this folder) and those of users.
//
//   rule NAME: PATTERN => REPLACEMENT [where CONDITION, CONDITION ...]
//
// README.md of src/passes describes the language. Immutable once loaded, safe to share.

#include <string>
#include <string_view>
#include <vector>

#include "passes/rules/rule.h"

namespace xc {

class RuleSet {
 public:
  const std::vector<Rule>& rules() const { return rules_; }
  /// Rules left out, each with its reason: an operator that this build does not have.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Appends the rules of a text; a later rule of the same name replaces the earlier one.
  /// `library`: operators of the host that may occur; it outlives the set. Fails with kFormat and
  /// "line L, column C"; the set is then unchanged.
  void add(std::string_view text, const OpLibrary* library = nullptr);

 private:
  std::vector<Rule> rules_;
  std::vector<std::string> notes_;
};

/// All of *.rules, in order of file name.
const RuleSet& builtin_rules();

}  // namespace xc
