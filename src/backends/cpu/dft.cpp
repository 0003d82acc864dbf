// DFT: "xc.dft". Lines of f32 are transformed several at a time, side by side in scratch, in f64:
// what cancels comes near zero, as with the reference. (kissfft, which that uses, takes memory in
// every transform whose length has a factor beyond 5, and goes number by number.)

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/strided_space.h"
#include "backends/cpu/vector/fourier_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kMostLines = 16;             ///< at a time
constexpr int64_t kNumbersAtATime = 16 << 10;  ///< of all of these lines, about
constexpr int64_t kTaskNumbers = 16 << 10;
constexpr int64_t kPointsAtATime = 64;  ///< copied of a line before the next one's turn

/// A transform's passes and roots of unity.
struct FourierPlan {
  int64_t length;
  std::vector<int64_t> radices;
  std::vector<double> root_re, root_im;

  explicit FourierPlan(int64_t points) : length(points) {
    int64_t rest = points;
    for (int64_t radix : {4, 2, 3, 5})
      for (; rest % radix == 0; rest /= radix) radices.push_back(radix);
    for (int64_t radix = 7; rest > 1; radix += 2) {
      if (radix * radix > rest) radix = rest;
      for (; rest % radix == 0; rest /= radix) radices.push_back(radix);
    }
    for (int64_t k = 0; k < points; ++k) {
      const double angle =
          -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(points);
      root_re.push_back(std::cos(angle));
      root_im.push_back(std::sin(angle));
    }
  }
  int64_t bytes() const { return 16 * length + 8 * static_cast<int64_t>(radices.size()); }

  /// Of `lines` sequences side by side in parts[0] (real, imaginary); gives the pair with the
  /// result, one of the two.
  double* const* run(double* const (&parts)[2][2], int64_t lines) const {
    const FourierFn pass = fourier_pass(cpu_info().isa);
    int64_t done = 1;
    size_t at = 0;
    for (const int64_t radix : radices) {
      pass({parts[at][0], parts[at][1], parts[1 - at][0], parts[1 - at][1], radix,
            length / done / radix, lines * done, root_re.data(), root_im.data(), done});
      done *= radix;
      at = 1 - at;
    }
    return parts[at];
  }
};

size_t axis_of(const ControlInputs& control, size_t rank) {
  return normalise_axis(control.has(2) ? control.ints(2).front() : -2, rank);
}

