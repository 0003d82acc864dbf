// Reductions over any axes: "xc.reduce". Rows along a dense reduced axis follow the canonical lanes
// (vector/rows_fn.h); a dense kept axis is reduced column by column, in order. Long sums of floats
// are made of sums of blocks (loop/kernel.h), at places that depend on sizes and strides alone.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/casts_fn.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "backends/cpu/vector/rows_fn.h"
#include "loop/expr.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

enum class Post : uint8_t { kNone, kMean, kRoot, kLog };
struct Row {
  std::string_view op;
  Fold fold;
  Post post;
};
constexpr Row kRows[] = {
    {"ReduceSum", Fold::kSum, Post::kNone},
    {"ReduceMean", Fold::kSum, Post::kMean},
    {"ReduceProd", Fold::kProd, Post::kNone},
    {"ReduceMax", Fold::kMax, Post::kNone},
    {"ReduceMin", Fold::kMin, Post::kNone},
    {"ReduceL1", Fold::kSumAbs, Post::kNone},
    {"ReduceL2", Fold::kSumSquares, Post::kRoot},
    {"ReduceSumSquare", Fold::kSumSquares, Post::kNone},
    {"ReduceLogSum", Fold::kSum, Post::kLog},
    // Over every axis from the third on.
    {"GlobalAveragePool", Fold::kSum, Post::kMean},
    {"GlobalMaxPool", Fold::kMax, Post::kNone},
};
const Row& row_of(const OpDef& op) {
  for (const Row& row : kRows)
    if (row.op == op.name) return row;
  fail(Status::kInternal, "xc.reduce has no row for {}", op.name);
}

bool is_sum(Fold fold) {
  return fold == Fold::kSum || fold == Fold::kSumSquares || fold == Fold::kSumAbs;
}

/// Squares of bf16 numbers leave the range of f32, their root does not; what is made of sums of
/// integers does not show that they wrap around, but in 64 bits. Other types have no loops.
DType compute_type_of(const Row& row, DType type) {
  if (is_integer(type) && (row.post != Post::kNone || type != DType::kI32)) return DType::kI64;
  if (type == DType::kBF16 && row.post == Post::kRoot) return DType::kF64;
  return loop::value_type(type);
}

constexpr int64_t kChunk = 1024;  ///< elements staged at a time
constexpr int64_t kTaskElements = 64 << 10;
constexpr int64_t kBlockRows = 1024;  ///< of columns, which have one partial result, in order
constexpr size_t kMaxAxes = 16;

/// The reduction as loops: kept axes outside, reduced axes inside, the innermost one dense or
/// staged.
struct Loops {
  bool columns = false;            ///< the dense axis is kept
  Dims kept_dims, kept_x, kept_y;  ///< outer axes; without the dense one when columns
  Dims fold_dims, fold_x;          ///< reduced axes but the inner one
  int64_t inner = 1, inner_x = 1;  ///< reduced axis (rows) or kept axis (columns)
  int64_t inner_y = 1;             ///< columns: stride of the result
  int64_t rows = 1, row_x = 0;     ///< columns: the innermost reduced axis
  int64_t count = 1;               ///< elements per result
  int64_t results = 1;             ///< product of kept_dims
};

