#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/emitter.h"
#include "codegen/library.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

llvm::Type* Emitter::memory_type(DType stored) const {
  if (stored == DType::kF32 || stored == DType::kF64) return type_of(stored, false);
  return llvm::Type::getIntNTy(context_, static_cast<unsigned>(element_size(stored)) * 8);
}

Value* Emitter::stride_value(uint32_t buffer, size_t dimension) {
  const Stride& stride = kernel_.buffers[buffer].strides[dimension];
  return stride.is_param ? strides_[stride.param]
                         : b_.getInt64(static_cast<uint64_t>(stride.value));
}

// stride * the terms of the index that change inside the vector loop, or (hoisted_part) that do
// not. Without a vector loop everything is hoisted_part. The vector variable counts with its first
// lane.
Value* Emitter::affine_offset(const Affine& index, Value* stride, bool hoisted_part) {
  Value* sum = nullptr;
  for (const Affine::Term& term : index.terms()) {
    const bool inside = vector_ && !term.is_dim && vector_->vars.contains(term.id);
    if (inside == hoisted_part) continue;
    Value* symbol = term.is_dim ? dims_[term.id] : vars_[term.id];
    add_to(sum, b_.CreateMul(symbol, b_.getInt64(static_cast<uint64_t>(term.coefficient))));
  }
  return sum ? b_.CreateMul(sum, stride) : nullptr;
}

void Emitter::add_to(Value*& sum, Value* part) {
  sum = sum ? b_.CreateAdd(sum, part) : part;
}

Value* Emitter::any(Value* mask) {
  return mask->getType()->isVectorTy() ? b_.CreateOrReduce(mask) : mask;
}

// The part of an address that does not change in the vector loop.
Value* Emitter::fixed_base(uint32_t buffer, const std::vector<Index>& indices) {
  Value *offset = nullptr, *constants = nullptr;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].is_affine()) continue;
    const Affine& index = indices[d].affine;
    Value* stride = stride_value(buffer, d);
    if (Value* part = affine_offset(index, stride, true)) add_to(offset, part);
    if (index.constant() != 0 && kernel_.buffers[buffer].strides[d].is_param)
      add_to(constants, b_.CreateMul(stride, integer(index.constant())));
  }
  Value* base = buffers_[buffer];
  for (Value* part : {offset, constants})
    if (part) base = b_.CreateGEP(memory_type(kernel_.buffers[buffer].type), base, part);
  return base;
}

// Elements by which an index taken from data moves an access, checked against its extent: in front
// of the vector loop, once, where it is the same for all of that.
Val Emitter::checked_offset(const Index& index, Value* stride, const Val& guard, Address& out) {
  const bool in_front = vector_ && vector_->nesting == 0 && !guard.v &&
                        is_invariant(index.checked) && is_invariant(index.extent);
  if (in_front)
    if (Value* known = vector_->pointers[&index]) return {known, false};
  const Val at = value(index.checked);
  const Val extent = value(index.extent);
  const bool vec = at.vec || extent.vec;
  const auto checked_part = [&]() -> Value* {
    Value* position = b_.CreateSExt(vec ? vector(at) : at.v, type_of(DType::kI64, vec));
    Value* outside = b_.CreateICmpUGE(position, vec ? vector(extent) : extent.v);
    // Lanes that are not active are not checked.
    Value* active = in_front ? nullptr : both(guard.v, vector_ && vec ? vector_->mask : nullptr).v;
    Value* failed = any(both(outside, active && !vec ? any(active) : active).v);
    fail_if(failed);
    if (gpu()) out.valid = both(out.valid, b_.CreateNot(failed)).v;
    return b_.CreateMul(position, vec ? vector({stride, false}) : stride);
  };
  if (!in_front) return {checked_part(), vec};
  Value* const part = hoist(checked_part);
  vector_->pointers[&index] = part;
  return {part, vec};
}

