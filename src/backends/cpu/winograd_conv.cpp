// Convolutions by Winograd's minimal filtering, "xc.conv winograd": windows of three or more taps
// that overlap, with 1.3 to 4 times fewer products than their sums have terms.
//
// Tiles of the result are taken in blocks whose points the second-level cache holds. A block's
// input is transformed, then, for each panel of 64 output channels, multiplied by the transformed
// weights point by point and transformed back: bias and bounds in registers, other functions by an
// epilogue on the block. Operands in another order than channels-last are converted block by block.
//
// Rounding differs from that of a plain sum: an element's error is bounded by the largest values of
// its tile, not of its own window (winograd_fn.h). Where a result is not finite, its tile is
// computed as plain sums over the windows instead, so that infinities and NaN are where they
// belong.
//
// The library convolves until the weights are transformed in the background, and where it is
// faster (fastest_form()).

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "backends/cpu/block_copies.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/cropped_conv.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_conv.h"
#include "backends/cpu/own_product.h"
#include "backends/cpu/vector/product_fn.h"
#include "backends/cpu/winograd_form.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;
constexpr int64_t kPanel = kWeightColumns;  ///< output channels
constexpr int64_t kTaken = 8;               ///< input channels whose weights are read together
/// Tiles of a block, whose points take three quarters of the second-level cache.
constexpr int64_t kLeastTiles = 16, kMostTiles = kFewRows;
constexpr int kMostPixels = kMostPoints * kMostPoints;

/// [point][tap]
std::vector<double> factors_of(const WinogradAxis& axis) {
  const auto taps = static_cast<size_t>(axis.taps());
  std::vector<double> out(static_cast<size_t>(axis.points) * taps);
  for (int point = 0; point < axis.points; ++point)
    winograd_factors(axis, point, out.data() + static_cast<size_t>(point) * taps);
  return out;
}

/// A pixel's input channels at a point, piece after piece: whole vectors of each, zeros behind its
/// channels.
struct Terms {
  Terms(const WinogradForm& form, int64_t channels, int64_t lanes)
      : channels(channels),
        piece(align_up(channels, lanes)),
        row(form.pieces() * piece),
        count(row - piece + channels) {}
  int64_t channels, piece;
  int64_t row;    ///< elements
  int64_t count;  ///< of them, up to the last channel
};

/// Weights at a form's points: per panel of output channels [point][term][channel], panels of whole
/// vectors.
class TransformedWeights {
 public:
  TransformedWeights(const Tensor& weights, const WinogradForm& form, const WinogradFns& fns)
      : points_(form.points()),
        terms_(form, weights.dims()[1], fns.lanes),
        out_(weights.dims()[0]),
        unit_(std::max(fns.lanes, columns_together(fns.lanes))) {
    const int64_t in = terms_.channels, taps = form.row_taps * form.col_taps,
                  bytes = align_up(out_, unit_) * terms_.count * points_ * 4;
    buffer_ = Buffer::allocate(bytes);
    if (terms_.count > form.pieces() * in)
      std::memset(buffer_->data(), 0, static_cast<size_t>(bytes));
    const std::vector<double> row_factors = factors_of(form.rows),
                              col_factors = factors_of(form.cols);
    const auto* w = weights.as<float>();
    // Of some input channels, whose taps lie side by side: [channel][tap or point][column].
    std::vector<float> taken(static_cast<size_t>(kTaken * taps * kPanel));
    std::vector<float> made(static_cast<size_t>(kTaken * points_ * kPanel));
    std::vector<float> piece(static_cast<size_t>(form.rows.taps() * form.cols.taps() * kPanel));
    for (int64_t j = 0; j < out_; j += kPanel) {
      const int64_t columns = std::min(kPanel, out_ - j);
      if (columns < kPanel) std::fill(taken.begin(), taken.end(), 0.0f);
      for (int64_t c = 0; c < in; c += kTaken) {
        const int64_t some = std::min(kTaken, in - c);
        copy_matrix({some * taps, columns, 1, in * taps, kPanel, 1, sizeof(float)},
                    w + (j * in + c) * taps, taken.data());
        for (int64_t n = 0; n < form.pieces(); ++n) {
          for (int64_t i = 0; i < some; ++i) {
            const float* from = taken.data() + i * taps * kPanel;
            if (form.pieces() > 1) {
              take_piece(form, n, from, piece.data());
              from = piece.data();
            }
            fns.weights({from, form.rows.points, form.cols.points, form.rows.taps(),
                         form.cols.taps(), row_factors.data(), col_factors.data(),
                         made.data() + i * points_ * kPanel, kPanel});
          }
          for (int64_t p = 0; p < points_; ++p)
            lay_out(made.data() + p * kPanel, {some, width(j)}, {points_ * kPanel, 1}, terms_.count,
                    together(j), n * terms_.piece + c, 0, panel(j, p));
        }
      }
    }
  }

