// Adapter over OpDef::reference: the last row of every op. Slow and sequential on purpose.

#include "backends/cpu/bound_views.h"
#include "backends/cpu/kernels.h"

namespace xc::cpu {
namespace {

Verdict supports(const StepSpec& spec) {
  if (spec.op->control_flow) return Verdict::no("control flow is executed by the runtime");
  if (!spec.op->reference) return Verdict::no("the op has no reference");
  if (!spec.post_ops.empty()) return Verdict::no("a reference takes no post-ops");
  return Verdict::ok();
}

class ReferenceBound final : public BoundKernel {
 public:
  ReferenceBound(const StepSpec& spec, const BindContext& context)
      : op_(spec.op), node_(spec.node), views_(spec, context) {
    held_bytes = 256 + views_.bytes();
    allocates = true;
  }
  void run(const StepArgs& args, int64_t, int64_t) const override {
    ReferenceContext context;
    context.node = node_;
    void* const* buffer = args.buffers;
    // An absent operand is a view without dtype; so is an output nobody wants.
    for (const OperandView& view : views_.inputs) context.inputs.push_back(view.at(*buffer++));
    for (const OperandView& view : views_.outputs) context.outputs.push_back(view.at(*buffer++));
    if (!walks_for_nothing(context)) op_->reference(context);
  }

 private:
  const OpDef* op_;
  const Node* node_;
  OperandViews views_;
};

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const StepSpec& spec) : spec_(spec) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    return std::make_shared<ReferenceBound>(spec_, context);
  }

 private:
  StepSpec spec_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<ReferenceKernel>(spec);
}

}  // namespace

void add_reference(Rows& rows) {
  rows.push_back({"reference", "*", supports, create});
}

}  // namespace xc::cpu
