#include "backends/cpu/conv_problem.h"

#include <algorithm>

namespace xc::cpu {
namespace {

constexpr double kTaskFlops = 2e6;
constexpr int64_t kThinChannels = 4;
/// What an element of the images takes beside being multiplied: 1x1 of 8 channels into 8 over
/// 112x112 pixels takes 90 us, not 16.
constexpr double kFlopsOfMove = 20;
constexpr int64_t kStageBytes = 512 << 10;
/// What of the weights is worth a task where few pixels are multiplied by them: 10 us from a cache,
/// 50 and more from memory.
constexpr int64_t kTaskWeightBytes = 1 << 20;
/// Over channels each thread reads its share of the weights, over rows all of them. So many times
/// the elements of both images they have to be for that to pay, for parts of the channels are
/// written to scratch first, and by the next step read by the other thread (us, Zen 4, two threads,
/// channels / rows; 1x1 over 14x14 pixels, 320 to 1280 860 / 760, 384 to 1536 1090 / 1060, 256 to
/// 1024 480 / 460; over 7x7 from 192 to 1152 100 / 109; 3x3 of 512 over 8x8 745 / 2050).
constexpr int64_t kManyWeights = 4;
/// Parts where threads are not known: for two to four of them, and for more where each part has so
/// many rows that one thread is no slower for it.
constexpr int64_t kPartsByShape = 8, kRowsOfPart = 256, kMostPartsByShape = 64;

}  // namespace

int64_t useful_tasks(double flops) {
  return static_cast<int64_t>(flops / kTaskFlops);
}

int64_t ConvProblem::plane() const {
  int64_t out = 1;
  for (const WindowAxis& axis : axes) out *= axis.output;
  return out;
}

int64_t ConvProblem::taps() const {
  int64_t out = 1;
  for (const WindowAxis& axis : axes) out *= axis.kernel;
  return out;
}

double ConvProblem::flops() const {
  return 2.0 * static_cast<double>(batch * plane()) * static_cast<double>(out_channels) *
         static_cast<double>(in_channels / groups) * static_cast<double>(taps());
}

int64_t ConvProblem::weights() const {
  return out_channels * (in_channels / groups) * taps();
}

int64_t ConvProblem::useful_tasks() const {
  const bool thin = in_channels / groups < kThinChannels;
  const auto moved = static_cast<double>(element_count(x_dims) + element_count(y_dims));
  return std::max(cpu::useful_tasks(flops() * (thin ? 10 : 1) + moved * kFlopsOfMove),
                  weights() * int64_t{sizeof(float)} / kTaskWeightBytes);
}

bool ConvProblem::pointwise() const {
  bool out = groups == 1;
  for (const WindowAxis& axis : axes)
    out &= axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  return out;
}

bool ConvProblem::told_as_image() const {
  return axes.size() == 1 && groups > 1 && groups == in_channels;
}

ConvAttrs::ConvAttrs(const StepSpec& spec, size_t weights)
    : window(window_attrs(*spec.node, spec.inputs[weights].dims.size() - 2)),
      groups(spec.attrs().get_int("group", 1)) {}

SqueezedConv::SqueezedConv(const ConvAttrs& attrs, const BoundOperand& data,
                           const BoundOperand& weights, const BoundOperand& result) {
  const auto copy = [](const BoundOperand& o) {
    return Part{Dims(o.dims.begin(), o.dims.end()), Dims(o.strides.begin(), o.strides.end())};
  };
  x = copy(data);
  w = copy(weights);
  y = copy(result);
  const auto axes = window_axes(attrs.window, data.dims, weights.dims.subspan(2), result.dims);
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].input != 1 || axes[i].output != 1 || axes[i].kernel != 1 ||
        axes[i].pad_begin != 0 || axes[i].pad_end != 0)
      kept.push_back(i);
  if (kept.empty()) kept.push_back(axes.size() - 1);
  for (size_t i = axes.size(); i-- > 0;) {
    if (std::find(kept.begin(), kept.end(), i) != kept.end()) continue;
    for (Part* part : {&x, &w, &y}) {
      part->dims.erase(part->dims.begin() + static_cast<ptrdiff_t>(2 + i));
      part->strides.erase(part->strides.begin() + static_cast<ptrdiff_t>(2 + i));
    }
  }
  problem.x_dims = x.dims;
  problem.y_dims = y.dims;
  problem.batch = y.dims[0];
  problem.groups = attrs.groups;
  problem.in_channels = x.dims[1];
  problem.out_channels = y.dims[1];
  for (size_t axis : kept) problem.axes.push_back(axes[axis]);
}

namespace {

/// Rows per part, of at most `parts`, with which all threads are done first; of equals the most
/// rows, for the library does better on many.
int64_t even_step(int64_t rows, int64_t parts, int64_t threads) {
  int64_t best = rows, least = rows;
  for (int64_t count = threads; count <= parts; ++count) {
    const int64_t step = ceil_div(rows, count);
    const int64_t rounds = ceil_div(ceil_div(rows, step), threads);
    if (rounds * step < least) {
      least = rounds * step;
      best = step;
    }
  }
  return best;
}

}  // namespace

