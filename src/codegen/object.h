// LLVM IR to machine code in memory.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "codegen/target.h"

namespace xc::codegen {

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target);

// EarlyCSE: the emitter's code needs no more. Nothing that turns loops into library calls.
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

// An object file (ELF) or assembly text.
llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::TargetMachine& machine,
                                llvm::CodeGenFileType type);

// Must run before anything else here; any number of times.
void initialize_llvm();

}  // namespace xc::codegen
