// Convolutions of few channels, "xc.conv planes": filters of images and signals, and what makes an
// image or a signal of many channels, a group of planes at a time, by vectors along the rows of the
// result. Where channels fill no vector, kernels that go over channels-last images leave most of
// one idle.
//
// What a block of rows reads is brought into the first-level cache once (of many planes into the
// second-level one), with the zeros around the
// image, and with the columns of each phase of the stride side by side: there are no edges then,
// and every tap of neighbouring results is a vector. What registers cannot do of the functions
// behind the convolution, an epilogue does on the block.

#include <algorithm>

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
constexpr int64_t kNarrow = 8;  ///< columns that fill no vector either

/// What binding does not depend on.
struct PlaneConvModel {
  explicit PlaneConvModel(const StepSpec& spec)
      : fns(plane_row_fns(cpu_info().isa)), weights(spec.inputs[kW].constant.held()), behind(spec) {
    groups = spec.attrs().get_int("group", 1);
    channels = weights.dims()[0];
    in_each = weights.dims()[1];
    out_each = channels / groups;
    taps = in_each * element_count(std::span(weights.dims()).subspan(2));
  }
  PlaneRowFns fns;
  Tensor weights;  ///< [channel][input plane][kernel]
  int64_t groups = 1, channels = 0, in_each = 0, out_each = 0;
  int64_t taps = 0;  ///< of a filter
  BoundedEpilogue behind;
};

