// Values put back into the image that windows were taken from, "xc.unpool": MaxUnpool to where the
// largest elements were, Col2Im to every pixel of each block, where they add up.

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "ops/support.h"
#include "ops/window.h"

namespace xc::cpu {
namespace {

// ---- MaxUnpool ----------------------------------------------------------------------------------

class MaxUnpoolBound final : public BoundKernel {
 public:
  MaxUnpoolBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const std::span<const int64_t> x = views_.inputs[0].dims;
    WindowAttrs window = window_attrs(*spec.node, x.size() - 2);
    read_ = copied(x);
    for (size_t i = 0; i + 2 < x.size(); ++i) read_[i + 2] = unpooled(window, i, x[i + 2]);
    elements_ = element_count(read_);
    strides_ = contiguous_strides(copied(views_.outputs[0].dims));
    held_bytes += views_.bytes() + static_cast<int64_t>(16 * x.size());
  }

  void run(const StepArgs& args, int64_t, int64_t) const override {
    const DType type = views_.outputs[0].dtype;
    void* const y = args.buffers[views_.inputs.size()];
    std::memset(y, 0, static_cast<size_t>(views_.outputs[0].count() * element_size(type)));
    const auto* indices = static_cast<const int64_t*>(args.buffers[1]);
    const bool direct = std::ranges::equal(read_, views_.outputs[0].dims);
    dispatch_storage(type, [&]<class T>() {
      const auto* x = static_cast<const T*>(args.buffers[0]);
      for (int64_t i = 0, n = views_.inputs[0].count(); i < n; ++i) {
        const int64_t index = indices[i];
        if (index < 0 || index >= elements_)
          fail(Status::kRange, "index {} is outside [0, {})", index, elements_);
        static_cast<T*>(y)[direct ? index : place_of(index)] = x[i];
      }
    });
  }

 private:
  /// Of an element of what was pooled in a result of other dims.
  int64_t place_of(int64_t index) const {
    const std::span<const int64_t> dims = views_.outputs[0].dims;
    int64_t rest = index, to = 0;
    for (size_t axis = read_.size(); axis-- > 0; rest /= read_[axis]) {
      const int64_t at = rest % read_[axis];
      if (at >= dims[axis])
        fail(Status::kRange, "index {} lies outside the output {}", index, to_text(copied(dims)));
      to += at * strides_[axis];
    }
    return to;
  }

  OperandViews views_;
  Dims read_, strides_;  ///< dims of what was pooled; strides of the result
  int64_t elements_ = 0;
};

Verdict row_major(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands)
      if (operand.present() && !operand.contiguous())
        return Verdict::no("operands that are not row-major");
  return Verdict::ok();
}

// ---- Col2Im -------------------------------------------------------------------------------------

/// Columns [N, C * block elements, positions] to an image [N, C, spatial...]: element by element of
/// a block, what it adds to the pixels of all positions, row by row.
class Col2ImBound final : public BoundKernel {
 public:
  Col2ImBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context),
        type_(spec.inputs[0].dtype),
        add_(elementwise_fn(Fn::kAdd, type_, cpu_info().isa)) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const Dims block = int_values(spec.inputs[2].constant.view());
    const WindowAttrs window = window_attrs(*spec.node, block.size());
    Dims positions{x.dims[0], y.dims[1]};
    for (size_t i = 0; i < block.size(); ++i)
      positions.push_back(window_output(window, i, y.dims[i + 2], block[i]).value());
    axes_ = window_axes_3d(window_axes(window, y.dims, block, positions));
    const auto& [d, h, w] = axes_;
    block_ = element_count(block);
    positions_ = d.output * h.output * w.output;
    if (x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1] * block_ || x.dims[2] != positions_)
      fail(Status::kRange, "columns {}: blocks {} in an image {}", to_text(copied(x.dims)),
           to_text(block), to_text(copied(y.dims)));
    tasks = y.dims[0] * y.dims[1];
    held_bytes += views_.bytes() + 256;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    dispatch_number(type_, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T>) {
        const int64_t plane = axes_[0].input * axes_[1].input * axes_[2].input;
        for (int64_t task = begin; task < end; ++task)
          put_back(static_cast<const T*>(args.buffers[0]) + task * block_ * positions_,
                   static_cast<T*>(args.buffers[views_.inputs.size()]) + task * plane, plane);
      }
    });
  }

 private:
  template <class T>
  void put_back(const T* columns, T* image, int64_t plane) const {
    const auto& [d, h, w] = axes_;
    std::fill_n(image, plane, T{});
    for (int64_t kd = 0; kd < d.kernel; ++kd)
      for (int64_t kh = 0; kh < h.kernel; ++kh)
        for (int64_t kw = 0; kw < w.kernel; ++kw, columns += positions_) {
          const RowRange ods = d.outputs(kd), ohs = h.outputs(kh), ows = w.outputs(kw);
          for (int64_t od = ods.begin; od < ods.end; ++od)
            for (int64_t oh = ohs.begin; oh < ohs.end && ows.size() > 0; ++oh)
              add_row(
                  columns + (od * h.output + oh) * w.output + ows.begin,
                  image + (d.at(od, kd) * h.input + h.at(oh, kh)) * w.input + w.at(ows.begin, kw),
                  ows.size());
        }
  }

  /// to[i * stride] += from[i].
  template <class T>
  void add_row(const T* from, T* to, int64_t n) const {
    const int64_t stride = axes_[2].stride;
    if (stride == 1) return add_({{to, from}, {1, 1}, to, n, nullptr});
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;  // integers wrap
    for (int64_t i = 0; i < n; ++i)
      to[i * stride] = static_cast<T>(Sum(to[i * stride]) + Sum(from[i]));
  }

  OperandViews views_;
  DType type_;
  ElementwiseFn add_;
  std::array<WindowAxis, 3> axes_;
  int64_t block_ = 0, positions_ = 0;  ///< elements of a block, blocks
};

Verdict supports_col2im(const StepSpec& spec) {
  const DType type = spec.inputs[0].dtype;
  if (!contains(kNumbers, type) || type == DType::kF16 || type == DType::kBF16)
    return Verdict::no(fmt::format("elements of type {}", name(type)));
  if (!elementwise_fn(Fn::kAdd, type, cpu_info().isa))
    return Verdict::no(fmt::format("no sums of {}", name(type)));
  if (!spec.inputs[2].constant) return Verdict::no("block_shape is not constant");
  if (const size_t rank = spec.outputs[0].dims.size(); rank < 3 || rank > 5)
    return Verdict::no(fmt::format("an image of rank {}", rank));
  return row_major(spec);
}

}  // namespace

void add_unpool(Rows& rows) {
  rows.push_back({"xc.unpool", "MaxUnpool", row_major, create_bound_by<MaxUnpoolBound>});
  rows.push_back({"xc.unpool", "Col2Im", supports_col2im, create_bound_by<Col2ImBound>});
}

}  // namespace xc::cpu
