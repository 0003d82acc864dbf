// Convolutions of few channels, "xc.conv planes": filters of images, volumes and signals, and what
// makes an image or a signal of many channels, a group of planes at a time, by vectors along the
// rows of the result. Where channels fill no vector, kernels that go over channels-last images
// leave most of one idle; and where they do but operands lie plane by plane, these turn them around
// (PlaneConv).
//
// What a block of rows reads is brought into the first-level cache once (of many planes into the
// second-level one), with the zeros around the image, and with the columns of each phase of the
// stride side by side: there are no edges then, and every tap of neighbouring results is a vector.
// What registers cannot do of the functions behind the convolution, an epilogue does on the block.

#include "backends/cpu/plane_conv.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/row_windows.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/plane_row_fn.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1;
constexpr int64_t kResultBytes = 64 << 10;  ///< of a block
/// Where it is used: planes read by one filter and filters of a group, and results in all.
constexpr int64_t kFewPlanes = 4, kFewResults = 8;
/// And more planes by one group of few filters, whose windows have some taps each: by fewer a
/// channels-last image is multiplied as fast as it is turned into planes.
constexpr int64_t kManyPlanes = 256, kLeastTaps = 3;
static_assert(kFewPlanes <= kPlaneResults);
constexpr int64_t kNarrow = 8;      ///< columns that fill no vector either
constexpr int64_t kMostDepths = 8;  ///< of a block
/// Where PlaneConv serves: what vectors hold that is multiplied by the image, at least; taps each
/// of which may load for itself, at most; results for what is gathered element by element, at
/// least.
constexpr double kLeastUseful = 0.65;
constexpr int64_t kFewTaps = 12, kManyResults = 4;

}  // namespace

/// What binding does not depend on.
struct PlaneConvModel {
  explicit PlaneConvModel(const StepSpec& spec)
      : attrs(spec),
        fns(plane_row_fns(cpu_info().isa)),
        weights(spec.inputs[kW].constant.held()),
        groups(attrs.groups),
        behind(spec) {
    channels = weights.dims()[0];
    in_each = weights.dims()[1];
    out_each = channels / groups;
    taps = in_each * element_count(std::span(weights.dims()).subspan(2));
  }
  ConvAttrs attrs;
  PlaneRowFns fns;
  Tensor weights;  ///< [channel][input plane][kernel]
  int64_t groups = 1, channels = 0, in_each = 0, out_each = 0;
  int64_t taps = 0;  ///< of a filter
  BoundedEpilogue behind;
};