Loops loops_over(const OperandView& x, const std::vector<bool>& reduced, Dims result_strides) {
  struct Axis {
    int64_t dim, x, y;
    bool reduced;
  };
  std::vector<Axis> axes;
  axes.reserve(x.dims.size());
  Loops out;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (reduced[i]) out.count = checked_mul(out.count, x.dims[i]);
    if (x.dims[i] != 1) axes.push_back({x.dims[i], x.strides[i], result_strides[i], reduced[i]});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.x) > std::abs(b.x); });
  // Neighbours of one kind that are one axis in memory.
  std::vector<Axis> merged;
  merged.reserve(axes.size());
  for (const Axis& a : axes) {
    if (!merged.empty() && merged.back().reduced == a.reduced && merged.back().x == a.x * a.dim &&
        (a.reduced || merged.back().y == a.y * a.dim)) {
      merged.back() = {merged.back().dim * a.dim, a.x, a.y, a.reduced};
    } else {
      merged.push_back(a);
    }
  }
  size_t inner = merged.size();
  if (!merged.empty() && !merged.back().reduced && merged.back().x == 1 &&
      std::any_of(merged.begin(), merged.end(), [](const Axis& a) { return a.reduced; })) {
    out.columns = true;
    inner = merged.size() - 1;
    out.inner = merged[inner].dim;
    out.inner_y = merged[inner].y;
  } else {
    // The reduced axis of least stride is the inner one.
    for (size_t i = 0; i < merged.size(); ++i)
      if (merged[i].reduced) inner = i;
    if (inner < merged.size()) {
      out.inner = merged[inner].dim;
      out.inner_x = merged[inner].x;
    }
  }
  for (size_t i = 0; i < merged.size(); ++i) {
    if (i == inner) continue;
    if (merged[i].reduced) {
      out.fold_dims.push_back(merged[i].dim);
      out.fold_x.push_back(merged[i].x);
    } else {
      out.kept_dims.push_back(merged[i].dim);
      out.kept_x.push_back(merged[i].x);
      out.kept_y.push_back(merged[i].y);
    }
  }
  if (out.columns && !out.fold_dims.empty()) {
    out.rows = out.fold_dims.back();
    out.row_x = out.fold_x.back();
    out.fold_dims.pop_back();
    out.fold_x.pop_back();
  }
  out.results = element_count(out.kept_dims);
  return out;
}

class ReduceBound final : public BoundKernel {
 public:
  ReduceBound(std::shared_ptr<const StepSpec> spec, const BindContext& context)
      : spec_(std::move(spec)), views_(*spec_, context), row_(row_of(*spec_->op)) {
    const DType type = views_.inputs[0].dtype;
    compute_ = compute_type_of(row_, type);
    bytes_ = element_size(compute_);
    stored_bytes_ = element_size(type);
    const Isa isa = cpu_info().isa;
    fns_ = fold_fns(row_.fold, compute_, isa);
    if (is_float(compute_) && is_sum(row_.fold)) add_ = elementwise_fn(Fn::kAdd, compute_, isa);
    if (is_float(compute_) && row_.post == Post::kMean)
      settle_ = elementwise_fn(Fn::kDiv, compute_, isa);
    if (is_float(compute_) && row_.post == Post::kRoot)
      settle_ = elementwise_fn(Fn::kSqrt, compute_, isa);
    if (compute_ == DType::kI64) {
      if (type != compute_) widen_ = cast_fn(type, compute_, isa);
    } else if (compute_ != type) {
      widen_ = cast_fn(type, DType::kF32, isa);
      narrow_ = cast_fn(DType::kF32, type, isa);
    }
    if (widen_ && compute_ == DType::kF64) widen_more_ = cast_fn(DType::kF32, compute_, isa);
    dynamic_ = !ControlInputs::constant(*spec_, 1) && has_axes();
    allocates = dynamic_;
    if (!dynamic_) {
      loops_ = make(nullptr);
      allocates = loops_.count == 0;
      // Columns: the dense axis is split too.
      blocks_ = loops_.columns ? ceil_div(loops_.inner, kChunk) : 1;
      const int64_t units = loops_.results * blocks_;
      tasks = std::clamp<int64_t>(views_.inputs[0].count() / kTaskElements, 1,
                                  std::max<int64_t>(1, units));
    }
    // Partials or accumulators, then a staged chunk in memory type, one in compute type and one on
    // the way there, and what blocks before have come to.
    scratch_bytes = 5 * kChunk * 8 + kPartials * 8;
    held_bytes += views_.bytes() + 512;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (dynamic_) {
      const Loops loops = make(args.buffers);
      const int64_t blocks = loops.columns ? ceil_div(loops.inner, kChunk) : 1;
      run_units(loops, blocks, args, 0, loops.results * blocks);
    } else {
      const int64_t units = loops_.results * blocks_;
      run_units(loops_, blocks_, args, units * begin / tasks, units * end / tasks);
    }
  }

