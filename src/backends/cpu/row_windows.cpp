#include "backends/cpu/row_windows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/copy.h"

namespace xc::cpu {
namespace {

constexpr size_t kW = 1, kB = 2;
/// Elements between the first and the last tap of a window along rows alone, at most.
constexpr int64_t kMostReach = 4096;

/// `count` pixels of N channels.
template <size_t N>
void copy_pixels(const float* from, int64_t step, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<int64_t>(N), from + i * step, N * 4);
}

void copy_pixels(const ImageRow& row, const float* from, int64_t count, int64_t padded, float* to) {
  if (row.channel == 1 && row.channels == padded) {
    switch (padded) {
      case 1:
        if (row.pixel != 1) return copy_pixels<1>(from, row.pixel, to, count);
        std::memcpy(to, from, static_cast<size_t>(count) * 4);
        return;
      case 4:
        return copy_pixels<4>(from, row.pixel, to, count);
      case 8:
        return copy_pixels<8>(from, row.pixel, to, count);
      case 16:
        return copy_pixels<16>(from, row.pixel, to, count);
      default:
        break;
    }
  }
  for (int64_t i = 0; i < count; ++i, from += row.pixel, to += padded) {
    for (int64_t c = 0; c < row.channels; ++c) to[c] = from[c * row.channel];
    for (int64_t c = row.channels; c < padded; ++c) to[c] = 0;
  }
}

/// Windows along the rows alone (signals) may be wider than windows_fit_scratch() says: blocks have
/// as many columns as lie between the taps (least_columns()), where rows between the taps of an
/// image would be brought in for every row of the result.
Verdict windows_fit_rows(const StepSpec& spec) {
  const Verdict fits = windows_fit_scratch(spec);
  if (fits.yes()) return fits;
  const auto kernel = std::span(spec.inputs[kW].constant.dims()).subspan(2);
  const std::vector<int64_t> dilations = spec.attrs().get_ints("dilations");
  const size_t axis = last_with_taps(kernel);
  bool along_rows = element_count(kernel) == kernel[axis];
  for (size_t i = axis + 1; i < kernel.size(); ++i)
    along_rows &= spec.inputs[0].dims[2 + i] == Dim(1) && spec.outputs[0].dims[2 + i] == Dim(1);
  return along_rows && (kernel[axis] - 1) * dilations[axis] <= kMostReach ? Verdict::ok() : fits;
}

}  // namespace

size_t last_with_taps(std::span<const int64_t> kernel) {
  size_t axis = kernel.size() - 1;
  while (axis > 0 && kernel[axis] == 1) --axis;
  return axis;
}

Verdict supports_row_windows(const StepSpec& spec, size_t most_axes) {
  const size_t rank = spec.inputs[kW].constant.rank();
  if (rank < 3 || rank > 2 + most_axes)
    return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  if (const Verdict fits = windows_fit_rows(spec); !fits.yes()) return fits;
  if (spec.inputs.size() <= kB || !spec.inputs[kB].present()) return Verdict::ok();
  const Operand& bias = spec.inputs[kB];
  return bias.dtype == DType::kF32 && bias.contiguous() ? Verdict::ok()
                                                        : Verdict::no("a bias that is not dense");
}

BoundRowWindows::BoundRowWindows(const StepSpec& spec, const SqueezedConv& conv, int64_t channels)
    : inputs_(static_cast<uint32_t>(spec.inputs.size())),
      has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()),
      useful_(std::max<int64_t>(conv.problem.useful_tasks(), 1)),
      images_(conv.problem.batch),
      cols_(conv.problem.axes.back()),
      axes_(conv.problem.axes.size()),
      x_(conv.x.strides),
      y_(conv.y.strides) {
  unread = 1u << kW;
  if (axes_ > 1) rows_ = conv.problem.axes[axes_ - 2];
  if (axes_ > 2) depths_ = conv.problem.axes[0];
  if (images_ * depths_.output * rows_.output * cols_.output * channels == 0) tasks = 0;
}

void BoundRowWindows::lay_blocks(const BindContext& context, int64_t most_rows, int64_t across,
                                 int64_t together) {
  by_rows = axes_ == 2 && !context.rows.empty();
  row_blocks_ = RowBlocks(rows_.output, most_rows,
                          by_rows ? context.rows : std::span<const RowRange>(), together);
  across_ = across;
  tasks = by_rows ? images_ * row_blocks_.parts() : std::clamp<int64_t>(useful_, 1, blocks());
}

