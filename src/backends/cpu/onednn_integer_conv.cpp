// QLinearConv over oneDNN's convolutions of bytes: "onednn.integer_conv".
//
// For weights, scales and zero points that are constants, on processors with VNNI (without it the
// library's kernels are not exact, see integer_product.h). Weights must be symmetric: i8 with zero
// point 0, or u8 with 128, which become i8. The library takes the other two zero points.
//
// result = round(sum * scale + bias * scale) + y_zero, scale = x_scale * w_scale / y_scale, in f32
// and rounded half to even, saturated. Rounding comes before the zero point is added, as the
// standard has it: a post-op rounds, because the library by itself rounds last. Its addition of the
// bias behind the scale, in f32, may land on the other side of a tie: one quantum.
//
// Activations are channels-last, converted in scratch when they are not, as for floats
// (onednn_conv.cpp). Weights are packed at the first bind.

#include <algorithm>
#include <mutex>
#include <optional>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/integer_product.h"
#include "backends/cpu/kernels.h"

namespace xc::cpu {
namespace {

// Inputs of QLinearConv.
constexpr size_t kX = 0, kXScale = 1, kXZero = 2, kW = 3, kWScale = 4, kWZero = 5, kYScale = 6,
                 kYZero = 7, kBias = 8;

/// Everything constant about the step, and the weights in the layouts bound convolutions asked for.
class QuantisedWeights {
 public:
  explicit QuantisedWeights(const StepSpec& spec)
      : x_zero(zero_point(spec, kXZero)),
        y_zero(zero_point(spec, kYZero)),
        attrs(spec, kW),
        weights_(signed_weights(spec.inputs[kW].constant)) {
    const auto channels = static_cast<size_t>(weights_.dims()[0]);
    const auto w_scales = spec.inputs[kWScale].constant.to_doubles();
    const auto x_scale = static_cast<float>(spec.inputs[kXScale].constant.to_doubles()[0]);
    const auto y_scale = static_cast<float>(spec.inputs[kYScale].constant.to_doubles()[0]);
    for (size_t c = 0; c < channels; ++c)
      scales.push_back(x_scale * static_cast<float>(w_scales[w_scales.size() == 1 ? 0 : c]) /
                       y_scale);
    if (spec.inputs.size() > kBias && spec.inputs[kBias].present()) {
      const auto sums = spec.inputs[kBias].constant.to_doubles();
      for (size_t c = 0; c < channels; ++c) bias.push_back(static_cast<float>(sums[c] * scales[c]));
    }
  }

  std::shared_ptr<Buffer> get(int64_t c0, const dnnl::memory::desc& wanted,
                              const dnnl::memory::desc& plain) {
    const std::lock_guard lock(mutex_);
    for (const Slice& slice : slices_)
      if (slice.c0 == c0 && slice.desc == wanted) return slice.buffer;
    const OneThread guard;
    auto buffer = Buffer::allocate(static_cast<int64_t>(wanted.get_size()));
    dnnl::stream stream(onednn_engine());
    dnnl::memory from(plain, onednn_engine(), weights_.as<int8_t>() + c0 * weights_.strides()[0]);
    dnnl::memory to(wanted, onednn_engine(), buffer->data());
    dnnl::reorder(from, to).execute(stream, from, to);
    slices_.push_back({c0, wanted, buffer});
    return buffer;
  }

  int32_t x_zero, y_zero;
  ConvAttrs attrs;
  std::vector<float> scales, bias;  ///< per output channel; no bias: empty