Emitter::Address Emitter::address(uint32_t buffer, const std::vector<Index>& indices,
                                  const Val& guard) {
  llvm::Type* element = memory_type(kernel_.buffers[buffer].type);
  Address out;

  // Accesses that differ in the constants of their indices only, as those of a register tile do,
  // have one pointer; where the stride is known too, the distance becomes part of the instruction.
  int64_t distance = distances_[buffer];
  for (size_t d = 0; d < indices.size(); ++d)
    if (const Stride& stride = kernel_.buffers[buffer].strides[d]; !stride.is_param)
      distance += stride.value * indices[d].affine.constant();
  const auto front = [&] { return fixed_base(buffer, indices); };
  if (vector_) {
    Value*& known = vector_->pointers[&indices];
    if (!known) known = hoist(front);
    out.base = known;
  } else {
    out.base = front();
  }

  // The part that moves, uniform over the lanes; and the distance between lanes.
  Value* moving = nullptr;
  Value* lane_step = nullptr;  // elements from lane to lane
  Value* scattered = nullptr;  // per lane
  for (size_t d = 0; d < indices.size(); ++d) {
    const Index& index = indices[d];
    Value* stride = stride_value(buffer, d);
    if (!index.is_affine()) {
      const Val part = checked_offset(index, stride, guard, out);
      add_to(part.vec ? scattered : moving, part.v);
      continue;
    }
    if (!vector_) continue;
    if (Value* part = affine_offset(index.affine, stride, false)) add_to(moving, part);
    if (const int64_t step = index.affine.coefficient(vector_->loop->var); step != 0)
      add_to(lane_step, b_.CreateMul(stride, b_.getInt64(static_cast<uint64_t>(step))));
  }
  if (moving) out.base = b_.CreateGEP(element, out.base, moving);
  if (distance != 0) out.base = b_.CreateGEP(element, out.base, integer(distance));
  if (lane_step) {
    auto* constant = llvm::dyn_cast<llvm::ConstantInt>(lane_step);
    if (constant && constant->isOne() && !scattered)
      out.contiguous = true;
    else if (!constant || !constant->isZero())
      add_to(scattered,
             b_.CreateMul(iota(),
                          b_.CreateVectorSplat(static_cast<unsigned>(vector_->lanes), lane_step)));
  }
  out.offsets = scattered;
  return out;
}

Value* Emitter::lane_pointers(const Address& at, llvm::Type* element, Value* mask) {
  Value* pointers = b_.CreateGEP(element, at.base, at.offsets ? at.offsets : iota());
  if (!mask) return pointers;
  return b_.CreateSelect(mask, pointers,
                         b_.CreateVectorSplat(static_cast<unsigned>(vector_->lanes), dummy_));
}

// AVX2's own instructions, whose mask is the signs of words, where the mask is not known. From a
// masked load or store of 16 lanes under a mask that is made of something not known and of lanes
// that are, whose upper half is empty, LLVM 19 makes one without a mask for that half: it reads and
// writes what it must not. The rest of a loop alone is not such a mask, and a tenth faster left to
// LLVM.
bool Emitter::by_words(Value* mask, llvm::Type* element) const {
  return target_.family == Family::kX86 && target_.masked_words && !target_.masked_all &&
         element->getScalarSizeInBits() >= 32 && !llvm::isa<llvm::Constant>(mask) &&
         mask != vector_->mask;
}

