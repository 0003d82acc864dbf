// NonMaxSuppression: per image and class, the best-scored boxes that overlap no better one. How
// many there are only the run can tell.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/checks.h"
#include "ops/dense.h"

namespace xc {

namespace {

// Inputs: boxes [B, S, 4], scores [B, C, S], max_output_boxes_per_class, iou_threshold,
// score_threshold (one element each).
constexpr size_t kBoxes = 0, kScores = 1, kMost = 2, kIou = 3, kScore = 4;

struct Problem {
  Dims box_dims, score_dims;
  Tensor boxes, scores;  ///< row-major
  int64_t most = 0;
  double iou_threshold = 0;
  std::optional<double> score_threshold;
  bool centred = false;  ///< boxes are (x, y, width, height), not two corners (y, x, y, x)
};

struct Box {
  double y0, x0, y1, x1;
  double area = (y1 - y0) * (x1 - x0);
};

/// A score and the index of its box, in the order of the scores; of equal ones the lower index is
/// the greater. One integer, so that comparing two takes no branch.
uint64_t candidate(float score, int64_t index) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0
  const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{order} << 32 | ~static_cast<uint32_t>(index);
}
int64_t index_of(uint64_t candidate) {
  return ~static_cast<uint32_t>(candidate);
}

Box box_of(const Problem& p, int64_t batch, int64_t i) {
  const float* from = p.boxes.as<float>() + (batch * p.box_dims[1] + i) * 4;
  const double b[4] = {from[0], from[1], from[2], from[3]};
  if (p.centred) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

bool overlap(const Box& a, const Box& b, double threshold) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (!(height > 0) || !(width > 0) || !(a.area > 0) || !(b.area > 0)) return false;
  const double common = height * width;
  return common / (a.area + b.area - common) > threshold;
}

/// Boxes, and their corners in f32, one after the other, so that several are compared at a time.
class BoxList {
 public:
  void add(const Box& box) {
    const size_t at = boxes_.size() % kGroup;
    boxes_.push_back(box);
    if (at == 0) groups_.emplace_back();
    Corners& group = groups_.back();
    group.y0[at] = static_cast<float>(box.y0);
    group.x0[at] = static_cast<float>(box.x0);
    group.y1[at] = static_cast<float>(box.y1);
    group.x1[at] = static_cast<float>(box.x1);
  }
  size_t size() const { return boxes_.size(); }
  void clear() {
    boxes_.clear();
    groups_.clear();
  }
  bool any_overlaps(const Box& box, double threshold) const {
    const auto y0 = static_cast<float>(box.y0), x0 = static_cast<float>(box.x0),
               y1 = static_cast<float>(box.y1), x1 = static_cast<float>(box.x1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      // Rounded corners stay in order, but different ones may have become the same.
      const Corners& group = groups_[g];
      const auto near = (y0 <= group.y1) & (group.y0 <= y1) & (x0 <= group.x1) & (group.x0 <= x1);
      const auto halves = reinterpret_cast<Halves>(near);
      if ((halves[0] | halves[1]) == 0) continue;  // most are apart
      for (size_t i = 0, at = g * kGroup; i < kGroup && at < boxes_.size(); ++i, ++at)
        if (near[i] && overlap(box, boxes_[at], threshold)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kGroup = 4;  ///< a register of every instruction set
  using Lanes = float __attribute__((vector_size(kGroup * sizeof(float))));
  using Halves = int64_t __attribute__((vector_size(sizeof(Lanes))));
  struct Corners {
    Lanes y0{}, x0{}, y1{}, x1{};
  };
  std::vector<Box> boxes_;
  std::vector<Corners> groups_;
};

/// Where boxes lie along one axis, in strips wider than the widest of them: a box overlaps those of
/// its own strip and the two beside it at most. Detectors that suppress each class for itself move
/// the classes apart: then nearly all boxes are out of reach.
struct Strips {
  bool across = false;  ///< along x, else along y
  double low = 0, width = 0;
  size_t count = 1;

  size_t of(const Box& box) const {
    if (count == 1) return 0;
    const double at = ((across ? box.x0 : box.y0) - low) / width;
    const auto last = static_cast<double>(count - 1);
    return at > 0 ? static_cast<size_t>(std::min(at, last)) : 0;  // 0 for NaN too
  }
};

template <class Boxes>
Strips strips_of(int64_t boxes, const Boxes& box_at) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kMargin = 1 + 1e-9;  // of the division that finds a strip
  struct Extent {
    double low = kInfinity, high = -kInfinity, width = 0;
    void add(double begin, double end) {
      low = std::min(low, begin);
      high = std::max(high, begin);
      width = std::max(width, end - begin);
    }
  };
  Extent down, across;
  for (int64_t i = 0; i < boxes; ++i) {
    const Box box = box_at(i);
    down.add(box.y0, box.y1);
    across.add(box.x0, box.x1);
  }
  Strips best;
  for (const Extent* extent : {&down, &across}) {
    const double width = extent->width * kMargin;
    const double count = (extent->high - extent->low) / width + 1;
    if (!std::isfinite(extent->low) || !std::isfinite(width) || !(count < kInfinity)) continue;
    const auto strips = static_cast<size_t>(std::min(count, static_cast<double>(boxes)));
    // The last of fewer strips than there could be reaches as far as need be.
    if (strips > best.count) best = {extent == &across, extent->low, width, strips};
  }
  return best;
}

/// The boxes of a class that were kept so far, strip by strip.
class Kept {
 public:
  explicit Kept(const Strips& strips) : strips_(strips), lists_(strips.count) {}
  void add(const Box& box) { lists_[strips_.of(box)].add(box); }
  void clear() {
    for (BoxList& list : lists_) list.clear();
  }
  /// Adds to `compared` how many boxes it may have looked at.
  bool any_overlaps(const Box& box, double threshold, size_t& compared) const {
    const size_t at = strips_.of(box), end = std::min(at + 2, lists_.size());
    return std::any_of(lists_.begin() + static_cast<std::ptrdiff_t>(at > 0 ? at - 1 : 0),
                       lists_.begin() + static_cast<std::ptrdiff_t>(end), [&](const BoxList& list) {
                         compared += list.size();
                         return list.any_overlaps(box, threshold);
                       });
  }

 private:
  Strips strips_;
  std::vector<BoxList> lists_;
};

/// The boxes of a class that may be selected, as a heap of their scores: most are never asked for.
void find_candidates(const Problem& p, const float* scores, std::vector<uint64_t>& order) {
  const double threshold = p.score_threshold.value_or(-std::numeric_limits<double>::infinity());
  const bool any = !p.score_threshold;  // -infinity too; NaN never
  order.resize(static_cast<size_t>(p.box_dims[1]));
  size_t taken = 0;
  for (int64_t i = 0; i < p.box_dims[1]; ++i) {
    order[taken] = candidate(scores[i], i);
    taken += static_cast<size_t>((scores[i] > threshold) | (any & (scores[i] == scores[i])));
  }
  order.resize(taken);
  std::make_heap(order.begin(), order.end());
}

/// Rows of (batch, class, box), best first within a class.
std::vector<std::array<int64_t, 3>> select(const Problem& p) {
  constexpr size_t kFindingStrips = 16;  // takes, of a box, as long as so many comparisons
  std::vector<std::array<int64_t, 3>> out;
  std::vector<uint64_t> order;
  const int64_t count = p.box_dims[1];
  for (int64_t batch = 0; batch < p.score_dims[0]; ++batch) {
    // One strip until that has cost as much as finding strips for the boxes of all classes.
    Kept kept{Strips{}};
    size_t compared = 0;
    bool in_strips = false;
    for (int64_t c = 0; c < p.score_dims[1]; ++c) {
      find_candidates(p, p.scores.as<float>() + (batch * p.score_dims[1] + c) * count, order);
      const size_t first = out.size();
      kept.clear();
      while (!order.empty() && static_cast<int64_t>(out.size() - first) < p.most) {
        if (!in_strips && compared > kFindingStrips * static_cast<size_t>(count)) {
          in_strips = true;
          kept = Kept(strips_of(count, [&](int64_t i) { return box_of(p, batch, i); }));
          for (size_t k = first; k < out.size(); ++k) kept.add(box_of(p, batch, out[k][2]));
        }
        const int64_t i = index_of(order.front());
        std::pop_heap(order.begin(), order.end());
        order.pop_back();
        const Box box = box_of(p, batch, i);
        if (kept.any_overlaps(box, p.iou_threshold, compared)) continue;
        kept.add(box);
        out.push_back({batch, c, i});
      }
    }
  }
  return out;
}

/// Of a view that is row-major the same memory, which the caller keeps.
Tensor row_major(const TensorView& view) {
  if (view.contiguous())
    return Tensor(Buffer::wrap(view.data, view.count() * element_size(view.dtype), {}), 0,
                  view.dtype, dims_of(view));
  Tensor out(view.dtype, dims_of(view));
  copy_row_major(view, out.view());
  return out;
}

Problem problem_of(const Node& node, const std::vector<TensorView>& inputs) {
  const auto has = [&](size_t i) { return i < inputs.size() && inputs[i]; };
  Problem p;
  p.box_dims = dims_of(inputs[kBoxes]);
  p.score_dims = dims_of(inputs[kScores]);
  p.boxes = row_major(inputs[kBoxes]);
  p.scores = row_major(inputs[kScores]);
  if (has(kMost)) p.most = scalar_int(inputs[kMost]);
  if (has(kIou)) p.iou_threshold = scalar_value(inputs[kIou]);
  if (!(p.iou_threshold >= 0 && p.iou_threshold <= 1))
    fail(Status::kRange, "iou_threshold is {}, expected 0 to 1", p.iou_threshold);
  if (has(kScore)) p.score_threshold = scalar_value(inputs[kScore]);
  p.centred = node.attrs.get_int("center_point_box", 0) != 0;
  return p;
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kBoxes, type_set({DType::kF32}));
  check_dtype(ctx, kScores, type_set({DType::kF32}));
  check_dtype(ctx, kMost, type_set({DType::kI64}));
  check_dtype(ctx, kIou, type_set({DType::kF32}));
  check_dtype(ctx, kScore, type_set({DType::kF32}));
  require_rank(ctx, kBoxes, 3);
  require_rank(ctx, kScores, 3);
  const SymDims &boxes = ctx.dims(kBoxes), &scores = ctx.dims(kScores);
  require_dims(ctx, kBoxes, {scores[0], scores[2], 4});
  for (size_t i : {kMost, kIou, kScore})
    if (ctx.has(i)) require_scalar(ctx, i);
  bool known = true;
  std::vector<TensorView> views;
  for (const auto& input : ctx.inputs) {
    known = known && (!input.type || (input.value && *input.value));
    views.push_back(input.value && *input.value ? input.value->view() : TensorView{});
  }
  const Dim count = known && !boxes.empty()
                        ? Dim(static_cast<int64_t>(select(problem_of(*ctx.node, views)).size()))
                        : ctx.fresh("selected");
  ctx.set(0, DType::kI64, {count, 3});
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  std::vector<int64_t> out;
  for (const auto& row : select(problem_of(*ctx.node, ctx.inputs)))
    out.insert(out.end(), row.begin(), row.end());
  write_ints(ctx.outputs[0], out);
}

std::vector<Tensor> make(const Node& node, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t ? t.view() : TensorView{});
  const auto rows = select(problem_of(node, views));
  Tensor out(DType::kI64, {static_cast<int64_t>(rows.size()), 3});
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].begin(), rows[i].end(), out.as<int64_t>() + 3 * i);
  return {out};
}

}  // namespace

void register_non_max_suppression(OpList& ops) {
  OpDef op;
  op.name = "NonMaxSuppression";
  op.min_inputs = 2;
  op.max_inputs = 5;
  op.attrs = {{"center_point_box", AttrKind::kInt, false, 0, 1}};
  op.infer = infer;
  op.reference = reference;
  op.make = make;
  op.weight = 64;
  op.tolerance = Tolerance::kExact;
  ops.push_back(std::move(op));
}

}  // namespace xc
