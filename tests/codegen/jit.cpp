#include "codegen/jit.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/gpu.h"
#include "loop/math.h"
#include "loop/text.h"

namespace xc::test {

namespace {

tier::CodeMemory& memory() {
  static tier::CodeMemory memory(64 << 20);
  return memory;
}

}  // namespace

std::vector<std::string> runnable_targets() {
  static const std::vector<std::string> all = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  std::vector<std::string> out;
  const std::string host = xc_jit_api(XC_JIT_VERSION)->host_target();
  for (const std::string& target : all)
    if (target <= host) out.push_back(target);
  return out;
}

std::vector<std::string> compared_targets() {
  std::vector<std::string> out = runnable_targets();
  if (const Gpu* gpu = Gpu::device()) out.push_back(gpu->target());
  return out;
}

loop::MathLevel math_of(const std::string& target) {
  return target == "x86-64-v2" ? loop::MathLevel::kMulAdd : loop::MathLevel::kFma;
}

JitResult jit(const std::string& text, const std::string& target, uint32_t flags) {
  const xc_jit_table* table = xc_jit_api(XC_JIT_VERSION);
  const xc_jit_request request{text.data(), text.size(), target.c_str(), flags};
  xc_jit_image image{};
  char error[4096] = "";
  JitResult out;
  out.status = table->compile(&request, &image, error, sizeof(error));
  out.error = error;
  if (image.code) out.code.assign(image.code, image.code + image.size);
  if (image.assembly) out.assembly = image.assembly;
  if (image.ir) out.ir = image.ir;
  out.entry = image.entry;
  out.alignment = image.alignment;
  table->release(&image);
  return out;
}

Compiled::Compiled(const loop::Kernel& kernel, const std::string& target) {
  if (Gpu* gpu = Gpu::device(); gpu && target == gpu->target()) {
    on_gpu_ = std::make_unique<GpuKernel>(*gpu, kernel);
    return;
  }
  const JitResult result = jit(loop::print(kernel), target);
  if (result.status != 0)
    fail(Status::kInternal, "{} for {}: {}", kernel.name, target, result.error);
  const auto published = memory().publish(result.code, result.entry, result.alignment);
  if (!published.block) fail(Status::kInternal, "{}", published.reason);
  block_ = *published.block;
}

Compiled::~Compiled() {
  if (!on_gpu_) memory().retire(block_);
}

int32_t Compiled::run(Buffers& buffers, int64_t begin, int64_t end) const {
  return on_gpu_ ? on_gpu_->run(buffers, begin, end) : (*this)(buffers.args(begin, end));
}

}  // namespace xc::test
