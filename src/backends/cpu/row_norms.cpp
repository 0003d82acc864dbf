// Softmax, LogSoftmax, LayerNormalization, RMSNormalization, InstanceNormalization and
// GroupNormalization over f32 rows: "xc.rows". A row that is not dense is staged, but of values
// that lie channels-last (pixel_norms.h), and of softmax where rows lie side by side.

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pixel_norms.h"
#include "backends/cpu/side_by_side.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/rows_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr double kDefaultEpsilon = 1e-5;
constexpr int64_t kTaskElements = 16 << 10;

enum class Kind : uint8_t {
  kSoftmax,
  kLogSoftmax,
  kLayerNorm,
  kRmsNorm,
  kInstanceNorm,
  kGroupNorm
};
struct Row {
  std::string_view op;
  Kind kind;
};
constexpr Row kRows[] = {
    {"Softmax", Kind::kSoftmax},
    {"LogSoftmax", Kind::kLogSoftmax},
    {"LayerNormalization", Kind::kLayerNorm},
    {"RMSNormalization", Kind::kRmsNorm},
    {"InstanceNormalization", Kind::kInstanceNorm},
    {"GroupNormalization", Kind::kGroupNorm},
};
Kind kind_of(const OpDef& op) {
  for (const Row& row : kRows)
    if (row.op == op.name) return row.kind;
  fail(Status::kInternal, "xc.rows has no row for {}", op.name);
}
bool is_softmax(Kind kind) {
  return kind == Kind::kSoftmax || kind == Kind::kLogSoftmax;
}

bool is_per_channel(Kind kind) {
  return kind == Kind::kInstanceNorm || kind == Kind::kGroupNorm;
}

float epsilon_of(const StepSpec& spec) {
  return static_cast<float>(spec.attrs().get_float("epsilon", kDefaultEpsilon));
}

/// How many groups of channels GroupNormalization normalises each for itself.
int64_t groups_of(const StepSpec& spec, int64_t channels) {
  const int64_t groups = spec.attrs().get_int("num_groups", 1);
  if (groups < 1 || channels % groups != 0)
    fail(Status::kInvalidModel, "{} channels do not divide into {} groups", channels, groups);
  return groups;
}

