#include "backends/cpu/few_pixel_conv.h"

#include <algorithm>
#include <array>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/own_product.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;
// us by the library and so, on one core of a Xeon with AVX-512 and 2 MiB of second-level cache, 49
// pixels: 2048 to 512 channels 960 and 720, 512 to 2048 1030 and 740, 3x3 of 512 to 512 1930 and
// 1650. 196 pixels, 1024 to 256 channels: 690 and 640; more pixels gain nothing. Of 1x1 between
// row-major operands, of any number of weights: README.
constexpr int64_t kFewPixels = 64;
constexpr int64_t kManyWeights = 1 << 18;  ///< 1 MiB
/// Of 1x1 over so few pixels less: a network's other weights leave none of them in that cache (60
/// convolutions of 256 to 256 channels one after the other, 8 pixels: 16 us each and 11; taps,
/// which are gathered, cost what is gained).
constexpr int64_t kFewerPixels = 16, kFewerWeights = 1 << 15;

/// Where a convolution of at most two spatial axes reads: per image, row and column.
struct Geometry {
  explicit Geometry(const SqueezedConv& conv)
      : channels(conv.problem.in_channels), cols(conv.problem.axes.back()) {
    const bool plane = conv.problem.axes.size() > 1;
    if (plane) rows = conv.problem.axes[0];
    image = conv.x.strides[0];
    row = plane ? conv.x.strides[2] : 0;
    col = conv.x.strides.back();
  }
  int64_t channels;
  WindowAxis rows, cols;
  int64_t image, row, col;
};

bool channels_last(const SqueezedConv::Part& part) {
  return same_strides(part.dims, part.strides, channels_last_strides(part.dims));
}

class FewPixelBound final : public BoundKernel {
 public:
  FewPixelBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                const Epilogue& epilogue, std::shared_ptr<const std::vector<float>> panels)
      : geometry_(conv),
        epilogue_(epilogue),
        panels_(std::move(panels)),
        y_index_(static_cast<uint32_t>(spec.inputs.size())),
        has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()),
        pointwise_(conv.problem.pointwise()),
        gathered_(!(pointwise_ && channels_last(conv.x))),
        scattered_(!channels_last(conv.y)),
        images_(conv.problem.batch),
        pixels_(conv.problem.batch * conv.problem.plane()),
        n_(conv.problem.out_channels),
        k_(conv.problem.in_channels * geometry_.rows.kernel * geometry_.cols.kernel) {
    unread = 1u << kW;
    const int64_t panels_count = ceil_div(n_, kFewColumns);
    tasks = std::clamp<int64_t>(conv.problem.useful_tasks(), 1, panels_count);
    if (gathered_) shared_bytes = align_up(pixels_ * k_ * 4, 64);
    if (!epilogue_.empty()) {
      tiles_ = Epilogue::Tiles(epilogue_, context);
      const auto whole = context.outputs[0].dims;
      Dims begin(whole.size(), 0), end(whole.begin(), whole.end());
      for (int64_t task = 0; task < tasks; ++task) {
        begin[1] = column(task);
        end[1] = column(task + 1);
        tiles_.add(begin, end);
      }
    }
    if (scattered_)
      tile_bytes_ = align_up(pixels_ * ceil_div(panels_count, tasks) * kFewColumns * 4, 64);
    scratch_bytes = tile_bytes_ + epilogue_.scratch_bytes();
    held_bytes = 512 + tiles_.bytes();
  }

  /// Each pixel's window as a row: [kernel position][channel], zeros where it leaves the input.
  void start(const StepArgs& args) const override {
    const Geometry& g = geometry_;
    auto* to = static_cast<float*>(args.shared);
    if (pointwise_) {
      const int64_t pixels = pixels_ / images_;
      for (int64_t i = 0; i < images_; ++i)
        copy_matrix({pixels, k_, 1, pixels, k_, 1, 4},
                    static_cast<const float*>(args.buffers[kX]) + i * g.image,
                    to + i * pixels * k_);
      return;
    }
    for (int64_t i = 0; i < images_; ++i)
      for (int64_t r = 0; r < g.rows.output; ++r)
        for (int64_t c = 0; c < g.cols.output; ++c)
          for (int64_t k0 = 0; k0 < g.rows.kernel; ++k0)
            for (int64_t k1 = 0; k1 < g.cols.kernel; ++k1, to += g.channels) {
              const int64_t row = g.rows.at(r, k0), col = g.cols.at(c, k1);
              if (g.rows.inside(row) && g.cols.inside(col))
                std::copy_n(static_cast<const float*>(args.buffers[kX]) + i * g.image +
                                row * g.row + col * g.col,
                            g.channels, to);
              else
                std::fill_n(to, g.channels, 0.0f);
            }
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* x = static_cast<const float*>(gathered_ ? args.shared : args.buffers[kX]);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t j = column(task), columns = column(task + 1) - j;
      float* const result = static_cast<float*>(args.buffers[y_index_]);
      float* const y = scattered_ ? static_cast<float*>(args.scratch) : result + j;
      const int64_t y_row = scattered_ ? columns : n_;
      if (has_bias_)
        for (int64_t p = 0; p < pixels_; ++p)
          std::copy_n(static_cast<const float*>(args.buffers[kB]) + j, columns, y + p * y_row);
      own_product({.x = x,
                   .x_row = k_,
                   .rows = pixels_,
                   .k = k_,
                   .n = columns,
                   .panels = panels_->data() + j * k_,
                   .format = WeightFormat::kF32,
                   .y = y,
                   .y_row = y_row,
                   .add = has_bias_},
                  columns_together(kFewColumns));
      const int64_t pixels = pixels_ / images_;
      for (int64_t i = 0; scattered_ && i < images_; ++i)
        copy_matrix({columns, pixels, 1, columns, pixels, 1, 4}, y + i * pixels * columns,
                    result + (i * n_ + j) * pixels);
      if (!epilogue_.empty())
        epilogue_.run(tiles_, static_cast<size_t>(task), args.buffers,
                      static_cast<std::byte*>(args.scratch) + tile_bytes_);
    }
  }

 private:
  /// The first column of a task: whole panels.
  int64_t column(int64_t task) const {
    return std::min(n_, ceil_div(n_, kFewColumns) * task / tasks * kFewColumns);
  }

  Geometry geometry_;
  Epilogue epilogue_;
  Epilogue::Tiles tiles_;
  std::shared_ptr<const std::vector<float>> panels_;
  uint32_t y_index_;
  bool has_bias_, pointwise_;
  bool gathered_;   ///< windows, or pixels whose channels do not lie side by side
  bool scattered_;  ///< the result's do not either: products of a task go through scratch
  int64_t images_, pixels_, n_, k_;
  int64_t tile_bytes_ = 0;
};