 private:
  /// No axes need not be read.
  bool has_axes() const {
    return views_.inputs.size() > 1 && views_.inputs[1].present() && views_.inputs[1].count() > 0;
  }
  Loops make(void* const* buffers) const {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const ControlInputs control(*spec_, views_, buffers);
    const std::vector<int64_t> axes = has_axes() ? control.ints(1) : std::vector<int64_t>{};
    const bool none = axes.empty() && spec_->attrs().get_int("noop_with_empty_axes", 0) != 0;
    std::vector<bool> reduced(x.dims.size(), axes.empty() && !none);
    for (size_t axis : normalise_axes(axes, x.dims.size())) reduced[axis] = true;
    if (row_.op.starts_with("Global")) reduced[0] = reduced[1] = false;
    const bool keep = spec_->attrs().get_int("keepdims", 1) != 0;
    Dims strides(x.dims.size(), 0);
    size_t k = 0;
    for (size_t i = 0; i < x.dims.size(); ++i) {
      if (reduced[i] && !keep) continue;
      if (k >= y.dims.size() || y.dims[k] != (reduced[i] ? 1 : x.dims[i]))
        fail(Status::kRange, "the axes do not fit the result {}", to_text(copied(y.dims)));
      if (!reduced[i]) strides[i] = y.strides[k];
      ++k;
    }
    return loops_over(x, reduced, std::move(strides));
  }

  /// Whether every result is one dense row, as softmax's maxima and pooled images are.
  bool one_row_each(const Loops& loops) const {
    return !loops.columns && loops.inner_x == 1 && (!widen_ || loops.inner <= kChunk) &&
           loops.fold_dims.empty() && !loops.kept_dims.empty() && !in_blocks(loops);
  }

  /// Results [first, last), in runs along the last kept axis.
  void run_rows(const Loops& loops, const std::byte* x, std::byte* y, std::byte* acc,
                std::byte* stage, int64_t first, int64_t last) const {
    const int64_t along = loops.kept_dims.back(), step_x = loops.kept_x.back(),
                  step_y = loops.kept_y.back();
    for (int64_t r = first; r < last;) {
      const int64_t n = std::min({kChunk, last - r, along - r % along});
      const std::byte* from = x + offset_at(r, loops.kept_dims, loops.kept_x) * stored_bytes_;
      if (widen_)
        fold_widened(from, n, step_x, loops.inner, acc, stage);
      else
        fns_.each(from, n, step_x, loops.inner, acc);
      store_finished(loops, {from, step_x}, acc, n,
                     y + offset_at(r, loops.kept_dims, loops.kept_y) * stored_bytes_, step_y);
      r += n;
    }
  }
  /// Rows of at most kChunk elements, `apart` in memory, as many of them staged at a time as fit.
  void fold_widened(const std::byte* from, int64_t rows, int64_t apart, int64_t length,
                    std::byte* results, std::byte* stage) const {
    const int64_t most = kChunk / length;
    for (int64_t r = 0; r < rows; r += most) {
      const int64_t n = std::min(most, rows - r), joined = apart == length ? n : 1;
      for (int64_t k = 0; k < n; k += joined)
        widen(from + (r + k) * apart * stored_bytes_, stage + k * length * bytes_, joined * length);
      fns_.each(stage, n, length, length, results + r * bytes_);
    }
  }

  /// Units [first, last) of `units` where there are no elements, so that all results are alike.
  void run_of_nothing(const Loops& loops, std::byte* y, std::byte* acc, std::byte* stage,
                      int64_t first, int64_t last, int64_t units) const {
    if (units == 0) return;
    std::byte one[16];
    fns_.start(acc, kPartials);
    fns_.finish(acc, stage);
    store_finished(loops, {stage, 0}, stage, 1, one, 1);
    const OperandView& out = views_.outputs[0];
    const CopyPlan fill(out.dims, Dims(out.dims.size(), 0), out.strides, stored_bytes_);
    fill.run(one, y, fill.units() * first / units, fill.units() * last / units);
  }
  bool in_blocks(const Loops& loops) const { return add_ && loops.count > loop::kSumBlock; }