class RowsBound final : public BoundKernel {
 public:
  RowsBound(const StepSpec& spec, const BindContext& context, const Epilogue& behind = {})
      : views_(spec, context),
        kind_(kind_of(*spec.op)),
        fns_(row_fns(cpu_info().isa)),
        behind_(behind) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const size_t rank = x.dims.size();
    epsilon_ = epsilon_of(spec);
    // Axes of a row: [first, last).
    size_t first = rank, last = rank;
    if (is_softmax(kind_)) {
      first = normalise_axis(spec.attrs().get_int("axis", -1), rank);
      last = first + 1;
    } else if (kind_ == Kind::kInstanceNorm) {
      first = 2;
    } else if (kind_ != Kind::kGroupNorm) {
      first = normalise_axis(spec.attrs().get_int("axis", -1), rank);
    }
    std::span<const int64_t> dims = x.dims, xs = x.strides, ys = y.strides;
    std::array<Dims, 3> parted;
    if (kind_ == Kind::kGroupNorm) {
      // [n, groups, channels of a group, ...]: a row is a group.
      const int64_t groups = groups_of(spec, dims[1]);
      group_ = dims[1] / groups;
      const auto part = [&](Dims& to, std::span<const int64_t>& from) {
        to.assign(from.begin(), from.end());
        to.insert(to.begin() + 1, to[1] * group_);
        from = to;
      };
      part(parted[0], dims);
      part(parted[1], xs);
      part(parted[2], ys);
      parted[0][1] = groups;
      parted[0][2] = group_;
      first = 2;
      last = rank + 1;
    }
    const auto row_dims = dims.subspan(first, last - first);
    n_ = element_count(row_dims);
    const auto row_x = xs.subspan(first, last - first);
    const auto row_y = ys.subspan(first, last - first);
    stage_x_ = !is_contiguous(row_dims, row_x);
    stage_y_ = !is_contiguous(row_dims, row_y);
    if (stage_x_ || stage_y_) {
      const Dims dense = contiguous_strides(copied(row_dims));
      gather_ = CopyPlan(row_dims, row_x, dense, 4);
      scatter_ = CopyPlan(row_dims, dense, row_y, 4);
    }
    for (Dims* list : {&outer_dims_, &outer_x_, &outer_y_}) list->reserve(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      if (i < first || i >= last) {
        outer_dims_.push_back(dims[i]);
        outer_x_.push_back(xs[i]);
        outer_y_.push_back(ys[i]);
      }
    if (is_softmax(kind_) && (stage_x_ || stage_y_)) walk_abreast(xs[first], ys[first]);
    rows_ = element_count(outer_dims_);
    if (!is_softmax(kind_)) prepare_affine(first);
    groups_ = LineGroups(rows_, abreast() ? outer_dims_.back() : 1);
    tasks = n_ == 0 ? 1
                    : std::clamp<int64_t>(rows_ * n_ / kTaskElements, 1,
                                          std::max<int64_t>(1, groups_.count()));
    stage_bytes_ = stage_x_ || stage_y_ ? align_up(n_ * 4, 64) : 0;
    epilogue_at_ = 2 * stage_bytes_ + 2 * affine_bytes_;
    scratch_bytes = epilogue_at_ + behind_.scratch_bytes();
    if (!behind_.empty() && n_ > 0) add_tiles(context);
    in_place = behind_.has_operands() ? 0 : 1;  // they may lie there too
    held_bytes += views_.bytes() + tiles_.bytes() + 512;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (n_ == 0) return norms_of_nothing(args);
    const size_t inputs = views_.inputs.size();
    const auto* x = static_cast<const float*>(args.buffers[0]);
    auto* y = static_cast<float*>(args.buffers[inputs]);
    auto* stage = static_cast<std::byte*>(args.scratch);
    const float *scale = nullptr, *bias = nullptr;
    if (!is_softmax(kind_)) {
      scale = affine(args, 1, stage + 2 * stage_bytes_);
      if (inputs > 2) bias = affine(args, 2, stage + 2 * stage_bytes_ + affine_bytes_);
    }
    const int64_t first = groups_.of_task(begin, tasks), last = groups_.of_task(end, tasks);
    for (int64_t row = first; row < last;) {
      // Rows at one distance from each other go in one call.
      int64_t block = 1;
      int64_t x_at = 0, y_at = 0, rest = row;
      const size_t rank = outer_dims_.size();
      for (size_t axis = rank; axis-- > 0;) {
        const int64_t index = rest % outer_dims_[axis];
        if (axis + 1 == rank && !stage_x_ && !stage_y_ && !is_per_channel(kind_))
          block = std::min(last - row, outer_dims_[axis] - index);
        x_at += index * outer_x_[axis];
        y_at += index * outer_y_[axis];
        rest /= outer_dims_[axis];
      }
      NormArgs a{};
      a.rows = block;
      a.n = n_;
      a.x_stride = rank ? outer_x_[rank - 1] : 0;
      a.y_stride = rank ? outer_y_[rank - 1] : 0;
      a.x_step = x_step_;
      a.y_step = y_step_;
      a.epsilon = epsilon_;
      a.x = x + x_at;
      a.y = y + y_at;
      if (stage_x_) {
        gather_.run(x + x_at, stage);
        a.x = reinterpret_cast<const float*>(stage);
      }
      if (stage_y_) a.y = reinterpret_cast<float*>(stage + stage_bytes_);
      if (!is_softmax(kind_)) {
        set_affine(a, scale, bias, row);
        const size_t outputs = views_.outputs.size();
        if (outputs > 1 && views_.outputs[1].present())
          a.mean = static_cast<float*>(args.buffers[inputs + 1]) + row;
        if (outputs > 2 && views_.outputs[2].present())
          a.inverse = static_cast<float*>(args.buffers[inputs + 2]) + row;
      }
      switch (kind_) {
        case Kind::kSoftmax:
          fns_.softmax(a);
          break;
        case Kind::kLogSoftmax:
          fns_.log_softmax(a);
          break;
        case Kind::kRmsNorm:
          fns_.rms_norm(a);
          break;
        default:
          fns_.layer_norm(a);
          break;
      }
      if (kind_ == Kind::kGroupNorm) scale_group(a, scale, bias, row);
      if (stage_y_) scatter_.run(stage + stage_bytes_, y + y_at);
      if (!behind_.empty())
        behind_.run(tiles_, static_cast<size_t>(row), args.buffers, stage + epilogue_at_);
      row += block;
    }
  }

