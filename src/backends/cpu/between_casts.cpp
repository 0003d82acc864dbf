#include "backends/cpu/between_casts.h"

#include <algorithm>
#include <array>

#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/strided_program.h"

namespace xc::cpu {
namespace {

/// Whole numbers are cut off, from what f32 says of them: 216.9999 is 217.
constexpr double kForgiven = 0x1p-13;

int64_t f32_bytes(const BoundOperand& operand) {
  return align_up(checked_mul(element_count(operand.dims), 4), 64);
}

}  // namespace

StepSpec in_f32(const StepSpec& spec) {
  StepSpec out = spec.without_cast();
  out.inputs[0].dtype = out.outputs[0].dtype = DType::kF32;
  return out;
}

Conversion::Conversion(DType from, DType to, std::span<const int64_t> dims,
                       std::span<const int64_t> from_strides, std::span<const int64_t> to_strides)
    : program_(std::make_shared<ChunkProgram>()) {
  const Isa isa = cpu_info().isa;
  ChunkProgram::Reg given = program_->input(from);
  if (from == DType::kF32 && to == DType::kU8) {
    const auto constant = [&](double number) { return program_->constant(from, number); };
    given = program_->emit(elementwise_fn(Fn::kAdd, from, isa), from, {given, constant(kForgiven)});
    given = program_->emit(elementwise_fn(Fn::kClip, from, isa), from,
                           {given, constant(0), constant(255)});
  }
  const auto value = build_cast(*program_, given, to, isa);
  XC_CHECK(value);
  program_->output(*value);
  program_->finish();
  StridedSpace space(dims, 2);
  space.add(from_strides);
  space.add(to_strides);
  space_ = space.coalesced(3);
}

void Conversion::run(const void* from, void* to, void* scratch) const {
  std::byte* const pointers[] = {static_cast<std::byte*>(const_cast<void*>(from)),
                                 static_cast<std::byte*>(to)};
  run_over(*program_, space_, pointers, scratch);
}

BetweenCasts::BetweenCasts(const StepSpec& spec, const BindContext& context, Bind bind)
    : result_(spec.inputs.size()) {
  XC_CHECK(result_ < kMostBuffers);
  std::vector<BoundOperand> inputs(context.inputs.begin(), context.inputs.end());
  std::vector<BoundOperand> outputs(context.outputs.begin(), context.outputs.end());
  const auto dense = [](const BoundOperand& operand) {
    return contiguous_strides(Dims(operand.dims.begin(), operand.dims.end()));
  };
  const Dims left = dense(inputs[0]), result = dense(outputs[0]);
  int64_t conversion_bytes = 0;
  if (const DType type = spec.inputs[0].dtype; type != DType::kF32) {
    load_.emplace(type, DType::kF32, inputs[0].dims, inputs[0].strides, left);
    inputs[0].strides = left;
    result_at_ = f32_bytes(inputs[0]);
    conversion_bytes = load_->scratch_bytes();
  }
  inner_at_ = result_at_;
  if (const DType type = spec.outputs[0].dtype; type != DType::kF32) {
    store_.emplace(DType::kF32, type, outputs[0].dims, result, outputs[0].strides);
    outputs[0].strides = result;
    inner_at_ += f32_bytes(outputs[0]);
    conversion_bytes = std::max(conversion_bytes, store_->scratch_bytes());
  }
  inner_ = bind(BindContext{inputs, outputs, context.background});
  XC_CHECK(inner_->shared_bytes == 0);
  scratch_bytes = inner_at_ + std::max(align_up(inner_->scratch_bytes, 64), conversion_bytes);
  unread = inner_->unread;
  any_address = inner_->any_address;
  allocates = inner_->allocates;
  provisional = inner_->provisional;
  held_bytes = 512 + inner_->held_bytes;
}

void BetweenCasts::run(const StepArgs& args, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  auto* const scratch = static_cast<std::byte*>(args.scratch);
  std::array<void*, kMostBuffers> buffers;
  std::copy_n(args.buffers, result_ + 1, buffers.begin());
  if (load_) {
    load_->run(args.buffers[0], scratch, scratch + inner_at_);
    buffers[0] = scratch;
  }
  if (store_) buffers[result_] = scratch + result_at_;
  inner_->run({buffers.data(), scratch + inner_at_, nullptr}, 0, inner_->tasks);
  if (store_) store_->run(buffers[result_], args.buffers[result_], scratch + inner_at_);
}

}  // namespace xc::cpu
