// Compiles through the C table and publishes: what the tier does, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loop/kernel.h"
#include "loop/math.h"
#include "support/kernel_run.h"
#include "tier/code_memory.h"

namespace xc::test {

// The x86 targets this machine can run, the lowest first.
std::vector<std::string> runnable_targets();
// These and the one of its GPU, where there is one (gpu.h).
std::vector<std::string> compared_targets();
loop::MathLevel math_of(const std::string& target);

struct JitResult {
  int32_t status = 0;
  std::string error, assembly, ir;
  std::vector<uint8_t> code;
  size_t entry = 0, alignment = 0;
};
JitResult jit(const std::string& text, const std::string& target, uint32_t flags = 0);

class GpuKernel;

// A published kernel of a scheduled loop kernel; fails the test when it does not compile.
class Compiled {
 public:
  Compiled(const loop::Kernel& kernel, const std::string& target);
  ~Compiled();
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  // On the processor only.
  int32_t operator()(const xc_kargs& args) const { return block_.entry(&args); }
  // [begin, end) of the parallel loop, wherever the target is.
  int32_t run(Buffers& buffers, int64_t begin, int64_t end) const;

 private:
  tier::CodeMemory::Block block_;
  std::unique_ptr<GpuKernel> on_gpu_;
};

}  // namespace xc::test
