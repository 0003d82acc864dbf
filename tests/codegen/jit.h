// Compiles through the C table and publishes: what the tier does, for tests.
#pragma once

#include <string>
#include <vector>

#include "loop/kernel.h"
#include "loop/math.h"
#include "tier/code_memory.h"

namespace xc::test {

// The x86 targets this machine can run, the lowest first.
std::vector<std::string> runnable_targets();
loop::MathLevel math_of(const std::string& target);

struct JitResult {
  int32_t status = 0;
  std::string error, assembly, ir;
  std::vector<uint8_t> code;
  size_t entry = 0, alignment = 0;
};
JitResult jit(const std::string& text, const std::string& target, uint32_t flags = 0);

// A published kernel of a scheduled loop kernel; fails the test when it does not compile.
class Compiled {
 public:
  Compiled(const loop::Kernel& kernel, const std::string& target);
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  int32_t operator()(const xc_kargs& args) const { return block_.entry(&args); }

 private:
  tier::CodeMemory::Block block_;
};

}  // namespace xc::test