namespace {

// The parts of a vector that fit a register of 256 bits, or one of 128, and what moves them.
struct Words {
  Words(llvm::FixedVectorType* type, llvm::LLVMContext& context) {
    const unsigned bits = type->getScalarSizeInBits();
    lanes = std::min(256 / bits, type->getNumElements());
    count = type->getNumElements() / lanes;
    part = llvm::FixedVectorType::get(llvm::Type::getIntNTy(context, bits), lanes);
    const bool wide = lanes * bits == 256, single = bits == 32;
    load = wide ? (single ? llvm::Intrinsic::x86_avx2_maskload_d_256
                          : llvm::Intrinsic::x86_avx2_maskload_q_256)
                : (single ? llvm::Intrinsic::x86_avx2_maskload_d
                          : llvm::Intrinsic::x86_avx2_maskload_q);
    store = wide ? (single ? llvm::Intrinsic::x86_avx2_maskstore_d_256
                           : llvm::Intrinsic::x86_avx2_maskstore_q_256)
                 : (single ? llvm::Intrinsic::x86_avx2_maskstore_d
                           : llvm::Intrinsic::x86_avx2_maskstore_q);
  }
  llvm::SmallVector<int, 16> lanes_of(unsigned k) const {
    return llvm::createSequentialMask(k * lanes, lanes, 0);
  }
  unsigned lanes, count;
  llvm::FixedVectorType* part;
  llvm::Intrinsic::ID load, store;
};

}  // namespace

Value* Emitter::load_words(Value* base, llvm::FixedVectorType* type, Value* mask) {
  const Words words(type, context_);
  Value* out = nullptr;
  for (unsigned k = 0; k < words.count; ++k) {
    Value* lanes = b_.CreateShuffleVector(mask, words.lanes_of(k));
    Value* from = b_.CreateConstGEP1_64(type->getElementType(), base, k * words.lanes);
    Value* part = b_.CreateIntrinsic(words.load, {}, {from, b_.CreateSExt(lanes, words.part)});
    part = b_.CreateBitCast(part, llvm::FixedVectorType::get(type->getElementType(), words.lanes));
    out = out ? concatenate(out, part) : part;
  }
  return out;
}

void Emitter::store_words(Value* value, Value* base, Value* mask) {
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  const Words words(type, context_);
  for (unsigned k = 0; k < words.count; ++k) {
    const auto numbers = words.lanes_of(k);
    Value* lanes = b_.CreateShuffleVector(mask, numbers);
    Value* part = b_.CreateBitCast(b_.CreateShuffleVector(value, numbers), words.part);
    Value* to = b_.CreateConstGEP1_64(type->getElementType(), base, k * words.lanes);
    b_.CreateIntrinsic(words.store, {}, {to, b_.CreateSExt(lanes, words.part), part});
  }
}

Value* Emitter::load_vector(const Address& at, llvm::Type* element, Value* mask) {
  const auto lanes = static_cast<unsigned>(vector_->lanes);
  auto* type = llvm::FixedVectorType::get(element, lanes);
  const uint64_t bytes = element->getScalarSizeInBits() / 8;
  const llvm::Align align(bytes);
  const bool word = bytes >= 4;
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (at.contiguous && !mask) return b_.CreateAlignedLoad(type, at.base, align);
  if (at.contiguous && by_words(mask, element)) return load_words(at.base, type, mask);
  if (at.contiguous && (word ? target_.masked_words : target_.masked_all))
    return b_.CreateMaskedLoad(type, at.base, align, mask, zero);
  if (!at.contiguous && word && target_.gather) {
    Value* pointers = b_.CreateGEP(element, at.base, at.offsets);
    return b_.CreateMaskedGather(type, pointers, align, mask, mask ? zero : nullptr);
  }
  Value* pointers = lane_pointers(at, element, mask);
  Value* out = llvm::PoisonValue::get(type);
  for (unsigned l = 0; l < lanes; ++l) {
    Value* one = b_.CreateAlignedLoad(element, b_.CreateExtractElement(pointers, l), align);
    out = b_.CreateInsertElement(out, one, l);
  }
  return mask ? b_.CreateSelect(mask, out, zero) : out;
}