namespace {

class PlaneConvBound final : public BoundRowWindows {
 public:
  PlaneConvBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                 std::shared_ptr<const PlaneConvModel> model)
      : BoundRowWindows(spec, conv, model->channels), model_(std::move(model)) {
    if (tasks == 0) return;
    choose_blocks(context);
    for (int64_t c = 0; c < model_->in_each; ++c)
      for (int64_t k = 0; k < depths_.kernel; ++k)
        planes_.push_back(c * slab_plane_ + k * depths_.dilation * slab_depth_);
    for (int64_t k = 0; k < cols_.kernel; ++k) {
      const int64_t at = k * cols_.dilation;
      taps_.push_back(at % cols_.stride * slab_phase_ + at / cols_.stride);
    }
    window_ = {planes_.data(), static_cast<int64_t>(planes_.size()),
               rows_.kernel,   rows_.dilation * slab_row_,
               taps_.data(),   cols_.kernel};
    if (model_->out_each > 1) in_one_row();
    if (const Epilogue& epilogue = model_->behind.epilogue; !epilogue.empty()) {
      tiles_ = Epilogue::Tiles(epilogue, context);
      for (int64_t i = 0; i < blocks(); ++i)
        add_block(tiles_, context.outputs[0].dims, ImageAxes::of_kept(conv.kept), block(i),
                  nullptr);
    }
    slab_ = checked_mul(model_->in_each, slab_plane_) + model_->fns.lanes;
    slab_bytes_ = align_up(slab_ * 4, 64);
    line_bytes_ = y_.col == 1 ? 0 : align_up(kPlaneResults * block_cols_ * 4, 64);
    scratch_bytes = slab_bytes_ + line_bytes_ + model_->behind.epilogue.scratch_bytes();
    held_bytes = 512 + static_cast<int64_t>(planes_.size() + taps_.size()) * 8 + tiles_.bytes() +
                 row_blocks_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    auto* const memory = static_cast<std::byte*>(args.scratch);
    auto* const slab = reinterpret_cast<float*>(memory);
    auto* const line = reinterpret_cast<float*>(memory + slab_bytes_);
    const auto* const x = static_cast<const float*>(args.buffers[kX]);
    auto* const y = static_cast<float*>(args.buffers[inputs_]);
    const Range blocks = blocks_of(begin, end);
    Range filled{-1, -1};
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const ImageBlock b = block(i);
      fill_slab(x + b.images.begin * x_.image, b, slab, filled);
      for (int64_t depth = b.depths.begin; depth < b.depths.end; ++depth)
        filter(depth, b, slab, bias(args), line, y);
      if (!model_->behind.epilogue.empty())
        model_->behind.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers,
                                    memory + slab_bytes_ + line_bytes_);
    }
  }

 private:
  /// A group of planes, some depths and rows, and of long ones some columns.
  ImageBlock block(int64_t i) const {
    ImageBlock b;
    b.channels = next_range(i, model_->channels, model_->out_each);
    b.cols = next_range(i, cols_.output, block_cols_);
    b.depths = next_range(i, depths_.output, block_depths_);
    b.rows = row_blocks_.next(i);
    b.images = {i, i + 1};
    return b;
  }

  void choose_blocks(const BindContext& context) {
    const auto slab_bytes = [&](int64_t depths, int64_t rows, int64_t cols) {
      return static_cast<double>(depths_.extent(depths)) * static_cast<double>(rows_.extent(rows)) *
             static_cast<double>(cols_.extent(cols)) * static_cast<double>(model_->in_each * 4);
    };
    // What a block reads, and its columns, where the row has so many.
    const bool few = model_->in_each <= kFewPlanes;
    const double most_bytes = few ? 20 << 10 : static_cast<double>(cpu_info().l2_bytes) / 2;
    const int64_t least_cols = std::max<int64_t>(few ? 256 : 64, least_columns(cols_));
    int64_t cols = cols_.output;
    while (cols > least_cols && slab_bytes(1, 1, cols) > most_bytes) cols = ceil_div(cols, 2);
    block_cols_ = even_step(cols_.output, cols);
    const int64_t results = kResultBytes / 4 / model_->out_each / block_cols_;
    // Of the ways to make blocks of depths and rows, the one that brings in least for a row.
    int64_t most_rows = 1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t depths = 1; depths <= std::min(depths_.output, kMostDepths); ++depths) {
      int64_t rows = std::clamp<int64_t>(results / depths, 1, rows_.output);
      while (rows > 1 && slab_bytes(depths, rows, block_cols_) > most_bytes)
        rows = few && depths_.output == 1 ? ceil_div(rows, 2) : rows - 1;
      if (depths > 1 && slab_bytes(depths, rows, block_cols_) > most_bytes) break;
      const double bytes =
          slab_bytes(depths, rows, block_cols_) / static_cast<double>(depths * rows);
      if (bytes >= least) continue;
      least = bytes;
      most_rows = rows;
      block_depths_ = depths;
    }
    lay_blocks(context, most_rows,
               model_->groups * ceil_div(cols_.output, block_cols_) *
                   ceil_div(depths_.output, block_depths_));
    // A phase's columns; the last tap of the last result ends it.
    slab_phase_ = ceil_div(cols_.extent(block_cols_), cols_.stride);
    slab_row_ = checked_mul(slab_phase_, cols_.stride);
    slab_depth_ = checked_mul(slab_row_, rows_.extent(row_blocks_.tallest()));
    slab_plane_ = checked_mul(slab_depth_, depths_.extent(block_depths_));
  }

  /// The window as one row of taps: a loop without others around it, where rows share nothing.
  void in_one_row() {
    std::vector<int64_t> taps;
    for (const int64_t plane : planes_)
      for (int64_t k = 0; k < window_.rows; ++k)
        for (const int64_t col : taps_) taps.push_back(plane + k * window_.row_by + col);
    planes_ = {0};
    taps_ = std::move(taps);
    window_ = {planes_.data(), 1, 1, slab_row_, taps_.data(), static_cast<int64_t>(taps_.size())};
  }

  /// What the block reads: [plane][depth][row][phase][column], zeros outside the image. `filled`:
  /// columns of the slab that are the image's; the others are zero already where those are the same
  /// for the block before.
  void fill_slab(const float* x, const ImageBlock& b, float* slab, Range& filled) const {
    const PlaneConvModel& m = *model_;
    const int64_t first = b.channels.begin / m.out_each * m.in_each;
    const int64_t front = depths_.at(b.depths.begin, 0), top = rows_.at(b.rows.begin, 0),
                  left = cols_.at(b.cols.begin, 0);
    const Range cols = of_image(cols_, left, cols_.extent(b.cols.size())),
                rows = of_image(rows_, top, rows_.extent(b.rows.size()));
    if (cols.begin != filled.begin || cols.end != filled.end) {
      std::fill_n(slab, slab_, 0.0f);
      filled = cols;
    }
    for (int64_t c = 0; c < m.in_each; ++c)
      for (int64_t depth = 0; depth < depths_.extent(b.depths.size()); ++depth) {
        float* const to = slab + c * slab_plane_ + depth * slab_depth_;
        const bool inside = depths_.inside(front + depth);
        const Range here = inside ? rows : Range{rows.begin, rows.begin};
        std::fill_n(to, here.begin * slab_row_, 0.0f);
        if (here.size() > 0)
          fill_rows(x + x_.at(0, first + c, top + here.begin, left + cols.begin, front + depth),
                    here.size(), cols, to + here.begin * slab_row_);
        std::fill_n(to + here.end * slab_row_, (rows_.extent(b.rows.size()) - here.end) * slab_row_,
                    0.0f);
      }
  }

  /// Of `count` positions from `first` on, counted from there, those of the input; none: [0, 0).
  static Range of_image(const WindowAxis& axis, int64_t first, int64_t count) {
    const Range range = common({0, count}, {-first, axis.input - first});
    return range.size() > 0 ? range : Range{};
  }

  void fill_rows(const float* x, int64_t rows, Range cols, float* to) const {
    model_->fns.copy({x, x_.row, rows, cols.size(), to, slab_row_, cols.begin, cols_.stride,
                      slab_phase_, x_.col});
  }

  /// The block's rows of all results of its group at a depth.
  void filter(int64_t depth, const ImageBlock& b, const float* slab, const float* bias, float* line,
              float* y) const {
    const PlaneConvModel& m = *model_;
    const int64_t count = b.cols.size();
    const float* const x = slab + (depth - b.depths.begin) * depths_.stride * slab_depth_;
    for (int64_t c = b.channels.begin; c < b.channels.end; c += kPlaneResults) {
      PlaneRows rows{.x = x,
                     .x_row_by = rows_.stride * slab_row_,
                     .window = window_,
                     .w = m.weights.as<float>() + c * m.taps,
                     .bias = bias ? bias + c : nullptr,
                     .y = y + y_.at(b.images.begin, c, b.rows.begin, b.cols.begin, depth),
                     .y_by = y_.channel,
                     .results = std::min(kPlaneResults, b.channels.end - c),
                     .y_row_by = y_.row,
                     .rows = b.rows.size(),
                     .count = count,
                     .low = m.behind.bounds.low,
                     .high = m.behind.bounds.high};
      if (y_.col == 1) {
        m.fns.run(rows);
        continue;
      }
      // Row by row through scratch.
      float* result = std::exchange(rows.y, line);
      rows.y_by = count;
      rows.rows = 1;
      for (int64_t row = b.rows.begin; row < b.rows.end;
           ++row, rows.x += rows.x_row_by, result += y_.row) {
        m.fns.run(rows);
        for (int64_t r = 0; r < rows.results; ++r)
          for (int64_t i = 0; i < count; ++i)
            result[r * y_.channel + i * y_.col] = line[r * count + i];
      }
    }
  }

  std::shared_ptr<const PlaneConvModel> model_;
  int64_t block_depths_ = 1;
  int64_t slab_phase_ = 0, slab_row_ = 0, slab_depth_ = 0, slab_plane_ = 0;  ///< elements
  int64_t slab_ = 0;                    ///< with the vector behind it that is read
  std::vector<int64_t> planes_, taps_;  ///< of a window: its planes in a slab, a row's taps
  PlaneWindow window_{};
  Epilogue::Tiles tiles_;
  int64_t slab_bytes_ = 0, line_bytes_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  const Dims& w = spec.inputs[kW].constant.dims();
  const int64_t groups = spec.attrs().get_int("group", 1);
  const int64_t taps = element_count(std::span(w).subspan(2));
  const bool few = w[1] <= kFewPlanes && w[0] <= kFewResults;
  // For groups of volumes the library has no kernel of its own.
  const bool volumes = w.size() == 5 && groups > 1 && w[1] <= kFewPlanes;
  const bool reduces = groups == 1 && w[1] <= kManyPlanes && taps >= kLeastTaps;
  if (w[0] / groups > kFewPlanes || !(few || volumes || reduces))
    return Verdict::no("many channels");
  const int64_t narrow = volumes ? kNarrow / 2 : few ? kNarrow : 2 * kNarrow;
  if (const Dim& cols = spec.outputs[0].dims.back(); cols.is_constant() && cols.value() < narrow)
    return Verdict::no("narrow rows");
  if (const Verdict windows = supports_row_windows(spec, 3); !windows.yes()) return windows;
  std::string reason;
  return Epilogue::build(spec, {}, reason) ? Verdict::ok() : Verdict::no(reason);
}

