// Ops that only move elements, as lists of strided copies: "xc.copy". They run when a value could
// not be a view: graph outputs, Concat, strides a reshape cannot follow.

#include <algorithm>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr uint32_t kScratch = UINT32_MAX;  ///< as a buffer: the scratch of the run
constexpr int64_t kTaskBytes = 256 << 10;
constexpr int64_t kShortRepeat = 512;  ///< bytes of runs that a Tile repeats: longer cost little
/// What parts that take turns write in one, all together: little against a first-level cache.
constexpr int64_t kTurnBytes = 8 << 10;

struct Piece {
  uint32_t from = 0, to = 0;       ///< indices in StepArgs::buffers
  int64_t from_at = 0, to_at = 0;  ///< bytes
  CopyPlan plan;
  /// The plan is run for so many blocks, so many bytes apart; then these are the units.
  int64_t blocks = 1, from_step = 0, to_step = 0;

  int64_t units() const { return blocks == 1 ? plan.units() : blocks; }
  int64_t bytes() const { return blocks * plan.bytes(); }
  void run(const std::byte* source, std::byte* target, int64_t begin, int64_t end) const {
    if (blocks == 1) return plan.run(source, target, begin, end);
    for (int64_t block = begin; block < end; ++block)
      plan.run(source + block * from_step, target + block * to_step);
  }
};

/// What a rule sees.
struct Case {
  const StepSpec& spec;
  const OperandViews& views;
  const ControlInputs& control;
  std::vector<Piece>& pieces;
  int64_t& scratch;

  const OperandView& in(size_t i = 0) const { return views.inputs[i]; }
  const OperandView& out(size_t i = 0) const { return views.outputs[i]; }
  size_t axis(int64_t otherwise) const {
    return normalise_axis(spec.attrs().get_int("axis", otherwise), in().dims.size());
  }
  /// Copies a region: dims, strides and first elements (in elements) on both sides.
  void copy(size_t input, size_t output, std::span<const int64_t> dims,
            std::span<const int64_t> from_strides, int64_t from_at,
            std::span<const int64_t> to_strides, int64_t to_at) const {
    const int64_t bytes = element_size(in(input).dtype);
    if (element_count(dims) == 0) return;
    pieces.push_back({static_cast<uint32_t>(input),
                      static_cast<uint32_t>(views.inputs.size() + output), from_at * bytes,
                      to_at * bytes, CopyPlan(dims, from_strides, to_strides, bytes)});
  }
};
using Rule = void (*)(const Case&);

void same(const Case& c) {
  c.copy(0, 0, c.out().dims, c.in().strides, 0, c.out().strides, 0);
}

/// The row-major order of elements stays, dims change.
void reshape(const Case& c) {
  const OperandView &x = c.in(), &y = c.out();
  if (is_contiguous(x.dims, x.strides))
    return c.copy(0, 0, y.dims, contiguous_strides(copied(y.dims)), 0, y.strides, 0);
  if (is_contiguous(y.dims, y.strides))
    return c.copy(0, 0, x.dims, x.strides, 0, contiguous_strides(copied(x.dims)), 0);
  // Through a row-major copy.
  const int64_t bytes = element_size(x.dtype);
  c.copy(0, 0, x.dims, x.strides, 0, contiguous_strides(copied(x.dims)), 0);
  if (c.pieces.empty()) return;
  c.pieces.back().to = kScratch;
  c.scratch = checked_mul(x.count(), bytes);
  c.copy(0, 0, y.dims, contiguous_strides(copied(y.dims)), 0, y.strides, 0);
  c.pieces.back().from = kScratch;
}

void transpose(const Case& c) {
  const size_t rank = c.in().dims.size();
  Dims strides(rank);
  const auto perm = c.spec.attrs().get_ints("perm");
  for (size_t i = 0; i < rank; ++i)
    strides[i] = c.in().strides[perm.empty() ? rank - 1 - i : normalise_axis(perm[i], rank)];
  c.copy(0, 0, c.out().dims, strides, 0, c.out().strides, 0);
}

