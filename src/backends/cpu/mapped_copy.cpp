// Ops that take every output element from an input element found axis by axis: Pad (all modes),
// CenterCropPad and nearest Resize, "xc.mapped".

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/axis_sources.h"
#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/picked_rows.h"
#include "backends/cpu/resize_axes.h"
#include "backends/cpu/short_runs.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 64 << 10;
constexpr int64_t kLongestAxis = int64_t{1} << 32;  ///< elements; some maps have an entry for each

using Piece = AxisSources::Piece;
/// Element offsets of the source, per axis of the result.
using Sources = std::vector<AxisSources>;

/// Whether a row is one run of adjacent elements.
bool moves_whole(const AxisSources& columns) {
  const Piece& first = columns.pieces()[0];
  return columns.pieces().size() == 1 && first.kind == Piece::Kind::kStrided && first.step == 1;
}

/// Where the elements of a result lie, and where they come from: y[i, j, ...] =
/// x[sources[0][i] + sources[1][j] + ...], or the constant where one of the axes says so.
struct MappedSpace {
  Dims dims, strides;  ///< of the result, in elements, the innermost axis last
  Sources sources;
  std::optional<PickedRows> picks;  ///< of the last two axes

  /// Axes that are adjacent and follow one rule are one: rows get longer.
  void merge() {
    while (dims.size() > 1) {
      const size_t inner = dims.size() - 1;
      const Piece& all = sources[inner].pieces()[0];
      if (all.kind != Piece::Kind::kStrided || all.size() != dims[inner] || all.from != 0) return;
      if (dims[inner] > 1) {
        const bool adjacent =
            all.step == 1 && strides[inner] == 1 && strides[inner - 1] == dims[inner];
        if (!adjacent || !sources[inner - 1].absorb(dims[inner])) return;
        dims[inner - 1] *= dims[inner];
        strides[inner - 1] = 1;
      }
      dims.pop_back();
      strides.pop_back();
      sources.pop_back();
    }
  }
  /// Adjacent short rows are one, where their elements are few.
  std::optional<MappedSpace> with_longer_rows() const {
    constexpr int64_t kShortRow = 32, kFew = 2 << 10;
    if (dims.size() < 2) return std::nullopt;
    const size_t inner = dims.size() - 1;
    const int64_t n = dims[inner], rows = dims[inner - 1];
    if (n >= kShortRow || n * rows > kFew || strides[inner] != 1 || strides[inner - 1] != n)
      return std::nullopt;
    std::vector<int64_t> elements;
    size_t row_piece = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = sources[inner - 1].at(r, row_piece);
      size_t piece = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t column = sources[inner].at(i, piece);
        if (row == AxisSources::kFill || column == AxisSources::kFill) return std::nullopt;
        elements.push_back(row + column);
      }
    }
    MappedSpace out = *this;
    out.dims.pop_back(), out.strides.pop_back(), out.sources.pop_back();
    out.dims.back() *= n;
    out.strides.back() = 1;
    out.sources.back() = AxisSources(elements);
    return out;
  }
  int64_t bytes() const {
    int64_t total = picks ? picks->bytes() : 0;
    for (const AxisSources& axis : sources) total += axis.bytes();
    return total;
  }

  /// Finds `picks` for elements of 4 bytes.
  void plan_picks() {
    if (auto longer = with_longer_rows()) {
      longer->picks = longer->rows_picked();
      if (longer->picks) *this = std::move(*longer);
    }
    if (!picks) picks = rows_picked();
  }

 private:
  std::optional<PickedRows> rows_picked() const {
    const size_t inner = dims.size() - 1;
    const AxisSources& columns = sources[inner];
    if (strides[inner] != 1 || columns.size() == 0 || moves_whole(columns)) return std::nullopt;
    AxisSources one;
    one.add_strided(1, 0, 1);
    return PickedRows::of(inner == 0 ? one : sources[inner - 1], columns);
  }
};

