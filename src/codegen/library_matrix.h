// What products by the matrix units of x86 (AMX) are written with (library_bf16.cpp,
// library_bf16x3.cpp).
#pragma once

#include <llvm/IR/IntrinsicsX86.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/library_write.h"

namespace xc::codegen {

class MatrixProduct {
 public:
  MatrixProduct(Builder& b, llvm::Function& function);

 protected:
  static constexpr int kLanes = 16;  // of a register, and rows of a tile
  static constexpr int kTileBytes = 1024, kRowBytes = 64;
  // The first four tiles are sums.
  static constexpr int kSums = 4;

  using Values = std::vector<llvm::Value*>;

  llvm::Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  // On the stack, aligned for tiles.
  llvm::Value* memory(uint64_t bytes);
  llvm::Value* byte_at(llvm::Value* base, uint64_t bytes) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), base, bytes);
  }
  llvm::Value* on(llvm::Value* base, llvm::Value* elements) {
    return b_.CreateGEP(element_, base, elements);
  }
  llvm::Value* times(llvm::Value* n, int64_t by) { return b_.CreateMul(n, number(by)); }
  llvm::Value* least(llvm::Value* n, llvm::Value* other) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, other);
  }
  llvm::Value* least(llvm::Value* n, int64_t other) { return least(n, number(other)); }
  llvm::Value* most(llvm::Value* n, int64_t other) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, n, number(other));
  }
  // Parts of `size`, the last of which may be smaller, of a number that is not negative.
  llvm::Value* parts(llvm::Value* n, int64_t size) {
    return b_.CreateUDiv(b_.CreateAdd(n, number(size - 1)), number(size));
  }

  Values loop(llvm::Value* count, const Values& start,
              const std::function<Values(const Values&)>& body) {
    return countdown(b_, *function_, count, start, body);
  }
  void when(llvm::Value* condition, const std::function<void()>& then);

  llvm::Value* zeros() { return llvm::ConstantFP::get(vector_, 0.0); }
  // 0, 1, ... 15.
  llvm::Value* lane_numbers();
  // The lanes below a number.
  llvm::Value* lanes_below(llvm::Value* limit);
  // Sixteen elements; of the first `left` of them, zeros behind; and so many elements apart.
  llvm::Value* sixteen(llvm::Value* from) {
    return b_.CreateAlignedLoad(vector_, from, llvm::Align(4));
  }
  llvm::Value* sixteen(llvm::Value* from, llvm::Value* left);
  llvm::Value* sixteen(llvm::Value* from, llvm::Value* left, llvm::Value* apart);

  // The palette (Intel's manual, LDTILECFG): the first so many tiles, with rows of kRowBytes. In
  // front of the first configure().
  void write_palette(int tiles);
  // `rows`: of each of them, i8.
  void configure(llvm::ArrayRef<llvm::Value*> rows);
  void release() { b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {}); }
  // One instruction of the units: `number` is its first tile.
  void tile(llvm::Intrinsic::ID id, int number, llvm::ArrayRef<llvm::Value*> more = {});
  void load_tile(int number, llvm::Value* from, llvm::Value* step) {
    tile(llvm::Intrinsic::x86_tileloadd64, number, {from, step});
  }
  void store_tile(int number, llvm::Value* to, llvm::Value* step) {
    tile(llvm::Intrinsic::x86_tilestored64, number, {to, step});
  }
  // sum += a b
  void multiply_tiles(int sum, int a, int b) {
    tile(llvm::Intrinsic::x86_tdpbf16ps, sum,
         {b_.getInt8(static_cast<uint8_t>(a)), b_.getInt8(static_cast<uint8_t>(b))});
  }

  Builder& b_;
  llvm::Function* function_;  // that is being written
  ProductArguments given_;
  llvm::Type* element_;
  llvm::FixedVectorType* vector_;

 private:
  llvm::Value* config_ = nullptr;
};

}  // namespace xc::codegen
