// Ops that are one scale and one shift per element, channel or tensor, as chunk programs over
// strided operands: QuantizeLinear, DequantizeLinear ("xc.quantize"), BatchNormalization
// ("xc.batch_norm").

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/strided_program.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

using Reg = ChunkProgram::Reg;

/// Emits fn over f32 registers.
Reg f32_call(ChunkProgram& p, Fn fn, std::initializer_list<Reg> args) {
  return p.emit(elementwise_fn(fn, DType::kF32, cpu_info().isa), DType::kF32, args);
}

bool is_quantize(const OpDef& op) {
  return op.name == "QuantizeLinear";
}

/// x, scale and, when present, the zero point.
std::shared_ptr<ChunkProgram> quantize_program(const StepSpec& spec, std::string& reason) {
  const Isa isa = cpu_info().isa;
  auto p = std::make_shared<ChunkProgram>();
  std::vector<Reg> in;
  for (const Operand& input : spec.inputs) {
    if (!input.present()) continue;
    const auto wide = build_cast(*p, p->input(input.dtype), DType::kF32, isa);
    if (!wide) {
      reason = fmt::format("elements of type {}", name(input.dtype));
      return nullptr;
    }
    in.push_back(*wide);
  }
  Reg y;
  if (is_quantize(*spec.op)) {
    y = f32_call(*p, Fn::kDiv, {in[0], in[1]});
    if (const DType precision = spec.inputs[1].dtype; precision != DType::kF32)
      y = *build_cast(*p, *build_cast(*p, y, precision, isa), DType::kF32, isa);
    y = f32_call(*p, Fn::kRound, {y});
    if (in.size() > 2) y = f32_call(*p, Fn::kAdd, {y, in[2]});
    // NaN becomes the least number; conversions make 0 of it.
    const DType integer = spec.outputs[0].dtype;
    if (is_signed(integer)) {
      const Reg is_nan = p->emit(elementwise_fn(Fn::kIsNan, DType::kF32, isa), DType::kBool, {y});
      y = f32_call(
          *p, Fn::kWhere,
          {is_nan, p->constant(DType::kF32, integer == DType::kI8 ? INT8_MIN : INT16_MIN), y});
    }
  } else {
    y = in[0];
    if (in.size() > 2) y = f32_call(*p, Fn::kSub, {y, in[2]});
    y = f32_call(*p, Fn::kMul, {y, in[1]});
  }
  const auto narrow = build_cast(*p, y, spec.outputs[0].dtype, isa);  // saturates
  if (!narrow) {
    reason = fmt::format("results of type {}", name(spec.outputs[0].dtype));
    return nullptr;
  }
  p->output(*narrow);
  p->finish();
  return p;
}

/// x, then per channel: scale, shift, mean, variance.
std::shared_ptr<ChunkProgram> batch_norm_program(const StepSpec& spec, std::string&) {
  const Isa isa = cpu_info().isa;
  auto p = std::make_shared<ChunkProgram>();
  std::vector<Reg> in;
  for (size_t i = 0; i < 5; ++i)
    in.push_back(*build_cast(*p, p->input(spec.inputs[i].dtype), DType::kF32, isa));
  const Reg epsilon = p->constant(DType::kF32, spec.attrs().get_float("epsilon", 1e-5));
  const Reg deviation = f32_call(*p, Fn::kSqrt, {f32_call(*p, Fn::kAdd, {in[4], epsilon})});
  const Reg factor = f32_call(*p, Fn::kDiv, {in[1], deviation});
  const Reg shift = f32_call(*p, Fn::kSub, {in[2], f32_call(*p, Fn::kMul, {in[3], factor})});
  const Reg y = f32_call(*p, Fn::kAdd, {f32_call(*p, Fn::kMul, {in[0], factor}), shift});
  p->output(*build_cast(*p, y, spec.outputs[0].dtype, isa));
  p->finish();
  return p;
}

using MakeProgram = std::shared_ptr<ChunkProgram> (*)(const StepSpec&, std::string&);

/// `values` of each axis, with that of `axis` behind `of_blocks`: the axis as blocks and what is in
/// them.
Dims split_axis(std::span<const int64_t> values, size_t axis, int64_t of_blocks, int64_t inside) {
  Dims out(values.begin(), values.end());
  out[axis] = inside;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), of_blocks);
  return out;
}

