// Elementwise ops over operands of any broadcast and strides: "xc.elementwise".

#include "backends/cpu/bound_views.h"
#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/strided_program.h"
#include "ops/registry.h"

namespace xc::cpu {
namespace {

struct Program {
  std::shared_ptr<ChunkProgram> program;  ///< null: no form
  std::vector<uint32_t> buffer_of;        ///< of its operands: inputs of the step, then the result
};

/// The type of what the operator itself gives.
DType own_result(const StepSpec& spec) {
  return spec.narrows() ? DType::kF32 : spec.outputs[0].dtype;
}

/// The functions behind the operator's own. Types whose arithmetic is wider than their storage
/// would be rounded once where the operators round each.
std::optional<ChunkProgram::Reg> append_post_ops(Program& out, const StepSpec& spec,
                                                 ChunkProgram::Reg value, std::string& reason) {
  if (spec.post_ops.empty()) return value;
  const Isa isa = cpu_info().isa;
  const DType type = own_result(spec);
  if (compute_type(type) != type) {
    reason = fmt::format("post-ops on {}", name(type));
    return std::nullopt;
  }
  const auto operand = [&](uint32_t input) -> std::optional<ChunkProgram::Reg> {
    if (compute_type(spec.inputs[input].dtype) != type) return std::nullopt;
    out.buffer_of.push_back(input);
    return build_cast(*out.program, out.program->input(spec.inputs[input].dtype), type, isa);
  };
  const auto result =
      build_post_ops(*out.program, spec.functions(), value, type, isa, operand, reason);
  return result ? build_cast(*out.program, *result, spec.outputs[0].dtype, isa) : result;
}

/// Is an exponent a constant that a power in f32 has as it is, whatever its type?
bool is_held_by_f32(const Operand& operand) {
  if (!operand.constant || operand.constant.count() != 1) return false;
  const Tensor one = operand.constant.held();
  const double value = load_double(one.data(), one.dtype(), 0);
  return static_cast<float>(value) == value;
}

/// The program of a step, or none with the reason.
Program program_for(const StepSpec& spec, std::string& reason) {
  if (spec.outputs.size() != 1 || spec.inputs.size() + 1 > ChunkProgram::kMaxOperands) {
    reason = fmt::format("{} operands", spec.inputs.size());
    return {};
  }
  Program out{std::make_shared<ChunkProgram>(), {}};
  std::vector<ChunkProgram::Reg> args;
  // Operands of post-ops lie behind the operator's own.
  const size_t own = spec.post_ops.empty() ? spec.inputs.size() : spec.node->inputs.size();
  for (uint32_t i = 0; i < own; ++i) {
    const Operand& input = spec.inputs[i];
    // CastLike reads the type of its second input only.
    if (!input.present() || (spec.op->name == "CastLike" && args.size() == 1)) {
      args.push_back(kNoReg);
      continue;
    }
    const int64_t bytes = element_size(input.dtype);
    if (input.dtype == DType::kString || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)) {
      reason = fmt::format("elements of type {}", name(input.dtype));
      return {};
    }
    auto arg = std::optional(out.program->input(input.dtype));
    if (spec.op->name == "Pow" && i == 1 && is_held_by_f32(input) &&
        compute_type(spec.inputs[0].dtype) == DType::kF32)
      arg = build_cast(*out.program, *arg, DType::kF32, cpu_info().isa);
    if (!arg) {
      reason = "no cast of an exponent";
      return {};
    }
    args.push_back(*arg);
    out.buffer_of.push_back(i);
  }
  auto result = build_elementwise(*out.program, *spec.op, spec.attrs(), args, own_result(spec),
                                  cpu_info().isa, reason);
  if (result) result = append_post_ops(out, spec, *result, reason);
  if (!result) {
    if (reason.empty()) reason = "no form for these types";
    return {};
  }
  out.program->output(*result);
  out.program->finish();
  out.buffer_of.push_back(static_cast<uint32_t>(spec.inputs.size()));
  return out;
}

Verdict supports(const StepSpec& spec) {
  std::string reason;
  return program_for(spec, reason).program ? Verdict::ok() : Verdict::no(reason);
}

class ElementwiseKernel final : public Kernel {
 public:
  explicit ElementwiseKernel(const StepSpec& spec) {
    std::string reason;
    Program made = program_for(spec, reason);
    if (!made.program) fail(Status::kInternal, "xc.elementwise: {}", reason);
    program_ = std::move(made.program);
    buffer_of_ = std::move(made.buffer_of);
  }

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    const BoundOperand& result = context.outputs[0];
    StridedSpace space(result.dims, buffer_of_.size());
    for (uint32_t buffer : buffer_of_) {
      const BoundOperand& operand =
          buffer < context.inputs.size() ? context.inputs[buffer] : result;
      space.add_broadcast(operand.dims, operand.strides);
    }
    return std::make_shared<StridedProgram>(program_, space.coalesced(3), buffer_of_);
  }

 private:
  std::shared_ptr<const ChunkProgram> program_;
  std::vector<uint32_t> buffer_of_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<ElementwiseKernel>(spec);
}

/// Elementwise ops without a scalar definition in loop IR.
constexpr std::string_view kOthers[] = {"Asin",  "Acos",  "Atan",    "Asinh",
                                        "Acosh", "Atanh", "CastLike"};

}  // namespace

void add_elementwise(Rows& rows) {
  for (const OpDef* op : all_ops())
    if ((op->domain.empty() || op->domain == "xc") &&
        (op->scalar ||
         std::find(std::begin(kOthers), std::end(kOthers), op->name) != std::end(kOthers)))
      rows.push_back({"xc.elementwise", op->name, supports, create, any_order});
}

}  // namespace xc::cpu
