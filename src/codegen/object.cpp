#include "codegen/object.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "codegen/fast_selection.h"

namespace xc::codegen {

namespace {

// Passes of the code generator that cost more than they bring to kernels as the emitter writes
// them: values computed once in front of their loop, addresses as base + index, no calls. Together
// they are a third of a compile; no kernel of the timing test runs slower without them. The last
// setting: values that find no register throughout the function are not kept in one for a region of
// it, which is tried around every register and takes a seventh of a compile of many loops; in the
// loops that use them they have one all the same. They are off for every target, by LLVM's
// switches; this changes its copy inside this library, no command line is read.
void disable_passes() {
  constexpr struct {
    const char *name, *value;
  } kSettings[] = {
      {"disable-lsr", "true"},
      {"disable-constant-hoisting", "true"},
      {"disable-mergeicmps", "true"},
      {"disable-merge-icmps", "true"},
      {"disable-partial-libcall-inlining", "true"},
      {"disable-early-ifcvt", "true"},
      {"disable-early-taildup", "true"},
      {"disable-machine-cse", "true"},
      {"disable-machine-sink", "true"},
      {"disable-peephole", "true"},
      {"disable-copyprop", "true"},
      {"disable-x86-domain-reassignment", "true"},
      {"enable-misched", "false"},
      {"grow-region-complexity-budget", "0"},
  };
  auto& options = llvm::cl::getRegisteredOptions();
  for (const auto& [name, value] : kSettings)
    if (const auto found = options.find(name); found != options.end())
      found->second->addOccurrence(0, name, value);
}

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

// Passes of the code generator for x86 that find nothing in kernels, or change nothing that is
// measured: for exceptions, calls, thread-local variables, collected garbage, branches to anywhere,
// security, debuggers, matrix units (the library's), and rearrangements of instructions that the
// emitter writes as they shall be. By LLVM's names; a fifteenth of a compile.
constexpr std::string_view kUnneeded[] = {
    "Analyze Machine Code For Garbage Collection",
    "Argument Stack Rebase",
    "BreakFalseDeps",
    "Contiguously Lay Out Funclets",
    "Exception handling preparation",
    "Expand Atomic instructions",
    "Expand indirectbr instructions",
    "Expand large div/rem",
    "Expand large fp convert",
    "Expand memcmp() to load/stores",
    "Expand vector predication intrinsics",
    "Fixup Statepoint Caller Saved",
    "Implement the 'patchable-function' attribute",
    "Insert KCFI indirect call checks",
    "Insert XRay ops",
    "Insert fentry calls",
    "Insert stack protectors",
    "Instrument function entry/exit with calls to e.g. mcount() (post inlining)",
    "Interleaved Access Pass",
    "Live DEBUG_VALUE analysis",
    "Local Dynamic TLS Access Clean-up",
    "Lower AMX intrinsics",
    "Lower AMX type for load/store",
    "Lower Garbage Collection Instructions",
    "Machine InstCombiner",
    "Machine Sanitizer Binary Metadata",
    "Merge disjoint stack slots",
    "Optimize machine instruction PHIs",
    "PostRA Machine Sink",
    "Prepare callbr",
    "Pseudo Probe Inserter",
    "Remove Redundant DEBUG_VALUE analysis",
    "Replace intrinsics with calls to vector library",
    "Safe Stack instrumentation pass",
    "Scoped NoAlias Alias Analysis",
    "Shadow Stack GC Lowering",
    "Shrink Wrapping analysis",
    "Stack Frame Layout Analysis",
    "StackMap Liveness Analysis",
    "TLS Variable Hoist",
    "Tile Register Pre-configure",
    "Type-Based Alias Analysis",
    "X86 Atom pad short functions",
    "X86 Avoid Store Forwarding Blocks",
    "X86 Byte/Word Instruction Fixup",
    "X86 Discriminate Memory Operands",
    "X86 Execution Dependency Fix",
    "X86 Fixup Inst Tuning",
    "X86 Fixup SetCC",
    "X86 Indirect Branch Tracking",
    "X86 Indirect Thunks",
    "X86 Insert Cache Prefetches",
    "X86 LEA Fixup",
    "X86 LEA Optimize",
    "X86 Load Value Injection (LVI) Load Hardening",
    "X86 Load Value Injection (LVI) Ret-Hardening",
    "X86 PIC Global Base Reg Initialization",
    "X86 Partial Reduction",
    "X86 Return Thunks",
    "X86 Speculative Execution Side Effect Suppression",
    "X86 Windows Fixup Buffer Security Check",
    "X86 insert wait instruction",
    "X86 speculative load hardening",
};

// Hands the other passes on.
class NeededPasses : public llvm::legacy::PassManagerBase {
 public:
  explicit NeededPasses(llvm::legacy::PassManagerBase& to) : to_(to) {}
  void add(llvm::Pass* pass) override {
    const std::string_view name = pass->getPassName();
    if (std::find(std::begin(kUnneeded), std::end(kUnneeded), name) == std::end(kUnneeded))
      to_.add(pass);
    else
      delete pass;
  }

