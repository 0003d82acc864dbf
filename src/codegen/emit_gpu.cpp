// The same loop IR for a GPU. One block of 64 threads per iteration of the parallel loop (blocks
// stride over the task range), one thread per iteration of a vector loop, ordinal modulo 64: a
// thread then holds exactly one of the 64 partial results of a reduction, and results have the bits
// of the CPU. Of reductions in 16 lanes there are 16, so in the loops that feed them an iteration
// is run by the four threads that are congruent modulo 16, alike. So is everything outside vector
// loops by all threads.
//
// Parameters of the entry, in order: an address per buffer, an i64 per dim, an i64 per stride
// parameter, then scratch, bytes of scratch per block, begin, end, and the address of an i32 set to
// XC_KERNEL_RANGE_ERROR on a range error (never cleared). Buffers that are only read lie apart from
// those that are written.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <functional>

#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

constexpr int kThreads = kReductionLanes * kReductionAccumulators;
constexpr unsigned kSharedSpace = 3;

// Iterations of a vector loop that a thread has under way at a time: memory answers late, and a
// thread's load is of one element.
constexpr int kUnderWay = 4;

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
  read_ = reads(kernel_.body);
  // What is only read may be read before or behind any write (PTX: ld.global.nc).
  for (size_t i = 0; i < kernel_.param_count(); ++i)
    if (kernel_.buffers[i].access == Access::kIn) {
      function_->addParamAttr(static_cast<unsigned>(i), llvm::Attribute::NoAlias);
      function_->addParamAttr(static_cast<unsigned>(i), llvm::Attribute::ReadOnly);
    }
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
  bool sixteen = false, all = false;
  for (const uint32_t acc : fed_by(loop.body)) {
    sixteen |= kernel_.accs[acc].order == AccOrder::kLanes16;
    all |= kernel_.accs[acc].order == AccOrder::kLanes;
  }
  // Threads that run the same iteration may not find what another of them has written.
  BufferSet written;
  visit_statements(loop.body, [&](const Stmt& stmt) {
    if (const auto* write = std::get_if<Store>(&stmt.node)) written.set(write->buffer);
  });
  const bool rewrites = (written & reads(loop.body)).any();
  if (sixteen && (all || rewrites))
    fail(Status::kUnsupported,
         "code generation: a loop that reduces in 16 lanes and also {} has no GPU form",
         all ? "in 64" : "writes what it reads");
  const int together = sixteen ? kReductionLanes : kThreads;
  // What threads wrote before must be there, and what they still read must not change.
  barrier();
  Value* thread = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  Value* first = b_.CreateAdd(begin, b_.CreateAnd(thread, integer(together - 1)));
  const Carried carried = carried_by(loop.body);
  const auto iteration = [&](Value* v) {
    vars_[loop.var.id] = v;
    apart_ = true;
    block(loop.body);
    apart_ = false;
  };
  if (!rewrites && !has_loop(loop.body) && weight(loop.body) <= kHeavyBody) {
    const int64_t step = int64_t{kUnderWay} * together;
    Value* const middle = behind_whole(first, end, step);
    counted_loop(first, middle, integer(step), carried, [&](Value* v) {
      for (int k = 0; k < kUnderWay; ++k)
        iteration(b_.CreateAdd(v, integer(int64_t{k} * together)));
    });
    first = middle;
  }
  counted_loop(first, end, integer(together), carried, iteration);
  barrier();
}

// Outside vector loops all threads write the same value, each when it gets there: not before all
// have read what was there.
void Emitter::gpu_before_store(uint32_t buffer) {
  if (!apart_ && read_.test(buffer)) barrier();
}

// The same value of the thread whose number in its warp differs in the bits of `distance`.
Value* Emitter::exchange(Value* v, int distance) {
  llvm::Type* type = v->getType();
  const unsigned width = type->getScalarSizeInBits();
  const auto word = [&](Value* bits) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                              {b_.getInt32(UINT32_MAX), bits,
                               b_.getInt32(static_cast<uint32_t>(distance)), b_.getInt32(31)});
  };
  Value* bits = b_.CreateBitCast(v, b_.getIntNTy(width));
  if (width <= 32) {
    bits = word(b_.CreateZExt(bits, b_.getInt32Ty()));
    return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(width)), type);
  }
  auto* i64 = b_.getInt64Ty();
  Value* low = word(b_.CreateTrunc(bits, b_.getInt32Ty()));
  Value* high = word(b_.CreateTrunc(b_.CreateLShr(bits, 32), b_.getInt32Ty()));
  bits = b_.CreateOr(b_.CreateZExt(low, i64), b_.CreateShl(b_.CreateZExt(high, i64), 32));
  return b_.CreateBitCast(bits, type);
}

// The tree of loop/kernel.h over the partial results of the threads; every thread gets the result.
// Of 64: pairs of groups within a warp of 32, then the two warps through shared memory, then, as of
// 16, halves of the sixteen lanes.
void Emitter::gpu_finish(const AccDecl& decl, AccState& acc) {
  const bool arg = is_arg_op(decl.op);
  Value* thread = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  // The operands in the order of the tree, whichever of them this thread holds.
  const auto with_partner = [&](Partial own, int distance) -> Partial {
    const Partial other{exchange(own.value, distance),
                        arg ? exchange(own.index, distance) : nullptr};
    Value* first = b_.CreateICmpEQ(b_.CreateAnd(thread, integer(distance)), integer(0));
    const auto choose = [&](Partial a, Partial b) -> Partial {
      return {b_.CreateSelect(first, a.value, b.value),
              arg ? b_.CreateSelect(first, a.index, b.index) : nullptr};
    };
    return merged(decl, choose(own, other), choose(other, own));
  };
  Partial sum{acc.values[0], arg ? acc.indices[0] : nullptr};
  if (decl.order == AccOrder::kLanes) {
    sum = with_partner(sum, kReductionLanes);
    const auto across = [&](const char* name, llvm::Type* element, Value* own) {
      auto* type = llvm::ArrayType::get(element, kThreads);
      auto* slots = new llvm::GlobalVariable(
          module_, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
          name, nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
      b_.CreateStore(own, b_.CreateGEP(element, slots, thread));
      return [this, slots, element](Value* slot) {
        return b_.CreateLoad(element, b_.CreateGEP(element, slots, slot));
      };
    };
    const std::function<Value*(Value*)> value_at =
        across("partials", memory_type(decl.type), to_memory(decl.type, sum.value));
    std::function<Value*(Value*)> index_at;
    if (arg) index_at = across("indices", b_.getInt64Ty(), sum.index);
    barrier();
    Value* lane = b_.CreateAnd(thread, integer(kReductionLanes - 1));
    const auto of_warp = [&](int64_t first) -> Partial {
      Value* slot = b_.CreateAdd(lane, integer(first));
      return {from_memory(decl.type, value_at(slot)), arg ? index_at(slot) : nullptr};
    };
    sum = merged(decl, of_warp(0), of_warp(kThreads / 2));
    barrier();  // before the next reduction writes
  }
  for (int half = kReductionLanes / 2; half > 0; half /= 2) sum = with_partner(sum, half);
  Value* result = sum.value;
  if (acc.init) result = combine(decl.op, decl.type, acc.init, result);
  acc.result = {result, false};
  if (arg) acc.result_index = {sum.index, false};
}

}  // namespace xc::codegen
