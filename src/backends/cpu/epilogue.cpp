#include "backends/cpu/epilogue.h"

#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/strided_program.h"

namespace xc::cpu {

std::optional<Epilogue> Epilogue::build(const StepSpec& spec, std::span<const Addend> addends,
                                        std::string& reason) {
  Epilogue out;
  if (spec.post_ops.empty() && addends.empty()) return out;
  const Isa isa = cpu_info().isa;
  const DType type = spec.outputs[0].dtype, wide = compute_type(type);
  auto program = std::make_shared<ChunkProgram>();
  std::optional<ChunkProgram::Reg> value = build_cast(*program, program->input(type), wide, isa);
  const auto operand = [&](uint32_t input) -> std::optional<ChunkProgram::Reg> {
    if (input >= spec.inputs.size() || !spec.inputs[input].present()) return std::nullopt;
    out.inputs_.push_back(input);
    return program->input(spec.inputs[input].dtype);
  };
  for (const Addend& addend : addends) {
    const auto added = operand(addend.input);
    if (!added) continue;
    std::optional<ChunkProgram::Reg> term = build_cast(*program, *added, wide, isa);
    if (term && value && addend.factor != 1)
      term = program->emit(elementwise_fn(Fn::kMul, wide, isa), wide,
                           {*term, program->constant(wide, addend.factor)});
    if (!term || !value) {
      reason = "an addend's type has no conversion";
      return std::nullopt;
    }
    value = program->emit(elementwise_fn(Fn::kAdd, wide, isa), wide, {*value, *term});
  }
  const auto widened = [&](uint32_t input) {
    const auto given = operand(input);
    return given ? build_cast(*program, *given, wide, isa) : std::nullopt;
  };
  value = build_post_ops(*program, spec.post_ops, *value, wide, isa, widened, reason);
  if (!value) return std::nullopt;
  value = build_cast(*program, *value, type, isa);
  if (!value) return std::nullopt;
  program->output(*value);
  program->finish();
  out.output_index_ = static_cast<uint32_t>(spec.inputs.size());
  for (size_t k = 0; k < program->operand_count(); ++k)
    out.bytes_.push_back(static_cast<uint8_t>(program->operand_bytes(k)));
  out.program_ = std::move(program);
  return out;
}

Epilogue::Tile Epilogue::tile(const BindContext& context, std::span<const int64_t> begin,
                              std::span<const int64_t> end) const {
  Tile out;
  const BoundOperand& result = context.outputs[0];
  std::vector<Dims> strides;
  const auto add = [&](const BoundOperand& operand) {
    strides.push_back(strides_over(result.dims, operand.dims, operand.strides));
    int64_t offset = 0;
    for (size_t axis = 0; axis < begin.size(); ++axis) offset += begin[axis] * strides.back()[axis];
    out.offsets.push_back(offset);
  };
  add(result);
  for (uint32_t input : inputs_) add(context.inputs[input]);
  add(result);
  Dims dims(begin.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) dims[axis] = end[axis] - begin[axis];
  out.space = coalesce(dims, std::move(strides), 2);
  return out;
}

void Epilogue::run(const Tile& tile, void* const* buffers, void* scratch) const {
  std::byte* pointers[ChunkProgram::kMaxOperands];
  const size_t count = bytes_.size();
  for (size_t k = 0; k < count; ++k) {
    const uint32_t buffer = k == 0 || k + 1 == count ? output_index_ : inputs_[k - 1];
    pointers[k] = static_cast<std::byte*>(buffers[buffer]) + tile.offsets[k] * bytes_[k];
  }
  run_over(*program_, tile.space, pointers, scratch);
}

}  // namespace xc::cpu
