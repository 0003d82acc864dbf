// Ops that take every output element from an input element found axis by axis: Pad (all modes) and
// nearest Resize, "xc.mapped".

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/resize_axes.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 64 << 10;
constexpr int64_t kFill = INT64_MIN;  ///< no source: the constant

constexpr int64_t kLongestAxis = int64_t{1} << 32;  ///< elements; a map has an entry for each
/// Per axis of the result: the source's element offset, or kFill.
using AxisMaps = std::vector<std::vector<int64_t>>;

/// Part of a row of the result.
struct Piece {
  enum class Kind : uint8_t { kFilled, kRun, kRepeated, kScattered } kind;
  int64_t begin, end;
  int64_t times = 1;  ///< kRepeated: each of adjacent sources so often
};
/// Runs of adjacent sources, which padding and upsampling of outer axes consist of; what has none
/// is taken element by element.
std::vector<Piece> pieces_of(const std::vector<int64_t>& map) {
  constexpr int64_t kShortestRun = 8;
  std::vector<Piece> out;
  const auto n = static_cast<int64_t>(map.size());
  int64_t times = 1;
  while (times < n && map[static_cast<size_t>(times)] == map[0]) ++times;
  bool repeated = n > 0 && times > 1 && n % times == 0 && map[0] != kFill;
  for (int64_t i = 0; repeated && i < n; ++i)
    repeated = map[static_cast<size_t>(i)] == map[0] + i / times;
  if (repeated) return {{Piece::Kind::kRepeated, 0, n, times}};
  const auto add = [&](Piece::Kind kind, int64_t begin, int64_t end) {
    if (!out.empty() && out.back().kind == kind && kind != Piece::Kind::kRun)
      out.back().end = end;
    else
      out.push_back({kind, begin, end, 1});
  };
  for (int64_t i = 0; i < n;) {
    const int64_t source = map[static_cast<size_t>(i)];
    int64_t end = i + 1;
    if (source == kFill) {
      add(Piece::Kind::kFilled, i, end);
    } else {
      while (end < n && map[static_cast<size_t>(end)] == source + end - i) ++end;
      add(end - i >= kShortestRun ? Piece::Kind::kRun : Piece::Kind::kScattered, i, end);
    }
    i = end;
  }
  return out;
}

template <class T>
void copy_piece(const Piece& piece, const int64_t* map, const T* from, T* out, int64_t step,
                T filling) {
  switch (piece.kind) {
    case Piece::Kind::kFilled:
      for (int64_t i = piece.begin; i < piece.end; ++i) out[i * step] = filling;
      return;
    case Piece::Kind::kRun:
      from += map[piece.begin];
      out += piece.begin * step;
      if (step == 1)
        std::memcpy(out, from, static_cast<size_t>(piece.end - piece.begin) * sizeof(T));
      else
        for (int64_t k = 0; k < piece.end - piece.begin; ++k) out[k * step] = from[k];
      return;
    case Piece::Kind::kRepeated:
      from += map[0];
      if (piece.times == 2 && step == 1 && sizeof(T) == 4) {
        line_fns(cpu_info().isa).twice(from, piece.end / 2, out);
        return;
      }
      for (int64_t i = 0; i < piece.end; ++from)
        for (int64_t k = 0; k < piece.times; ++k, ++i) out[i * step] = *from;
      return;
    case Piece::Kind::kScattered:
      for (int64_t i = piece.begin; i < piece.end; ++i) out[i * step] = from[map[i]];
  }
}

