#pragma once
// Kernels without anything to prepare: a function over the operands' views, sequential or split.

#include "backends/cpu/bound_views.h"
#include "backends/cpu/kernels.h"

namespace xc::cpu {

/// Every operand is row-major and of `type` or `besides`, and there are no post-ops.
/// `strided`: an input that may lie in any way.
inline Verdict dense_of(const StepSpec& spec, DType type, DType besides,
                        std::optional<size_t> strided = {}) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands) {
      if (!operand.present()) continue;
      if (operand.dtype != type && operand.dtype != besides)
        return Verdict::no(fmt::format("elements of type {}", name(operand.dtype)));
      if (strided && &operand == &spec.inputs[*strided]) continue;
      if (!operand.contiguous()) return Verdict::no("operands that are not row-major");
    }
  return Verdict::ok();
}

/// No strings and no post-ops.
inline Verdict no_strings(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const Operand& input : spec.inputs)
    if (input.present() && input.dtype == DType::kString)
      return Verdict::no("elements of type string");
  return Verdict::ok();
}

inline Verdict dense_f32(const StepSpec& spec) {
  return dense_of(spec, DType::kF32, DType::kF32);
}

/// Data, weights and a bias that may be absent (operands 0 to 2) are f32, the weights a dense
/// constant of one element at least.
inline Verdict f32_with_constant_weights(const StepSpec& spec) {
  for (size_t i = 0; i < 3 && i < spec.inputs.size(); ++i)
    if (spec.inputs[i].present() && spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("operand {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  const Tensor& w = spec.inputs[1].constant;
  if (!w || !is_contiguous(w.dims(), w.strides())) return Verdict::no("weights are not constant");
  return w.count() == 0 ? Verdict::no("empty weights") : Verdict::ok();
}

struct SimpleContext {
  const StepSpec& spec;
  const OperandViews& views;
  const StepArgs& args;
  int64_t begin, end, tasks;
  const OperandView& in(size_t i) const { return views.inputs[i]; }
  const OperandView& out(size_t i = 0) const { return views.outputs[i]; }
  bool has(size_t i) const { return i < views.inputs.size() && views.inputs[i].present(); }
  bool wants(size_t i) const { return i < views.outputs.size() && views.outputs[i].present(); }
  template <class T>
  const T* input(size_t i) const {
    return static_cast<const T*>(args.buffers[i]);
  }
  template <class T>
  T* output(size_t i = 0) const {
    return static_cast<T*>(args.buffers[views.inputs.size() + i]);
  }
  TensorView input_view(size_t i) const { return in(i).at(args.buffers[i]); }
};
using SimpleFn = void (*)(const SimpleContext&);
/// Number of tasks for bound operands; null = 1.
using SimpleTasks = int64_t (*)(const StepSpec&, const OperandViews&);

/// A kernel with nothing to prepare: holds the step until it is bound. `by_rows`: what
/// Kernel::takes_rows says.
template <std::shared_ptr<const BoundKernel> (*bind_to)(const StepSpec&, const BindContext&),
          bool by_rows = false>
std::unique_ptr<Kernel> create_by(const StepSpec& spec) {
  class Holder final : public Kernel {
   public:
    explicit Holder(const StepSpec& step) : spec_(step) {}
    std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
      return bind_to(spec_, context);
    }
    bool takes_rows() const override { return by_rows; }

   private:
    StepSpec spec_;
  };
  return std::make_unique<Holder>(spec);
}

template <class Bound>
std::shared_ptr<const BoundKernel> make_bound(const StepSpec& spec, const BindContext& context) {
  return std::make_shared<Bound>(spec, context);
}
/// The same; binding makes a `Bound`(step, context).
template <class Bound, bool by_rows = false>
std::unique_ptr<Kernel> create_bound_by(const StepSpec& spec) {
  return create_by<make_bound<Bound>, by_rows>(spec);
}

/// A kernel that makes a `Model` of the step once, which all that is bound shares. `by_rows`: what
/// Kernel::takes_rows says.
template <class Model,
          std::shared_ptr<const BoundKernel> (*bind_to)(const StepSpec&, const BindContext&,
                                                        const std::shared_ptr<const Model>&),
          bool by_rows = false>
std::unique_ptr<Kernel> create_prepared(const StepSpec& spec) {
  class Prepared final : public Kernel {
   public:
    explicit Prepared(const StepSpec& step)
        : spec_(step), model_(std::make_shared<const Model>(step)) {}
    std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
      return bind_to(spec_, context, model_);
    }
    bool takes_rows() const override { return by_rows; }

   private:
    StepSpec spec_;
    std::shared_ptr<const Model> model_;
  };
  return std::make_unique<Prepared>(spec);
}

template <class Bound>
std::shared_ptr<const BoundKernel> make_sharing_step(const StepSpec&, const BindContext& context,
                                                     const std::shared_ptr<const StepSpec>& step) {
  return std::make_shared<Bound>(step, context);
}
/// The same for bound kernels that look at the step when they run: all share a copy of it. Binding
/// makes a `Bound`(that copy, context).
template <class Bound>
std::unique_ptr<Kernel> create_sharing_step(const StepSpec& spec) {
  return create_prepared<StepSpec, make_sharing_step<Bound>>(spec);
}

/// A kernel whose runs follow a `Plan`(step, views) that is made when it is bound: what a run would
/// otherwise take memory for. Plan::scratch_bytes and Plan::tasks, where there are such, are
/// BoundKernel's.
/// `overwritten`: what BoundKernel::in_place says.
template <class Plan, void (*fn)(const SimpleContext&, const Plan&),
          SimpleTasks count_tasks = nullptr, uint32_t overwritten = 0>
std::unique_ptr<Kernel> create_planned(const StepSpec& spec) {
  class Bound final : public BoundKernel {
   public:
    Bound(std::shared_ptr<const StepSpec> step, const BindContext& context)
        : spec_(std::move(step)), views_(*spec_, context), plan_(*spec_, views_) {
      if constexpr (count_tasks != nullptr) tasks = count_tasks(*spec_, views_);
      if constexpr (requires { plan_.tasks; }) tasks = plan_.tasks;
      if constexpr (requires { plan_.scratch_bytes; }) scratch_bytes = plan_.scratch_bytes;
      in_place = overwritten;
      held_bytes += views_.bytes() + static_cast<int64_t>(sizeof(Plan));
    }
    void run(const StepArgs& args, int64_t begin, int64_t end) const override {
      fn({*spec_, views_, args, begin, end, tasks}, plan_);
    }

   private:
    const std::shared_ptr<const StepSpec> spec_;
    OperandViews views_;
    const Plan plan_;
  };
  return create_sharing_step<Bound>(spec);
}

struct NoPlan {
  NoPlan(const StepSpec&, const OperandViews&) {}
};
template <SimpleFn fn>
void run_unplanned(const SimpleContext& context, const NoPlan&) {
  fn(context);
}
/// The same where there is nothing to plan.
template <SimpleFn fn, SimpleTasks count_tasks = nullptr, uint32_t overwritten = 0>
std::unique_ptr<Kernel> create_simple(const StepSpec& spec) {
  return create_planned<NoPlan, run_unplanned<fn>, count_tasks, overwritten>(spec);
}

}  // namespace xc::cpu