/// Weights [out, in, kernel...] as panels of output channels: [kernel position][in][channel].
std::shared_ptr<const std::vector<float>> pack(const Tensor& w) {
  const int64_t n = w.dims()[0], in = w.dims()[1], width = columns_together(kFewColumns),
                kernel = element_count(std::span(w.dims()).subspan(2)), k = in * kernel;
  auto out =
      std::make_shared<std::vector<float>>(static_cast<size_t>(align_up(n, kFewColumns) * k), 0.0f);
  for (int64_t position = 0; position < kernel; ++position)
    lay_out(w.as<float>() + position, {in, n}, {kernel, k}, k, width, position * in, 0,
            out->data());
  return out;
}

}  // namespace

FewPixelConv::FewPixelConv(const StepSpec& spec, Epilogue epilogue)
    : spec_(spec), epilogue_(std::move(epilogue)) {
  const Tensor& w = spec.inputs[kW].constant;
  possible_ = w && !epilogue_.staged() && is_contiguous(w.dims(), w.strides()) &&
              w.dims().size() <= 4 && spec.attrs().get_int("group", 1) == 1;
}

bool FewPixelConv::suits(const SqueezedConv& conv) const {
  const int64_t pixels = conv.problem.batch * conv.problem.plane();
  // Images of a pixel each are the rows of a product, however many: the library convolves them one
  // by one.
  const bool rows = conv.problem.pointwise() && conv.problem.plane() == 1;
  if (!possible_ || pixels < 2 || (pixels > kFewPixels && !rows)) return false;
  const auto row_major = [](const SqueezedConv::Part& part) {
    return is_contiguous(part.dims, part.strides);
  };
  if (conv.problem.pointwise() && row_major(conv.x) && row_major(conv.y)) return true;
  const int64_t least =
      conv.problem.pointwise() && pixels <= kFewerPixels ? kFewerWeights : kManyWeights;
  return channels_last(conv.x) && channels_last(conv.y) &&
         spec_.inputs[kW].constant.count() >= least;
}

std::shared_ptr<BoundKernel> FewPixelConv::bind(const BindContext& context,
                                                const SqueezedConv& conv) const {
  const std::lock_guard lock(mutex_);
  if (!panels_) panels_ = pack(spec_.inputs[kW].constant.held());
  packed_ = true;
  return std::make_shared<FewPixelBound>(spec_, context, conv, epilogue_, panels_);
}

void FewPixelConv::forget_weights() {
  const std::lock_guard lock(mutex_);
  panels_ = nullptr;
  packed_ = false;
}

}  // namespace xc::cpu
