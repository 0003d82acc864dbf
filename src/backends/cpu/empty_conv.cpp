#include "backends/cpu/empty_conv.h"

#include "backends/cpu/copy.h"

namespace xc::cpu {
namespace {

constexpr size_t kW = 1, kB = 2;

class EmptyConvBound final : public BoundKernel {
 public:
  EmptyConvBound(const StepSpec& spec, const BindContext& context, const Epilogue& behind)
      : behind_(behind),
        y_index_(spec.inputs.size()),
        has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()) {
    if (spec.inputs[kW].constant) unread = 1u << kW;
    const BoundOperand& y = context.outputs[0];
    const Dims dense = contiguous_strides(Dims(y.dims.begin(), y.dims.end()));
    Dims from(y.dims.size(), 0);
    if (has_bias_) from[1] = 1;
    fill_ = CopyPlan(y.dims, from, behind_.staged() ? dense : y.strides, sizeof(float));
    if (behind_.staged()) tile_bytes_ = align_up(checked_mul(element_count(y.dims), 4), 64);
    if (!behind_.empty()) {
      tiles_ = Epilogue::Tiles(behind_, context);
      tiles_.add(Dims(y.dims.size(), 0), y.dims,
                 behind_.staged() ? std::span(dense) : std::span<const int64_t>());
    }
    scratch_bytes = checked_add(tile_bytes_, behind_.scratch_bytes());
    held_bytes = 512 + tiles_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (begin >= end) return;
    static constexpr float kNoBias = 0;
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    fill_.run(has_bias_ ? args.buffers[kB] : &kNoBias,
              behind_.staged() ? args.scratch : args.buffers[y_index_]);
    if (!behind_.empty()) behind_.run(tiles_, 0, args.buffers, scratch + tile_bytes_, scratch);
  }

 private:
  Epilogue behind_;
  size_t y_index_;
  bool has_bias_;
  CopyPlan fill_;  ///< of the bias over the result
  Epilogue::Tiles tiles_;
  int64_t tile_bytes_ = 0;
};

}  // namespace

std::shared_ptr<BoundKernel> bind_empty_conv(const StepSpec& spec, const BindContext& context,
                                             const Epilogue& behind) {
  return std::make_shared<EmptyConvBound>(spec, context, behind);
}

}  // namespace xc::cpu