  /// Of the panel from output channel j on, padded.
  int64_t width(int64_t j) const { return std::min(kPanel, align_up(out_ - j, unit_)); }
  /// Of them.
  int64_t together(int64_t j) const { return columns_together(width(j)); }
  /// [terms, width] of a point, laid out for own_product().
  float* panel(int64_t j, int64_t point) const {
    return reinterpret_cast<float*>(buffer_->data()) +
           (j * points_ + point * width(j)) * terms_.count;
  }

 private:
  /// Taps of the n-th piece, zeros where the kernel has none; [row tap][column tap][column].
  static void take_piece(const WinogradForm& form, int64_t n, const float* from, float* to) {
    const int64_t rows = form.rows.taps(), cols = form.cols.taps(),
                  row = n / form.col_pieces() * rows, col = n % form.col_pieces() * cols;
    std::fill_n(to, rows * cols * kPanel, 0.0f);
    const int64_t most = std::min(cols, form.col_taps - col) * kPanel;
    for (int64_t r = 0; r < std::min(rows, form.row_taps - row); ++r)
      std::copy_n(from + ((row + r) * form.col_taps + col) * kPanel, most, to + r * cols * kPanel);
  }

  int64_t points_;
  Terms terms_;
  int64_t out_, unit_;
  std::shared_ptr<Buffer> buffer_;
};