 private:
  /// Rows without elements have a mean and a deviation all the same: NaN.
  void norms_of_nothing(const StepArgs& args) const {
    for (size_t k = 1; k < views_.outputs.size(); ++k)
      if (views_.outputs[k].present())
        std::fill_n(static_cast<float*>(args.buffers[views_.inputs.size() + k]), rows_,
                    std::numeric_limits<float>::quiet_NaN());
  }
  /// Rows along an axis whose elements lie side by side in both operands are the innermost ones,
  /// and need no stage.
  void walk_abreast(int64_t x_step, int64_t y_step) {
    for (size_t k = 0; k < outer_dims_.size(); ++k) {
      if (outer_dims_[k] == 1 || outer_x_[k] != 1 || outer_y_[k] != 1) continue;
      for (Dims* list : {&outer_dims_, &outer_x_, &outer_y_}) {
        const auto at = list->begin() + static_cast<std::ptrdiff_t>(k);
        std::rotate(at, at + 1, list->end());
      }
      x_step_ = x_step;
      y_step_ = y_step;
      stage_x_ = stage_y_ = false;
      return;
    }
  }
  /// A row of InstanceNormalization or GroupNormalization: some channels of a sample.
  void add_tiles(const BindContext& context) {
    tiles_ = Epilogue::Tiles(behind_, context);
    const std::span<const int64_t> dims = context.outputs[0].dims;
    for (int64_t row = 0; row < rows_; ++row) {
      Dims begin(dims.size(), 0), end(dims.begin(), dims.end());
      const int64_t groups = dims[1] / group_;
      begin[0] = row / groups;
      end[0] = begin[0] + 1;
      begin[1] = row % groups * group_;
      end[1] = begin[1] + group_;
      tiles_.add(begin, end);
    }
  }
  bool abreast() const { return x_step_ != 1 || y_step_ != 1; }

  /// How scale and bias lie over a row.
  void prepare_affine(size_t first) {
    const OperandView& x = views_.inputs[0];
    for (size_t i = 1; i < std::min<size_t>(3, views_.inputs.size()); ++i) {
      const OperandView& p = views_.inputs[i];
      if (!p.present()) continue;
      if (is_per_channel(kind_)) {
        affine_stride_[i] = p.strides[0];
        continue;
      }
      const auto over = strides_over(x.dims, p.dims, p.strides);
      for (size_t axis = 0; axis < first; ++axis)
        if (over[axis] != 0 && x.dims[axis] != 1)
          fail(Status::kUnsupported, "unsupported: a scale that differs between rows");
      const auto row_dims = x.dims.subspan(first);
      const auto row_strides = std::span<const int64_t>(over).subspan(first);
      if (!is_contiguous(row_dims, row_strides)) {
        const Dims dense = contiguous_strides(copied(row_dims));
        affine_copy_[i] = CopyPlan(row_dims, row_strides, dense, 4);
        affine_staged_[i] = true;
        affine_bytes_ = align_up(n_ * 4, 64);
      }
    }
  }
  const float* affine(const StepArgs& args, size_t i, std::byte* stage) const {
    if (i >= views_.inputs.size() || !views_.inputs[i].present()) return nullptr;
    if (!affine_staged_[i]) return static_cast<const float*>(args.buffers[i]);
    affine_copy_[i].run(args.buffers[i], stage);
    return reinterpret_cast<const float*>(stage);
  }
  void set_affine(NormArgs& a, const float* scale, const float* bias, int64_t row) const {
    if (kind_ == Kind::kGroupNorm) return;  // per channel, afterwards
    if (kind_ == Kind::kInstanceNorm) {
      const int64_t channel = row % outer_dims_.back();
      a.scale = scale + channel * affine_stride_[1];
      a.bias = bias + channel * affine_stride_[2];
      a.affine_step = 0;
      return;
    }
    a.scale = scale;
    a.bias = bias;
  }
  void scale_group(const NormArgs& a, const float* scale, const float* bias, int64_t row) const {
    const int64_t plane = n_ / group_, groups = outer_dims_.back();
    for (int64_t c = 0; c < group_; ++c) {
      const int64_t channel = row % groups * group_ + c;
      const float s = scale[channel * affine_stride_[1]], b = bias[channel * affine_stride_[2]];
      fns_.scale(a.y + c * plane, plane, s, b);
    }
  }