template <class T>
void copy_piece(const Piece& piece, const AxisSources& axis, const T* x, T* y, int64_t step,
                T filling) {
  const int64_t n = piece.size();
  T* out = y + piece.begin * step;
  switch (piece.kind) {
    case Piece::Kind::kFilled:
      for (int64_t i = 0; i < n; ++i) out[i * step] = filling;
      return;
    case Piece::Kind::kStrided: {
      const T* from = x + piece.from;
      if (step == 1 && piece.step == 1)
        std::memcpy(out, from, static_cast<size_t>(n) * sizeof(T));
      else
        for (int64_t i = 0; i < n; ++i) out[i * step] = from[i * piece.step];
      return;
    }
    case Piece::Kind::kRepeated: {
      const T* from = x + piece.from;
      if (piece.step == 2 && step == 1 && sizeof(T) == 4) {
        line_fns(cpu_info().isa).twice(from, n / 2, out);
        return;
      }
      for (int64_t i = 0; i < n; ++from)
        for (int64_t k = 0; k < piece.step; ++k, ++i) out[i * step] = *from;
      return;
    }
    case Piece::Kind::kScattered: {
      const int64_t* table = axis.table(piece);
      for (int64_t i = 0; i < n; ++i) out[i * step] = x[table[i]];
    }
  }
}

/// Rows [first, last) of the axis before the last, where a row is one run of adjacent elements: as
/// many at a time as come from evenly apart.
template <class T>
void copy_whole_rows(const T* x, T* y, int64_t row_step, const AxisSources& rows,
                     const AxisSources& columns, T filling, int64_t first, int64_t last) {
  const int64_t n = columns.size();
  const T* const from = x + columns.pieces()[0].from;
  size_t piece_of_row = 0;
  for (int64_t r = first; r < last;) {
    const int64_t source = rows.at(r, piece_of_row);
    const Piece& piece = rows.pieces()[piece_of_row];
    T* const out = y + r * row_step;
    const int64_t in_piece = std::min(piece.end, last) - r;
    if (source == AxisSources::kFill) {
      for (int64_t k = 0; k < in_piece; ++k) std::fill_n(out + k * row_step, n, filling);
      r += in_piece;
      continue;
    }
    int64_t count = 1, step = 0;
    if (piece.kind == Piece::Kind::kStrided) {
      count = in_piece, step = piece.step;
    } else if (piece.kind == Piece::Kind::kRepeated) {
      count = std::min(in_piece, piece.step - (r - piece.begin) % piece.step);
    } else {
      const int64_t* const sources = rows.table(piece) + (r - piece.begin);
      while (count < in_piece && sources[count] == source) ++count;
    }
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    copy_runs(reinterpret_cast<std::byte*>(out), reinterpret_cast<const std::byte*>(from + source),
              count, static_cast<size_t>(n * size), row_step * size, step * size);
    r += count;
  }
}