void BoundRowWindows::lay_pixel_blocks(const BindContext& context, int64_t most_pixels,
                                       int64_t threads, int64_t together) {
  const int64_t rows = std::min(together, rows_.output);
  const int64_t most_cols = std::clamp<int64_t>(most_pixels / rows, 1, cols_.output);
  int64_t across = ceil_div(cols_.output, most_cols);
  if (images_ * depths_.output * rows_.output == 1)
    across = align_up(across, std::min(useful_, threads));
  block_cols_ = ceil_div(cols_.output, across);
  const int64_t most_rows = most_pixels / block_cols_;
  lay_blocks(context, std::max(most_rows - most_rows % rows, rows),
             ceil_div(cols_.output, block_cols_), rows);
}

ImageBlock BoundRowWindows::pixel_block(int64_t i, int64_t channels) const {
  ImageBlock b;
  b.channels = {0, channels};
  b.cols = next_range(i, cols_.output, block_cols_);
  b.rows = row_blocks_.next(i);
  b.images = {i, i + 1};
  return b;
}

Range BoundRowWindows::blocks_of(int64_t begin, int64_t end) const {
  const auto first = [&](int64_t task) {
    if (!by_rows) return blocks() * task / tasks;
    const int64_t parts = row_blocks_.parts();
    return (task / parts * row_blocks_.count() + row_blocks_.first(task % parts)) * across_;
  };
  return {first(begin), first(end)};
}

void pack_row_weights(const ConvRowFns& fns, const float* w, int64_t channels, int64_t in,
                      int64_t kernel, float* to) {
  constexpr int64_t kTurned = 16 << 10;  // elements: they stay in the second-level cache
  const int64_t taps = kernel * in, padded = align_up(channels, fns.lanes);
  std::vector<float> turned;  // [in][kernel][channels] of some inputs
  for (int64_t c = 0; c < channels;) {
    const int64_t width = fns.panel((padded - c) / fns.lanes) * fns.lanes;
    const int64_t count = std::min(width, channels - c);
    const int64_t step = std::clamp<int64_t>(kTurned / (kernel * count), 1, in);
    turned.resize(static_cast<size_t>(step * kernel * count));
    for (int64_t i = 0; i < in; i += step) {
      const int64_t inputs = std::min(step, in - i);
      copy_matrix({inputs * kernel, count, 1, taps, count, 1, 4}, w + c * taps + i * kernel,
                  turned.data());
      for (int64_t k = 0; k < kernel; ++k)
        for (int64_t j = 0; j < inputs; ++j)
          std::copy_n(turned.data() + (j * kernel + k) * count, count,
                      to + c * taps + (k * in + i + j) * width);
    }
    c += width;
  }
}

int64_t first_level_sets(int64_t apart) {
  constexpr int64_t kLine = 64, kSets = 64;
  return std::min(kSets * kLine / std::gcd(apart, kSets * kLine), kSets);
}

Range outputs_inside(const WindowAxis& axis) {
  const int64_t begin = std::min(ceil_div(axis.pad_begin, axis.stride), axis.output);
  const int64_t room = axis.input + axis.pad_begin - axis.extent(1);
  const int64_t end = room < 0 ? 0 : std::min(room / axis.stride + 1, axis.output);
  return {begin, std::max(begin, end)};
}

Range reached(const WindowAxis& axis, Range outputs) {
  const int64_t last = axis.at(outputs.end - 1, axis.kernel - 1);
  return common({0, axis.input}, {axis.at(outputs.begin, 0), last + 1});
}

void copy_padded_row(const ImageRow& row, const WindowAxis& cols, int64_t begin, int64_t width,
                     int64_t padded, float* to) {
  // Pixels [first, last) are the image's.
  const int64_t first = row.first ? std::clamp<int64_t>(-begin, 0, width) : width,
                last = row.first ? std::clamp<int64_t>(cols.input - begin, first, width) : width;
  std::fill_n(to, first * padded, 0.0f);
  if (first < last)
    copy_pixels(row, row.first + (begin + first) * row.pixel, last - first, padded,
                to + first * padded);
  std::fill_n(to + last * padded, (width - last) * padded, 0.0f);
}

}  // namespace xc::cpu
