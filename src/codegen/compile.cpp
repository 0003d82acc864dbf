#include "codegen/compile.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>
#include <mutex>

#include "base/background_thread.h"
#include "base/error.h"
#include "codegen/emitter.h"
#include "codegen/library.h"
#include "codegen/linker.h"
#include "codegen/object.h"
#include "loop/math.h"
#include "loop/simplify.h"
#include "loop/text.h"
#include "loop/verify.h"

namespace xc::codegen {

namespace {

// Keeps LLVM's errors for the message instead of printing them and ending the process.
class Diagnostics : public llvm::DiagnosticHandler {
 public:
  explicit Diagnostics(std::string& errors) : errors_(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& diagnostic) override {
    if (diagnostic.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(errors_);
      llvm::DiagnosticPrinterRawOStream printer(out);
      diagnostic.print(printer);
    }
    return true;
  }

 private:
  std::string& errors_;
};

// A fatal error of LLVM ends this compile, not the process. LLVM's frames are left by the exception
// without their destructors' knowledge: what they held leaks.
[[noreturn]] void fatal(void*, const char* reason, bool) {
  throw Error(Status::kInternal, std::string("LLVM: ") + reason);
}

void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(fatal);
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
  });
}

std::string text_of(const llvm::SmallVector<char, 0>& bytes) {
  return std::string(bytes.data(), bytes.size());
}

// A compile cannot be interrupted, and takes 30 to 40 us for each of these. Regions of ordinary
// networks have a few hundred, those of random graphs up to a few thousand.
constexpr size_t kMostOperations = 30'000;

// Operations on registers that the module stands for, about: vectors of several registers are as
// many.
size_t operations(const llvm::Module& module, const Target& target) {
  const auto registers = [&](const llvm::Value* v) -> size_t {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    if (!vector) return 1;
    const size_t bits = size_t{vector->getNumElements()} * vector->getScalarSizeInBits();
    return (bits + target.vector_bits - 1) / target.vector_bits;
  };
  size_t out = 0;
  for (const llvm::Function& function : module)
    for (const llvm::BasicBlock& block : function)
      for (const llvm::Instruction& instruction : block) {
        size_t most = registers(&instruction);
        for (const llvm::Use& operand : instruction.operands())
          most = std::max(most, registers(operand.get()));
        out += most;
      }
  return out;
}

}  // namespace

Compiled compile(std::string_view text, std::string_view target_name, bool want_assembly,
                 bool want_ir) {
  install_handlers();
  const Target target = target_from_name(target_name);
  Compiled out;
  double since = thread_cpu_seconds();
  const auto took = [&](double& phase) {
    const double now = thread_cpu_seconds();
    phase = now - since;
    since = now;
  };

  // The loop IR, down to basic operations.
  loop::Kernel kernel = loop::parse(text, loop::Level::kScheduled);
  kernel = loop::simplify(loop::expand_math(std::move(kernel), target.math));
  took(out.times.read);

  // LLVM IR.
  std::string errors;
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<Diagnostics>(errors));
  LentBackend backend(target);
  llvm::Module module(kernel.name, context);
  backend->prepare(module);
  Emitter(kernel, target, module).run();
  took(out.times.emit);
  backend->optimize(module);
  took(out.times.optimize);
  if (const size_t count = operations(module, target); count > kMostOperations)
    fail(Status::kUnsupported, "code generation: {} operations, of {} at most", count,
         kMostOperations);

  if (want_ir) {
    llvm::raw_string_ostream stream(out.ir);
    module.print(stream, nullptr);
  }
  if (want_assembly && target.family != Family::kNvptx)
    out.assembly = text_of(backend->assembly(module));
  const auto& emitted = backend->emit(module);
  took(out.times.generate);
  if (!errors.empty()) fail(Status::kInternal, "LLVM: {}", errors);
  if (target.family == Family::kNvptx) {
    out.assembly = text_of(emitted);
  } else {
    Image image = link_object(emitted, kernel.name,
                              [&](std::string_view name) { return library_object(name, target); });
    out.code = std::move(image.bytes);
    out.entry = image.entry;
    out.alignment = image.alignment;
    took(out.times.link);
  }
  return out;
}

}  // namespace xc::codegen
