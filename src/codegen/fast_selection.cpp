#include "codegen/fast_selection.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

namespace xc::codegen {

namespace {

// What FastISel does not know, about: an instruction more or less costs time, nothing else.
bool unknown(const llvm::Instruction& instruction) {
  const bool vector = instruction.getType()->isVectorTy();
  switch (instruction.getOpcode()) {
    case llvm::Instruction::ExtractElement:
    case llvm::Instruction::InsertElement:
    case llvm::Instruction::ShuffleVector:
    case llvm::Instruction::Fence:
      return true;
    case llvm::Instruction::Select:
    case llvm::Instruction::ICmp:
    case llvm::Instruction::FCmp:
      return vector;
    case llvm::Instruction::BitCast:  // of a mask
      return instruction.getType()->isVectorTy() !=
             instruction.getOperand(0)->getType()->isVectorTy();
    default:
      return vector && instruction.isCast();
  }
}

// A division by a constant is a multiplication or a shift, and FastISel divides.
bool divides_by_constant(const llvm::Instruction& instruction) {
  switch (instruction.getOpcode()) {
    case llvm::Instruction::SDiv:
    case llvm::Instruction::UDiv:
    case llvm::Instruction::SRem:
    case llvm::Instruction::URem:
      return llvm::isa<llvm::Constant>(instruction.getOperand(1));
    default:
      return false;
  }
}

// The first instruction of the end of `block` that FastISel shall take: where what it saves, less
// what calls in between cost, is most.
llvm::Instruction* first_to_take(llvm::BasicBlock& block) {
  // By time a call costs one and a half of what another instruction saves; code counts too.
  constexpr int kSaved = 1, kCostOfCall = 3;
  llvm::Instruction* best = block.getTerminator();
  int saved = 0, most = 0;
  for (llvm::Instruction* at = best->getPrevNode(); at; at = at->getPrevNode()) {
    if (llvm::isa<llvm::PHINode>(at) || unknown(*at) || divides_by_constant(*at)) break;
    saved += llvm::isa<llvm::CallBase>(at) ? -kCostOfCall : kSaved;
    if (saved <= most) continue;
    most = saved;
    best = at;
  }
  return best;
}

}  // namespace

void limit_fast_selection(llvm::Module& module) {
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function) {
      llvm::Instruction* const first = first_to_take(block);
      const llvm::Instruction* const above = first->getPrevNode();
      if (!above || llvm::isa<llvm::PHINode>(above) || unknown(*above)) continue;
      new llvm::FenceInst(module.getContext(), llvm::AtomicOrdering::Release,
                          llvm::SyncScope::SingleThread, first);
    }
}

}  // namespace xc::codegen