  OperandViews views_;
  Kind kind_;
  const RowFns& fns_;
  float epsilon_ = 0;
  int64_t rows_ = 1, n_ = 1, group_ = 1;
  LineGroups groups_{1, 1};
  Dims outer_dims_, outer_x_, outer_y_;
  bool stage_x_ = false, stage_y_ = false;
  int64_t x_step_ = 1, y_step_ = 1;
  CopyPlan gather_, scatter_;
  bool affine_staged_[3] = {};
  CopyPlan affine_copy_[3];
  int64_t affine_stride_[3] = {};
  int64_t stage_bytes_ = 0, affine_bytes_ = 0, epilogue_at_ = 0;
  Epilogue behind_;
  Epilogue::Tiles tiles_;  ///< one per row
};

Verdict supports(const StepSpec& spec) {
  const Kind kind = kind_of(*spec.op);
  if (!spec.post_ops.empty() && !is_per_channel(kind)) return Verdict::no("takes no post-ops");
  // Those of post-ops are behind all that the operator could have.
  const size_t own = std::min(spec.inputs.size(), static_cast<size_t>(spec.op->max_inputs));
  for (const Operand& input : std::span(spec.inputs).first(own))
    if (input.present() && input.dtype != DType::kF32)
      return Verdict::no(fmt::format("elements of type {}", name(input.dtype)));
  if (is_softmax(kind)) return Verdict::ok();
  if (is_per_channel(kind)) {
    std::string reason;
    return Epilogue::build(spec, {}, reason) ? Verdict::ok() : Verdict::no(reason);
  }
  for (size_t k = 1; k < spec.outputs.size(); ++k)
    if (spec.outputs[k].present() &&
        (!spec.outputs[k].contiguous() || spec.outputs[k].dtype != DType::kF32))
      return Verdict::no("statistics that are not dense f32");
  if (kind == Kind::kLayerNorm || kind == Kind::kRmsNorm) {
    // Scale and bias belong to the normalised axes.
    const size_t rank = spec.inputs[0].dims.size();
    const size_t row_rank = rank - normalise_axis(spec.attrs().get_int("axis", -1), rank);
    for (size_t i = 1; i < spec.inputs.size(); ++i) {
      const SymDims& dims = spec.inputs[i].dims;
      for (size_t k = 0; k + row_rank < dims.size(); ++k)
        if (!(dims[k] == Dim(1))) return Verdict::no("a scale that may differ between rows");
    }
  }
  return Verdict::ok();
}

struct Behind {
  explicit Behind(const StepSpec& spec) {
    std::string reason;
    if (auto built = Epilogue::build(spec, {}, reason)) epilogue = std::move(*built);
  }
  Epilogue epilogue;
};

/// InstanceNormalization and GroupNormalization: as the values lie when a step is bound.
std::shared_ptr<const BoundKernel> bind_planes(const StepSpec& spec, const BindContext& context,
                                               const std::shared_ptr<const Behind>& behind) {
  const int64_t channels = context.inputs[0].dims[1];
  const bool each = kind_of(*spec.op) == Kind::kInstanceNorm;
  auto bound = bind_pixel_norm(
      spec, context,
      {each ? channels : groups_of(spec, channels), epsilon_of(spec), behind->epilogue});
  return bound ? bound : std::make_shared<RowsBound>(spec, context, behind->epilogue);
}

}  // namespace

void add_row_norms(Rows& rows) {
  for (const Row& row : kRows) {
    const bool planes = is_per_channel(row.kind);
    rows.push_back({"xc.rows", row.op, supports,
                    planes ? create_prepared<Behind, bind_planes> : create_bound_by<RowsBound>,
                    planes ? any_order : nullptr});
  }
}

}  // namespace xc::cpu