 private:
  static int32_t zero_point(const StepSpec& spec, size_t i) {
    return static_cast<int32_t>(spec.inputs[i].constant.to_int64s()[0]);
  }
  struct Slice {
    int64_t c0;
    dnnl::memory::desc desc;
    std::shared_ptr<Buffer> buffer;
  };
  Tensor weights_;
  std::mutex mutex_;
  std::vector<Slice> slices_;
};

class IntegerConvBound final : public BoundKernel {
 public:
  IntegerConvBound(const StepSpec& spec, const BindContext& context,
                   std::shared_ptr<QuantisedWeights> weights)
      : weights_(std::move(weights)), output_(spec.inputs.size()) {
    const SqueezedConv squeezed(weights_->attrs, context.inputs[kX], context.inputs[kW],
                                context.outputs[0]);
    const ConvProblem& s = squeezed.problem;
    const BoundOperand x = squeezed.x.operand(), y = squeezed.y.operand();
    if (element_count(y.dims) == 0) return;
    types_ = {spec.inputs[kX].dtype, DType::kI8, spec.outputs[0].dtype};
    stage_x_ = !same_strides(x.dims, x.strides, channels_last_strides(squeezed.x.dims));
    stage_y_ = !same_strides(y.dims, y.strides, channels_last_strides(squeezed.y.dims));
    const auto regions = conv_divisions(s, spec.threads, spec.numerics == Numerics::kStrict,
                                        stage_x_ || stage_y_, 1)[0];
    tasks = static_cast<int64_t>(regions.size());
    onednn_call("a convolution of bytes", [&] {
      for (const ConvRegion& region : regions) add_part(squeezed, x, y, region);
    });
    x_at_ = align_up(scratchpad_, 64);
    y_at_ = x_at_ + align_up(x_bytes_, 64);
    scratch_bytes = y_at_ + align_up(y_bytes_, 64);
    // A primitive holds its generated code: some 64 KiB.
    held_bytes = 1024 + static_cast<int64_t>(variants_.size()) * (64 << 10) +
                 static_cast<int64_t>(parts_.size()) * 128;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OneThread guard;
    auto* scratch = static_cast<std::byte*>(args.scratch);
    const auto* x = static_cast<const std::byte*>(args.buffers[kX]);
    auto* y = static_cast<std::byte*>(args.buffers[output_]);
    for (int64_t i = begin; i < end && i < static_cast<int64_t>(parts_.size()); ++i) {
      const Part& part = parts_[static_cast<size_t>(i)];
      const Variant& variant = variants_[part.variant];
      const std::byte* source = x + part.x_at;
      std::byte* target = y + part.y_at;
      if (variant.load) {
        variant.load->run(source, scratch + x_at_);
        source = scratch + x_at_;
      }
      if (variant.store) target = scratch + y_at_;
      const auto c0 = static_cast<size_t>(part.c0);
      // In the order of arguments(); absent ones at the end are not looked at.
      void* pointers[8] = {const_cast<std::byte*>(source), part.weights->data(), target, scratch,
                           weights_->scales.data() + c0};
      size_t n = 5;
      if (weights_->x_zero != 0) pointers[n++] = &weights_->x_zero;
      if (weights_->y_zero != 0) pointers[n++] = &weights_->y_zero;
      if (!weights_->bias.empty()) pointers[n++] = weights_->bias.data() + c0;
      variant.primitive->execute(pointers);
      if (variant.store) variant.store->run(target, y + part.y_at);
    }
  }

 private:
  struct Variant {
    Dims x_dims, y_dims;
    ConvRows rows;
    dnnl::memory::desc weights;
    std::unique_ptr<PreparedPrimitive> primitive;
    std::optional<CopyPlan> load, store;
  };
  struct Part {
    uint32_t variant;
    int64_t x_at, y_at, c0;
    std::shared_ptr<Buffer> weights;
  };

