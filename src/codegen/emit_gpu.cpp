// The same loop IR for a GPU. One block of 64 threads per iteration of the parallel loop (blocks
// stride over the task range), one thread per iteration of a vector loop, ordinal modulo 64: a
// thread then holds exactly one of the 64 partial results of a reduction, and results have the bits
// of the CPU. Everything outside vector loops is computed by every thread alike.
//
// Parameters of the entry, in order: an address per buffer, an i64 per dim, an i64 per stride
// parameter, then scratch, bytes of scratch per block, begin, end, and the address of an i32 set to
// XC_KERNEL_RANGE_ERROR on a range error (never cleared).
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

constexpr int kThreads = kReductionLanes * kReductionAccumulators;
constexpr unsigned kSharedSpace = 3;

}  // namespace

Value* Emitter::special_register(llvm::Intrinsic::ID id) {
  return b_.CreateZExt(b_.CreateIntrinsic(id, {}, {}), b_.getInt64Ty());
}

void Emitter::barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

void Emitter::gpu_frame() {
  auto* ptr = b_.getPtrTy();
  auto* i64 = b_.getInt64Ty();
  std::vector<llvm::Type*> types(kernel_.param_count(), ptr);
  types.insert(types.end(), kernel_.dims.size() + kernel_.strides.size(), i64);
  types.insert(types.end(), {ptr, i64, i64, i64, ptr});
  auto* signature = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  function_ =
      llvm::Function::Create(signature, llvm::Function::ExternalLinkage, kernel_.name, module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  const auto annotate = [&](const char* key, int number) {
    llvm::Metadata* values[] = {
        llvm::ConstantAsMetadata::get(function_), llvm::MDString::get(context_, key),
        llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(number)))};
    module_.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(context_, values));
  };
  annotate("kernel", 1);
  annotate("maxntidx", kThreads);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  dummy_ = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), 64));

  unsigned next = 0;
  const auto take = [&] { return function_->getArg(next++); };
  for (size_t i = 0; i < kernel_.param_count(); ++i) buffers_.push_back(take());
  for (size_t i = 0; i < kernel_.dims.size(); ++i) dims_.push_back(take());
  for (size_t i = 0; i < kernel_.strides.size(); ++i) strides_.push_back(take());
  Value* scratch = take();
  Value* scratch_bytes = take();
  task_begin_ = take();
  task_end_ = take();
  status_ = take();
  place_scratch([&] {
    Value* block = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    return b_.CreateGEP(b_.getInt8Ty(), scratch, b_.CreateMul(block, scratch_bytes));
  });
}

void Emitter::gpu_task_loop(const For& loop) {
  Value* first =
      b_.CreateAdd(task_begin_, special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x));
  Value* step = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  counted_loop(first, task_end_, step, carried_by(loop.body), [&](Value* v) {
    vars_[loop.var.id] = v;
    block(loop.body);
  });
}

void Emitter::gpu_vector_loop(const For& loop, Value* begin, Value* end) {
  // What threads wrote before must be there, and what they still read must not change.
  barrier();
  Value* first = b_.CreateAdd(begin, special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x));
  counted_loop(first, end, integer(kThreads), carried_by(loop.body), [&](Value* v) {
    vars_[loop.var.id] = v;
    block(loop.body);
  });
  barrier();
}

// The tree of loop/kernel.h over the partial results of 64 threads; every thread gets the result.
void Emitter::gpu_finish(const AccDecl& decl, AccState& acc) {
  const bool arg = is_arg_op(decl.op);
  Value* thread = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  const auto shared = [&](const char* name, llvm::Type* element) {
    auto* type = llvm::ArrayType::get(element, kThreads);
    return new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::InternalLinkage,
                                    llvm::UndefValue::get(type), name, nullptr,
                                    llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  };
  llvm::Type* element = memory_type(decl.type);
  Value* values = shared("partials", element);
  Value* indices = arg ? shared("indices", b_.getInt64Ty()) : nullptr;
  struct Pair {
    Value *value, *index;
  };
  const auto at = [&](Value* slot) -> Pair {
    Value* raw = b_.CreateLoad(element, b_.CreateGEP(element, values, slot));
    return {from_memory(decl.type, raw),
            arg ? b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), indices, slot))
                : nullptr};
  };
  const auto merge = [&](Pair a, Pair b) -> Pair {
    if (!arg) return {combine(decl.op, decl.type, a.value, b.value), nullptr};
    Value* wins = replaces(decl.op, decl.type, b.value, b.index, a.value, a.index);
    return {b_.CreateSelect(wins, b.value, a.value), b_.CreateSelect(wins, b.index, a.index)};
  };
  b_.CreateStore(to_memory(decl.type, acc.values[0]), b_.CreateGEP(element, values, thread));
  if (arg) b_.CreateStore(acc.indices[0], b_.CreateGEP(b_.getInt64Ty(), indices, thread));
  barrier();
  std::vector<Pair> q;
  for (int l = 0; l < kReductionLanes; ++l) {
    const auto group = [&](int g) { return at(integer(l + g * kReductionLanes)); };
    q.push_back(merge(merge(group(0), group(1)), merge(group(2), group(3))));
  }
  for (size_t half = kReductionLanes / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) q[l] = merge(q[l], q[l + half]);
  barrier();  // before the next reduction writes
  Value* result = q[0].value;
  if (acc.init) result = combine(decl.op, decl.type, acc.init, result);
  acc.result = {result, false};
  if (arg) acc.result_index = {q[0].index, false};
}

}  // namespace xc::codegen
