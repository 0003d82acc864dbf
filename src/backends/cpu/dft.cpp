// DFT: "xc.dft". Lines of f32 are transformed several at a time, side by side in scratch, in f64:
// what cancels comes near zero, as with the reference. (kissfft, which that uses, takes memory in
// every transform whose length has a factor beyond 5, and goes number by number.)

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

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

/// Prime factors beyond 5 have passes whose time grows with the factor. Where they sum up to more,
/// a length is transformed by a convolution.
constexpr int64_t kMostFactors = 32;

/// Complex numbers of sequences side by side.
struct Numbers {
  double *re, *im;
  /// The inverse transform is the forward one with the parts exchanged.
  Numbers exchanged() const { return {im, re}; }
};

/// The passes of a transform of so many points, and its roots of unity.
struct Passes {
  int64_t length;
  std::vector<int64_t> radices;
  std::vector<double> root_re, root_im;

  explicit Passes(int64_t points) : length(points) {
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

  /// Of `lines` sequences; gives the one of the two that has the result.
  Numbers run(Numbers x, Numbers spare, int64_t lines) const {
    const FourierFn pass = fourier_pass(cpu_info().isa);
    int64_t done = 1;
    for (const int64_t radix : radices) {
      pass({x.re, x.im, spare.re, spare.im, radix, length / done / radix, lines * done,
            root_re.data(), root_im.data(), done});
      done *= radix;
      std::swap(x, spare);
    }
    return x;
  }
};

/// A factor of each point.
struct Factors {
  std::vector<double> re, im;
  explicit Factors(int64_t points)
      : re(static_cast<size_t>(points), 0.0), im(static_cast<size_t>(points), 0.0) {}
  void multiply(Numbers x, int64_t lines) const {
    for (size_t k = 0; k < re.size(); ++k, x.re += lines, x.im += lines)
      for (int64_t l = 0; l < lines; ++l) {
        const double real = x.re[l] * re[k] - x.im[l] * im[k];
        x.im[l] = x.re[l] * im[k] + x.im[l] * re[k];
        x.re[l] = real;
      }
  }
};

/// The least number from n on without a prime factor beyond 5.
int64_t smooth_from(int64_t n) {
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int64_t fives = 1; fives < 5 * n; fives *= 5)
    for (int64_t threes = fives; threes < 3 * n; threes *= 3) {
      int64_t all = threes;
      while (all < n) all *= 2;
      best = std::min(best, all);
    }
  return best;
}

/// The sum of the prime factors beyond 5.
int64_t large_factors(int64_t n) {
  int64_t sum = 0;
  for (int64_t factor = 2; n > 1; ++factor) {
    if (factor * factor > n) factor = n;
    for (; n % factor == 0; n /= factor) sum += factor > 5 ? factor : 0;
  }
  return sum;
}

/// A transform of any length. Bluestein's algorithm where factors are large: as jk = (j^2 + k^2 -
/// (k - j)^2) / 2, X[k] = w[k] sum_j (x[j] w[j]) / w[k - j] with w[k] = e^(-pi i k^2 / length), a
/// convolution, which is a product between two transforms of a smooth length.
class FourierPlan {
 public:
  explicit FourierPlan(int64_t points)
      : length(points),
        passes_(large_factors(points) > kMostFactors ? smooth_from(2 * points - 1) : points),
        chirp_(room() == points ? 0 : points),
        filter_(room() == points ? 0 : room()) {
    if (room() == points) return;
    int64_t square = 0;  // modulo 2 * points, after which w repeats
    for (int64_t k = 0; k < points; ++k) {
      const double angle =
          std::numbers::pi * static_cast<double>(square) / static_cast<double>(points);
      square = (square + 2 * k + 1) % (2 * points);
      chirp_.re[static_cast<size_t>(k)] = std::cos(angle);
      chirp_.im[static_cast<size_t>(k)] = -std::sin(angle);
      for (const int64_t at : {k, (room() - k) % room()}) {
        filter_.re[static_cast<size_t>(at)] = std::cos(angle) / static_cast<double>(room());
        filter_.im[static_cast<size_t>(at)] = std::sin(angle) / static_cast<double>(room());
      }
    }
    Factors spare(room());
    const Numbers found =
        passes_.run({filter_.re.data(), filter_.im.data()}, {spare.re.data(), spare.im.data()}, 1);
    if (found.re == spare.re.data()) filter_ = std::move(spare);
  }
  /// Numbers of a line that x and spare of run() have room for.
  int64_t room() const { return passes_.length; }
  int64_t bytes() const {
    return passes_.bytes() + 16 * static_cast<int64_t>(chirp_.re.size() + filter_.re.size());
  }

  /// Of `lines` sequences; gives the one of the two that has the result.
  Numbers run(Numbers x, Numbers spare, int64_t lines) const {
    if (chirp_.re.empty()) return passes_.run(x, spare, lines);
    chirp_.multiply(x, lines);
    std::fill(x.re + length * lines, x.re + room() * lines, 0.0);
    std::fill(x.im + length * lines, x.im + room() * lines, 0.0);
    const Numbers spectrum = passes_.run(x, spare, lines);
    filter_.multiply(spectrum, lines);
    const Numbers other = spectrum.re == x.re ? spare : x;
    const Numbers sums = passes_.run(spectrum.exchanged(), other.exchanged(), lines).exchanged();
    chirp_.multiply(sums, lines);
    return sums;
  }

  const int64_t length;

 private:
  Passes passes_;
  Factors chirp_, filter_;
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
    if (views_.outputs[0].count() == 0) {
      tasks = 0;
      return;
    }
    present_ = std::min(x.dims[axis_], half_given() ? plan_.length / 2 + 1 : plan_.length);
    lines_ = copied(x.dims);
    lines_[axis_] = lines_.back() = 1;
    count_ = element_count(lines_);
    at_a_time_ = std::clamp<int64_t>(kNumbersAtATime / plan_.room(), 1, kMostLines);
    const int64_t groups = ceil_div(count_, at_a_time_);
    const int64_t worth = checked_mul(count_, plan_.length) / kTaskNumbers;
    tasks = std::clamp<int64_t>(worth, 1, std::max<int64_t>(1, groups));
    scratch_bytes = checked_mul(checked_mul(32, plan_.room()), at_a_time_);
    held_bytes += views_.bytes() + plan_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const auto* from = static_cast<const float*>(args.buffers[0]);
    auto* to = static_cast<float*>(args.buffers[views_.inputs.size()]);
    auto* room = static_cast<double*>(args.scratch);
    const int64_t last = count_ * end / tasks;
    for (int64_t line = count_ * begin / tasks; line < last; line += at_a_time_) {
      const int64_t n = std::min(at_a_time_, last - line), size = plan_.room() * n;
      const Numbers lines{room, room + size}, spare{room + 2 * size, room + 3 * size};
      int64_t offset_x[kMostLines], offset_y[kMostLines];
      for (int64_t l = 0; l < n; ++l) {
        offset_x[l] = offset_at(line + l, lines_, x.strides);
        offset_y[l] = offset_at(line + l, lines_, y.strides);
      }
      load(from, offset_x, n, lines.re, lines.im);
      const Numbers result = inverse_
                                 ? plan_.run(lines.exchanged(), spare.exchanged(), n).exchanged()
                                 : plan_.run(lines, spare, n);
      store(result.re, result.im, offset_y, n, to);
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
    return views_.outputs[0].count() == 0 ? 1 : out;  // nothing is prepared for no results
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