void expand(const Case& c) {
  c.copy(0, 0, c.out().dims, strides_over(c.out().dims, c.in().dims, c.in().strides), 0,
         c.out().strides, 0);
}

void concat(const Case& c) {
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", 0), c.out().dims.size());
  int64_t start = 0;
  for (size_t i = 0; i < c.views.inputs.size(); ++i) {
    const OperandView& x = c.in(i);
    for (size_t k = 0; k < x.dims.size(); ++k)
      if (k == axis ? start + x.dims[k] > c.out().dims[k] : x.dims[k] != c.out().dims[k])
        fail(Status::kRange, "dims {} do not fit into {}", to_text(copied(x.dims)),
             to_text(copied(c.out().dims)));
    c.copy(i, 0, x.dims, x.strides, 0, c.out().strides, start * c.out().strides[axis]);
    start += x.dims[axis];
  }
}

void split(const Case& c) {
  const size_t axis = c.axis(0);
  int64_t start = 0;
  for (size_t i = 0; i < c.views.outputs.size(); ++i) {
    const OperandView& y = c.out(i);
    if (!y.present()) {
      // Its size is not told; the sizes are the second input or equal parts.
      fail(Status::kUnsupported, "unsupported: Split with an output nobody wants");
    }
    if (start + y.dims[axis] > c.in().dims[axis])
      fail(Status::kRange, "the parts of a split are larger than the axis");
    c.copy(0, i, y.dims, c.in().strides, start * c.in().strides[axis], y.strides, 0);
    start += y.dims[axis];
  }
}

void slice(const Case& c) {
  const OperandView &x = c.in(), &y = c.out();
  const std::vector<int64_t> starts = c.control.ints(1);
  std::vector<int64_t> axes, steps;
  if (c.control.has(3)) axes = c.control.ints(3);
  if (c.control.has(4)) steps = c.control.ints(4);
  Dims strides = copied(x.strides);
  int64_t at = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis =
        normalise_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], x.dims.size());
    // Beyond any size; products below cannot overflow.
    const int64_t step = steps.empty() ? 1 : std::clamp<int64_t>(steps[i], -(1 << 30), 1 << 30);
    const int64_t size = x.dims[axis];
    const int64_t count = y.dims[axis];
    if (count == 0) return;
    if (size == 0) fail(Status::kRange, "a slice of an empty axis {}", axis);
    const int64_t start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + size : starts[i], 0,
                                              step > 0 ? size : size - 1);
    if (step == 0 || start < 0 || start >= size || start + (count - 1) * step < 0 ||
        start + (count - 1) * step >= size)
      fail(Status::kRange, "the slice of axis {} is outside [0, {})", axis, size);
    at += start * x.strides[axis];
    strides[axis] = x.strides[axis] * (count == 1 ? 1 : step);
  }
  for (size_t i = 0; i < y.dims.size(); ++i)
    if (y.dims[i] > x.dims[i]) fail(Status::kRange, "the slice changed its size");
  c.copy(0, 0, y.dims, strides, at, y.strides, 0);
}

/// Axes of a Tile from `first` on: each as its repeats and its elements.
void add_repeats(const Case& c, size_t first, Dims& dims, Dims& from, Dims& to) {
  const OperandView &x = c.in(), &y = c.out();
  for (size_t i = first; i < x.dims.size(); ++i) {
    dims.insert(dims.end(), {y.dims[i] / x.dims[i], x.dims[i]});
    from.insert(from.end(), {0, x.strides[i]});
    to.insert(to.end(), {y.strides[i] * x.dims[i], y.strides[i]});
  }
}