void Emitter::store_vector(const Address& at, Value* value, Value* mask) {
  llvm::Type* element = value->getType()->getScalarType();
  const auto lanes = static_cast<unsigned>(vector_->lanes);
  const uint64_t bytes = element->getScalarSizeInBits() / 8;
  const llvm::Align align(bytes);
  const bool word = bytes >= 4;
  if (at.contiguous && !mask) {
    b_.CreateAlignedStore(value, at.base, align);
  } else if (at.contiguous && by_words(mask, element)) {
    store_words(value, at.base, mask);
  } else if (at.contiguous && (word ? target_.masked_words : target_.masked_all)) {
    b_.CreateMaskedStore(value, at.base, align, mask);
  } else if (!at.contiguous && word && target_.gather) {
    b_.CreateMaskedScatter(value, b_.CreateGEP(element, at.base, at.offsets), align, mask);
  } else {
    Value* pointers = lane_pointers(at, element, mask);
    for (unsigned l = 0; l < lanes; ++l)
      b_.CreateAlignedStore(b_.CreateExtractElement(value, l), b_.CreateExtractElement(pointers, l),
                            align);
  }
}

// The mask of an access along the vector loop. None for a row of scratch that the loop walks from
// its beginning: there is room for a whole vector behind it, what is there in lanes that do not
// count does not matter, and loads that follow need not wait until a masked store has left the
// store buffer.
Value* Emitter::mask_for(uint32_t buffer, const std::vector<Index>& indices, const Val& guard) {
  const BufferDecl& decl = kernel_.buffers[buffer];
  const For& loop = *vector_->loop;
  if (vector_->mask && !guard.v && decl.is_scratch() && indices.size() == 1 &&
      indices[0].is_affine() && indices[0].affine == Affine(loop.var) && is_const(loop.begin) &&
      loop.begin->bits == 0 && vector_->lanes * element_size(decl.type) <= kScratchAlignment)
    return nullptr;
  const Val mask = both(vector_->mask, guard.v);
  return mask.v && !mask.vec ? vector(mask) : mask.v;
}

// A guard that is the same for all lanes chooses the address, and is no part of the mask: zeros, or
// for a store the dummy, where it does not hold.
Value* Emitter::zeros() {
  if (!zeros_) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), kWidestAccess);
    zeros_ = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                      llvm::Constant::getNullValue(type), "zeros");
    zeros_->setAlignment(llvm::Align(64));
  }
  return zeros_;
}

Val Emitter::load(const Node& node) {
  const DType stored = kernel_.buffers[node.id].type;
  llvm::Type* element = memory_type(stored);
  Val guard = node.guard ? value(node.guard) : Val{};
  Address at = address(node.id, node.indices, guard);
  guard = both(guard.v, at.valid);
  fetch_later(node, at);
  if (at.contiguous && guard.v && !guard.vec) {
    at.base = b_.CreateSelect(guard.v, at.base, zeros());
    guard = {};
  }
  if (at.contiguous || at.offsets) {
    Value* mask = mask_for(node.id, node.indices, guard);
    Value* v = from_memory(stored, load_vector(at, element, mask));
    if (mask) vector_->zero_if_off.insert(v);
    return {v, true};
  }
  // One address for all lanes.
  const llvm::Align align(static_cast<uint64_t>(element_size(stored)));
  if (!guard.v) return {from_memory(stored, b_.CreateAlignedLoad(element, at.base, align)), false};
  Value* needed = guard.vec ? any(both(guard.v, vector_->mask).v) : guard.v;
  Value* raw = b_.CreateAlignedLoad(element, b_.CreateSelect(needed, at.base, dummy_), align);
  Value* v = from_memory(stored, raw);
  if (!guard.vec) return {b_.CreateSelect(needed, v, same_shape(0, v)), false};
  v = vector({v, false});
  return {b_.CreateSelect(guard.v, v, same_shape(0, v)), true};
}