std::vector<ConvRegions> conv_divisions(const ConvProblem& s, int threads, bool by_shape,
                                        bool staged, int64_t element_bytes, bool whole_rows) {
  const int64_t rows = s.axes[0].output;
  const ConvRegions whole{{0, s.batch, 0, rows, 0, s.out_channels}};
  const int64_t by_rows_alone = std::clamp(rows / kRowsOfPart, kPartsByShape, kMostPartsByShape);
  int64_t wanted = std::min(s.useful_tasks(), by_shape ? by_rows_alone : most_tasks(threads));
  // What is converted in scratch should stay in the second-level cache.
  if (staged)
    wanted =
        std::max(wanted, std::min<int64_t>(64, (element_count(s.x_dims) + element_count(s.y_dims)) *
                                                   element_bytes / kStageBytes));
  if (wanted <= 1) return {whole};
  if (s.batch >= wanted || (s.batch > 1 && s.batch * rows < 2 * wanted)) {
    wanted = std::min(wanted, s.batch);
    ConvRegions images;
    for (int64_t i = 0; i < wanted; ++i)
      images.push_back(
          {s.batch * i / wanted, s.batch * (i + 1) / wanted, 0, rows, 0, s.out_channels});
    return {images, whole};
  }
  wanted = ceil_div(wanted, s.batch);
  const int64_t team = by_shape ? 4 : threads;
  ConvRegions by_rows, by_channels;
  // Rows that are padding alone: the library refuses them, and has another kernel, with sums in
  // another order, for what contains them.
  const int64_t parts = !whole_rows && s.axes[0].all_reach() ? std::min(wanted, rows) : 1;
  const int64_t step =
      by_shape || parts <= threads ? ceil_div(rows, parts) : even_step(rows, parts, threads);
  const bool channels_divide = !staged && s.groups == 1 && s.out_channels >= 64 * team;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t i = 0; channels_divide && i < team; ++i) {
      const int64_t unit = 16, units = ceil_div(s.out_channels, unit);
      by_channels.push_back({n, n + 1, 0, rows, units * i / team * unit,
                             std::min(s.out_channels, units * (i + 1) / team * unit)});
    }
    for (int64_t r = 0; r < rows; r += step)
      by_rows.push_back({n, n + 1, r, std::min(rows, r + step), 0, s.out_channels});
  }
  if (!channels_divide) return {by_rows, whole};
  const int64_t images = element_count(s.x_dims) + element_count(s.y_dims);
  if (rows < 4 * team || (whole_rows && s.batch == 1) ||
      s.weights() * s.batch >= kManyWeights * images)
    return {by_channels, by_rows, whole};
  return {by_rows, by_channels, whole};
}

ConvRows rows_of(const ConvProblem& s, const ConvRegion& r) {
  const WindowAxis& rows = s.axes[0];
  RowRange in = rows_reached(rows, {r.r0, r.r1});
  // Of several images also the rows behind the last window: without them they would not lie
  // densely.
  if (r.n1 - r.n0 > 1 && r.r1 == rows.output) in.end = rows.input;
  const int64_t first = rows.at(r.r0, 0), last = rows.at(r.r1 - 1, rows.kernel - 1) + 1;
  return {in.begin, in.end, in.begin - first, std::max<int64_t>(last - in.end, 0)};
}

dnnl::memory::desc conv_activations(const ConvProblem& problem, Dims dims, DType type,
                                    bool row_major) {
  if (problem.told_as_image()) dims.insert(dims.begin() + 2, 1);
  return strided_desc(dims, row_major ? contiguous_strides(dims) : channels_last_strides(dims),
                      type);
}

dnnl::memory::desc plain_conv_weights(const BoundOperand& w, const ConvProblem& s, int64_t channels,
                                      DType type) {
  Dims dims(w.dims.begin(), w.dims.end()), strides(w.strides.begin(), w.strides.end());
  dims[0] = channels;
  if (s.groups > 1) {
    dims[0] /= s.groups;
    dims.insert(dims.begin(), s.groups);
    strides.insert(strides.begin(), strides[0] * dims[1]);
  }
  if (s.told_as_image()) {
    dims.insert(dims.end() - 1, 1);
    strides.insert(strides.end() - 1, strides.back() * dims.back());
  }
  return strided_desc(dims, strides, type);
}

ConvWindow conv_window(const ConvProblem& s, int64_t channels, int64_t pad_begin, int64_t pad_end) {
  ConvWindow out;
  out.weights = {channels, s.in_channels / s.groups};
  if (s.told_as_image()) {
    out.weights.push_back(1);
    out.strides = {1};
    out.dilations = out.pad_begin = out.pad_end = {0};
  }
  for (size_t i = 0; i < s.axes.size(); ++i) {
    const WindowAxis& axis = s.axes[i];
    out.weights.push_back(axis.kernel);
    out.strides.push_back(axis.stride);
    out.dilations.push_back(axis.dilation - 1);
    out.pad_begin.push_back(i == 0 ? pad_begin : axis.pad_begin);
    out.pad_end.push_back(i == 0 ? pad_end : axis.pad_end);
  }
  if (s.groups > 1) {
    out.weights[0] /= s.groups;
    out.weights.insert(out.weights.begin(), s.groups);
  }
  return out;
}

Verdict windows_fit_scratch(const StepSpec& spec) {
  constexpr int64_t kMostDilation = 32;
  for (int64_t dilation : spec.attrs().get_ints("dilations"))
    if (dilation > kMostDilation) return Verdict::no("windows too wide for scratch");
  return Verdict::ok();
}

std::vector<Order> conv_orders(const StepSpec& spec) {
  std::vector<Order> out(spec.inputs.size() + spec.outputs.size(), Order::kChannelsLast);
  for (size_t i = 1; i <= 2 && i < spec.inputs.size(); ++i) out[i] = Order::kRowMajor;
  return out;
}

}  // namespace xc::cpu