/// y[i, j, ...] = x[maps[0][i] + maps[1][j] + ...] over rows [first, last) of all axes but the
/// last. A row from the same source as the one before it, as upsampling has them, is copied from
/// that.
template <class T>
void copy_mapped(const T* x, T* y, const Dims& dims, const Dims& strides, const AxisMaps& maps,
                 T filling, int64_t first, int64_t last) {
  const size_t inner = dims.size() - 1;
  const int64_t n = dims[inner], step = strides[inner];
  const std::vector<Piece> pieces = pieces_of(maps[inner]);
  // Rows that differ in the axis before the last only are walked in one loop.
  static const std::vector<int64_t> kOnly{0};
  const bool flat = inner == 0;
  const std::vector<int64_t>& sources = flat ? kOnly : maps[inner - 1];
  const auto block = static_cast<int64_t>(sources.size());
  const int64_t row_step = flat ? 0 : strides[inner - 1];
  for (int64_t row = first; row < last;) {
    int64_t from = 0, to = 0, rest = row / block;
    bool all_filled = false;
    for (size_t axis = flat ? 0 : inner - 1; axis-- > 0; rest /= dims[axis]) {
      const int64_t at = rest % dims[axis], source = maps[axis][static_cast<size_t>(at)];
      all_filled |= source == kFill;
      from += source == kFill ? 0 : source;
      to += at * strides[axis];
    }
    const int64_t begin = row % block, end = std::min(block, begin + last - row);
    int64_t before = kFill;
    const T* row_before = nullptr;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t source = sources[static_cast<size_t>(r)];
      T* out = y + to + r * row_step;
      if (all_filled || source == kFill) {
        for (int64_t i = 0; i < n; ++i) out[i * step] = filling;
      } else if (source == before && step == 1) {
        std::memcpy(out, row_before, static_cast<size_t>(n) * sizeof(T));
      } else {
        for (const Piece& piece : pieces)
          copy_piece(piece, maps[inner].data(), x + from + source, out, step, filling);
        before = source;
        row_before = out;
      }
    }
    row += end - begin;
  }
}

// ---- Pad
// -----------------------------------------------------------------------------------------

AxisMaps pad_maps(const StepSpec& spec, const OperandViews& views, const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const size_t rank = x.dims.size();
  const std::string mode = spec.attrs().get_string("mode", "constant");
  const std::vector<int64_t> pads = control.ints(1);
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (control.has(3)) axes = normalise_axes(control.ints(3), rank);
  if (pads.size() != 2 * axes.size()) fail(Status::kRange, "{} pads", pads.size());
  std::vector<std::pair<int64_t, int64_t>> around(rank, {0, 0});
  for (size_t i = 0; i < axes.size(); ++i) around[axes[i]] = {pads[i], pads[i + axes.size()]};
  AxisMaps maps(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto [begin, end] = around[axis];
    const int64_t size = x.dims[axis];
    if (begin < -size || end < -size || begin > y.dims[axis] || end > y.dims[axis])
      fail(Status::kRange, "axis {} of size {} padded by {} and {}", axis, size, begin, end);
    // What cropping leaves: [crop, crop + kept).
    const int64_t crop = std::max<int64_t>(-begin, 0);
    const int64_t kept = size - crop - std::max<int64_t>(-end, 0);
    const int64_t before = std::max<int64_t>(begin, 0), after = std::max<int64_t>(end, 0);
    if (kept < 0 || before + kept + after != y.dims[axis])
      fail(Status::kRange, "axis {} of size {} padded by {} and {} has not {} elements", axis, size,
           begin, end, y.dims[axis]);
    if (kept == 0 && before + after > 0 && mode != "constant")
      fail(Status::kRange, "nothing to repeat: mode {} pads an empty axis", mode);
    if (y.dims[axis] > kLongestAxis)
      fail(Status::kLimit, "axis {} of {} elements", axis, y.dims[axis]);
    maps[axis].reserve(static_cast<size_t>(y.dims[axis]));
    for (int64_t o = -before; o < kept + after; ++o) {
      int64_t i = o;
      if (mode == "constant") {
        if (i < 0 || i >= kept) {
          maps[axis].push_back(kFill);
          continue;
        }
      } else if (mode == "edge") {
        i = std::clamp<int64_t>(i, 0, kept - 1);
      } else if (mode == "wrap") {
        i -= floor_div(i, kept) * kept;
      } else {
        const int64_t period = std::max<int64_t>(2 * (kept - 1), 1);
        i -= floor_div(i, period) * period;
        i = kept == 1 ? 0 : std::min(i, period - i);
      }
      maps[axis].push_back((crop + i) * x.strides[axis]);
    }
  }
  return maps;
}