void Emitter::store(const Store& stmt) {
  const DType stored = kernel_.buffers[stmt.buffer].type;
  const Val v = value(stmt.value);
  Val guard = stmt.guard ? value(stmt.guard) : Val{};
  Address at = address(stmt.buffer, stmt.indices, guard);
  guard = both(guard.v, at.valid);
  if (at.contiguous && guard.v && !guard.vec) {
    at.base = b_.CreateSelect(guard.v, at.base, dummy_);
    guard = {};
  }
  if (at.contiguous || at.offsets) {
    Value* mask = mask_for(stmt.buffer, stmt.indices, guard);
    store_vector(at, to_memory(stored, vector(v)), mask);
    return;
  }
  if (gpu()) gpu_before_store(stmt.buffer);
  // One address in a vector loop: stores are injective, so the loop has one iteration, lane 0.
  const auto first = [&](Val x) { return x.vec ? b_.CreateExtractElement(x.v, uint64_t{0}) : x.v; };
  Value* to = guard.v ? b_.CreateSelect(first(guard), at.base, dummy_) : at.base;
  b_.CreateAlignedStore(to_memory(stored, first(v)), to,
                        llvm::Align(static_cast<uint64_t>(element_size(stored))));
}

// --- storage types ---

namespace {

llvm::Type* with_element(Value* like, llvm::Type* element) {
  auto* shape = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return shape ? llvm::FixedVectorType::get(element, shape->getNumElements()) : element;
}

}  // namespace

Value* Emitter::from_memory(DType stored, Value* raw) {
  switch (stored) {
    case DType::kBool:
      return b_.CreateICmpNE(raw, same_shape(0, raw));
    case DType::kF16:
      return half_to_float(raw);
    case DType::kBF16: {
      Value* wide = b_.CreateZExt(raw, with_element(raw, b_.getInt32Ty()));
      wide = b_.CreateShl(wide, same_shape(16, wide));
      return b_.CreateBitCast(wide, with_element(raw, b_.getFloatTy()));
    }
    default:
      return raw;
  }
}

Value* Emitter::to_memory(DType stored, Value* v) {
  switch (stored) {
    case DType::kBool:
      return b_.CreateZExt(v, with_element(v, b_.getInt8Ty()));
    case DType::kF16:
      return round_to_half(v);
    case DType::kBF16:
      return round_to_bf16(v);
    default:
      return v;
  }
}

Value* Emitter::round_to_bf16(Value* v) {
  Value* bits = b_.CreateBitCast(v, with_element(v, b_.getInt32Ty()));
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, same_shape(16, bits)), same_shape(1, bits));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, same_shape(0x7fff, bits)));
  Value* quiet = b_.CreateOr(bits, same_shape(0x400000, bits));
  Value* out = b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet, rounded);
  return b_.CreateTrunc(b_.CreateLShr(out, same_shape(16, out)), with_element(v, b_.getInt16Ty()));
}

// What takes many instructions is a function of the module's own, of 16 lanes or one: called, not
// written out, wherever it is needed.
Value* Emitter::called(const char* name, Value* v, llvm::Type* element,
                       const std::function<Value*(Value*)>& body) {
  if (gpu()) return body(v);
  constexpr unsigned kMostLanes = 16;
  auto* shape = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  const unsigned lanes = shape ? shape->getNumElements() : 1;
  if (lanes > kMostLanes) {
    Value* out = nullptr;
    for (unsigned first = 0; first < lanes; first += kMostLanes) {
      const unsigned count = std::min(kMostLanes, lanes - first);
      Value* part = b_.CreateShuffleVector(v, llvm::createSequentialMask(first, count, 0));
      part = called(name, part, element, body);
      out = out ? concatenate(out, part) : part;
    }
    return out;
  }
  const std::string full = name + std::to_string(lanes);
  llvm::Function* function = module_.getFunction(full);
  if (!function) {
    auto* type = llvm::FunctionType::get(with_element(v, element), {v->getType()}, false);
    function = llvm::Function::Create(type, llvm::Function::InternalLinkage, full, module_);
    set_attributes(*function, target_);
    function->setDoesNotAccessMemory();
    const auto here = b_.saveIP();
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
    b_.CreateRet(body(function->getArg(0)));
    b_.restoreIP(here);
  }
  return b_.CreateCall(function, {v});
}

