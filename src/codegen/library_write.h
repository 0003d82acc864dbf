// How the functions of the library are written: loops, and products by matrix units.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>
#include <functional>
#include <vector>

#include "codegen/library.h"

namespace xc::codegen {

using Builder = llvm::IRBuilder<>;

// A loop `left` > 0, left - 1, ... whose variables start at `start`; `body` gives their next
// values. Gives those behind it.
std::vector<llvm::Value*> countdown(
    Builder& b, llvm::Function& function, llvm::Value* left, const std::vector<llvm::Value*>& start,
    const std::function<std::vector<llvm::Value*>(const std::vector<llvm::Value*>&)>& body);

// As many tiles of `size` as `left` has, from the addresses `at` on, which move by `steps` elements
// of f32 each; what they leave.
using TileBody = std::function<void(const std::vector<llvm::Value*>&)>;
void tiles(Builder& b, llvm::Function& function, unsigned size, llvm::Value*& left,
           std::vector<llvm::Value*>& at, const std::vector<llvm::Value*>& steps,
           const TileBody& body);

// The columns of as many rows as a register has elements, kTransposeColumns from the addresses of
// `rows` on, of 32 bits each.
std::array<llvm::Value*, kTransposeColumns> columns_of(Builder& b,
                                                       llvm::ArrayRef<llvm::Value*> rows);

// What a product is given, by the names that library.h has.
struct ProductArguments {
  explicit ProductArguments(llvm::Function& f)
      : panel(f.getArg(0)),
        panel_k(f.getArg(1)),
        b(f.getArg(2)),
        b_k(f.getArg(3)),
        b_j(f.getArg(4)),
        count(f.getArg(5)),
        out(f.getArg(6)),
        out_j(f.getArg(7)),
        vectors(f.getArg(8)),
        columns(f.getArg(9)) {}
  llvm::Value *panel, *panel_k, *b, *b_k, *b_j, *count, *out, *out_j, *vectors, *columns;
};

void write_product_bf16(Builder& b, llvm::Function& function);
void write_product_bf16x3(Builder& b, llvm::Function& function);

}  // namespace xc::codegen
