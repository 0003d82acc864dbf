// ConvInteger and QLinearConv as integer products over gathered windows: "xc.integer_conv".
//
// For every case the library's convolutions of bytes leave: 32-bit results (the library takes them
// through f32), weights with zero points, operands that are known at the run only, processors
// without VNNI. Windows become rows of a matrix, channels innermost, padding the zero point of x;
// zero points and requantisation are those of integer_matmul.cpp. Depthwise convolutions multiply
// the channels of each tap where they lie.

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/integer_product.h"
#include "backends/cpu/kernels.h"
#include "ops/convolve.h"

namespace xc::cpu {
namespace {

constexpr int64_t kPixelsAtOnce = 64;  ///< windows gathered before they are multiplied
constexpr double kTaskFlops = 2e6;

/// Where the operands of either op are; SIZE_MAX: the op has none.
struct Roles {
  size_t x = 0, x_zero = 2, w = 1, w_zero = 3;
  size_t x_scale = SIZE_MAX, w_scale = SIZE_MAX, y_scale = SIZE_MAX, y_zero = SIZE_MAX,
         bias = SIZE_MAX;
};
Roles roles_of(const OpDef& op) {
  if (op.name == "QLinearConv") return {0, 2, 3, 5, 1, 4, 6, 7, 8};
  return {};
}

/// Weights w[M, C / groups, kernel...] as signed bytes [group][kernel position, channel][M of the
/// group].
class Arrangement {
 public:
  Arrangement() = default;
  /// Of weights that lie so, in elements.
  Arrangement(std::span<const int64_t> w, std::span<const int64_t> strides, DType dtype,
              int64_t groups)
      : groups_(groups), turned_(dtype == DType::kU8) {
    Dims dims(w.begin(), w.end()), to(w.size());
    dims[0] /= groups;
    to[0] = 1;
    to[1] = dims[0];
    int64_t stride = dims[0] * dims[1];
    for (size_t axis = dims.size(); axis-- > 2;) {
      to[axis] = stride;
      stride *= dims[axis];
    }
    bytes_ = stride;
    step_ = dims[0] * strides[0];
    copy_ = CopyPlan(dims, strides, to, 1);
  }
  void run(const void* w, int8_t* to) const {
    for (int64_t g = 0; g < groups_; ++g)
      copy_.run(static_cast<const std::byte*>(w) + g * step_, to + g * bytes_);
    if (turned_)
      integer_fns().to_signed(reinterpret_cast<const uint8_t*>(to), groups_ * bytes_, to);
  }

 private:
  int64_t groups_ = 1, bytes_ = 0, step_ = 0;  ///< of a group: its bytes, from one to the next in w
  bool turned_ = false;                        ///< unsigned
  CopyPlan copy_;                              ///< of a group
};

/// Sums of arranged weights per output channel, of `terms` each.
void sum_channels(const int8_t* weights, int64_t groups, int64_t terms, int64_t per_group,
                  int32_t* sums) {
  for (int64_t g = 0; g < groups; ++g)
    integer_fns().column_sums(weights + g * terms * per_group, terms, per_group, per_group,
                              sums + g * per_group);
}

/// Constant weights.
struct ArrangedWeights {
  ArrangedWeights(const Tensor& w, int64_t groups)
      : bytes(static_cast<size_t>(w.count())), sums(static_cast<size_t>(w.dims()[0])) {
    Arrangement(w.dims(), w.strides(), w.dtype(), groups).run(w.data(), bytes.data());
    sum_channels(bytes.data(), groups, w.count() / w.dims()[0], w.dims()[0] / groups, sums.data());
  }
  std::vector<int8_t> bytes;
  std::vector<int32_t> sums;  ///< per output channel
};

class IntegerConvBound final : public BoundKernel {
 public:
  /// `weights`: null when they are not constant.
  IntegerConvBound(const StepSpec& spec, const BindContext& context,
                   std::shared_ptr<const ArrangedWeights> weights)
      : roles_(roles_of(*spec.op)),
        output_(spec.inputs.size()),
        views_(spec, context),
        weights_(std::move(weights)) {
    const OperandView &x = views_.inputs[roles_.x], &w = views_.inputs[roles_.w],
                      &y = views_.outputs[0];
    s_ = conv_shape(*spec.node, x.dims, w.dims, y.dims);
    tasks = 0;
    if (y.count() == 0) return;
    for (const WindowAxis& axis : s_.axes) {
      kernel_ = checked_mul(kernel_, axis.kernel);
      plane_ = checked_mul(plane_, axis.output);
    }
    channels_ = s_.in_channels * s_.groups;
    terms_ = checked_mul(kernel_, s_.in_channels);
    out_channels_ = s_.out_channels * s_.groups;
    depthwise_ = s_.groups > 1 && s_.in_channels == 1 && s_.out_channels == 1;
    last_ = std::ranges::equal(channels_last_strides(copied(x.dims)), x.strides);
    // A part of an image per thread, when it is worth it: each converts the image for itself.
    const double flops = 2.0 * static_cast<double>(plane_) * static_cast<double>(terms_) *
                         static_cast<double>(out_channels_);
    parts_ = std::clamp<int64_t>(static_cast<int64_t>(flops / kTaskFlops), 1, spec.threads);
    tasks = s_.batch * parts_;
    lay_out_shared();
    lay_out();
  }

