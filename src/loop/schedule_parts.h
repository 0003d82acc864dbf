// What schedule primitives share: finding loops, names, renaming variables. Internal.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "loop/kernel.h"

namespace xc::loop::parts {

struct Place {
  Block* block = nullptr;
  size_t at = 0;
  size_t depth = 0;  // loops around it
  For& loop() const { return std::get<For>((*block)[at].node); }
};

// The loop of that name; fails when there is none.
Place find(Kernel& kernel, std::string_view var);
[[noreturn]] void illegal(const char* step, std::string_view var, std::string_view why);
// Names that a kernel does not have yet. What it gives out counts as taken.
class FreshNames {
 public:
  explicit FreshNames(const Kernel& kernel);
  // `base`, with a number when that is taken.
  std::string operator()(const std::string& base);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // by base: numbers below are taken
};
// The first of them.
std::string fresh_name(const Kernel& kernel, const std::string& base);
// Replaces a variable in every expression and index of the block.
void replace_var(Block& block, Var from, const Affine& to);
// The kernel, verified at the built level.
Kernel verified(Kernel kernel);

}  // namespace xc::loop::parts