std::vector<Order> orders(const StepSpec& spec) {
  return std::vector<Order>(spec.inputs.size() + 1, Order::kRowMajor);
}

/// Of the taps of all windows along an axis, those within the input.
double inside(const WindowAxis& axis) {
  int64_t taps = 0;
  for (int64_t i = 0; i < axis.output; ++i) taps += axis.positions(i, 0, axis.input).size();
  return static_cast<double>(taps) / static_cast<double>(axis.output * axis.kernel);
}

/// Windows of one position, of which none is left out: an image without gaps is one row.
void as_lines(SqueezedConv& conv) {
  const auto one = [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.output == axis.input && axis.pad_begin == 0;
  };
  if (!std::ranges::all_of(conv.problem.axes, one)) return;
  const auto dense = [](const SqueezedConv::Part& part) {
    for (size_t axis = 2; axis + 1 < part.dims.size(); ++axis)
      if (part.strides[axis] != part.strides[axis + 1] * part.dims[axis + 1]) return false;
    return true;
  };
  if (!dense(conv.x) || !dense(conv.y)) return;
  const int64_t pixels = element_count(std::span(conv.x.dims).subspan(2));
  for (SqueezedConv::Part* part : {&conv.x, &conv.y}) {
    part->dims = {part->dims[0], part->dims[1], pixels};
    part->strides = {part->strides[0], part->strides[1], part->strides.back()};
  }
  conv.problem.axes = {{.input = pixels, .output = pixels}};
  conv.problem.x_dims = conv.x.dims;
  conv.problem.y_dims = conv.y.dims;
  conv.kept = {conv.kept.back()};
}

