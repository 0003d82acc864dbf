// Elementwise ops over operands of any broadcast and strides: "xc.elementwise".

#include "backends/cpu/bound_views.h"
#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/strided_program.h"
#include "ops/registry.h"

namespace xc::cpu {
namespace {

/// The program of a step, or null with the reason.
std::shared_ptr<ChunkProgram> program_for(const StepSpec& spec, std::string& reason) {
  if (spec.outputs.size() != 1 || spec.inputs.size() + 1 > ChunkProgram::kMaxOperands) {
    reason = fmt::format("{} operands", spec.inputs.size());
    return nullptr;
  }
  auto program = std::make_shared<ChunkProgram>();
  std::vector<ChunkProgram::Reg> args;
  for (const Operand& input : spec.inputs) {
    // CastLike reads the type of its second input only.
    if (!input.present() || (spec.op->name == "CastLike" && args.size() == 1)) {
      args.push_back(kNoReg);
      continue;
    }
    const int64_t bytes = element_size(input.dtype);
    if (input.dtype == DType::kString || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)) {
      reason = fmt::format("elements of type {}", name(input.dtype));
      return nullptr;
    }
    args.push_back(program->input(input.dtype));
  }
  const auto result = build_elementwise(*program, *spec.op, spec.attrs(), args,
                                        spec.outputs[0].dtype, cpu_info().isa, reason);
  if (!result) {
    if (reason.empty()) reason = "no form for these types";
    return nullptr;
  }
  program->output(*result);
  program->finish();
  return program;
}

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  std::string reason;
  return program_for(spec, reason) ? Verdict::ok() : Verdict::no(reason);
}

class ElementwiseKernel final : public Kernel {
 public:
  explicit ElementwiseKernel(const StepSpec& spec) {
    std::string reason;
    program_ = program_for(spec, reason);
    if (!program_) fail(Status::kInternal, "xc.elementwise: {}", reason);
    for (uint32_t i = 0; i < spec.inputs.size(); ++i)
      if (spec.inputs[i].present() && !(spec.op->name == "CastLike" && i == 1))
        buffer_of_.push_back(i);
    buffer_of_.push_back(static_cast<uint32_t>(spec.inputs.size()));
  }

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    const BoundOperand& result = context.outputs[0];
    std::vector<Dims> strides;
    for (uint32_t buffer : buffer_of_) {
      const BoundOperand& operand =
          buffer < context.inputs.size() ? context.inputs[buffer] : result;
      strides.push_back(strides_over(result.dims, operand.dims, operand.strides));
    }
    return std::make_shared<StridedProgram>(program_, coalesce(result.dims, std::move(strides), 2),
                                            buffer_of_);
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
    if (op->domain.empty() && (op->scalar || std::find(std::begin(kOthers), std::end(kOthers),
                                                       op->name) != std::end(kOthers)))
      rows.push_back({"xc.elementwise", op->name, supports, create, any_order});
}

}  // namespace xc::cpu
