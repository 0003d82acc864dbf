// LLVM IR to machine code in memory.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/target.h"

namespace xc::codegen {

// LLVM's side of one target: its tables, the passes and the analyses they ask for. Building these
// takes longer than most kernels spend in them, so they serve one compile after the other, as LLVM
// tests with `llc -compile-twice`. Not those of nvptx: its printer remembers variables of modules
// that are gone (NVPTXAsmPrinter::localDecls). One thread at a time.
class Backend {
 public:
  // Quick compiles of x86 take less time for code as good: the instructions are selected another
  // way (fast_selection.h), and what brings kernels nothing is left out.
  enum class Effort { kQuick, kFull };

  explicit Backend(const Target& target, Effort effort = Effort::kQuick);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Gives an empty module this target's triple and layout.
  void prepare(llvm::Module& module) const;
  // EarlyCSE: the emitter's code needs no more. Nothing that turns loops into library calls. Then
  // what fast selection needs.
  void optimize(llvm::Module& module);
  // An object file (ELF), of nvptx assembly text; valid until the next call. Changes the module.
  const llvm::SmallVector<char, 0>& emit(llvm::Module& module);
  // The assembly text of a module that emit() has not changed yet.
  llvm::SmallVector<char, 0> assembly(const llvm::Module& module);

  // An exception left one of these three: LLVM is in the midst of something, and not even fit to be
  // destroyed.
  bool was_left() const { return inside_llvm_; }

 private:
  void add_passes(llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& out,
                  llvm::CodeGenFileType type);

  bool inside_llvm_ = false;
  bool prints_only_;  // nvptx
  bool quick_;
  std::string triple_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::TargetLibraryInfoImpl no_library_;
  llvm::ModuleAnalysisManager modules_;
  llvm::FunctionAnalysisManager functions_;
  llvm::FunctionPassManager to_optimize_;
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream out_{bytes_};
  llvm::legacy::PassManager to_emit_;
};

// A backend for one compile: one that is free, or a new one. Any thread. One that was left by an
// exception is leaked.
class LentBackend {
 public:
  explicit LentBackend(const Target& target);
  ~LentBackend();
  LentBackend(const LentBackend&) = delete;
  LentBackend& operator=(const LentBackend&) = delete;
  Backend* operator->() { return backend_.get(); }
  Backend& operator*() { return *backend_; }

 private:
  std::string target_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace xc::codegen
