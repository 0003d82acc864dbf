// MaxPool and AveragePool in f32: "onednn.pool". Channels-last operands are pooled by an own loop
// over adjacent channels (no primitive per shape); row-major ones by oneDNN, plane by plane. Other
// strides are converted to channels-last in scratch.

#include <algorithm>
#include <optional>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/pool_fn.h"
#include "ops/window.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 32 << 10;

bool is_max(const OpDef& op) {
  return op.name == "MaxPool";
}

class PoolBound final : public BoundKernel {
 public:
  PoolBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context), max_(is_max(*spec.op)), fns_(pool_fns(cpu_info().isa)) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const WindowAttrs window = window_attrs(*spec.node, x.dims.size() - 2);
    axes_ = window_axes_3d(window_axes(window, x.dims, window.kernel, y.dims));
    include_pad_ = spec.attrs().get_int("count_include_pad", 0) != 0;
    // Strides of N, C and three spatial axes.
    const auto padded = [](const Dims& s) {
      std::array<int64_t, 5> out{s[0], s[1], 0, 0, 0};
      std::copy(s.begin() + 2, s.end(), out.begin() + 2 + static_cast<ptrdiff_t>(5 - s.size()));
      return out;
    };
    xs_ = padded(x.strides);
    ys_ = padded(y.strides);
    batch_ = x.dims[0];
    channels_ = x.dims[1];
    held_bytes += views_.bytes() + 512;
    if (element_count(y.dims) == 0) {
      pixels_ = 0;
      return;
    }
    const bool last = (x.strides[1] == 1 && y.strides[1] == 1) || channels_ == 1;
    if (!last && is_contiguous(x.dims, x.strides) && is_contiguous(y.dims, y.strides)) {
      row_major(spec, window);
      return;
    }
    if (!last) {
      // Through channels-last copies of both.
      const auto stage = [&](const OperandView& v, std::array<int64_t, 5>& strides, CopyPlan& plan,
                             bool in) {
        const Dims dense = channels_last_strides(v.dims);
        plan = in ? CopyPlan(v.dims, v.strides, dense, 4) : CopyPlan(v.dims, dense, v.strides, 4);
        strides = padded(dense);
        return align_up(v.count() * 4, 64);
      };
      x_bytes_ = stage(x, xs_, load_, true);
      scratch_bytes = x_bytes_ + stage(y, ys_, store_, false);
      staged_ = true;
    }
    pixels_ = batch_ * axes_[0].output * axes_[1].output;  // rows of the result
    if (!staged_)
      tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, std::max<int64_t>(1, pixels_));
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* x = static_cast<const float*>(args.buffers[0]);
    auto* y = static_cast<float*>(args.buffers[1]);
    if (primitive_) {
      const OneThread guard;
      for (int64_t i = begin; i < end; ++i) {
        void* const pointers[3] = {const_cast<float*>(x) + i * block_ * plane_x_,
                                   y + i * block_ * plane_y_, args.scratch};
        (i + 1 == tasks && tail_ ? *tail_ : *primitive_).execute(pointers);
      }
      return;
    }
    if (staged_) {
      load_.run(x, args.scratch);
      auto* out = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + x_bytes_);
      rows(static_cast<const float*>(args.scratch), out, 0, pixels_);
      store_.run(out, y);
      return;
    }
    rows(x, y, pixels_ * begin / tasks, pixels_ * end / tasks);
  }

 private:
  /// Positions of a window on one axis that are not padding: [first, last), and how many count.
  struct Span {
    int64_t first, last, counted;
  };
  Span span(const WindowAxis& axis, int64_t o) const {
    Span out{axis.kernel, 0, 0};
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t at = axis.at(o, k);
      if (axis.inside(at)) {
        out.first = std::min(out.first, k);
        out.last = k + 1;
      }
      out.counted += at < axis.input + axis.pad_end;
    }
    return out;
  }

  void rows(const float* x, float* y, int64_t first, int64_t last) const {
    const auto& [d, h, w] = axes_;
    std::vector<int64_t> taps(static_cast<size_t>(d.kernel * h.kernel * w.kernel));
    for (int64_t row = first; row < last; ++row) {
      const int64_t oh = row % h.output, od = row / h.output % d.output,
                    n = row / (h.output * d.output);
      const Span ds = span(d, od), hs = span(h, oh);
      for (int64_t ow = 0; ow < w.output; ++ow) {
        const Span ws = span(w, ow);
        size_t count = 0;
        for (int64_t kd = ds.first; kd < ds.last; ++kd)
          for (int64_t kh = hs.first; kh < hs.last; ++kh)
            for (int64_t kw = ws.first; kw < ws.last; ++kw)
              taps[count++] = n * xs_[0] + d.at(od, kd) * xs_[2] + h.at(oh, kh) * xs_[3] +
                              w.at(ow, kw) * xs_[4];
        float* to = y + n * ys_[0] + od * ys_[2] + oh * ys_[3] + ow * ys_[4];
        if (count == 0) {  // nothing but padding
          std::fill_n(to, channels_, max_ ? -std::numeric_limits<float>::infinity() : 0.0f);
        } else if (max_) {
          fns_.max(x, taps.data(), static_cast<int64_t>(count), to, channels_);
        } else {
          const int64_t divisor =
              include_pad_ ? ds.counted * hs.counted * ws.counted : static_cast<int64_t>(count);
          fns_.average(x, taps.data(), static_cast<int64_t>(count), static_cast<float>(divisor), to,
                       channels_);
        }
      }
    }
  }

  /// oneDNN over planes: batch and channels are one axis, in blocks of planes per task.
  void row_major(const StepSpec& spec, const WindowAttrs& window) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const int64_t planes = batch_ * channels_;
    plane_x_ = x.count() / planes;
    plane_y_ = y.count() / planes;
    const int64_t wanted = std::clamp<int64_t>(y.count() / kTaskElements, 1, planes);
    block_ = ceil_div(planes, wanted);
    tasks = ceil_div(planes, block_);
    const auto algorithm = max_           ? dnnl::algorithm::pooling_max
                           : include_pad_ ? dnnl::algorithm::pooling_avg_include_padding
                                          : dnnl::algorithm::pooling_avg_exclude_padding;
    const auto axes = window_axes(window, x.dims, window.kernel, y.dims);
    dnnl::memory::dims kernel, strides, dilations, low, high;
    for (const WindowAxis& axis : axes) {
      kernel.push_back(axis.kernel);
      strides.push_back(axis.stride);
      dilations.push_back(axis.dilation - 1);
      low.push_back(axis.pad_begin);
      const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
      high.push_back((axis.output - 1) * axis.stride + extent - axis.input - axis.pad_begin);
    }
    const OneThread guard;
    onednn_call("a pooling", [&] {
      const auto make = [&](int64_t count) {
        Dims xd = x.dims, yd = y.dims;
        xd[0] = yd[0] = 1;
        xd[1] = yd[1] = count;
        const auto src = strided_desc(xd, contiguous_strides(xd), DType::kF32);
        const auto dst = strided_desc(yd, contiguous_strides(yd), DType::kF32);
        const dnnl::pooling_forward::primitive_desc pd(
            onednn_engine(), dnnl::prop_kind::forward_inference, algorithm, src, dst, strides,
            kernel, dilations, low, high, onednn_attributes());
        scratch_bytes =
            std::max(scratch_bytes, static_cast<int64_t>(pd.scratchpad_desc().get_size()));
        held_bytes += 64 << 10;
        return std::make_unique<PreparedPrimitive>(
            dnnl::pooling_forward(pd),
            std::vector<PreparedPrimitive::Argument>{{DNNL_ARG_SRC, src},
                                                     {DNNL_ARG_DST, dst},
                                                     {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
      };
      primitive_ = make(block_);
      if (planes % block_ != 0) tail_ = make(planes % block_);
    });
    (void)spec;
  }

  OperandViews views_;
  bool max_, include_pad_ = false, staged_ = false;
  const PoolFns& fns_;
  std::array<WindowAxis, 3> axes_;
  std::array<int64_t, 5> xs_{}, ys_{};
  int64_t batch_ = 0, channels_ = 0, pixels_ = 0, x_bytes_ = 0;
  CopyPlan load_, store_;
  std::unique_ptr<PreparedPrimitive> primitive_, tail_;
  int64_t block_ = 1, plane_x_ = 0, plane_y_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kF32)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  if (!spec.outputs[0].present()) return Verdict::no("values are not wanted");
  if (spec.outputs.size() > 1 && spec.outputs[1].present())
    return Verdict::no("indices are wanted");
  const size_t rank = spec.inputs[0].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  // Windows that reach beyond the padding count differently in the library.
  if (spec.attrs().get_int("ceil_mode", 0) != 0 &&
      spec.attrs().get_int("count_include_pad", 0) != 0)
    return Verdict::no("ceil_mode with count_include_pad");
  return Verdict::ok();
}

}  // namespace

void add_pool(Rows& rows) {
  for (std::string_view op : {"MaxPool", "AveragePool"})
    rows.push_back({"onednn.pool", op, supports, create_bound_by<PoolBound>, any_order});
}

}  // namespace xc::cpu
