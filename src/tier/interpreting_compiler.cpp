#include "base/error.h"
#include "loop/interpret.h"
#include "tier/region_compiler.h"

namespace xc {

const std::string& PhaseCode::listing() const {
  static const std::string kNone;
  return kNone;
}

std::shared_ptr<const PhaseCode> RegionCompiler::place(const CodeImage&) {
  fail(Status::kUnsupported, "this compiler runs no machine code");
}

namespace {

class InterpretedPhase final : public PhaseCode {
 public:
  explicit InterpretedPhase(loop::Kernel kernel) : kernel_(std::move(kernel)) {}
  int32_t run(const xc_kargs& args) const override { return loop::interpret(kernel_, args); }
  int64_t code_bytes() const override { return 0; }

 private:
  loop::Kernel kernel_;
};

class InterpretingCompiler final : public RegionCompiler {
 public:
  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    return std::make_shared<InterpretedPhase>(kernel);
  }
};

}  // namespace

std::unique_ptr<RegionCompiler> create_interpreting_compiler() {
  return std::make_unique<InterpretingCompiler>();
}

}  // namespace xc
