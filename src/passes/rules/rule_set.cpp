#include "passes/rules/rule_set.h"

#include "passes/rules/rule_parser.h"

namespace xc {

void RuleSet::add(std::string_view text, const OpLibrary* library) {
  ParsedRules parsed = parse_rules(text, library);
  for (Rule& rule : parsed.rules) {
    std::erase_if(rules_, [&](const Rule& old) { return old.name == rule.name; });
    rules_.push_back(std::move(rule));
  }
  notes_.insert(notes_.end(), parsed.notes.begin(), parsed.notes.end());
}

}  // namespace xc
