#include "backends/cpu/epilogue.h"

#include <algorithm>

#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/strided_program.h"

namespace xc::cpu {

std::optional<Bounds> bounds_of(const PostOp& post) {
  if (post.kind != PostOp::Kind::kUnary) return {};
  Bounds out;
  if (post.op->name == "Relu") {
    out.low = 0;
    return out;
  }
  if (post.op->name != "Clip" || post.constants.size() != 2) return {};
  if (const auto low = post.number(0)) out.low = static_cast<float>(*low);
  if (const auto high = post.number(1)) out.high = static_cast<float>(*high);
  // Bounds that cross, or are NaN, are the epilogue's.
  if (!(out.low <= out.high)) return {};
  return out;
}

std::optional<Epilogue> Epilogue::build(const StepSpec& spec, std::span<const Addend> addends,
                                        std::string& reason, bool staged) {
  Epilogue out;
  if (spec.post_ops.empty() && addends.empty()) return out;
  const Isa isa = cpu_info().isa;
  out.staged_ = staged && spec.narrows();
  const std::span<const PostOp> post_ops = out.staged_ ? spec.functions() : spec.post_ops;
  const DType type = spec.outputs[0].dtype;
  const bool as_they_lie = !out.staged_ && addends.empty() &&
                           std::all_of(post_ops.begin(), post_ops.end(), commutes_with_rounding);
  const DType wide = as_they_lie ? type : compute_type(type);
  auto program = std::make_shared<ChunkProgram>();
  std::optional<ChunkProgram::Reg> value =
      build_cast(*program, program->input(out.staged_ ? wide : type), wide, isa);
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
  value = build_post_ops(*program, post_ops, *value, wide, isa, widened, reason);
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

Epilogue::Tiles::Tiles(const Epilogue& epilogue, const BindContext& context)
    : whole_(context.outputs[0].dims, epilogue.inputs_.size() + 2) {
  whole_.add(context.outputs[0].strides);
  for (uint32_t input : epilogue.inputs_)
    whole_.add_broadcast(context.inputs[input].dims, context.inputs[input].strides);
  whole_.add(context.outputs[0].strides);
}

void Epilogue::Tiles::add(std::span<const int64_t> begin, std::span<const int64_t> end,
                          std::span<const int64_t> staged) {
  const size_t rank = whole_.rank();
  staged_ = !staged.empty();
  for (size_t k = 0; k < whole_.operands(); ++k) {
    const auto strides = whole_.strides(k);
    int64_t offset = 0;
    for (size_t axis = 0; axis < rank; ++axis) offset += begin[axis] * strides[axis];
    offsets_.push_back(k == 0 && !staged.empty() ? 0 : offset);
  }
  // Parts are of a few sizes: those at the edges differ.
  size_t s = 0;
  for (; s < spaces_.size(); ++s) {
    const int64_t* const extent = extents_.data() + s * rank;
    size_t axis = 0;
    while (axis < rank && extent[axis] == end[axis] - begin[axis]) ++axis;
    if (axis == rank) break;
  }
  if (s == spaces_.size()) {
    for (size_t axis = 0; axis < rank; ++axis) extents_.push_back(end[axis] - begin[axis]);
    const auto extents = std::span(extents_).last(rank);
    if (staged.empty()) {
      spaces_.push_back(whole_.coalesced(extents, 3));
    } else {
      StridedSpace part(extents, whole_.operands());
      part.add(staged);
      for (size_t k = 1; k < whole_.operands(); ++k) part.add(whole_.strides(k));
      spaces_.push_back(part.coalesced(3));
    }
  }
  space_of_.push_back(static_cast<uint32_t>(s));
}

int64_t Epilogue::Tiles::bytes() const {
  int64_t total = whole_.bytes() + static_cast<int64_t>(8 * (extents_.size() + offsets_.size()) +
                                                        4 * space_of_.size());
  for (const StridedSpace& space : spaces_) total += space.bytes();
  return total;
}

void Epilogue::run(const Tiles& tiles, size_t part, void* const* buffers, void* scratch,
                   void* staged) const {
  std::byte* pointers[ChunkProgram::kMaxOperands];
  const size_t count = bytes_.size();
  const int64_t* const offsets = tiles.offsets_.data() + part * count;
  for (size_t k = 0; k < count; ++k) {
    const uint32_t buffer = k == 0 || k + 1 == count ? output_index_ : inputs_[k - 1];
    pointers[k] = static_cast<std::byte*>(buffers[buffer]) + offsets[k] * bytes_[k];
  }
  if (tiles.staged_) pointers[0] = static_cast<std::byte*>(staged);
  run_over(*program_, tiles.spaces_[tiles.space_of_[part]], pointers, scratch);
}

BoundedEpilogue::BoundedEpilogue(const StepSpec& spec) {
  StepSpec rest = spec;
  if (!rest.post_ops.empty())
    if (const auto first = bounds_of(rest.post_ops.front())) {
      bounds = *first;
      rest.post_ops.erase(rest.post_ops.begin());
    }
  std::string reason;
  auto built = Epilogue::build(rest, {}, reason, true);
  if (!built) fail(Status::kInternal, "an epilogue of {}: {}", spec.op->name, reason);
  epilogue = std::move(*built);
}

}  // namespace xc::cpu