class PlaneConvBound final : public BoundRowWindows {
 public:
  PlaneConvBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                 std::shared_ptr<const PlaneConvModel> model)
      : BoundRowWindows(spec, conv, model->channels), model_(std::move(model)) {
    if (tasks == 0) return;
    choose_blocks(context, conv.problem.flops());
    for (int64_t c = 0; c < model_->in_each; ++c)
      for (int64_t k0 = 0; k0 < rows_.kernel; ++k0)
        for (int64_t k1 = 0; k1 < cols_.kernel; ++k1) {
          const int64_t at = k1 * cols_.dilation;
          offsets_.push_back(c * slab_plane_ + k0 * rows_.dilation * slab_row_ +
                             at % cols_.stride * slab_phase_ + at / cols_.stride);
        }
    if (const Epilogue& epilogue = model_->behind.epilogue; !epilogue.empty()) {
      tiles_ = Epilogue::Tiles(epilogue, context);
      for (int64_t i = 0; i < blocks(); ++i)
        add_block(tiles_, context.outputs[0].dims, ImageAxes::of_kept(conv.kept), block(i),
                  nullptr);
    }
    slab_bytes_ = align_up(checked_mul(model_->in_each, slab_plane_) * 4, 64);
    line_bytes_ = y_.col == 1 ? 0 : align_up(model_->out_each * block_cols_ * 4, 64);
    scratch_bytes = slab_bytes_ + line_bytes_ + model_->behind.epilogue.scratch_bytes();
    held_bytes =
        512 + static_cast<int64_t>(offsets_.size()) * 8 + tiles_.bytes() + row_blocks_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    auto* const memory = static_cast<std::byte*>(args.scratch);
    auto* const slab = reinterpret_cast<float*>(memory);
    auto* const line = reinterpret_cast<float*>(memory + slab_bytes_);
    const auto* const x = static_cast<const float*>(args.buffers[kX]);
    auto* const y = static_cast<float*>(args.buffers[inputs_]);
    const Range blocks = blocks_of(begin, end);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const ImageBlock b = block(i);
      fill_slab(x + b.images.begin * x_.image, b, slab);
      for (int64_t row = b.rows.begin; row < b.rows.end; ++row)
        filter(row, b, slab, bias(args), line, y);
      if (!model_->behind.epilogue.empty())
        model_->behind.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers,
                                    memory + slab_bytes_ + line_bytes_);
    }
  }

 private:
  /// A group of planes, some rows, and of long ones some columns.
  ImageBlock block(int64_t i) const {
    ImageBlock b;
    b.channels = next_range(i, model_->channels, model_->out_each);
    b.cols = next_range(i, cols_.output, block_cols_);
    b.rows = row_blocks_.next(i);
    b.images = {i, i + 1};
    return b;
  }

  void choose_blocks(const BindContext& context, double flops) {
    const auto slab_bytes = [&](int64_t rows, int64_t cols) {
      return static_cast<double>(rows_.extent(rows)) * static_cast<double>(cols_.extent(cols)) *
             static_cast<double>(model_->in_each * 4);
    };
    // What a block reads, and its columns, where the row has so many.
    const bool few = model_->in_each <= kFewPlanes;
    const double most_bytes = few ? 20 << 10 : static_cast<double>(cpu_info().l2_bytes) / 2;
    const int64_t least_columns = few ? 256 : 64;
    int64_t cols = cols_.output;
    while (cols > least_columns && slab_bytes(1, cols) > most_bytes) cols = ceil_div(cols, 2);
    block_cols_ = even_step(cols_.output, cols);
    const int64_t most = std::max<int64_t>(1, kResultBytes / 4 / model_->out_each / block_cols_);
    int64_t rows = std::min(rows_.output, most);
    while (rows > 1 && slab_bytes(rows, block_cols_) > most_bytes)
      rows = few ? ceil_div(rows, 2) : rows - 1;
    lay_blocks(context, rows, model_->groups * ceil_div(cols_.output, block_cols_), flops);
    // A phase's columns; the last tap of the last result ends it.
    slab_phase_ = ceil_div(cols_.extent(block_cols_), cols_.stride);
    slab_row_ = checked_mul(slab_phase_, cols_.stride);
    slab_plane_ = checked_mul(slab_row_, rows_.extent(row_blocks_.tallest()));
  }

  /// What the block reads: [plane][row][phase][column], zeros outside the image.
  void fill_slab(const float* x, const ImageBlock& b, float* slab) const {
    const PlaneConvModel& m = *model_;
    const int64_t first = b.channels.begin / m.out_each * m.in_each;
    const int64_t top = rows_.at(b.rows.begin, 0), left = cols_.at(b.cols.begin, 0),
                  rows = rows_.extent(b.rows.size()), width = cols_.extent(b.cols.size());
    for (int64_t c = 0; c < m.in_each; ++c)
      for (int64_t row = 0; row < rows; ++row) {
        const float* const from =
            rows_.inside(top + row) ? x + (first + c) * x_.channel + (top + row) * x_.row : nullptr;
        float* const to = slab + c * slab_plane_ + row * slab_row_;
        if (cols_.stride == 1) {
          copy_padded_row({from, x_.col, 1, 1}, cols_, left, width, 1, to);
          continue;
        }
        for (int64_t phase = 0; phase < cols_.stride; ++phase)
          for (int64_t q = 0, at = phase; at < width; ++q, at += cols_.stride)
            to[phase * slab_phase_ + q] =
                from && cols_.inside(left + at) ? from[(left + at) * x_.col] : 0.0f;
      }
  }

  /// A row of all results of the block's group.
  void filter(int64_t row, const ImageBlock& b, const float* slab, const float* bias, float* line,
              float* y) const {
    const PlaneConvModel& m = *model_;
    const int64_t c = b.channels.begin, results = b.channels.size(), count = b.cols.size();
    float* const result = y + y_.at(b.images.begin, c, row, b.cols.begin);
    const bool dense = y_.col == 1;
    m.fns.run({.x = slab + (row - b.rows.begin) * rows_.stride * slab_row_,
               .offsets = offsets_.data(),
               .w = m.weights.as<float>() + c * m.taps,
               .taps = m.taps,
               .bias = bias ? bias + c : nullptr,
               .y = dense ? result : line,
               .y_by = dense ? y_.channel : count,
               .results = results,
               .count = count,
               .low = m.behind.bounds.low,
               .high = m.behind.bounds.high});
    if (dense) return;
    for (int64_t r = 0; r < results; ++r)
      for (int64_t i = 0; i < count; ++i) result[r * y_.channel + i * y_.col] = line[r * count + i];
  }

  std::shared_ptr<const PlaneConvModel> model_;
  int64_t slab_phase_ = 0, slab_row_ = 0, slab_plane_ = 0;  ///< elements
  std::vector<int64_t> offsets_;                            ///< of the taps in a slab
  Epilogue::Tiles tiles_;
  int64_t slab_bytes_ = 0, line_bytes_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  const Dims& w = spec.inputs[kW].constant.dims();
  const int64_t groups = spec.attrs().get_int("group", 1);
  const int64_t taps = element_count(std::span(w).subspan(2));
  const bool few = w[1] <= kFewPlanes && w[0] <= kFewResults;
  const bool reduces = groups == 1 && w[1] <= kManyPlanes && taps >= kLeastTaps;
  if (w[0] / groups > kFewPlanes || !(few || reduces)) return Verdict::no("many channels");
  if (const Dim& cols = spec.outputs[0].dims.back();
      cols.is_constant() && cols.value() < (few ? kNarrow : 2 * kNarrow))
    return Verdict::no("narrow rows");
  if (const Verdict windows = supports_row_windows(spec); !windows.yes()) return windows;
  std::string reason;
  return Epilogue::build(spec, {}, reason) ? Verdict::ok() : Verdict::no(reason);
}

std::vector<Order> orders(const StepSpec& spec) {
  return std::vector<Order>(spec.inputs.size() + 1, Order::kRowMajor);
}

}  // namespace

void add_plane_conv(Rows& rows) {
  rows.push_back(
      {.name = "xc.conv planes",
       .op = "Conv",
       .supports = supports,
       .create = create_prepared<PlaneConvModel, bind_row_windows<PlaneConvBound, PlaneConvModel>>,
       .preferred = orders});
}

}  // namespace xc::cpu
