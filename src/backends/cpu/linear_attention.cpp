// LinearAttention in f32: "xc.linear_attention". Columns of a head's state never meet: a task takes
// some of them through all steps, so that they stay in the first-level cache.

#include <algorithm>
#include <cmath>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/linear_attention_fn.h"

namespace xc::cpu {
namespace {

// query [B, T, Hq * dk], key [B, T, H * dk], value [B, T, H * dv], past [B, H, dk, dv], decay
// [B, T, H * dk] or [B, T, H], beta [B, T, H] or [B, T, 1]; result [B, T, Hq * dv], present as
// past.
constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kPast = 3, kDecay = 4, kBeta = 5;

class LinearAttentionBound final : public BoundKernel {
 public:
  LinearAttentionBound(const StepSpec& spec, const BindContext& context)
      : inputs_(spec.inputs.size()) {
    const auto width = [&](size_t i) { return context.inputs[i].dims[2]; };
    const auto step = [&](size_t i) {
      image_step_[i] = context.inputs[i].strides[0];
      return context.inputs[i].strides[1];
    };
    const auto there = [&](size_t i) { return i < inputs_ && spec.inputs[i].present(); };
    heads_ = spec.attrs().get_int("kv_num_heads", 1);
    walk_.steps = context.inputs[kQuery].dims[1];
    walk_.group = spec.attrs().get_int("q_num_heads", 1) / heads_;
    walk_.rows = width(kKey) / heads_;
    columns_ = width(kValue) / heads_;
    walk_.scale = static_cast<float>(spec.attrs().get_float("scale", 0));
    if (walk_.scale == 0)
      walk_.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(walk_.rows)));
    const std::string rule = spec.attrs().get_string("update_rule", "gated_delta");
    gated_ = rule == "gated" || rule == "gated_delta";
    walk_.delta = rule == "delta" || rule == "gated_delta";
    walk_.query_step = step(kQuery);
    walk_.key_step = step(kKey);
    walk_.value_step = step(kValue);
    walk_.y_head = columns_;
    walk_.y_step = columns_ * heads_ * walk_.group;
    walk_.state_step = columns_;
    has_past_ = there(kPast);
    has_present_ = spec.outputs.size() > 1 && spec.outputs[1].present();
    if (gated_) {
      walk_.decay_step = step(kDecay);
      walk_.decay_per_row = width(kDecay) != heads_;
    }
    if (walk_.delta) {
      walk_.rate_step = step(kBeta);
      shared_rate_ = width(kBeta) == 1;
    }
    blocks_ = ceil_div(columns_, fns_.columns);
    tasks = checked_mul(checked_mul(context.inputs[kQuery].dims[0], heads_), blocks_);
    scratch_bytes = checked_mul(fns_.room(walk_.rows), 4);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto input = [&](size_t i) { return static_cast<const float*>(args.buffers[i]); };
    const auto of_image = [&](size_t i, int64_t image) {
      return input(i) + image * image_step_[i];
    };
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks_ * fns_.columns, head = task / blocks_ % heads_;
      const int64_t image = task / blocks_ / heads_;
      StateWalk walk = walk_;
      walk.columns = std::min(fns_.columns, columns_ - first);
      walk.query = of_image(kQuery, image) + head * walk.group * walk.rows;
      walk.key = of_image(kKey, image) + head * walk.rows;
      walk.value = of_image(kValue, image) + head * columns_ + first;
      walk.y = static_cast<float*>(args.buffers[inputs_]) + image * walk.steps * walk.y_step +
               head * walk.group * columns_ + first;
      if (gated_)
        walk.decay = of_image(kDecay, image) + head * (walk.decay_per_row ? walk.rows : 1);
      if (walk.delta) walk.rate = of_image(kBeta, image) + (shared_rate_ ? 0 : head);
      const int64_t state = (image * heads_ + head) * walk.rows * columns_ + first;
      if (has_past_) walk.past = input(kPast) + state;
      if (has_present_) walk.present = static_cast<float*>(args.buffers[inputs_ + 1]) + state;
      walk.room = static_cast<float*>(args.scratch);
      fns_.walk(walk);
    }
  }

 private:
  const LinearAttentionFns& fns_ = linear_attention_fns(cpu_info().isa);
  size_t inputs_;
  StateWalk walk_{};  ///< what all tasks have in common
  int64_t heads_ = 1, columns_ = 0, blocks_ = 0;
  int64_t image_step_[kBeta + 1] = {};  ///< elements, of each input but the past
  bool gated_ = false, shared_rate_ = false, has_past_ = false, has_present_ = false;
};

/// Rows may lie apart: queries, keys and values are often parts of the rows of one product.
Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands) {
      if (!operand.present()) continue;
      if (operand.dtype != DType::kF32)
        return Verdict::no(fmt::format("elements of type {}", name(operand.dtype)));
      const bool rows = operands == &spec.inputs && operand.dims.size() == 3;  // not the past
      if (rows ? !(operand.strides.back() == Dim(1)) && !(operand.dims.back() == Dim(1))
               : !operand.contiguous())
        return Verdict::no("operands that are not row-major");
    }
  return Verdict::ok();
}

}  // namespace

void add_linear_attention(Rows& rows) {
  rows.push_back(
      {"xc.linear_attention", "LinearAttention", supports, create_bound_by<LinearAttentionBound>});
}

}  // namespace xc::cpu