/// Rows [first, last) of all axes but the last. A row from the same source as the one before it, as
/// upsampling has them, is copied from that.
template <class T>
void copy_mapped(const T* x, T* y, const MappedSpace& space, T filling, int64_t first,
                 int64_t last) {
  const Dims &dims = space.dims, &strides = space.strides;
  const size_t inner = dims.size() - 1;
  const int64_t n = dims[inner], step = strides[inner];
  const AxisSources& columns = space.sources[inner];
  const bool whole = step == 1 && moves_whole(columns);
  // Rows that differ in the axis before the last only are walked in one loop.
  const bool flat = inner == 0;
  const int64_t block = flat ? 1 : dims[inner - 1], row_step = flat ? 0 : strides[inner - 1];
  for (int64_t row = first; row < last;) {
    int64_t from = 0, to = 0, rest = row / block;
    bool all_filled = false;
    for (size_t axis = flat ? 0 : inner - 1; axis-- > 0; rest /= dims[axis]) {
      size_t piece = 0;
      const int64_t at = rest % dims[axis], source = space.sources[axis].at(at, piece);
      all_filled |= source == AxisSources::kFill;
      from += source == AxisSources::kFill ? 0 : source;
      to += at * strides[axis];
    }
    const int64_t begin = row % block, end = std::min(block, begin + last - row);
    if (!flat && whole && !all_filled) {
      copy_whole_rows(x + from, y + to, row_step, space.sources[inner - 1], columns, filling, begin,
                      end);
      row += end - begin;
      continue;
    }
    if (space.picks && !all_filled) {
      space.picks->run(x + from, y + to + begin * row_step, row_step, begin, end);
      row += end - begin;
      continue;
    }
    int64_t before = AxisSources::kFill;
    const T* row_before = nullptr;
    size_t piece_of_row = 0;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t source = flat ? 0 : space.sources[inner - 1].at(r, piece_of_row);
      T* out = y + to + r * row_step;
      if (all_filled || source == AxisSources::kFill) {
        for (int64_t i = 0; i < n; ++i) out[i * step] = filling;
      } else if (source == before && step == 1) {
        std::memcpy(out, row_before, static_cast<size_t>(n) * sizeof(T));
      } else {
        for (const Piece& piece : columns.pieces())
          copy_piece(piece, columns, x + from + source, out, step, filling);
        before = source;
        row_before = out;
      }
    }
    row += end - begin;
  }
}

// ---- Pad ----------------------------------------------------------------------------------------

/// The sources of an axis of `kept` elements with so many more around it. `mode`: Pad's attribute.
AxisSources padded(const std::string& mode, int64_t kept, int64_t before, int64_t after,
                   int64_t first, int64_t stride) {
  AxisSources out;
  const auto run = [&](int64_t count, int64_t from, int64_t step) {
    out.add_strided(count, first + from * stride, step * stride);
  };
  if (mode == "constant") {
    out.add_filled(before);
    run(kept, 0, 1);
    out.add_filled(after);
    return out;
  }
  if (mode == "edge") {
    run(before, 0, 0);
    run(kept, 0, 1);
    run(after, kept - 1, 0);
    return out;
  }
  // To the end and on from the other side, or back without repeating the ends.
  const bool mirrored = mode == "reflect";
  const int64_t period = mirrored ? std::max<int64_t>(2 * (kept - 1), 1) : kept;
  const auto phase_of = [&](int64_t o) { return o - floor_div(o, period) * period; };
  constexpr int64_t kShort = 8;  // a piece costs as much as five elements of a table
  if (kept < kShort) {
    std::vector<int64_t> elements;
    for (int64_t o = -before; o < kept + after; ++o) {
      const int64_t phase = phase_of(o);
      elements.push_back(first + (phase < kept ? phase : period - phase) * stride);
    }
    return AxisSources(elements);
  }
  for (int64_t o = -before; o < kept + after;) {
    const int64_t phase = phase_of(o);
    const bool back = mirrored && phase >= kept;
    const int64_t turn = back ? period : kept;
    const int64_t count = std::min(turn - phase, kept + after - o);
    run(count, back ? period - phase : phase, back ? -1 : 1);
    o += count;
  }
  return out;
}

Sources pad_sources(const StepSpec& spec, const OperandViews& views, const ControlInputs& control) {
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
  Sources sources(rank);
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
    sources[axis] = padded(mode, kept, before, after, crop * x.strides[axis], x.strides[axis]);
  }
  return sources;
}

// ---- CenterCropPad ------------------------------------------------------------------------------

Sources centred_sources(const OperandViews& views) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  Sources sources(x.dims.size());
  for (size_t axis = 0; axis < sources.size(); ++axis) {
    const int64_t kept = std::min(x.dims[axis], y.dims[axis]);
    const int64_t before = (y.dims[axis] - kept) / 2, crop = (x.dims[axis] - kept) / 2;
    sources[axis] = padded("constant", kept, before, y.dims[axis] - kept - before,
                           crop * x.strides[axis], x.strides[axis]);
  }
  return sources;
}

// ---- Resize -------------------------------------------------------------------------------------