class WinogradBound final : public BoundKernel {
 public:
  WinogradBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                const WinogradForm& form, std::shared_ptr<const BoundedEpilogue> behind,
                std::shared_ptr<const TransformedWeights> weights)
      : behind_(std::move(behind)),
        weights_(std::move(weights)),
        plain_weights_(spec.inputs[kW].constant),
        fns_(winograd_fns(cpu_info().isa, form.rows, form.cols)),
        sum_windows_(product_fns<float>(cpu_info().isa).run),
        y_index_(static_cast<uint32_t>(spec.inputs.size())),
        has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()),
        form_(form),
        terms_(form, conv.problem.in_channels, fns_.lanes),
        images_(conv.problem.batch),
        out_(conv.problem.out_channels) {
    unread = 1u << kW;
    const ConvProblem& s = conv.problem;
    rows_.form = form.rows;
    cols_.form = form.cols;
    if (s.axes.size() > 1) rows_.axis = s.axes[0];
    cols_.axis = s.axes.back();
    x_ = ImageStrides(conv.x.strides);
    y_ = ImageStrides(conv.y.strides);
    split(spec.threads);
    tasks = blocks() * slices_;
    const bool stage_x = conv.x.strides[1] != 1, store_y = conv.y.strides[1] != 1;
    stage_y_ = store_y || behind_->epilogue.staged();
    if (!behind_->epilogue.empty()) tiles_ = Epilogue::Tiles(behind_->epilogue, context);
    for (int64_t task = 0; task < tasks; ++task)
      add_task(task, context, conv, stage_x, store_y && !behind_->epilogue.staged());
    lay_out_scratch();
    held_bytes = 1024 + tiles_.bytes() + loads_.bytes() + stores_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const Scratch scratch(static_cast<std::byte*>(args.scratch), at_);
    std::fill_n(scratch.zeros, terms_.piece, 0.0f);
    std::fill_n(scratch.bias, align_up(out_, fns_.lanes), 0.0f);
    if (has_bias_) std::copy_n(static_cast<const float*>(args.buffers[kB]), out_, scratch.bias);
    for (int64_t task = begin; task < end; ++task) {
      const Block b = block(task);
      const float* x = static_cast<const float*>(args.buffers[kX]);
      ImageStrides x_at = x_;
      if (!loads_.empty()) x = load(task, b, x, scratch, x_at);
      float* const result = static_cast<float*>(args.buffers[y_index_]);
      float* y = result;
      ImageStrides y_at = y_;
      if (stage_y_) {
        y_at = b.staged();
        y = scratch.y - b.first(y_at);
      }
      const std::span<const Tile> tiles = list_tiles(b, scratch);
      for (size_t t = 0; t < tiles.size(); ++t) {
        float* v = scratch.v + static_cast<int64_t>(t) * terms_.row;
        for (int64_t n = 0; n < form_.pieces(); ++n, v += terms_.piece) {
          const float* pixels[kMostPixels];
          input_pixels(tiles[t], n, x, x_at, scratch.zeros, pixels);
          fns_.input({pixels, terms_.channels, v, v_point(tiles)});
        }
      }
      for (int64_t j = b.channels.begin; j < b.channels.end; j += kPanel)
        panel(j, tiles, x, x_at, y, y_at, scratch);
      if (!stores_.empty()) stores_.of(task).run(scratch.y, result + b.first(y_));
      if (!behind_->epilogue.empty())
        behind_->epilogue.run(tiles_, static_cast<size_t>(task), args.buffers, scratch.epilogue,
                              scratch.y);
    }
  }

 private:
  /// Its channels are whole panels.
  struct Block : ImageBlock {
    Range row_groups, col_groups;
  };
  struct Tile {
    int64_t image, row, col;  ///< the first result
  };
  struct Offsets {
    int64_t v, m, x, y, zeros, bias, dump, windows, sums, list, epilogue;
  };
  struct Scratch {
    Scratch(std::byte* p, const Offsets& at)
        : v(floats(p, at.v)),
          m(floats(p, at.m)),
          x(floats(p, at.x)),
          y(floats(p, at.y)),
          zeros(floats(p, at.zeros)),
          bias(floats(p, at.bias)),
          dump(floats(p, at.dump)),
          windows(floats(p, at.windows)),
          sums(floats(p, at.sums)),
          list(reinterpret_cast<Tile*>(p + at.list)),
          epilogue(p + at.epilogue) {}
    static float* floats(std::byte* p, int64_t at) { return reinterpret_cast<float*>(p + at); }
    float *v, *m;         ///< points of the input and of the sums: [point][tile][term or channel]
    float *x, *y;         ///< a block's operands, channels-last
    float *zeros, *bias;  ///< a pixel outside the input; the bias, whole vectors
    float* dump;          ///< a pixel outside the result
    float *windows, *sums;
    Tile* list;
    std::byte* epilogue;
  };

  // ---- blocks ----

  /// As many tiles as the cache holds, evenly, in rectangles; with few blocks, the channels of the
  /// result are split too.
  void split(int threads) {
    const int64_t across = cols_.tiles(), image = rows_.tiles() * across;
    const int64_t most =
        std::clamp(cpu_info().l2_bytes * 3 / 4 / (form_.points() * 4 * (terms_.row + kPanel)),
                   kLeastTiles, kMostTiles);
    if (across >= most) {
      block_cols_ = even_step(cols_.groups(), most / cols_.axis.dilation);
    } else {
      block_cols_ = cols_.groups();
      if (image > most)
        block_rows_ = even_step(rows_.groups(), most / across / rows_.axis.dilation);
      else {
        block_rows_ = rows_.groups();
        block_images_ = even_step(images_, most / image);
      }
    }
    const int64_t panels = ceil_div(out_, kPanel);
    if (threads > 1 && blocks() % threads != 0 && blocks() < 4 * threads)
      slices_ = std::min<int64_t>(panels, threads);
  }
  int64_t blocks() const {
    return ceil_div(images_, block_images_) * ceil_div(rows_.groups(), block_rows_) *
           ceil_div(cols_.groups(), block_cols_);
  }

  Block block(int64_t task) const {
    const auto results = [](const TiledAxis& axis, Range groups) {
      return Range{groups.begin * axis.group(),
                   std::min(axis.axis.output, groups.end * axis.group())};
    };
    Block b{};
    const int64_t panels = ceil_div(out_, kPanel), slice = task % slices_;
    b.channels = {panels * slice / slices_ * kPanel,
                  std::min(out_, panels * (slice + 1) / slices_ * kPanel)};
    int64_t index = task / slices_;
    b.col_groups = next_range(index, cols_.groups(), block_cols_);
    b.row_groups = next_range(index, rows_.groups(), block_rows_);
    b.images = next_range(index, images_, block_images_);
    b.rows = results(rows_, b.row_groups);
    b.cols = results(cols_, b.col_groups);
    return b;
  }

  std::span<const Tile> list_tiles(const Block& b, const Scratch& scratch) const {
    size_t count = 0;
    for (int64_t n = b.images.begin; n < b.images.end; ++n)
      for (int64_t r = rows_.tiles(b.row_groups.begin); r < rows_.tiles(b.row_groups.end); ++r)
        for (int64_t c = cols_.tiles(b.col_groups.begin); c < cols_.tiles(b.col_groups.end); ++c)
          scratch.list[count++] = {n, rows_.first(r), cols_.first(c)};
    return {scratch.list, count};
  }

  // ---- operands in another order ----

  /// Rows or columns of the input that results of the range read.
  static Range read_by(const TiledAxis& axis, Range results) {
    const WindowAxis& a = axis.axis;
    // A tile reaches as far as its results would, were they all there.
    const int64_t last = results.end - 1 + (axis.reach() - 1) * a.dilation;
    return {std::clamp<int64_t>(results.begin - a.pad_begin, 0, a.input - 1),
            std::clamp<int64_t>(last - a.pad_begin + 1, 1, a.input)};
  }

  const float* load(int64_t task, const Block& b, const float* x, const Scratch& scratch,
                    ImageStrides& x_at) const {
    const Range rows = read_by(rows_, b.rows), cols = read_by(cols_, b.cols);
    ImageBlock read;
    read.images = b.images;
    read.channels = {0, terms_.channels};
    read.rows = rows;
    read.cols = cols;
    loads_.of(task).run(x + read.first(x_), scratch.x);
    x_at = read.staged();
    return scratch.x - read.first(x_at);
  }

  void add_task(int64_t task, const BindContext& context, const SqueezedConv& conv, bool load_x,
                bool store_y) {
    const Block b = block(task);
    most_tiles_ = std::max(most_tiles_,
                           b.images.size() *
                               (rows_.tiles(b.row_groups.end) - rows_.tiles(b.row_groups.begin)) *
                               (cols_.tiles(b.col_groups.end) - cols_.tiles(b.col_groups.begin)));
    if (load_x) {
      const Dims dims{b.images.size(), terms_.channels, read_by(rows_, b.rows).size(),
                      read_by(cols_, b.cols).size()};
      loads_.add(dims, {x_.image, x_.channel, x_.row, x_.col}, channels_last_strides(dims));
      x_bytes_ = std::max(x_bytes_, element_count(dims) * 4);
    }
    const Dims dims = b.dims();
    if (stage_y_) y_bytes_ = std::max(y_bytes_, element_count(dims) * 4);
    if (store_y)
      stores_.add(dims, channels_last_strides(dims), {y_.image, y_.channel, y_.row, y_.col});
    if (behind_->epilogue.empty()) return;
    const ImageStrides staged = b.staged();
    add_block(tiles_, context.outputs[0].dims, ImageAxes::of_kept(conv.kept), b,
              behind_->epilogue.staged() ? &staged : nullptr);
  }

  void lay_out_scratch() {
    int64_t bytes = 0;
    const auto take = [&](int64_t wanted) {
      const int64_t at = bytes;
      bytes += align_up(wanted, 64);
      return at;
    };
    const int64_t outputs = rows_.form.outputs * cols_.form.outputs;
    at_.v = take(form_.points() * most_tiles_ * terms_.row * 4);
    at_.m = take(form_.points() * most_tiles_ * kPanel * 4);
    at_.x = take(x_bytes_);
    at_.y = take(y_bytes_);
    at_.zeros = take(terms_.piece * 4);
    at_.bias = take(align_up(out_, fns_.lanes) * 4);
    at_.dump = take(kPanel * 4);
    at_.windows = take(outputs * window() * 4);
    at_.sums = take(outputs * kPanel * 4);
    at_.list = take(most_tiles_ * static_cast<int64_t>(sizeof(Tile)));
    at_.epilogue = take(behind_->epilogue.scratch_bytes());
    scratch_bytes = bytes;
  }

  // ---- tiles ----

  int64_t window() const { return terms_.channels * rows_.axis.kernel * cols_.axis.kernel; }
  int64_t v_point(std::span<const Tile> tiles) const {
    return static_cast<int64_t>(tiles.size()) * terms_.row;
  }

  /// The pixels a tile reads for the n-th piece; `zeros` where there are none.
  void input_pixels(const Tile& tile, int64_t n, const float* x, const ImageStrides& at,
                    const float* zeros, const float** pixels) const {
    const WindowAxis &rows = rows_.axis, &cols = cols_.axis;
    const int64_t row_tap = n / form_.col_pieces() * rows_.form.taps(),
                  col_tap = n % form_.col_pieces() * cols_.form.taps();
    for (int i = 0; i < rows_.form.points; ++i) {
      const int64_t row = rows.at(tile.row, row_tap + i);
      for (int j = 0; j < cols_.form.points; ++j) {
        const int64_t col = cols.at(tile.col, col_tap + j);
        *pixels++ =
            rows.inside(row) && cols.inside(col) ? x + at.at(tile.image, 0, row, col) : zeros;
      }
    }
  }
  /// The pixels a tile writes, from channel j on; `dump` where there are none.
  void output_pixels(const Tile& tile, float* y, const ImageStrides& at, int64_t j, float* dump,
                     float** pixels) const {
    for (int r = 0; r < rows_.form.outputs; ++r) {
      const int64_t row = tile.row + r * rows_.axis.dilation;
      for (int c = 0; c < cols_.form.outputs; ++c) {
        const int64_t col = tile.col + c * cols_.axis.dilation;
        *pixels++ = row < rows_.axis.output && col < cols_.axis.output
                        ? y + at.at(tile.image, j, row, col)
                        : dump;
      }
    }
  }

  /// A block's results of one panel of output channels.
  void panel(int64_t j, std::span<const Tile> tiles, const float* x, const ImageStrides& x_at,
             float* y, const ImageStrides& y_at, const Scratch& scratch) const {
    const int64_t width = weights_->width(j), columns = std::min(kPanel, out_ - j),
                  m_point = static_cast<int64_t>(tiles.size()) * width;
    for (int64_t p = 0; p < form_.points(); ++p)
      own_product({.x = scratch.v + p * v_point(tiles),
                   .x_row = terms_.row,
                   .rows = static_cast<int64_t>(tiles.size()),
                   .k = terms_.count,
                   .n = width,
                   .panels = weights_->panel(j, p),
                   .format = WeightFormat::kF32,
                   .y = scratch.m + p * m_point,
                   .y_row = width},
                  weights_->together(j));
    for (size_t t = 0; t < tiles.size(); ++t) {
      float* pixels[kMostOutputs * kMostOutputs];
      output_pixels(tiles[t], y, y_at, j, scratch.dump, pixels);
      const bool finite =
          fns_.output({scratch.m + static_cast<int64_t>(t) * width, m_point, pixels, columns,
                       scratch.bias + j, behind_->bounds.low, behind_->bounds.high});
      if (!finite) plain(tiles[t], j, columns, x, x_at, pixels, scratch);
    }
  }

  /// A tile's results as sums over their windows.
  void plain(const Tile& tile, int64_t j, int64_t columns, const float* x, const ImageStrides& x_at,
             float* const* pixels, const Scratch& scratch) const {
    const WindowAxis &rows = rows_.axis, &cols = cols_.axis;
    const int64_t outputs = rows_.form.outputs * cols_.form.outputs;
    float* to = scratch.windows;  // [output][channel][tap], as the weights lie
    for (int r = 0; r < rows_.form.outputs; ++r)
      for (int c = 0; c < cols_.form.outputs; ++c)
        for (int64_t channel = 0; channel < terms_.channels; ++channel)
          for (int64_t k0 = 0; k0 < rows.kernel; ++k0)
            for (int64_t k1 = 0; k1 < cols.kernel; ++k1) {
              const int64_t row = rows.at(tile.row + r * rows.dilation, k0),
                            col = cols.at(tile.col + c * cols.dilation, k1);
              *to++ = rows.inside(row) && cols.inside(col)
                          ? x[x_at.at(tile.image, channel, row, col)]
                          : 0.0f;
            }
    sum_windows_({.m = outputs,
                  .n = columns,
                  .k = window(),
                  .a = scratch.windows,
                  .a_m = window(),
                  .a_k = 1,
                  .b = plain_weights_.as<float>() + j * window(),
                  .b_k = 1,
                  .b_n = window(),
                  .c = scratch.sums,
                  .c_m = kPanel,
                  .alpha = 1,
                  .beta = 0,
                  // As for many rows, term after term: in sums side by side large terms of either
                  // sign would overflow apart and meet as NaN.
                  .all_rows = INT64_MAX});
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < columns; ++k) {
        float value = scratch.sums[o * kPanel + k] + scratch.bias[j + k];
        value = value < behind_->bounds.low ? behind_->bounds.low : value;
        pixels[o][k] = value > behind_->bounds.high ? behind_->bounds.high : value;
      }
  }

  std::shared_ptr<const BoundedEpilogue> behind_;
  std::shared_ptr<const TransformedWeights> weights_;
  Tensor plain_weights_;
  WinogradFns fns_;
  void (*sum_windows_)(const PlainProduct<float>&);
  uint32_t y_index_;
  bool has_bias_, stage_y_ = false;
  WinogradForm form_;
  Terms terms_;
  int64_t images_, out_;
  TiledAxis rows_, cols_;
  ImageStrides x_, y_;
  int64_t block_images_ = 1, block_rows_ = 1, block_cols_ = 1, slices_ = 1;
  int64_t most_tiles_ = 0, x_bytes_ = 0, y_bytes_ = 0;
  BlockCopies loads_, stores_;  ///< of blocks' operands into scratch or from there
  Epilogue::Tiles tiles_;       ///< one per task
  Offsets at_{};
};