  /// What all tasks need of the weights and of the vectors over the output channels.
  void start(const StepArgs& args) const override {
    if (!weights_) arrangement_.run(args.buffers[roles_.w], shared<int8_t>(args, weights_at_));
    auto* const channels = shared<Channels>(args, channels_at_);
    *channels = prepare_channels(args);
    if (depthwise_) widen_weights(args, *channels);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (begin >= end) return;
    const OneThread guard;
    const Channels& channels = *shared<Channels>(args, channels_at_);
    const OperandView& x = views_.inputs[roles_.x];
    int64_t staged = -1;  // image in scratch
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / parts_, part = task % parts_;
      const auto* data =
          static_cast<const std::byte*>(args.buffers[roles_.x]) + image * x.strides[0];
      if (!last_) {
        if (staged != image) load_.run(data, at<std::byte>(args, image_at_));
        staged = image;
        data = at<std::byte>(args, image_at_);
      }
      const int64_t last = plane_ * (part + 1) / parts_;
      for (int64_t p0 = plane_ * part / parts_; p0 < last; p0 += kPixelsAtOnce)
        convolve_pixels(args, channels, data, image, p0, std::min(last, p0 + kPixelsAtOnce));
    }
  }

 private:
  /// Per output channel, in shared memory.
  struct Channels {
    const int32_t* zeros = nullptr;  ///< of the signed weights; null: all 0
    const int32_t* add = nullptr;
    const float* scales = nullptr;
    int32_t x_zero = 0, y_zero = 0;
    float low = 0, high = 0;
  };

  bool requantised() const { return roles_.y_scale != SIZE_MAX; }
  bool has(size_t role) const {
    return role < views_.inputs.size() && views_.inputs[role].present();
  }
  bool x_signed() const { return views_.inputs[roles_.x].dtype == DType::kI8; }
  /// Arranged.
  const int8_t* weights(const StepArgs& args) const {
    return weights_ ? weights_->bytes.data() : shared<int8_t>(args, weights_at_);
  }

  static int64_t place(int64_t bytes, int64_t& end) {
    const int64_t here = end;
    end = checked_add(end, align_up(bytes, 64));
    return here;
  }

  void lay_out_shared() {
    const auto place = [&](int64_t bytes) { return IntegerConvBound::place(bytes, shared_bytes); };
    const int64_t line = checked_mul(out_channels_, 4);
    channels_at_ = place(sizeof(Channels));
    if (!weights_) {
      const OperandView& w = views_.inputs[roles_.w];
      arrangement_ = Arrangement(w.dims, w.strides, w.dtype, s_.groups);
      weights_at_ = place(checked_mul(terms_, out_channels_));
    }
    zeros_at_ = place(line);
    add_at_ = place(line);
    scales_at_ = place(line);
    if (!depthwise_) return;
    wide_at_ = place(checked_mul(kernel_, checked_mul(channels_, 2)));
    padding_at_ = place(channels_);
  }

