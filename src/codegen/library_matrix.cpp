#include "codegen/library_matrix.h"

namespace xc::codegen {

using llvm::Value;

MatrixProduct::MatrixProduct(Builder& b, llvm::Function& function)
    : b_(b),
      function_(&function),
      given_(function),
      element_(b.getFloatTy()),
      vector_(llvm::FixedVectorType::get(element_, kLanes)) {
  function.addFnAttr("target-features", "+amx-tile,+amx-bf16,+avx512bf16");
}

Value* MatrixProduct::memory(uint64_t bytes) {
  auto* out = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
  out->setAlignment(llvm::Align(64));
  return out;
}

void MatrixProduct::when(Value* condition, const std::function<void()>& then) {
  auto* const inside = llvm::BasicBlock::Create(b_.getContext(), "then", function_);
  auto* const done = llvm::BasicBlock::Create(b_.getContext(), "done", function_);
  b_.CreateCondBr(condition, inside, done);
  b_.SetInsertPoint(inside);
  then();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

Value* MatrixProduct::lane_numbers() {
  llvm::SmallVector<llvm::Constant*, kLanes> numbers;
  for (int l = 0; l < kLanes; ++l) numbers.push_back(b_.getInt64(static_cast<uint64_t>(l)));
  return llvm::ConstantVector::get(numbers);
}

Value* MatrixProduct::lanes_below(Value* limit) {
  return b_.CreateICmpSLT(lane_numbers(), b_.CreateVectorSplat(kLanes, limit));
}

Value* MatrixProduct::sixteen(Value* from, Value* left) {
  return b_.CreateMaskedLoad(vector_, from, llvm::Align(4), lanes_below(left), zeros());
}

Value* MatrixProduct::sixteen(Value* from, Value* left, Value* apart) {
  Value* const places = b_.CreateMul(lane_numbers(), b_.CreateVectorSplat(kLanes, apart));
  return b_.CreateMaskedGather(vector_, b_.CreateGEP(element_, from, places), llvm::Align(4),
                               lanes_below(left), zeros());
}

void MatrixProduct::write_palette(int tiles) {
  config_ = memory(64);
  b_.CreateMemSet(config_, b_.getInt8(0), 64, llvm::Align(64));
  b_.CreateStore(b_.getInt8(1), config_);
  for (uint64_t tile = 0; tile < static_cast<uint64_t>(tiles); ++tile)
    b_.CreateStore(b_.getInt16(kRowBytes), byte_at(config_, 16 + 2 * tile));
}

void MatrixProduct::configure(llvm::ArrayRef<Value*> rows) {
  for (size_t tile = 0; tile < rows.size(); ++tile)
    b_.CreateStore(rows[tile], byte_at(config_, 48 + tile));
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config_});
}

void MatrixProduct::tile(llvm::Intrinsic::ID id, int number, llvm::ArrayRef<Value*> more) {
  llvm::SmallVector<Value*, 3> arguments{b_.getInt8(static_cast<uint8_t>(number))};
  arguments.append(more.begin(), more.end());
  b_.CreateIntrinsic(id, {}, arguments);
}

}  // namespace xc::codegen
