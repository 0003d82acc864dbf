# src/passes/rules/*.rules become strings of the library: build/generated/builtin_rules.cpp.
file(GLOB xc_rule_files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/passes/rules/*.rules")
list(SORT xc_rule_files)
set(xc_rule_strings "")
foreach(path ${xc_rule_files})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(READ "${path}" text)
  string(APPEND xc_rule_strings "    R\"xc_rules(${text})xc_rules\",\n")
endforeach()
set(xc_rules_source "${CMAKE_BINARY_DIR}/generated/builtin_rules.cpp")
file(CONFIGURE OUTPUT "${xc_rules_source}" @ONLY CONTENT [[
// Generated from src/passes/rules/*.rules.
#include "passes/rules/rule_set.h"

namespace xc {

const RuleSet& builtin_rules() {
  static const RuleSet kRules = [] {
    RuleSet out;
    for (const char* text : {
@xc_rule_strings@    }) out.add(text);
    return out;
  }();
  return kRules;
}

}  // namespace xc
]])
target_sources(xc_passes PRIVATE "${xc_rules_source}")