  void lay_out() {
    int64_t end = 0;
    const auto place = [&](int64_t bytes) { return IntegerConvBound::place(bytes, end); };
    const OperandView &x = views_.inputs[roles_.x], &y = views_.outputs[0];
    const int64_t line = checked_mul(out_channels_, 4);
    if (!last_) {
      Dims dims = copied(x.dims);
      dims[0] = 1;
      load_ = CopyPlan(dims, x.strides, channels_last_strides(dims), 1);
      image_at_ = place(element_count(dims));
    }
    if (depthwise_) taps_at_ = place(checked_mul(kernel_, static_cast<int64_t>(sizeof(void*))));
    row_sums_at_ = place(kPixelsAtOnce * 4);
    rows_at_ = place(checked_mul(kPixelsAtOnce, terms_));
    sums_at_ = place(checked_mul(kPixelsAtOnce, line));
    bytes_at_ = place(requantised() ? checked_mul(kPixelsAtOnce, out_channels_) : 0);
    product_at_ = place(integer_product_scratch(kPixelsAtOnce, s_.out_channels, terms_,
                                                library_integers_are_exact()));
    scratch_bytes = end;
    held_bytes = 1024 + views_.bytes();
    // A result whose pixels lie one behind the other is written through one copy per block.
    int64_t stride = 1;
    pixel_stride_ = y.strides.back();
    for (size_t axis = y.dims.size(); axis-- > 2;) {
      flat_ &= y.dims[axis] == 1 || y.strides[axis] == stride * pixel_stride_;
      stride *= y.dims[axis];
    }
  }