/// Whether a group of more planes takes less time so than by the library, which turns both images
/// around and fills its vectors with results of a group. Cycles, measured with AVX-512.
bool beats_turning(const ConvProblem& problem, double useful, int64_t lanes) {
  constexpr double kTurned = 0.8;               // an element
  constexpr double kPerCycle = 1.4, kMost = 2;  // products of vectors, here and in the library
  const int64_t each = problem.out_channels / problem.groups;
  double taps = static_cast<double>(problem.in_channels / problem.groups);
  for (const WindowAxis& axis : problem.axes) taps *= static_cast<double>(axis.kernel);
  const auto elements = static_cast<double>(element_count(problem.y_dims));
  const double products = elements * taps / static_cast<double>(lanes);
  const double filled = static_cast<double>(each) / static_cast<double>(align_up(each, lanes));
  return lanes >= 16 &&
         products / kPerCycle / useful <
             kTurned * (elements + static_cast<double>(element_count(problem.x_dims))) +
                 products / kMost / filled;
}

/// Whether planes that nobody turns around gain more than their vectors lose: rows of more than
/// one, which they fill, with little of what they are multiplied by being padding; what is loaded
/// serves several results or rows, or is little; and what phases of a stride cost is little.
bool gains(const ConvProblem& problem, int64_t lanes) {
  const WindowAxis& cols = problem.axes.back();
  if (cols.output <= lanes) return false;
  if (cols.stride > 2 &&
      kManyResults * element_count(problem.x_dims) > element_count(problem.y_dims))
    return false;
  double useful =
      static_cast<double>(cols.output) / static_cast<double>(align_up(cols.output, lanes));
  for (const WindowAxis& axis : problem.axes) useful *= inside(axis);
  if (useful < kLeastUseful) return false;
  if (problem.in_channels > kFewPlanes * problem.groups)
    return beats_turning(problem, useful, lanes);
  if (problem.out_channels > problem.groups || problem.taps() <= kFewTaps) return true;
  if (problem.axes.size() < 2) return false;
  const WindowAxis& rows = *(problem.axes.end() - 2);
  return rows.stride % rows.dilation == 0 && rows.kernel > rows.stride;
}

}  // namespace