Sources nearest_sources(const StepSpec& spec, const OperandViews& views,
                        const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const auto samples = resize_axes(spec, views, control);
  Sources sources(x.dims.size());
  std::vector<int64_t> elements;
  for (size_t axis = 0; axis < sources.size(); ++axis) {
    if (samples[axis].empty()) {
      sources[axis].add_strided(y.dims[axis], 0, x.strides[axis]);
      continue;
    }
    elements.clear();
    for (const int64_t index : samples[axis].index) elements.push_back(index * x.strides[axis]);
    sources[axis] = AxisSources(elements);
  }
  return sources;
}

class MappedBound final : public BoundKernel {
 public:
  MappedBound(std::shared_ptr<const StepSpec> step, const BindContext& context)
      : spec_(std::move(step)),
        views_(*spec_, context),
        pad_(spec_->op->name == "Pad"),
        resize_(spec_->op->name == "Resize") {
    const StepSpec& spec = *spec_;
    // Pad's value (input 2) is read at each run anyway.
    dynamic_ =
        (pad_ && !(ControlInputs::constant(spec, 1, 2) && ControlInputs::constant(spec, 3))) ||
        (resize_ && resized_by_run(spec));
    const OperandView& y = views_.outputs[0];
    if (y.count() == 0) {
      tasks = 1;
    } else if (dynamic_) {
      tasks = 1;
      allocates = true;
    } else {
      space_ = make(ControlInputs(spec, views_));
      if (resize_ && element_size(y.dtype) == 4) space_.plan_picks();
      tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, rows_of(space_));
    }
    held_bytes += views_.bytes() + space_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OperandView& y = views_.outputs[0];
    if (y.count() == 0) return;
    const MappedSpace live =
        dynamic_ ? make(ControlInputs(*spec_, views_, args.buffers)) : MappedSpace{};
    const MappedSpace& space = dynamic_ ? live : space_;
    const int64_t rows = rows_of(space);
    with_element_bytes(element_size(y.dtype), [&](auto element) {
      using T = decltype(element);
      T filling{};
      if (pad_ && views_.inputs.size() > 2 && views_.inputs[2].present())
        filling = *static_cast<const T*>(args.buffers[2]);
      copy_mapped(static_cast<const T*>(args.buffers[0]),
                  static_cast<T*>(args.buffers[views_.inputs.size()]), space, filling,
                  rows * begin / tasks, rows * end / tasks);
    });
  }

 private:
  /// Axes in the order in which the result lies in memory; a scalar as an axis of one element.
  MappedSpace make(const ControlInputs& control) const {
    const OperandView& y = views_.outputs[0];
    Sources sources = pad_      ? pad_sources(*spec_, views_, control)
                      : resize_ ? nearest_sources(*spec_, views_, control)
                                : centred_sources(views_);
    if (y.dims.empty()) {
      sources.emplace_back().add_strided(1, 0, 1);
      return {{1}, {1}, std::move(sources), {}};
    }
    const std::vector<size_t> order = memory_order(y);
    MappedSpace space{permuted(y.dims, order),
                      permuted(y.strides, order),
                      permuted(std::move(sources), order),
                      {}};
    space.merge();
    return space;
  }
  static int64_t rows_of(const MappedSpace& space) {
    return element_count(space.dims) / space.dims.back();
  }

  std::shared_ptr<const StepSpec> spec_;
  OperandViews views_;
  bool pad_, resize_;  ///< else CenterCropPad
  bool dynamic_ = false;
  MappedSpace space_;  ///< unless dynamic
};

// ---- rows ---------------------------------------------------------------------------------------

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
  rows.push_back({"xc.mapped", "Pad", supports_pad, create_sharing_step<MappedBound>, any_order});
  rows.push_back(
      {"xc.mapped", "CenterCropPad", supports_pad, create_sharing_step<MappedBound>, any_order});
  rows.push_back(
      {"xc.mapped", "Resize", supports_nearest, create_sharing_step<MappedBound>, any_order});
}

}  // namespace xc::cpu