 private:
  llvm::legacy::PassManagerBase& to_;
};

// Backends that no compile uses, by target. Never destroyed: threads may outlive static objects.
struct Pool {
  std::mutex mutex;
  std::map<std::string, std::vector<std::unique_ptr<Backend>>> idle;
};

Pool& pool() {
  static auto* const instance = new Pool;
  return *instance;
}

}  // namespace

Backend::Backend(const Target& target, Effort effort)
    : prints_only_(target.family == Family::kNvptx),
      quick_(effort == Effort::kQuick && target.family == Family::kX86),
      triple_(target.triple),
      no_library_(llvm::Triple(target.triple)) {
  initialize_llvm();
  machine_ = make_machine(target);
  if (quick_) machine_->setFastISel(true);
  // Only the analyses these passes ask for; registering all of them takes as long as running two.
  no_library_.disableAllFunctions();
  functions_.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  functions_.registerPass([this] { return llvm::TargetLibraryAnalysis(no_library_); });
  functions_.registerPass([this] { return machine_->getTargetIRAnalysis(); });
  functions_.registerPass([] { return llvm::AssumptionAnalysis(); });
  functions_.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  functions_.registerPass([] { return llvm::LoopAnalysis(); });
  functions_.registerPass([] { return llvm::OptimizationRemarkEmitterAnalysis(); });
  functions_.registerPass([] { return llvm::BasicAA(); });
  functions_.registerPass([] {
    llvm::AAManager aliases;
    aliases.registerFunctionAnalysis<llvm::BasicAA>();
    return aliases;
  });
  functions_.registerPass([this] { return llvm::ModuleAnalysisManagerFunctionProxy(modules_); });
  modules_.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  to_optimize_.addPass(llvm::EarlyCSEPass());
  if (!prints_only_) add_passes(to_emit_, out_, llvm::CodeGenFileType::ObjectFile);
}

void Backend::add_passes(llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out,
                         llvm::CodeGenFileType type) {
  NeededPasses needed(passes);
  llvm::legacy::PassManagerBase* to = &passes;
  if (quick_) to = &needed;
  if (machine_->addPassesToEmitFile(*to, out, nullptr, type, /*DisableVerify=*/true))
    fail(Status::kUnsupported, "code generation: the target emits no such file");
}

void Backend::prepare(llvm::Module& module) const {
  module.setDataLayout(machine_->createDataLayout());
  module.setTargetTriple(triple_);
}

void Backend::optimize(llvm::Module& module) {
  inside_llvm_ = true;
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) to_optimize_.run(function, functions_);
  functions_.clear();  // they know the functions of this module
  modules_.clear();
  if (quick_) limit_fast_selection(module);
  inside_llvm_ = false;
}

const llvm::SmallVector<char, 0>& Backend::emit(llvm::Module& module) {
  inside_llvm_ = true;
  bytes_.clear();
  if (prints_only_) {
    llvm::legacy::PassManager passes;
    add_passes(passes, out_, llvm::CodeGenFileType::AssemblyFile);
    passes.run(module);
  } else {
    to_emit_.run(module);
  }
  inside_llvm_ = false;
  return bytes_;
}

llvm::SmallVector<char, 0> Backend::assembly(const llvm::Module& module) {
  inside_llvm_ = true;
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  add_passes(passes, out, llvm::CodeGenFileType::AssemblyFile);
  passes.run(*llvm::CloneModule(module));
  inside_llvm_ = false;
  return text;
}

LentBackend::LentBackend(const Target& target) : target_(target.name) {
  {
    const std::lock_guard lock(pool().mutex);
    auto& idle = pool().idle[target_];
    if (!idle.empty()) {
      backend_ = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!backend_) backend_ = std::make_unique<Backend>(target);
}

LentBackend::~LentBackend() {
  if (backend_->was_left()) {
    (void)backend_.release();
    return;
  }
  const std::lock_guard lock(pool().mutex);
  pool().idle[target_].push_back(std::move(backend_));
}

}  // namespace xc::codegen