// ---- Resize
// --------------------------------------------------------------------------------------

AxisMaps nearest_maps(const StepSpec& spec, const OperandViews& views,
                      const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const auto samples = resize_axes(spec, views, control);
  AxisMaps maps(x.dims.size());
  for (size_t axis = 0; axis < maps.size(); ++axis)
    for (int64_t i = 0; i < y.dims[axis]; ++i)
      maps[axis].push_back(
          (samples[axis].empty() ? i : samples[axis][static_cast<size_t>(i)].index[0]) *
          x.strides[axis]);
  return maps;
}

class MappedBound final : public BoundKernel {
 public:
  MappedBound(const StepSpec& spec, const BindContext& context)
      : spec_(spec), views_(spec, context), pad_(spec.op->name == "Pad") {
    // Pad's value (input 2) is read at each run anyway.
    dynamic_ = pad_ ? !ControlInputs::constant(spec, 1, 2) || !ControlInputs::constant(spec, 3)
                    : resized_by_run(spec);
    const OperandView& y = views_.outputs[0];
    if (!dynamic_ && y.count() > 0) maps_ = make(ControlInputs(spec_, views_));
    order_ = memory_order(y);
    dims_ = permuted(y.dims, order_);
    strides_ = permuted(y.strides, order_);
    if (!maps_.empty()) maps_ = permuted(maps_, order_);
    rows_ = y.count() == 0 ? 0 : y.dims.empty() ? 1 : y.count() / dims_.back();
    tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, std::max<int64_t>(1, rows_));
    if (dynamic_) tasks = 1;
    allocates = dynamic_;
    held_bytes += views_.bytes();
    for (const auto& map : maps_) held_bytes += static_cast<int64_t>(map.size() * 8);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (rows_ == 0) return;
    const AxisMaps live =
        dynamic_ ? permuted(make(ControlInputs(spec_, views_, args.buffers)), order_) : AxisMaps{};
    const AxisMaps& maps = dynamic_ ? live : maps_;
    const OperandView& y = views_.outputs[0];
    with_element_bytes(element_size(y.dtype), [&](auto element) {
      using T = decltype(element);
      T filling{};
      if (pad_ && spec_.inputs.size() > 2 && spec_.inputs[2].present())
        filling = *static_cast<const T*>(args.buffers[2]);
      const T* x = static_cast<const T*>(args.buffers[0]);
      T* to = static_cast<T*>(args.buffers[spec_.inputs.size()]);
      if (y.dims.empty()) {
        *to = *x;
        return;
      }
      copy_mapped(x, to, dims_, strides_, maps, filling, rows_ * begin / tasks,
                  rows_ * end / tasks);
    });
  }

 private:
  AxisMaps make(const ControlInputs& control) const {
    return pad_ ? pad_maps(spec_, views_, control) : nearest_maps(spec_, views_, control);
  }
  StepSpec spec_;
  OperandViews views_;
  bool pad_;
  bool dynamic_ = false;
  AxisMaps maps_;  ///< in the order of order_, as are the next two
  Dims dims_, strides_;
  std::vector<size_t> order_;
  int64_t rows_ = 0;
};

// ---- rows
// ----------------------------------------------------------------------------------------

Verdict supports_pad(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const std::string reason = movable_reason(spec.inputs[0].dtype);
  if (!reason.empty() || element_size(spec.inputs[0].dtype) == 16)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  return Verdict::ok();
}

Verdict supports_nearest(const StepSpec& spec) {
  const Verdict movable = supports_pad(spec);
  return movable.yes() ? supports_resize(spec, true) : movable;
}
}  // namespace

void add_mapped_copy(Rows& rows) {
  rows.push_back({"xc.mapped", "Pad", supports_pad, create_bound_by<MappedBound>, any_order});
  rows.push_back(
      {"xc.mapped", "Resize", supports_nearest, create_bound_by<MappedBound>, any_order});
}

}  // namespace xc::cpu