/// Of dense operands two axes of which are repeated, the inner one in short runs: blocks of the
/// outer axis are made once, then repeated as a whole. False where it is not that.
bool tile_blocks(const Case& c) {
  const OperandView &x = c.in(), &y = c.out();
  const size_t rank = x.dims.size();
  const auto repeated = [&](size_t axis) { return y.dims[axis] != x.dims[axis]; };
  size_t outer = 0, inner = rank;
  while (outer < rank && !repeated(outer)) ++outer;
  while (inner > outer && !repeated(inner - 1)) --inner;
  if (inner < outer + 2 || !is_contiguous(x.dims, x.strides) || !is_contiguous(y.dims, y.strides))
    return false;
  const int64_t size = element_size(x.dtype), block = x.dims[outer] * y.strides[outer];
  const int64_t blocks = element_count(x.dims.first(outer));
  // What repeats a block waits for it: with several, tasks are of whole ones (plan_turns()).
  if (blocks == 1 || x.dims[inner - 1] * x.strides[inner - 1] * size >= kShortRepeat) return false;
  Dims dims{x.dims[outer]}, from{x.strides[outer]}, to{y.strides[outer]};
  add_repeats(c, outer + 1, dims, from, to);
  c.copy(0, 0, dims, from, 0, to, 0);
  Piece& made = c.pieces.back();
  made.blocks = blocks;
  made.from_step = x.dims[outer] * x.strides[outer] * size;
  made.to_step = y.dims[outer] * y.strides[outer] * size;
  const int64_t times = y.dims[outer] / x.dims[outer] - 1;
  const Dims again{times, block}, same_block{0, 1}, next{block, 1};
  Piece more{made.to, made.to, 0, block * size, CopyPlan(again, same_block, next, size)};
  more.blocks = blocks;
  more.from_step = more.to_step = made.to_step;
  c.pieces.push_back(std::move(more));
  return true;
}

void tile(const Case& c) {
  if (c.out().count() == 0 || tile_blocks(c)) return;
  Dims dims, from, to;
  add_repeats(c, 0, dims, from, to);
  c.copy(0, 0, dims, from, 0, to, 0);
}

/// Depth [n, d, h, w] and space [n, c, h b + i, w b + j] as one copy over [n, c, h, i, w, j].
void depth_space(const Case& c, bool to_depth) {
  const OperandView& depth = to_depth ? c.out() : c.in();
  const OperandView& space = to_depth ? c.in() : c.out();
  const int64_t b = c.spec.attrs().get_int("blocksize", 1), channels = space.dims[1];
  if (depth.dims[1] != channels * b * b || space.dims[2] != depth.dims[2] * b ||
      space.dims[3] != depth.dims[3] * b)
    fail(Status::kRange, "dims are no multiple of the block size");
  const bool crd = c.spec.attrs().get_string("mode", "DCR") == "CRD";
  const Dims dims{depth.dims[0], channels, depth.dims[2], b, depth.dims[3], b};
  const int64_t d = depth.strides[1];
  const Dims of_depth{depth.strides[0], crd ? d * b * b : d,
                      depth.strides[2], crd ? d * b : d * channels * b,
                      depth.strides[3], crd ? d : d * channels};
  const Dims of_space{space.strides[0], space.strides[1],     space.strides[2] * b,
                      space.strides[2], space.strides[3] * b, space.strides[3]};
  c.copy(0, 0, dims, to_depth ? of_space : of_depth, 0, to_depth ? of_depth : of_space, 0);
}
void depth_to_space(const Case& c) {
  depth_space(c, false);
}
void space_to_depth(const Case& c) {
  depth_space(c, true);
}

struct Row {
  std::string_view op;
  Rule rule;
  bool control = false;  ///< inputs after the first steer it
};
constexpr Row kRows[] = {
    {"Identity", same},
    {"Dropout", same},
    {"Reshape", reshape},
    {"Flatten", reshape},
    {"Squeeze", reshape},
    {"Unsqueeze", reshape},
    {"Transpose", transpose},
    {"Expand", expand},
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice, true},
    {"Tile", tile},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
};

const Row& row_of(const OpDef& op) {
  for (const Row& row : kRows)
    if (row.op == op.name) return row;
  fail(Status::kInternal, "xc.copy has no rule for {}", op.name);
}

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (const std::string reason = movable_reason(spec.inputs[0].dtype); !reason.empty())
    return Verdict::no(reason);
  if (spec.op->name == "Dropout" && spec.outputs.size() > 1 && spec.outputs[1].present())
    return Verdict::no("the mask is wanted");
  if (spec.op->name == "Dropout" && spec.inputs.size() > 2 && spec.inputs[2].present() &&
      !(spec.inputs[2].constant && spec.inputs[2].constant.to_int64s()[0] == 0))
    return Verdict::no("training mode");
  if (spec.op->name == "Split")
    for (const Operand& output : spec.outputs)
      if (!output.present()) return Verdict::no("an output is not wanted");
  return Verdict::ok();
}