PlaneConv::PlaneConv(const StepSpec& spec) : spec_(spec) {
  if (!f32_with_constant_weights(spec).yes() || !supports_row_windows(spec, 3).yes()) return;
  std::string reason;
  const bool few = spec.inputs[kW].constant.dims()[1] <= kFewPlanes;
  possible_ = (few || spec.attrs().get_int("group", 1) > 1) && Epilogue::build(spec, {}, reason);
  in_registers_ = possible_ && BoundedEpilogue(spec).epilogue.empty();
}

std::shared_ptr<const BoundKernel> PlaneConv::bind(const BindContext& context,
                                                   const SqueezedConv& squeezed) const {
  if (!possible_ || !context.rows.empty() || element_count(context.inputs[kX].dims) == 0)
    return nullptr;
  if (squeezed.x.strides.back() != 1 || squeezed.y.strides.back() != 1) return nullptr;
  SqueezedConv conv = squeezed;
  if (in_registers_) as_lines(conv);
  if (!gains(conv.problem, plane_row_fns(cpu_info().isa).lanes)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!model_) model_ = std::make_shared<const PlaneConvModel>(spec_);
  return std::make_shared<PlaneConvBound>(spec_, context, conv, model_);
}

void add_plane_conv(Rows& rows) {
  rows.push_back(
      {.name = "xc.conv planes",
       .op = "Conv",
       .supports = supports,
       .create = create_prepared<PlaneConvModel, bind_row_windows<PlaneConvBound, PlaneConvModel>>,
       .preferred = orders});
}

}  // namespace xc::cpu
