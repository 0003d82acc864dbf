// Operators of the host with sizes known when a step is bound: the function reads and writes the
// run's memory in place. Others make their outputs themselves (OpDef::evaluate).

#include <array>

#include "backends/cpu/simple_kernel.h"
#include "ops/checks.h"
#include "ops/custom.h"

namespace xc::cpu {
namespace {

/// The planner and, in dynamic steps, the reference make row-major copies where needed.
Verdict supports(const StepSpec& spec) {
  if (!spec.op->reference) return Verdict::no("the function makes its outputs itself");
  if (!spec.post_ops.empty()) return Verdict::no("a host's function takes no post-ops");
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands)
      if (operand.present() && !operand.contiguous())
        return Verdict::no("a host's function takes row-major memory");
  return Verdict::ok();
}

class HostBound final : public BoundKernel {
 public:
  HostBound(const StepSpec& spec, const BindContext& context)
      : node_(spec.node), views_(spec, context) {
    // Relations between inputs that symbols left open: checked once per signature.
    ReferenceContext sizes;
    sizes.node = node_;
    for (const OperandView& view : views_.inputs) sizes.inputs.push_back(view.at(nullptr));
    for (const OperandView& view : views_.outputs) sizes.outputs.push_back(view.at(nullptr));
    check_shapes(sizes);
    held_bytes += views_.bytes();
    allocates = views_.inputs.size() + views_.outputs.size() > kInline;
  }

  void run(const StepArgs& args, int64_t, int64_t) const override {
    std::array<TensorView, kInline> few;
    std::vector<TensorView> many;
    const size_t inputs = views_.inputs.size(), all = inputs + views_.outputs.size();
    TensorView* views = few.data();
    if (all > few.size()) {
      many.resize(all);
      views = many.data();
    }
    for (size_t i = 0; i < all; ++i) {
      const OperandView& view = i < inputs ? views_.inputs[i] : views_.outputs[i - inputs];
      if (view.present()) views[i] = view.at(args.buffers[i]);
    }
    OpCall(*node_, {views, inputs}, {views + inputs, all - inputs}).run();
  }

 private:
  static constexpr size_t kInline = 16;  ///< operands without an allocation per run
  const Node* node_;
  OperandViews views_;
};

}  // namespace

void add_host_op(Rows& rows) {
  rows.push_back({"host", "::", supports, create_bound_by<HostBound>});
}

}  // namespace xc::cpu
