#include <llvm/IR/Verifier.h>

#include "base/error.h"
#include "codegen/emitter.h"
#include "codegen/library.h"
#include "loop/dot.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

// xc_kargs as LLVM sees it: version, reserved, buffers, dims, strides, scratch, begin, end.
enum Field : unsigned { kBuffers = 2, kDims, kStrides, kScratch, kBegin, kEnd };

llvm::StructType* kargs_type(llvm::LLVMContext& context) {
  auto* i32 = llvm::Type::getInt32Ty(context);
  auto* i64 = llvm::Type::getInt64Ty(context);
  auto* ptr = llvm::PointerType::getUnqual(context);
  return llvm::StructType::get(context, {i32, i32, ptr, ptr, ptr, ptr, i64, i64});
}

}  // namespace

Emitter::Emitter(const Kernel& kernel, const Target& target, llvm::Module& module)
    : kernel_(kernel),
      target_(target),
      module_(module),
      context_(module.getContext()),
      b_(context_),
      vars_(kernel.vars.size()),
      regs_(kernel.regs.size()),
      lets_(kernel.regs.size()),
      known_(kernel.regs.size()),
      accs_(kernel.accs.size()) {}

Value* Emitter::argument_field(unsigned index, llvm::Type* type) {
  Value* at = b_.CreateStructGEP(kargs_type(context_), function_->getArg(0), index);
  auto* load = b_.CreateLoad(type, at);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
  return load;
}

void Emitter::frame() {
  auto* ptr = b_.getPtrTy();
  auto* signature = llvm::FunctionType::get(b_.getInt32Ty(), {ptr}, false);
  function_ =
      llvm::Function::Create(signature, llvm::Function::ExternalLinkage, kernel_.name, module_);
  set_attributes(*function_, target_);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));

  auto* bytes = llvm::ArrayType::get(b_.getInt8Ty(), kWidestAccess);
  auto* dummy = b_.CreateAlloca(bytes);
  dummy->setAlignment(llvm::Align(64));
  dummy_ = dummy;

  const auto table = [&](Field field, size_t count, llvm::Type* type, std::vector<Value*>& out) {
    if (count == 0) return;
    Value* base = argument_field(field, ptr);
    for (size_t i = 0; i < count; ++i) {
      auto* load = b_.CreateLoad(type, b_.CreateConstGEP1_64(type, base, i));
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
      out.push_back(load);
    }
  };
  table(kDims, kernel_.dims.size(), b_.getInt64Ty(), dims_);
  table(kStrides, kernel_.strides.size(), b_.getInt64Ty(), strides_);
  table(kBuffers, kernel_.param_count(), ptr, buffers_);
  task_begin_ = argument_field(kBegin, b_.getInt64Ty());
  task_end_ = argument_field(kEnd, b_.getInt64Ty());

  place_scratch([&] { return argument_field(kScratch, ptr); });
}

// Rows of scratch, one after another, each aligned. Those at a known distance share a pointer.
void Emitter::place_scratch(const std::function<Value*()>& first) {
  Value* scratch = nullptr;
  int64_t distance = 0;
  distances_.assign(kernel_.buffers.size(), 0);
  for (size_t id = 0; id < kernel_.buffers.size(); ++id) {
    const BufferDecl& decl = kernel_.buffers[id];
    if (!decl.is_scratch()) continue;
    if (!scratch) scratch = first();
    buffers_.push_back(scratch);
    distances_[id] = distance / element_size(decl.type);
    Value* size = b_.CreateMul(value(decl.scratch_elements).v, integer(element_size(decl.type)));
    size = b_.CreateAnd(b_.CreateAdd(size, integer(kScratchAlignment - 1)),
                        integer(-kScratchAlignment));
    if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(size))
      distance += known->getSExtValue();
    else
      scratch = b_.CreateGEP(b_.getInt8Ty(), scratch, size);
  }
  if (has_dot_bf16x3(kernel_)) {
    room_ = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch ? scratch : first(),
                                  static_cast<uint64_t>(distance));
    b_.CreateStore(integer(0), room_);  // holds nothing of an earlier call
  }
  cache_.clear();
}

void Emitter::fail_if(Value* condition) {
  if (gpu()) {
    auto* report = llvm::BasicBlock::Create(context_, "report", function_);
    auto* on = llvm::BasicBlock::Create(context_, "go_on", function_);
    b_.CreateCondBr(condition, report, on);
    b_.SetInsertPoint(report);
    b_.CreateStore(b_.getInt32(XC_KERNEL_RANGE_ERROR), status_);
    b_.CreateBr(on);
    b_.SetInsertPoint(on);
    return;
  }
  if (!range_error_) range_error_ = llvm::BasicBlock::Create(context_, "range_error");
  auto* ok = llvm::BasicBlock::Create(context_, "in_range", function_);
  b_.CreateCondBr(condition, range_error_, ok);
  b_.SetInsertPoint(ok);
}

void Emitter::run() {
  gpu() ? gpu_frame() : frame();
  block(kernel_.body);
  gpu() ? b_.CreateRetVoid() : b_.CreateRet(b_.getInt32(XC_KERNEL_OK));
  if (range_error_) {
    range_error_->insertInto(function_);
    b_.SetInsertPoint(range_error_);
    b_.CreateRet(b_.getInt32(XC_KERNEL_RANGE_ERROR));
  }
  // Not where it is found: blocks that have no place in the function yet would be lost.
  if (most_spilled_ > kMostSpilled)
    fail(Status::kUnsupported, "code generation: the partial results of a loop take over {} bytes",
         kMostSpilled);
  if (lone_matrix_sum_)
    fail(Status::kUnsupported,
         "code generation: dot_bf16 or dot_bf16x3 where there is no product of blocks");
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyFunction(*function_, &out))
    fail(Status::kInternal, "code generation of {} made invalid IR: {}", kernel_.name, problem);
}

}  // namespace xc::codegen