/// The problem, where its sizes do not depend on the run.
std::optional<ConvProblem> known_problem(const StepSpec& spec) {
  const auto x = to_concrete(spec.inputs[kX].dims), w = to_concrete(spec.inputs[kW].dims),
             y = to_concrete(spec.outputs[0].dims);
  if (!x || !w || !y) return {};
  const Dims x_strides = contiguous_strides(*x), w_strides = contiguous_strides(*w),
             y_strides = contiguous_strides(*y);
  return SqueezedConv(ConvAttrs(spec), {*x, x_strides}, {*w, w_strides}, {*y, y_strides}).problem;
}

Verdict supports(const StepSpec& spec) {
  if (!spec.winograd) return Verdict::no("switched off");
  if (spec.numerics == Numerics::kStrict)
    return Verdict::no("strict numerics add up the terms of a sum as they are");
  const Tensor& w = spec.inputs[kW].constant;
  if (!w || !is_contiguous(w.dims(), w.strides())) return Verdict::no("weights are not constant");
  const size_t axes = w.dims().size() - 2;
  if (axes > 2) return Verdict::no(fmt::format("{} spatial axes", axes));
  if (spec.attrs().get_int("group", 1) != 1) return Verdict::no("groups");
  for (int64_t stride : spec.attrs().get_ints("strides"))
    if (stride != 1) return Verdict::no("windows more than a pixel apart");
  if (const Verdict fits = windows_fit_scratch(spec); !fits.yes()) return fits;
  const int64_t rows = axes == 2 ? w.dims()[2] : 1, cols = w.dims().back();
  if (rows * cols == 1) return Verdict::no("windows that share nothing");
  if (winograd_forms(rows, cols).empty())
    return Verdict::no(std::max(rows, cols) > 3 ? "too many taps" : "too few taps");
  if (const Verdict library = OnednnConv::supports(spec); !library.yes()) return library;
  if (const auto problem = known_problem(spec); problem && !fastest_form(*problem))
    return Verdict::no("the library is faster at this size");
  return Verdict::ok();
}

