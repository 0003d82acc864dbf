// DynamicQuantizeLinear: the range, then one pass of quantisation: "xc.dynamic_quantize".

#include <algorithm>
#include <cmath>

#include "backends/cpu/integer_product.h"
#include "backends/cpu/simple_kernel.h"

namespace xc::cpu {
namespace {

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kF32) return Verdict::no("elements that are not f32");
  if (!spec.inputs[0].contiguous() || !spec.outputs[0].contiguous())
    return Verdict::no("operands that are not row-major");
  return Verdict::ok();
}

/// In f32 throughout, as the standard's function body. The second pass finds x in the cache.
void quantise(const SimpleContext& c) {
  const auto* x = c.input<float>(0);
  const int64_t n = c.in(0).count();
  float low = 0, high = 0;
  integer_fns().range(x, n, &low, &high);
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  const float zero = std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f);
  integer_fns().quantise(x, n, scale, static_cast<int32_t>(zero), c.output<uint8_t>(0));
  *c.output<float>(1) = scale;
  *c.output<uint8_t>(2) = static_cast<uint8_t>(zero);
}

}  // namespace

void add_dynamic_quantize(Rows& rows) {
  rows.push_back(
      {"xc.dynamic_quantize", "DynamicQuantizeLinear", supports, create_simple<quantise>});
}

}  // namespace xc::cpu