class CopyBound final : public BoundKernel {
 public:
  CopyBound(std::shared_ptr<const StepSpec> spec, const BindContext& context)
      : spec_(std::move(spec)), views_(*spec_, context), rule_(row_of(*spec_->op).rule) {
    dynamic_ = row_of(*spec_->op).control && !ControlInputs::constant(*spec_, 1);
    allocates = dynamic_;
    if (!dynamic_) {
      rule_({*spec_, views_, ControlInputs(*spec_, views_), pieces_, scratch_bytes});
      int64_t bytes = 0;
      for (const Piece& piece : pieces_) {
        bytes += piece.bytes();
        units_ += piece.units();
        held_bytes += 256;
      }
      plan_turns(bytes);
      if (scratch_bytes == 0)
        tasks = std::clamp<int64_t>(bytes / kTaskBytes, 1, std::max<int64_t>(1, units_));
    }
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (!dynamic_) {
      const int64_t first = units_ * begin / tasks, last = units_ * end / tasks;
      if (turn_ == 0) return run_pieces(pieces_, args, first, last);
      for (int64_t at = first; at < last; at += turn_)
        for (const Piece& piece : pieces_) run_piece(piece, args, at, std::min(at + turn_, last));
      return;
    }
    std::vector<Piece> pieces;
    int64_t scratch = 0;
    rule_({*spec_, views_, ControlInputs(*spec_, views_, args.buffers), pieces, scratch});
    run_pieces(pieces, args, 0, INT64_MAX);
  }

 private:
  /// Parts that are cut alike (those of a Concat along an inner axis) take turns: the destination
  /// is then written from front to back, not once per part with gaps between.
  void plan_turns(int64_t bytes) {
    if (pieces_.size() < 2 || scratch_bytes != 0) return;
    const int64_t units = pieces_.front().units();
    if (units < 2 || std::any_of(
                         pieces_.begin(), pieces_.end(),
                         [&](const Piece& piece) { return piece.units() != units; }))
      return;
    units_ = units;
    turn_ = std::clamp<int64_t>(kTurnBytes / std::max<int64_t>(1, bytes / units), 1, units);
  }

  static void run_pieces(const std::vector<Piece>& pieces, const StepArgs& args, int64_t begin,
                         int64_t end) {
    int64_t first = 0;
    for (const Piece& piece : pieces) {
      const int64_t units = piece.units();
      const int64_t low = std::max<int64_t>(begin - first, 0), high = std::min(end - first, units);
      if (low < high) run_piece(piece, args, low, high);
      first += units;
    }
  }
  static void run_piece(const Piece& piece, const StepArgs& args, int64_t begin, int64_t end) {
    const auto at = [&](uint32_t buffer, int64_t offset) {
      return static_cast<std::byte*>(buffer == kScratch ? args.scratch : args.buffers[buffer]) +
             offset;
    };
    const std::byte* const from = at(piece.from, piece.from_at);
    std::byte* const to = at(piece.to, piece.to_at);
    // A part of a Concat may have been made where it belongs.
    if (from != to) piece.run(from, to, begin, end);
  }

  std::shared_ptr<const StepSpec> spec_;
  OperandViews views_;
  Rule rule_;
  bool dynamic_ = false;
  std::vector<Piece> pieces_;
  int64_t units_ = 0;
  int64_t turn_ = 0;  ///< units of every piece at a time; 0: one piece after the other
};

}  // namespace

void add_copy_ops(Rows& rows) {
  for (const Row& row : kRows)
    rows.push_back({"xc.copy", row.op, supports, create_sharing_step<CopyBound>,
                    row.rule == reshape || row.rule == transpose ? nullptr : any_order});
}

}  // namespace xc::cpu