/// `axis`: of the first operand, along which vectors lie; scalars and one-element vectors
/// broadcast. `block`: elements along it that share one of a parameter's, which has as many dims as
/// the first operand; 0 = vectors.
class AffineKernel final : public Kernel {
 public:
  AffineKernel(const StepSpec& spec, MakeProgram make, int64_t axis, int64_t block = 0)
      : axis_(axis), block_(block) {
    std::string reason;
    program_ = make(spec, reason);
    if (!program_) fail(Status::kInternal, "{}: {}", spec.op->name, reason);
    for (uint32_t i = 0; i < spec.inputs.size(); ++i)
      if (spec.inputs[i].present()) buffer_of_.push_back(i);
    buffer_of_.push_back(static_cast<uint32_t>(spec.inputs.size()));
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    if (block_ > 0) return bind_blocks(context);
    const BoundOperand& result = context.outputs[0];
    const size_t rank = result.dims.size();
    StridedSpace space(result.dims, buffer_of_.size());
    for (uint32_t buffer : buffer_of_) {
      const BoundOperand& operand =
          buffer < context.inputs.size() ? context.inputs[buffer] : result;
      if (buffer == 0 || buffer == context.inputs.size()) {
        space.add(operand.strides);
        continue;
      }
      Dims over(rank, 0);
      if (element_count(operand.dims) != 1) {
        const size_t axis = rank == 1 ? 0 : normalise_axis(axis_, rank);
        if (operand.dims.size() != 1 || operand.dims[0] != result.dims[axis])
          fail(Status::kRange, "a parameter has dims {}",
               to_text(Dims(operand.dims.begin(), operand.dims.end())));
        over[axis] = operand.strides[0];
      }
      space.add(over);
    }
    return std::make_shared<StridedProgram>(program_, space.coalesced(3), buffer_of_);
  }

 private:
  std::shared_ptr<const BoundKernel> bind_blocks(const BindContext& context) const {
    const BoundOperand& result = context.outputs[0];
    const size_t axis = normalise_axis(axis_, result.dims.size());
    Dims blocks(result.dims.begin(), result.dims.end());
    blocks[axis] /= block_;
    StridedSpace space(split_axis(result.dims, axis, blocks[axis], block_), buffer_of_.size());
    for (uint32_t buffer : buffer_of_) {
      const bool parameter = buffer > 0 && buffer < context.inputs.size();
      const BoundOperand& operand =
          buffer < context.inputs.size() ? context.inputs[buffer] : result;
      if (parameter &&
          !std::equal(blocks.begin(), blocks.end(), operand.dims.begin(), operand.dims.end()))
        fail(Status::kRange, "a parameter has dims {}, expected {}",
             to_text(Dims(operand.dims.begin(), operand.dims.end())), to_text(blocks));
      const int64_t step = operand.strides[axis];
      space.add(split_axis(operand.strides, axis, parameter ? step : step * block_,
                           parameter ? 0 : step));
    }
    return std::make_shared<StridedProgram>(program_, space.coalesced(3), buffer_of_);
  }

  std::shared_ptr<const ChunkProgram> program_;
  std::vector<uint32_t> buffer_of_;
  int64_t axis_, block_;
};

constexpr TypeSet kIntegers =
    type_set({DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32});
constexpr TypeSet kReals = type_set({DType::kF32, DType::kF16, DType::kBF16});

Verdict supports_quantize(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const SymDims& dims = spec.inputs[0].dims;
  if (const int64_t block = spec.attrs().get_int("block_size", 0); block > 0) {
    const size_t axis = normalise_axis(spec.attrs().get_int("axis", 1), dims.size());
    if (dims[axis].divisor() % block != 0) return Verdict::no("a block that may not be whole");
  } else if (spec.inputs[1].dims.size() > 1) {
    return Verdict::no("a scale of several axes");
  }
  if (spec.attrs().get_int("precision", 0) != 0) return Verdict::no("a precision of its own");
  const bool quantize = is_quantize(*spec.op);
  const DType integer = quantize ? spec.outputs[0].dtype : spec.inputs[0].dtype;
  const DType real = quantize ? spec.inputs[0].dtype : spec.outputs[0].dtype;
  if (!contains(kIntegers, integer))
    return Verdict::no(fmt::format("integers of type {}", name(integer)));
  const DType scale = spec.inputs[1].dtype;
  if (!contains(kReals, real) || !contains(kReals, scale))
    return Verdict::no(fmt::format("numbers of type {} by {}", name(real), name(scale)));
  // A quotient of halves is the same when it is rounded to f32 first.
  if (quantize && scale != DType::kF32 && scale != real)
    return Verdict::no(fmt::format("a quotient in {}", name(scale)));
  std::string reason;
  return quantize_program(spec, reason) ? Verdict::ok() : Verdict::no(reason);
}
std::unique_ptr<Kernel> create_quantize(const StepSpec& spec) {
  return std::make_unique<AffineKernel>(spec, quantize_program, spec.attrs().get_int("axis", 1),
                                        spec.attrs().get_int("block_size", 0));
}

Verdict supports_batch_norm(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.attrs().get_int("training_mode", 0) != 0) return Verdict::no("training mode");
  if (spec.inputs[0].dims.size() < 2) return Verdict::no("an input without a channel axis");
  for (size_t i = 0; i < 5; ++i)
    if (compute_type(spec.inputs[i].dtype) != DType::kF32)
      return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[i].dtype)));
  return Verdict::ok();
}
std::unique_ptr<Kernel> create_batch_norm(const StepSpec& spec) {
  return std::make_unique<AffineKernel>(spec, batch_norm_program, 1);
}

}  // namespace

void add_affine_ops(Rows& rows) {
  for (std::string_view op : {"QuantizeLinear", "DequantizeLinear"})
    rows.push_back({"xc.quantize", op, supports_quantize, create_quantize, any_order});
  rows.push_back(
      {"xc.batch_norm", "BatchNormalization", supports_batch_norm, create_batch_norm, any_order});
}

}  // namespace xc::cpu
