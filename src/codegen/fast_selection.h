// Which instructions LLVM's fast instruction selector gets.
#pragma once

#include <llvm/IR/Module.h>

namespace xc::codegen {

// LLVM has two instruction selectors. FastISel takes one instruction after the other, from the end
// of a block up to the first that it does not know; the rest of the block goes to SelectionDAG,
// which takes several times as long per instruction: it was half of a compile. A call, such as of
// an intrinsic, ends it only for a moment: that call goes to SelectionDAG alone, twice as
// expensive as with its neighbours and without the loads that could be part of it.
//
// So that FastISel takes of each block what it is good at and no more, this puts a fence of the
// compiler, which is no instruction of the machine, where it shall end.
void limit_fast_selection(llvm::Module& module);

}  // namespace xc::codegen