class WinogradKernel final : public Kernel {
 public:
  explicit WinogradKernel(const StepSpec& spec)
      : spec_(spec),
        attrs_(spec),
        behind_(std::make_shared<const BoundedEpilogue>(spec)),
        library_(spec) {}

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    const SqueezedConv conv(attrs_, context.inputs[kX], context.inputs[kW], context.outputs[0]);
    const auto form = fastest_form(conv.problem);
    if (!form || has_idle_taps(conv.problem)) return library_.bind(context, false);
    auto weights = weights_for(*form, context.background);
    if (!weights) return library_.bind(context, true);
    return std::make_shared<WinogradBound>(spec_, context, conv, *form, behind_,
                                           std::move(weights));
  }

 private:
  /// Null: they are not made on a caller's way.
  std::shared_ptr<const TransformedWeights> weights_for(const WinogradForm& form, bool make) const {
    {
      const std::lock_guard lock(mutex_);
      if (auto weights = transformed(form); weights || !make) return weights;
    }
    // Not under the lock, on which callers would wait: at worst two threads make the same.
    const Tensor held = spec_.inputs[kW].constant.held();
    auto made = std::make_shared<const TransformedWeights>(
        held, form, winograd_fns(cpu_info().isa, form.rows, form.cols));
    held.forget();
    const std::lock_guard lock(mutex_);
    if (auto weights = transformed(form)) return weights;
    weights_.emplace_back(form, made);
    library_.forget_weights();
    return made;
  }
  /// Under the lock. Null: nobody has.
  std::shared_ptr<const TransformedWeights> transformed(const WinogradForm& form) const {
    for (const auto& [of, weights] : weights_)
      if (of == form) return weights;
    return nullptr;
  }

  StepSpec spec_;
  ConvAttrs attrs_;
  std::shared_ptr<const BoundedEpilogue> behind_;
  mutable OnednnConv library_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<WinogradForm, std::shared_ptr<const TransformedWeights>>> weights_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<WinogradKernel>(spec);
}

}  // namespace

void add_winograd_conv(Rows& rows) {
  rows.push_back({.name = "xc.conv winograd",
                  .op = "Conv",
                  .supports = supports,
                  .create = create,
                  .preferred = conv_orders,
                  .takes_gaps = true});
}

}  // namespace xc::cpu
