#include "loop/interpret.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "tier/region_compiler.h"

namespace xc {

const std::string& PhaseCode::listing() const {
  static const std::string kNone;
  return kNone;
}

namespace {

class InterpretedPhase final : public PhaseCode {
 public:
  explicit InterpretedPhase(loop::Kernel kernel)
      : kernel_(std::move(kernel)), text_(loop::print(kernel_)) {}
  int32_t run(const xc_kargs& args) const override { return loop::interpret(kernel_, args); }
  int64_t code_bytes() const override { return 0; }
  CodeImage image() const override {
    return {{reinterpret_cast<const uint8_t*>(text_.data()), text_.size()}, 0, 1};
  }

 private:
  loop::Kernel kernel_;
  std::string text_;  ///< its code, as other processes may keep it
};

class InterpretingCompiler final : public RegionCompiler {
 public:
  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    return std::make_shared<InterpretedPhase>(kernel);
  }
  std::shared_ptr<const PhaseCode> place(const CodeImage& image) override {
    const std::string_view text(reinterpret_cast<const char*>(image.code.data()),
                                image.code.size());
    loop::Kernel kernel = loop::parse(text, loop::Level::kScheduled);
    return std::make_shared<InterpretedPhase>(std::move(kernel));
  }
  std::string identity() const override { return "generator interpreter"; }
};

}  // namespace

std::unique_ptr<RegionCompiler> create_interpreting_compiler() {
  return std::make_unique<InterpretingCompiler>();
}

}  // namespace xc