  void add_part(const SqueezedConv& squeezed, const BoundOperand& x, const BoundOperand& y,
                const ConvRegion& r) {
    const ConvProblem& s = squeezed.problem;
    const ConvRows rows = rows_of(s, r);
    Dims x_dims = s.x_dims, y_dims = s.y_dims;
    x_dims[0] = y_dims[0] = r.n1 - r.n0;
    x_dims[2] = rows.in1 - rows.in0;
    y_dims[1] = r.c1 - r.c0;
    y_dims[2] = r.r1 - r.r0;
    uint32_t v = 0;
    for (; v < variants_.size(); ++v)
      if (variants_[v].x_dims == x_dims && variants_[v].y_dims == y_dims &&
          variants_[v].rows.pad_begin == rows.pad_begin &&
          variants_[v].rows.pad_end == rows.pad_end)
        break;
    if (v == variants_.size()) {
      Variant variant{x_dims, y_dims, rows, {}, nullptr, {}, {}};
      if (stage_x_) {
        variant.load.emplace(x_dims, x.strides, channels_last_strides(x_dims), 1);
        x_bytes_ = std::max(x_bytes_, element_count(x_dims));
      }
      if (stage_y_ || y_dims[1] != s.out_channels) {
        variant.store.emplace(y_dims, channels_last_strides(y_dims), y.strides, 1);
        y_bytes_ = std::max(y_bytes_, element_count(y_dims));
      }
      make_primitive(s, variant);
      variants_.push_back(std::move(variant));
    }
    parts_.push_back({v, r.n0 * x.strides[0] + rows.in0 * x.strides[2],
                      r.n0 * y.strides[0] + r.c0 * y.strides[1] + r.r0 * y.strides[2], r.c0,
                      weights_->get(r.c0, variants_[v].weights,
                                    plain_conv_weights(dense_weights(squeezed).operand(), s,
                                                       r.c1 - r.c0, DType::kI8))});
  }

  /// The signed copy of the weights is row-major whatever the model's were.
  static SqueezedConv::Part dense_weights(const SqueezedConv& squeezed) {
    return {squeezed.w.dims, contiguous_strides(squeezed.w.dims)};
  }

  void make_primitive(const ConvProblem& s, Variant& variant) {
    using Tag = dnnl::memory::format_tag;
    using Type = dnnl::memory::data_type;
    const int64_t channels = variant.y_dims[1];
    const dnnl::memory::desc src = conv_activations(s, variant.x_dims, types_.left),
                             dst = conv_activations(s, variant.y_dims, types_.result);
    const ConvWindow window =
        conv_window(s, channels, variant.rows.pad_begin, variant.rows.pad_end);
    const dnnl::memory::desc any(window.weights, Type::s8, Tag::any);
    const dnnl::memory::desc line({channels}, Type::f32, Tag::a);
    const dnnl::memory::desc scalar({1}, Type::s32, Tag::a);
    const dnnl::memory::desc bias = weights_->bias.empty() ? dnnl::memory::desc() : line;
    dnnl::primitive_attr attributes = onednn_attributes();
    attributes.set_scales_mask(DNNL_ARG_WEIGHTS, s.groups > 1 ? 3 : 1);
    if (weights_->x_zero != 0) attributes.set_zero_points_mask(DNNL_ARG_SRC, 0);
    if (weights_->y_zero != 0) {
      attributes.set_zero_points_mask(DNNL_ARG_DST, 0);
      dnnl::post_ops rounded;
      rounded.append_eltwise(dnnl::algorithm::eltwise_round, 0, 0);
      attributes.set_post_ops(rounded);
    }
    const OneThread guard;
    const dnnl::convolution_forward::primitive_desc pd(
        onednn_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        src, any, bias, dst, window.strides, window.dilations, window.pad_begin, window.pad_end,
        attributes);
    variant.weights = pd.weights_desc();
    std::vector<PreparedPrimitive::Argument> arguments{
        {DNNL_ARG_SRC, src},
        {DNNL_ARG_WEIGHTS, variant.weights},
        {DNNL_ARG_DST, dst},
        {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()},
        {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, line}};
    if (weights_->x_zero != 0)
      arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, scalar});
    if (weights_->y_zero != 0)
      arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, scalar});
    if (!weights_->bias.empty()) arguments.push_back({DNNL_ARG_BIAS, bias});
    scratchpad_ = std::max(scratchpad_, static_cast<int64_t>(pd.scratchpad_desc().get_size()));
    variant.primitive =
        std::make_unique<PreparedPrimitive>(dnnl::convolution_forward(pd), std::move(arguments));
  }

  std::shared_ptr<QuantisedWeights> weights_;
  size_t output_;
  ProductTypes types_{};
  bool stage_x_ = false, stage_y_ = false;
  std::vector<Variant> variants_;
  std::vector<Part> parts_;
  int64_t scratchpad_ = 0, x_bytes_ = 0, y_bytes_ = 0, x_at_ = 0, y_at_ = 0;
};