Value* Emitter::round_to_half(Value* v) {
  if (target_.half_convert)
    return b_.CreateBitCast(b_.CreateFPTrunc(v, with_element(v, b_.getHalfTy())),
                            with_element(v, b_.getInt16Ty()));
  return called("f32_to_f16.", v, b_.getInt16Ty(), [&](Value* x) { return half_bits(x); });
}

// As tensor/half.h: infinity and NaN, normal numbers, numbers below 2^-14 by an addition.
Value* Emitter::half_bits(Value* v) {
  llvm::Type* i16 = with_element(v, b_.getInt16Ty());
  llvm::Type* i32 = with_element(v, b_.getInt32Ty());
  Value* bits = b_.CreateBitCast(v, i32);
  const auto c = [&](double number) { return same_shape(number, bits); };
  Value* sign = b_.CreateAnd(b_.CreateLShr(bits, c(16)), c(0x8000));
  Value* a = b_.CreateAnd(bits, c(0x7fffffff));
  Value* odd = b_.CreateAnd(b_.CreateLShr(a, c(13)), c(1));
  Value* normal = b_.CreateAdd(a, b_.CreateAdd(odd, c(0xfff)));
  normal = b_.CreateLShr(b_.CreateSub(normal, c(0x38000000)), c(13));
  Value* magnitude = b_.CreateBitCast(a, v->getType());
  Value* tiny = b_.CreateBitCast(b_.CreateFAdd(magnitude, same_shape(0.5, v)), i32);
  tiny = b_.CreateSub(tiny, c(0x3f000000));
  Value* out = b_.CreateSelect(b_.CreateICmpULT(a, c(0x38800000)), tiny, normal);
  out = b_.CreateSelect(b_.CreateICmpUGE(a, c(0x477ff000)), c(0x7c00), out);
  out = b_.CreateSelect(b_.CreateICmpUGT(a, c(0x7f800000)), c(0x7e00), out);
  return b_.CreateTrunc(b_.CreateOr(out, sign), i16);
}

Value* Emitter::half_to_float(Value* raw) {
  if (target_.half_convert)
    return b_.CreateFPExt(b_.CreateBitCast(raw, with_element(raw, b_.getHalfTy())),
                          with_element(raw, b_.getFloatTy()));
  return called("f16_to_f32.", raw, b_.getFloatTy(), [&](Value* x) { return half_value(x); });
}

Value* Emitter::half_value(Value* raw) {
  llvm::Type* f32 = with_element(raw, b_.getFloatTy());
  Value* bits = b_.CreateZExt(raw, with_element(raw, b_.getInt32Ty()));
  const auto c = [&](double number) { return same_shape(number, bits); };
  Value* sign = b_.CreateShl(b_.CreateAnd(bits, c(0x8000)), c(16));
  Value* a = b_.CreateShl(b_.CreateAnd(bits, c(0x7fff)), c(13));
  Value* normal = b_.CreateAdd(a, c(112 << 23));
  Value* special = b_.CreateOr(a, c(0x7f800000));
  // Zero and subnormals: the mantissa times 2^-24.
  Value* tiny = b_.CreateUIToFP(b_.CreateAnd(bits, c(0x3ff)), f32);
  tiny =
      b_.CreateBitCast(b_.CreateFMul(tiny, llvm::ConstantFP::get(f32, 0x1p-24)), bits->getType());
  Value* out = b_.CreateSelect(b_.CreateICmpULT(a, c(1 << 23)), tiny, normal);
  out = b_.CreateSelect(b_.CreateICmpUGE(a, c(0x1f << 23)), special, out);
  return b_.CreateBitCast(b_.CreateOr(out, sign), f32);
}

}  // namespace xc::codegen