  void run_units(const Loops& loops, int64_t blocks, const StepArgs& args, int64_t first,
                 int64_t last) const {
    const auto* x = static_cast<const std::byte*>(args.buffers[0]);
    auto* y = static_cast<std::byte*>(args.buffers[views_.inputs.size()]);
    auto* acc = static_cast<std::byte*>(args.scratch);
    auto* stage = acc + kChunk * 8 + kPartials * 8;
    if (loops.count == 0)
      return run_of_nothing(loops, y, acc, stage, first, last, loops.results * blocks);
    if (one_row_each(loops)) return run_rows(loops, x, y, acc, stage, first, last);
    // Columns that are results as they come out of the loops are summed up in their place.
    const bool in_place = loops.inner_y == 1 && compute_ == views_.inputs[0].dtype;
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t result = unit / blocks, block = unit % blocks;
      const std::byte* from = x + offset_at(result, loops.kept_dims, loops.kept_x) * stored_bytes_;
      std::byte* to = y + offset_at(result, loops.kept_dims, loops.kept_y) * stored_bytes_;
      if (loops.columns) {
        const int64_t i0 = block * kChunk, n = std::min(kChunk, loops.inner - i0);
        from += i0 * stored_bytes_;
        to += i0 * loops.inner_y * stored_bytes_;
        std::byte* const sums = in_place ? to : acc;
        fold_columns(loops, from, n, sums, stage);
        store_finished(loops, {from, 1}, sums, n, to, loops.inner_y);
        continue;
      }
      fold_rows(loops, from, acc, stage);
      store_finished(loops, {from, 0}, stage, 1, to, 1);
    }
  }

  /// n columns over all rows, in `acc`.
  void fold_columns(const Loops& loops, const std::byte* from, int64_t n, std::byte* acc,
                    std::byte* stage) const {
    const int64_t folds = element_count(loops.fold_dims);
    const int64_t most = add_ ? kBlockRows : std::numeric_limits<int64_t>::max();
    std::byte* const before = stage + 3 * kChunk * 8;
    int64_t rows = 0;  // in `acc`
    bool first = true;
    const auto end_block = [&](std::byte* to) {
      if (first)
        std::memcpy(before, acc, static_cast<size_t>(n * bytes_));
      else
        add_({{before, acc}, {1, 1}, to, n, nullptr});
      first = false;
    };
    for (int64_t f = 0; f < folds; ++f) {
      const std::byte* at = from + offset_at(f, loops.fold_dims, loops.fold_x) * stored_bytes_;
      for (int64_t r = 0, more = 0; r < loops.rows; r += more) {
        if (rows == most) {
          end_block(before);
          rows = 0;
        }
        more = std::min(loops.rows - r, most - rows);
        add_rows(loops, at + r * loops.row_x * stored_bytes_, more, n, acc, stage, rows == 0);
        rows += more;
      }
    }
    if (!first) end_block(acc);
  }
  void add_rows(const Loops& loops, const std::byte* from, int64_t rows, int64_t n, std::byte* acc,
                std::byte* stage, bool first) const {
    if (!widen_) return fns_.columns(from, rows, loops.row_x, n, acc, first);
    for (int64_t r = 0; r < rows; ++r) {
      widen(from + r * loops.row_x * stored_bytes_, stage, n);
      fns_.columns(stage, 1, 0, n, acc, first && r == 0);
    }
  }

  /// All elements of a result, in `stage`: whole rows of the inner axis, as many as a block has
  /// room for, or parts of one.
  void fold_rows(const Loops& loops, const std::byte* from, std::byte* acc,
                 std::byte* stage) const {
    const int64_t folds = element_count(loops.fold_dims);
    if (!in_blocks(loops)) return fold_block(loops, from, {0, folds}, {0, loops.inner}, acc, stage);
    const int64_t length = std::min(loops.inner, loop::kSumBlock), rows = loop::kSumBlock / length;
    std::byte* const before = stage + 3 * kChunk * 8;
    for (int64_t f = 0; f < folds; f += rows)
      for (int64_t t = 0; t < loops.inner; t += length) {
        fold_block(loops, from, {f, std::min(folds, f + rows)},
                   {t, std::min(loops.inner, t + length)}, acc, stage);
        if (f > 0 || t > 0) add_({{before, stage}, {1, 1}, stage, 1, nullptr});
        std::memcpy(before, stage, static_cast<size_t>(bytes_));
      }
  }

  /// Elements `part` of rows `rows`, in `stage`.
  using Range = std::pair<int64_t, int64_t>;
  void fold_block(const Loops& loops, const std::byte* from, Range rows, Range part, std::byte* acc,
                  std::byte* stage) const {
    const int64_t n = part.second - part.first;
    const auto at = [&](int64_t f) {
      return from + (offset_at(f, loops.fold_dims, loops.fold_x) + part.first * loops.inner_x) *
                        stored_bytes_;
    };
    fns_.start(acc, kPartials);
    const bool evenly_apart = loops.inner_x == 1 && !widen_ && loops.fold_dims.size() == 1;
    if (evenly_apart && rows.first < rows.second)
      fns_.rows(at(rows.first), rows.second - rows.first, loops.fold_x[0], n, acc);
    else
      for (int64_t f = rows.first; f < rows.second; ++f) fold_row(loops, at(f), n, acc, stage);
    fns_.finish(acc, stage);
  }

  /// Elements of a row of the inner axis, staged where it is not dense in the compute type. Chunks
  /// are multiples of 64, so every element meets the same partial.
  void fold_row(const Loops& loops, const std::byte* from, int64_t length, std::byte* acc,
                std::byte* stage) const {
    if (loops.inner_x == 1 && !widen_) return fns_.rows(from, 1, 0, length, acc);
    std::byte* wide = stage + kChunk * 8;
    for (int64_t t = 0; t < length; t += kChunk) {
      const int64_t n = std::min(kChunk, length - t);
      const std::byte* source = from + t * loops.inner_x * stored_bytes_;
      if (loops.inner_x != 1) {
        copy_matrix({1, n, 0, loops.inner_x, 0, 1, stored_bytes_}, source, stage);
        source = stage;
      }
      if (widen_) {
        widen(source, wide, n);
        source = wide;
      }
      fns_.rows(source, 1, 0, n, acc);
    }
  }

  /// n elements of the memory type in the compute type; there is room for a chunk behind `to`.
  void widen(const std::byte* from, std::byte* to, int64_t n) const {
    if (!widen_more_) return widen_({{from}, {1}, to, n, nullptr});
    std::byte* between = to + kChunk * 8;
    widen_({{from}, {1}, between, n, nullptr});
    widen_more_({{between}, {1}, to, n, nullptr});
  }

  /// Where the elements of some results begin.
  struct Source {
    const std::byte* first;
    int64_t step;  ///< elements from one result to the next
  };

  /// Squares of f32 leave its range where their root does not: such roots are made again in f64.
  void mend_roots(const Loops& loops, Source source, float* roots, int64_t n) const {
    constexpr float kLeast = 1e-10F;  // below, squares that were lost may matter
    constexpr float kMost = std::numeric_limits<float>::max();
    constexpr int64_t kAtOnce = 64;  // columns are read along rows
    const auto doubtful = [](float root) { return (root < kLeast) | (root > kMost); };
    bool any = false;
    for (int64_t i = 0; i < n; ++i) any |= doubtful(roots[i]);
    if (!any) return;
    const int64_t folds = element_count(loops.fold_dims);
    const int64_t length = loops.columns ? loops.rows : loops.inner,
                  apart = loops.columns ? loops.row_x : loops.inner_x;
    const int64_t most = loops.columns ? kAtOnce : 1;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t count = std::min(most, n - i);
      if (std::none_of(roots + i, roots + i + count, doubtful)) continue;
      const auto* first = reinterpret_cast<const float*>(source.first) + i * source.step;
      std::array<double, kAtOnce> sums{};
      for (int64_t f = 0; f < folds; ++f) {
        const float* x = first + offset_at(f, loops.fold_dims, loops.fold_x);
        for (int64_t t = 0; t < length; ++t, x += apart)
          for (int64_t k = 0; k < count; ++k) {
            const double v = x[k * source.step];
            sums[static_cast<size_t>(k)] += v * v;
          }
      }
      for (int64_t k = 0; k < count; ++k)
        if (doubtful(roots[i + k]))
          roots[i + k] = static_cast<float>(std::sqrt(sums[static_cast<size_t>(k)]));
    }
  }

  /// What is made of n folded floats of `count` elements each.
  template <class T>
  void settle(T* v, int64_t n, int64_t count) const {
    const T divisor = static_cast<T>(count);
    if (row_.post == Post::kLog)
      for (int64_t i = 0; i < n; ++i) v[i] = std::log(v[i]);
    else if (settle_)
      settle_({{v, &divisor}, {1, 0}, v, n, nullptr});
  }

  /// The post function of n values, which it changes, and their store, `stride` elements apart.
  /// There is room for a chunk of the widest type at `values`, which may be `to` where nothing is
  /// narrowed and the stride is 1.
  void store_finished(const Loops& loops, Source source, std::byte* values, int64_t n,
                      std::byte* to, int64_t stride) const {
    const auto apply = [&](auto zero) {
      using T = decltype(zero);
      T* v = reinterpret_cast<T*>(values);
      if constexpr (std::is_floating_point_v<T>) settle(v, n, loops.count);
      if constexpr (std::is_same_v<T, float>)
        if (row_.post == Post::kRoot && !widen_) mend_roots(loops, source, v, n);
    };
    switch (compute_) {
      case DType::kF32:
        apply(float{});
        break;
      case DType::kF64:
        apply(double{});
        break;
      case DType::kI32:
        apply(int32_t{});
        break;
      default:
        if (row_.post != Post::kNone || views_.outputs[0].dtype != DType::kI64)
          return store_made(reinterpret_cast<const int64_t*>(values), n, loops.count, to, stride);
        apply(int64_t{});
        break;
    }
    if (widen_more_)
      for (int64_t i = 0; i < n; ++i) {
        double wide;
        std::memcpy(&wide, values + i * 8, sizeof wide);
        const auto single = static_cast<float>(wide);
        std::memcpy(values + i * 4, &single, sizeof single);
      }
    if (narrow_) {  // from f32, which fills half the room at most
      narrow_({{values}, {1}, values + kChunk * 4, n, nullptr});
      values += kChunk * 4;
    }
    if (stride == 1) {
      if (values != to) std::memcpy(to, values, static_cast<size_t>(n * stored_bytes_));
      return;
    }
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * stride * stored_bytes_, values + i * stored_bytes_,
                  static_cast<size_t>(stored_bytes_));
  }

  /// What is made of n sums of `count` integers each, as the operator's reference has it.
  void store_made(const int64_t* sums, int64_t n, int64_t count, std::byte* to,
                  int64_t stride) const {
    const DType type = views_.outputs[0].dtype;
    for (int64_t i = 0; i < n; ++i) {
      const auto sum = static_cast<double>(sums[i]);
      if (row_.post == Post::kNone)
        store_wrapped(to, type, i * stride, sums[i]);
      else if (row_.post == Post::kMean)
        store_wrapped(to, type, i * stride, count == 0 ? 0 : sums[i] / count);
      else
        store_double(to, type, i * stride,
                     row_.post == Post::kRoot ? std::sqrt(sum) : std::log(sum));
    }
  }

  std::shared_ptr<const StepSpec> spec_;
  OperandViews views_;
  Row row_;
  DType compute_ = DType::kF32;
  int64_t bytes_ = 4, stored_bytes_ = 4;
  FoldFns fns_{};
  ElementwiseFn add_ = nullptr;     ///< of blocks; null: one block has all
  ElementwiseFn settle_ = nullptr;  ///< division by the count, or the square root
  ElementwiseFn widen_ = nullptr, narrow_ = nullptr;
  ElementwiseFn widen_more_ = nullptr;  ///< from f32, where compute_ is wider
  bool dynamic_ = false;
  Loops loops_;
  int64_t blocks_ = 1;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const DType type = spec.inputs[0].dtype;
  const Row& row = row_of(*spec.op);
  const DType compute = compute_type_of(row, type);
  if (!fold_fns(row.fold, compute, cpu_info().isa).rows)
    return Verdict::no(fmt::format("no inner loop for elements of type {}", name(type)));
  // Of u64 what wraps around has the same bits.
  const bool wraps = row.post == Post::kNone && (row.fold == Fold::kSum || row.fold == Fold::kProd);
  if (is_integer(type) && type != compute &&
      ((type == DType::kU64 && !wraps) || !cast_fn(type, compute, cpu_info().isa)))
    return Verdict::no(fmt::format("no sums of {} in 64 bits", name(type)));
  if (spec.inputs[0].dims.size() > kMaxAxes) return Verdict::no("too many axes");
  return Verdict::ok();
}

}  // namespace

void add_reduce(Rows& rows) {
  for (const Row& row : kRows)
    rows.push_back({"xc.reduce", row.op, supports, create_sharing_step<ReduceBound>, any_order});
}

}  // namespace xc::cpu