  template <class T>
  static T* at(const StepArgs& args, int64_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(args.scratch) + offset);
  }
  template <class T>
  static T* shared(const StepArgs& args, int64_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(args.shared) + offset);
  }
  /// Element m of a vector over the output channels, or the only one there is.
  template <class Load>
  auto channel(const StepArgs& args, size_t role, int64_t m, Load load) const {
    const OperandView& v = views_.inputs[role];
    const int64_t index = v.count() == 1 ? 0 : m * v.strides[0];
    return load(args.buffers[role], v.dtype, index);
  }
  int64_t integer(const StepArgs& args, size_t role, int64_t m = 0) const {
    return channel(args, role, m, load_int64);
  }
  float real(const StepArgs& args, size_t role, int64_t m = 0) const {
    return static_cast<float>(channel(args, role, m, load_double));
  }

  Channels prepare_channels(const StepArgs& args) const {
    Channels out;
    if (has(roles_.x_zero)) out.x_zero = static_cast<int32_t>(integer(args, roles_.x_zero));
    auto* zeros = shared<int32_t>(args, zeros_at_);
    const int32_t shift = views_.inputs[roles_.w].dtype == DType::kU8 ? 128 : 0;
    for (int64_t m = 0; m < out_channels_; ++m) {
      zeros[m] = -shift;
      if (has(roles_.w_zero)) zeros[m] += static_cast<int32_t>(integer(args, roles_.w_zero, m));
      if (zeros[m] != 0) out.zeros = zeros;
    }
    if (out.x_zero != 0 || has(roles_.bias)) {
      auto* add = shared<int32_t>(args, add_at_);
      out.add = add;
      if (weights_)
        std::copy_n(weights_->sums.data(), out_channels_, add);
      else
        sum_channels(weights(args), s_.groups, terms_, s_.out_channels, add);
      for (int64_t m = 0; m < out_channels_; ++m) {
        uint32_t v = static_cast<uint32_t>(add[m]) -
                     static_cast<uint32_t>(terms_) * static_cast<uint32_t>(zeros[m]);
        v *= -static_cast<uint32_t>(out.x_zero);
        if (has(roles_.bias)) v += static_cast<uint32_t>(integer(args, roles_.bias, m));
        add[m] = static_cast<int32_t>(v);
      }
    }
    if (!requantised()) return out;
    auto* scales = shared<float>(args, scales_at_);
    out.scales = scales;
    for (int64_t m = 0; m < out_channels_; ++m)
      scales[m] =
          real(args, roles_.x_scale) * real(args, roles_.w_scale, m) / real(args, roles_.y_scale);
    out.y_zero = static_cast<int32_t>(integer(args, roles_.y_zero));
    out.low = static_cast<float>((views_.outputs[0].dtype == DType::kI8 ? -128 : 0) - out.y_zero);
    out.high = out.low + 255;
    return out;
  }

  /// body(bytes) for each position of the kernel at pixel p, row-major: null where it is padding.
  template <class Body>
  void for_each_tap(const std::byte* image, int64_t p, Body&& body) const {
    const auto& [a0, a1, a2] = s_.axes;
    const int64_t o2 = p % a2.output, o1 = p / a2.output % a1.output,
                  o0 = p / a2.output / a1.output;
    for (int64_t k0 = 0; k0 < a0.kernel; ++k0)
      for (int64_t k1 = 0; k1 < a1.kernel; ++k1)
        for (int64_t k2 = 0; k2 < a2.kernel; ++k2) {
          const int64_t i0 = a0.at(o0, k0), i1 = a1.at(o1, k1), i2 = a2.at(o2, k2);
          body(a0.inside(i0) && a1.inside(i1) && a2.inside(i2)
                   ? image + ((i0 * a1.input + i1) * a2.input + i2) * channels_
                   : nullptr);
        }
  }

  /// Weights less their zero points, as [kernel position][channel], and a pixel of padding.
  void widen_weights(const StepArgs& args, const Channels& channels) const {
    const int8_t* const weights = this->weights(args);
    auto* wide = shared<int16_t>(args, wide_at_);
    for (int64_t k = 0; k < kernel_; ++k)
      for (int64_t c = 0; c < channels_; ++c)
        wide[k * channels_ + c] = static_cast<int16_t>(weights[c * kernel_ + k] -
                                                       (channels.zeros ? channels.zeros[c] : 0));
    std::memset(shared<void>(args, padding_at_), channels.x_zero, static_cast<size_t>(channels_));
  }

  /// The sums of pixels [p0, p1) of a depthwise convolution.
  void sum_taps(const StepArgs& args, const std::byte* image, int64_t p0, int64_t p1) const {
    const auto** taps = at<const void*>(args, taps_at_);
    DepthwisePixel pixel{taps,       kernel_,
                         x_signed(), shared<int16_t>(args, wide_at_),
                         channels_,  at<int32_t>(args, sums_at_)};
    for (int64_t p = p0; p < p1; ++p, pixel.sums += channels_) {
      size_t k = 0;
      for_each_tap(image, p, [&](const std::byte* bytes) {
        taps[k++] = bytes ? bytes : shared<std::byte>(args, padding_at_);
      });
      integer_fns().depthwise(pixel);
    }
  }

  /// Windows of pixels [p0, p1) as rows of the channels of one group.
  void gather(const std::byte* image, int64_t group, int64_t p0, int64_t p1, int32_t padding,
              std::byte* rows) const {
    const auto bytes = static_cast<size_t>(s_.in_channels);
    for (int64_t p = p0; p < p1; ++p)
      for_each_tap(image, p, [&](const std::byte* tap) {
        if (tap)
          std::memcpy(rows, tap + group * s_.in_channels, bytes);
        else
          std::memset(rows, padding, bytes);
        rows += bytes;
      });
  }

  void convolve_pixels(const StepArgs& args, const Channels& channels, const std::byte* image,
                       int64_t number, int64_t p0, int64_t p1) const {
    const IntegerFns& fns = integer_fns();
    const int64_t pixels = p1 - p0, n = s_.out_channels;
    auto* rows = at<std::byte>(args, rows_at_);
    auto* sums = at<int32_t>(args, sums_at_);
    auto* bytes = at<uint8_t>(args, bytes_at_);
    auto* row_sums = at<int32_t>(args, row_sums_at_);
    // The channels [c, c + count) of a pixel's sums, their windows' sums taken from those with
    // zeros.
    const auto finish = [&](int64_t i, int64_t c, int64_t count, const int32_t* zeros,
                            int32_t row_sum) {
      FinishRow row{};
      row.n = count;
      row.add = channels.add ? channels.add + c : nullptr;
      row.zeros = zeros;
      row.row_sum = row_sum;
      row.scales = channels.scales ? channels.scales + c : nullptr;
      row.low = channels.low;
      row.high = channels.high;
      row.out_zero = channels.y_zero;
      row.sums = row.out32 = sums + i * out_channels_ + c;
      row.out8 = bytes + i * out_channels_ + c;
      fns.finish(row);
    };
    if (depthwise_) {
      sum_taps(args, image, p0, p1);
      for (int64_t i = 0; i < pixels; ++i) finish(i, 0, channels_, nullptr, 0);
    } else {
      const int8_t* const weights = this->weights(args);
      for (int64_t g = 0; g < s_.groups; ++g) {
        gather(image, g, p0, p1, channels.x_zero, rows);
        integer_product({pixels, n, terms_, rows, x_signed(), terms_, weights + g * terms_ * n, n,
                         sums + g * n, out_channels_},
                        at<void>(args, product_at_), library_integers_are_exact());
        const int32_t* zeros = channels.zeros ? channels.zeros + g * n : nullptr;
        if (zeros) fns.row_sums(rows, x_signed(), pixels, terms_, terms_, row_sums);
        for (int64_t i = 0; i < pixels; ++i) finish(i, g * n, n, zeros, zeros ? row_sums[i] : 0);
      }
    }
    store(args, number, p0, pixels, requantised() ? static_cast<const void*>(bytes) : sums);
  }

  /// Rows [pixel, channel] to where the result has them.
  void store(const StepArgs& args, int64_t image, int64_t p0, int64_t pixels,
             const void* from) const {
    const OperandView& y = views_.outputs[0];
    const int64_t size = requantised() ? 1 : 4;
    auto* out = static_cast<std::byte*>(args.buffers[output_]) + image * y.strides[0] * size;
    const auto copy = [&](int64_t first, int64_t count, int64_t to) {
      copy_matrix({out_channels_, count, 1, out_channels_, y.strides[1], pixel_stride_, size},
                  static_cast<const std::byte*>(from) + (first - p0) * out_channels_ * size,
                  out + to * size);
    };
    if (flat_) return copy(p0, pixels, p0 * pixel_stride_);
    for (int64_t p = p0; p < p0 + pixels; ++p) {
      int64_t rest = p, to = 0;
      for (size_t axis = y.dims.size(); axis-- > 2;) {
        to += rest % y.dims[axis] * y.strides[axis];
        rest /= y.dims[axis];
      }
      copy(p, 1, to);
    }
  }

  Roles roles_;
  size_t output_;
  OperandViews views_;
  std::shared_ptr<const ArrangedWeights> weights_;
  ConvShape s_;
  int64_t kernel_ = 1, plane_ = 1, channels_ = 0, terms_ = 0, out_channels_ = 0;
  int64_t parts_ = 1, pixel_stride_ = 1;
  bool last_ = false;  ///< x is channels-last
  bool flat_ = true;   ///< pixels of the result are evenly spaced
  bool depthwise_ = false;
  CopyPlan load_;
  Arrangement arrangement_;  ///< of weights that are not constant
  int64_t channels_at_ = 0, weights_at_ = 0, zeros_at_ = 0, add_at_ = 0, scales_at_ = 0,
          wide_at_ = 0, padding_at_ = 0;  ///< in shared memory
  int64_t image_at_ = 0, row_sums_at_ = 0, rows_at_ = 0, sums_at_ = 0, taps_at_ = 0, bytes_at_ = 0,
          product_at_ = 0;  ///< in scratch
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("no post-ops");
  const Roles roles = roles_of(*spec.op);
  const size_t rank = spec.inputs[roles.x].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (size_t i : {roles.x_scale, roles.w_scale, roles.y_scale})
    if (i != SIZE_MAX && spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("scale {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  for (const Dim& dim : spec.inputs[roles.w].dims)
    if (dim == Dim(0)) return Verdict::no("empty weights");
  return Verdict::ok();
}

class IntegerConvKernel final : public Kernel {
 public:
  explicit IntegerConvKernel(const StepSpec& spec) : spec_(spec) {
    const Tensor& w = spec.inputs[roles_of(*spec.op).w].constant;
    if (w) weights_ = std::make_shared<const ArrangedWeights>(w, spec.attrs().get_int("group", 1));
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    return std::make_shared<IntegerConvBound>(spec_, context, weights_);
  }

 private:
  StepSpec spec_;
  std::shared_ptr<const ArrangedWeights> weights_;
};

std::vector<Order> preferred(const StepSpec& spec) {
  std::vector<Order> out(spec.inputs.size() + spec.outputs.size(), Order::kRowMajor);
  out[0] = out[spec.inputs.size()] = Order::kChannelsLast;
  return out;
}

}  // namespace

std::unique_ptr<Kernel> create_gathered_integer_conv(const StepSpec& spec) {
  return std::make_unique<IntegerConvKernel>(spec);
}

void add_gathered_integer_conv(Rows& rows) {
  for (const std::string_view op : {"ConvInteger", "QLinearConv"})
    rows.push_back({"xc.integer_conv", op, supports, create_gathered_integer_conv, preferred});
}

}  // namespace xc::cpu