class DftBound final : public BoundKernel {
 public:
  DftBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context),
        inverse_(spec.attrs().get_int("inverse", 0) != 0),
        onesided_(spec.attrs().get_int("onesided", 0) != 0),
        axis_(axis_of(ControlInputs(spec, views_), views_.inputs[0].dims.size())),
        plan_(points(ControlInputs(spec, views_))) {
    const OperandView& x = views_.inputs[0];
    present_ = std::min(x.dims[axis_], half_given() ? plan_.length / 2 + 1 : plan_.length);
    lines_ = x.dims;
    lines_[axis_] = lines_.back() = 1;
    count_ = element_count(lines_);
    at_a_time_ = std::clamp<int64_t>(kNumbersAtATime / plan_.length, 1, kMostLines);
    const int64_t groups = ceil_div(count_, at_a_time_);
    const int64_t worth = checked_mul(count_, plan_.length) / kTaskNumbers;
    tasks = std::clamp<int64_t>(worth, 1, std::max<int64_t>(1, groups));
    scratch_bytes = checked_mul(checked_mul(32, plan_.length), at_a_time_);
    held_bytes += views_.bytes() + plan_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const auto* from = static_cast<const float*>(args.buffers[0]);
    auto* to = static_cast<float*>(args.buffers[views_.inputs.size()]);
    auto* room = static_cast<double*>(args.scratch);
    const int64_t last = count_ * end / tasks;
    for (int64_t line = count_ * begin / tasks; line < last; line += at_a_time_) {
      const int64_t n = std::min(at_a_time_, last - line), size = plan_.length * n;
      // The inverse transform is the forward one with the parts exchanged.
      double* const parts[2][2] = {{room + inverse_ * size, room + !inverse_ * size},
                                   {room + (2 + inverse_) * size, room + (2 + !inverse_) * size}};
      int64_t offset_x[kMostLines], offset_y[kMostLines];
      for (int64_t l = 0; l < n; ++l) {
        offset_x[l] = offset_at(line + l, lines_, x.strides);
        offset_y[l] = offset_at(line + l, lines_, y.strides);
      }
      load(from, offset_x, n, room, room + size);
      double* const* result = plan_.run(parts, n);
      store(result[inverse_], result[!inverse_], offset_y, n, to);
    }
  }

 private:
  bool half_given() const { return inverse_ && onesided_; }

  int64_t points(const ControlInputs& control) const {
    const int64_t given = views_.inputs[0].dims[axis_];
    const int64_t out = control.has(1) ? control.ints(1).front()
                        : half_given() ? 2 * (given - 1)
                                       : given;
    if (out < 1) fail(Status::kRange, "a transform of {} points", out);
    return out;
  }

  /// body(line, first, end) over points [0, n) of `lines`, in blocks.
  template <class Body>
  static void for_blocks(int64_t lines, int64_t n, const Body& body) {
    for (int64_t first = 0; first < n; first += kPointsAtATime)
      for (int64_t l = 0; l < lines; ++l) body(l, first, std::min(n, first + kPointsAtATime));
  }

  /// The lines from `offset` on, side by side: point k of line l at k * n + l.
  void load(const float* x, const int64_t* offset, int64_t n, double* re, double* im) const {
    const OperandView& view = views_.inputs[0];
    const int64_t step = view.strides[axis_], imaginary = view.strides.back();
    const bool complex = view.dims.back() == 2;
    for_blocks(n, present_, [&](int64_t l, int64_t first, int64_t end) {
      const float* line = x + offset[l];
      for (int64_t k = first; k < end; ++k) {
        re[k * n + l] = line[k * step];
        im[k * n + l] = complex ? line[k * step + imaginary] : 0;
      }
    });
    std::fill(re + present_ * n, re + plan_.length * n, 0.0);
    std::fill(im + present_ * n, im + plan_.length * n, 0.0);
    if (!half_given()) return;
    // The half of the spectrum that was left out mirrors the half that is given.
    for (int64_t k = plan_.length / 2 + 1; k < plan_.length; ++k)
      for (int64_t l = 0; l < n; ++l) {
        re[k * n + l] = re[(plan_.length - k) * n + l];
        im[k * n + l] = -im[(plan_.length - k) * n + l];
      }
  }

  void store(const double* re, const double* im, const int64_t* offset, int64_t n, float* y) const {
    const OperandView& view = views_.outputs[0];
    const int64_t step = view.strides[axis_], imaginary = view.strides.back();
    const bool complex = view.dims.back() == 2;
    const double scale = inverse_ ? 1.0 / static_cast<double>(plan_.length) : 1.0;
    for_blocks(n, view.dims[axis_], [&](int64_t l, int64_t first, int64_t end) {
      float* line = y + offset[l];
      for (int64_t k = first; k < end; ++k) {
        line[k * step] = static_cast<float>(re[k * n + l] * scale);
        if (complex) line[k * step + imaginary] = static_cast<float>(im[k * n + l] * scale);
      }
    });
  }

  OperandViews views_;
  bool inverse_, onesided_;
  size_t axis_;
  FourierPlan plan_;
  int64_t present_ = 0;  ///< points of a line that the input has
  Dims lines_;           ///< the input's dims, 1 along the transform and the components
  int64_t count_ = 0, at_a_time_ = 1;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const DType type = spec.inputs[0].dtype;
  if (type != DType::kF32 || spec.outputs[0].dtype != type)
    return Verdict::no(fmt::format("elements of type {}", name(type)));
  if (!ControlInputs::constant(spec, 1)) return Verdict::no("a length or axis of the run");
  return Verdict::ok();
}

}  // namespace

void add_dft(Rows& rows) {
  rows.push_back({"xc.dft", "DFT", supports, create_bound_by<DftBound>, any_order});
}

}  // namespace xc::cpu