/// With a zero point of x the library has to leave out of a sum's correction what lies in padding,
/// and with more of that at an end of an axis it may leave out the wrong pixels: oneDNN 3.2, 196 of
/// 47,000 convolutions, of images whose columns it takes in two blocks. None with less was wrong.
constexpr int64_t kMostPadding = 3;

/// At an end of an axis.
int64_t most_padding(const StepSpec& spec) {
  const WindowAttrs window = ConvAttrs(spec, kW).window;
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  const auto& weights = spec.inputs[kW].constant.dims();
  int64_t most = 0;
  for (size_t i = 0; i < window.strides.size(); ++i) {
    const int64_t extent = (weights[i + 2] - 1) * window.dilations[i] + 1;
    most = std::max({most, window.pads_begin[i], window.pads_end[i], same ? extent / 2 : 0});
  }
  return most;
}

Verdict supports(const StepSpec& spec) {
  if (!library_integers_are_exact()) return Verdict::no("the processor has no VNNI");
  if (!spec.post_ops.empty()) return Verdict::no("no post-ops");
  const size_t rank = spec.inputs[kX].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (size_t i = kXScale; i < spec.inputs.size(); ++i)
    if (spec.inputs[i].present() && !spec.inputs[i].constant)
      return Verdict::no(fmt::format("input {} is not constant", i));
  for (size_t i : {kXScale, kWScale, kYScale})
    if (spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("scale {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  const int64_t symmetric = spec.inputs[kW].dtype == DType::kU8 ? 128 : 0;
  for (int64_t zero : spec.inputs[kWZero].constant.to_int64s())
    if (zero != symmetric) return Verdict::no(fmt::format("weights with zero point {}", zero));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  if (spec.inputs[kW].constant.count() == 0) return Verdict::no("empty weights");
  if (rank == 5 && spec.attrs().get_int("group", 1) > 1)
    return Verdict::no("volumes in groups, whose weights the library may pack wrongly");
  if (spec.inputs[kXZero].constant.to_int64s()[0] != 0 && most_padding(spec) > kMostPadding)
    return Verdict::no(
        "a zero point and much padding, of which the library may take the wrong sums");
  for (const Dim& dim : spec.inputs[kX].dims)
    if (dim == Dim(0)) return Verdict::no("an empty input");
  return Verdict::ok();
}

class IntegerConvKernel final : public Kernel {
 public:
  explicit IntegerConvKernel(const StepSpec& spec)
      : spec_(spec), weights_(std::make_shared<QuantisedWeights>(spec)) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    // The library takes no empty input.
    if (element_count(context.inputs[kX].dims) == 0)
      return create_gathered_integer_conv(spec_)->bind(context);
    return std::make_shared<IntegerConvBound>(spec_, context, weights_);
  }

 private:
  StepSpec spec_;
  std::shared_ptr<QuantisedWeights> weights_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<IntegerConvKernel>(spec);
}

std::vector<Order> preferred(const StepSpec& spec) {
  std::vector<Order> out(spec.inputs.size() + spec.outputs.size(), Order::kRowMajor);
  out[kX] = out[spec.inputs.size()] = Order::kChannelsLast;
  return out;
}

}  // namespace

void add_integer_conv(Rows& rows) {
  rows.push_back({"onednn.integer_conv", "QLinearConv", supports, create, preferred});
}

}  // namespace xc::cpu
