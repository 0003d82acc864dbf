// f32 into bytes by one scale, in one pass over memory (row-major or channels-last), or by one per
// channel, in runs of elements that share it: QuantizeLinear, "xc.quantize_bytes", and behind a
// pass that finds the range DynamicQuantizeLinear, "xc.dynamic_quantize".

#include <algorithm>
#include <cmath>

#include "backends/cpu/integer_product.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kF32) return Verdict::no("elements that are not f32");
  const auto last = [](const Operand& o) {
    return o.dims.size() >= 3 && o.strides == channels_last_strides(o.dims);
  };
  if (!(spec.inputs[0].contiguous() && spec.outputs[0].contiguous()) &&
      !(last(spec.inputs[0]) && last(spec.outputs[0])))
    return Verdict::no("operands that do not lie densely in one order");
  return Verdict::ok();
}

/// In f32 throughout, as the standard's function body. The second pass finds x in the cache.
void quantise(const SimpleContext& c) {
  const auto* x = c.input<float>(0);
  const int64_t n = c.in(0).count();
  float low = 0, high = 0;
  integer_fns().range(x, n, &low, &high);
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  const float wanted = std::nearbyint(-low / scale);  // NaN when the range is not finite
  const float zero = wanted > 0 ? std::min(wanted, 255.0f) : 0.0f;
  integer_fns().quantise(x, n, scale, static_cast<int32_t>(zero), 0, c.output<uint8_t>(0));
  *c.output<float>(1) = scale;
  *c.output<uint8_t>(2) = static_cast<uint8_t>(zero);
}

/// Elements that share a scale, for which a call pays.
constexpr int64_t kLeastRun = 16;

/// Along which several scales lie.
size_t scale_axis(const Attrs& attrs, size_t rank) {
  return rank == 1 ? 0 : normalise_axis(attrs.get_int("axis", 1), rank);
}

int64_t stride_of(const OperandView& vector) {
  return vector.strides.empty() ? 0 : vector.strides[0];
}

Verdict supports_bytes(const StepSpec& spec) {
  const Verdict plain = supports(spec);
  if (!plain.yes()) return plain;
  if (spec.attrs().get_int("block_size", 0) != 0 || spec.attrs().get_int("precision", 0) != 0)
    return Verdict::no("blocks, or a precision of its own");
  if (spec.outputs[0].dtype != DType::kU8 && spec.outputs[0].dtype != DType::kI8)
    return Verdict::no(fmt::format("results of type {}", name(spec.outputs[0].dtype)));
  if (spec.inputs[1].dtype != DType::kF32) return Verdict::no("a scale that is not f32");
  const SymDims &x = spec.inputs[0].dims, &scales = spec.inputs[1].dims;
  if (element_count(scales) == Dim(1) || x.empty()) return Verdict::ok();
  if (scales.size() != 1) return Verdict::no("a scale of several axes");
  if (!(spec.inputs[0].contiguous() && spec.outputs[0].contiguous()))
    return Verdict::no("several scales of elements that are not row-major");
  const size_t axis = scale_axis(spec.attrs(), x.size());
  const Dim run =
      element_count(SymDims(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end()));
  if (run.is_constant() && run.value() < kLeastRun) return Verdict::no("short runs of one scale");
  return Verdict::ok();
}

void quantise_bytes(const SimpleContext& c) {
  const OperandView& x = c.in(0);
  const int64_t n = x.count(), channels = c.in(1).count();
  const int64_t first = n * c.begin / c.tasks, last = n * c.end / c.tasks;
  const DType type = c.out().dtype;
  int64_t run = std::max<int64_t>(n, 1);
  if (channels != 1) {
    if (x.dims.empty()) fail(Status::kRange, "{} scales for a scalar", channels);
    const size_t axis = scale_axis(c.spec.attrs(), x.dims.size());
    if (x.dims[axis] != channels) fail(Status::kRange, "{} scales for {}", channels, x.dims[axis]);
    run = element_count(std::span(x.dims).subspan(axis + 1));
  }
  for (int64_t at = first, end = 0; at < last; at = end) {
    end = std::min(last, (at / run + 1) * run);
    const int64_t k = at / run % channels;
    const float scale = c.input<float>(1)[k * stride_of(c.in(1))];
    const int64_t zero = c.has(2) ? load_int64(c.input<void>(2), type, k * stride_of(c.in(2))) : 0;
    integer_fns().quantise(c.input<float>(0) + at, end - at, scale, static_cast<int32_t>(zero),
                           type == DType::kI8 ? -128 : 0, c.output<uint8_t>() + at);
  }
}

int64_t quantise_tasks(const StepSpec&, const OperandViews& views) {
  return std::clamp<int64_t>(views.inputs[0].count() / (64 << 10), 1, 64);
}

}  // namespace

void add_quantize_bytes(Rows& rows) {
  rows.push_back({"xc.quantize_bytes", "QuantizeLinear", supports_bytes,
                  create_simple<quantise_bytes, quantise_tasks>, any_order});
  rows.push_back(
      {"xc.dynamic_quantize", "DynamicQuantizeLinear", supports, create_simple<quantise>});
}

}  // namespace xc::cpu
