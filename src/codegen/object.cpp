#include "codegen/object.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include <mutex>

#include "base/error.h"

namespace xc::codegen {

namespace {

// Passes of the code generator that cost more than they bring to kernels as the emitter writes
// them: values computed once in front of their loop, addresses as base + index, no calls. Together
// they are a third of a compile; no kernel of the timing test runs slower without them. LLVM has no
// other switches for them; this changes its copy inside this library, no command line is read.
void disable_passes() {
  constexpr struct {
    const char* name;
    bool value;
  } kSettings[] = {
      {"disable-lsr", true},
      {"disable-constant-hoisting", true},
      {"disable-mergeicmps", true},
      {"disable-merge-icmps", true},
      {"disable-partial-libcall-inlining", true},
      {"disable-early-ifcvt", true},
      {"disable-early-taildup", true},
      {"disable-machine-cse", true},
      {"disable-machine-sink", true},
      {"disable-peephole", true},
      {"disable-copyprop", true},
      {"disable-x86-domain-reassignment", true},
      {"enable-misched", false},
  };
  auto& options = llvm::cl::getRegisteredOptions();
  for (const auto& [name, value] : kSettings)
    if (const auto found = options.find(name); found != options.end())
      found->second->addOccurrence(0, name, value ? "true" : "false");
}

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    disable_passes();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  std::string problem;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, problem);
  if (!found) fail(Status::kUnsupported, "code generation: {}", problem);
  llvm::TargetOptions options;
  options.TrapUnreachable = false;
  // AArch64: the tiny model addresses constants relative to the instruction, without pages.
  const auto model =
      target.family == Family::kAArch64 ? llvm::CodeModel::Tiny : llvm::CodeModel::Small;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_, model,
      llvm::CodeGenOptLevel::Less, /*JIT=*/false));
  if (!machine) fail(Status::kUnsupported, "code generation: no machine for {}", target.name);
  return machine;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  // Only the analyses these passes ask for; registering all of them takes as long as running two.
  llvm::FunctionAnalysisManager functions;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl no_library{llvm::Triple(machine.getTargetTriple())};
  no_library.disableAllFunctions();
  functions.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library); });
  functions.registerPass([&] { return machine.getTargetIRAnalysis(); });
  functions.registerPass([] { return llvm::AssumptionAnalysis(); });
  functions.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  functions.registerPass([] { return llvm::LoopAnalysis(); });
  functions.registerPass([] { return llvm::OptimizationRemarkEmitterAnalysis(); });
  functions.registerPass([] { return llvm::BasicAA(); });
  functions.registerPass([] {
    llvm::AAManager aliases;
    aliases.registerFunctionAnalysis<llvm::BasicAA>();
    return aliases;
  });
  functions.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });
  modules.registerPass([] { return llvm::PassInstrumentationAnalysis(); });

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) passes.run(function, functions);
}

llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::TargetMachine& machine,
                                llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true))
    fail(Status::kUnsupported, "code generation: the target emits no such file");
  passes.run(module);
  return bytes;
}

}  // namespace xc::codegen
