#include "codegen/compile.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <mutex>

#include "base/error.h"
#include "codegen/emitter.h"
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

}  // namespace

Compiled compile(std::string_view text, std::string_view target_name, bool want_assembly,
                 bool want_ir) {
  install_handlers();
  initialize_llvm();
  const Target target = target_from_name(target_name);

  // The loop IR, down to basic operations.
  loop::Kernel kernel = loop::parse(text);
  loop::verify(kernel, loop::Level::kScheduled);
  kernel = loop::simplify(loop::expand_math(std::move(kernel), target.math));

  // LLVM IR.
  std::string errors;
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<Diagnostics>(errors));
  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::Module module(kernel.name, context);
  module.setDataLayout(machine->createDataLayout());
  module.setTargetTriple(target.triple);
  Emitter(kernel, target, module).run();
  optimize(module, *machine);

  Compiled out;
  if (want_ir) {
    llvm::raw_string_ostream stream(out.ir);
    module.print(stream, nullptr);
  }
  if (target.family == Family::kNvptx) {
    out.assembly = text_of(emit(module, *machine, llvm::CodeGenFileType::AssemblyFile));
    if (!errors.empty()) fail(Status::kInternal, "LLVM: {}", errors);
    return out;
  }
  // Emission changes the module, so the text comes from a second look at the same code only on
  // demand.
  if (want_assembly)
    out.assembly =
        text_of(emit(*llvm::CloneModule(module), *machine, llvm::CodeGenFileType::AssemblyFile));
  const auto object = emit(module, *machine, llvm::CodeGenFileType::ObjectFile);
  if (!errors.empty()) fail(Status::kInternal, "LLVM: {}", errors);
  Image image = link_object(std::span(object.data(), object.size()), kernel.name);
  out.code = std::move(image.bytes);
  out.entry = image.entry;
  out.alignment = image.alignment;
  return out;
}

}  // namespace xc::codegen
