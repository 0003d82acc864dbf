// Gather, GatherElements, GatherND: "xc.gather". Indices are checked; a wrong one fails with
// kRange.

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskBytes = 256 << 10;
/// Picks whose offsets are worked out at a time: they stay in the cache.
constexpr int64_t kPicksAtATime = 4096;

struct IndexReader {
  const void* data;
  bool wide;
  int64_t operator[](int64_t at) const {
    return wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
  }
};

/// checked_index() without a call where nothing is wrong.
inline int64_t checked(int64_t index, int64_t extent) {
  const int64_t from_start = index < 0 ? index + extent : index;
  if (static_cast<uint64_t>(from_start) >= static_cast<uint64_t>(extent))
    return checked_index(index, extent);
  return from_start;
}

/// memcpy without a call for the sizes of a number or two.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

/// y[outer, pick, inner] = x[outer, indices[pick], inner]
class GatherBound final : public BoundKernel {
 public:
  GatherBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    axis_ = normalise_axis(spec.attrs().get_int("axis", 0), x.dims.size());
    picks_rank_ = indices.dims.size();
    bytes_ = element_size(x.dtype);
    outer_ = product(x.dims, 0, axis_);
    picks_ = y.count() == 0 ? 0 : indices.count();  // indices that pick nothing are not looked at
    const auto inner_x = std::span(x.dims).subspan(axis_ + 1);
    const size_t inner_y = axis_ + picks_rank_;
    inner_ = CopyPlan(inner_x, std::span(x.strides).subspan(axis_ + 1),
                      std::span(y.strides).subspan(inner_y), bytes_);
    inner_count_ = element_count(inner_x);
    dense_ = is_contiguous(inner_x, std::span(x.strides).subspan(axis_ + 1)) &&
             is_contiguous(inner_x, std::span(y.strides).subspan(inner_y));
    in_turn_ = dense_ && is_contiguous(indices.dims, indices.strides) &&
               is_contiguous(std::span(y.dims).subspan(axis_), std::span(y.strides).subspan(axis_));
    const int64_t moved =
        checked_mul(checked_mul(outer_, picks_), std::max<int64_t>(inner_.bytes(), bytes_));
    tasks = std::clamp<int64_t>(moved / kTaskBytes, 1, std::max<int64_t>(1, outer_ * picks_));
    held_bytes += views_.bytes();
    if (dense_ && (inner_count_ > 1 || outer_ == 1)) any_address = 1;  // copied as bytes
    if (inner_count_ == 1 && outer_ > 1) {
      // Picks are split first: each task works out the offsets of its own.
      pick_parts_ = std::clamp<int64_t>(picks_ / kPicksAtATime, 1, tasks);
      tasks = pick_parts_ * std::clamp<int64_t>(tasks / pick_parts_, 1, outer_);
      scratch_bytes = std::min(picks_, kPicksAtATime) * 2 * 8;
    }
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    const auto* from = static_cast<const std::byte*>(args.buffers[0]);
    const IndexReader index{args.buffers[1], indices.dtype == DType::kI64};
    auto* to = static_cast<std::byte*>(args.buffers[2]);
    const std::span<const int64_t> xs = x.strides, ys = y.strides, xd = x.dims, yd = y.dims;
    const int64_t total = outer_ * picks_;
    if (inner_count_ == 1 && outer_ > 1) {
      for (int64_t task = begin; task < end; ++task) pick_elements(args, index, task);
      return;
    }
    if (in_turn_) return pick_rows(args, index, total * begin / tasks, total * end / tasks);
    for (int64_t i = total * begin / tasks; i < total * end / tasks; ++i) {
      const int64_t outer = i / picks_, pick = i % picks_;
      const int64_t row =
          checked_index(index[offset_at(pick, indices.dims, indices.strides)], xd[axis_]);
      const int64_t at_x = offset_at(outer, xd.first(axis_), xs.first(axis_)) + row * xs[axis_];
      const int64_t at_y =
          offset_at(outer, yd.first(axis_), ys.first(axis_)) +
          offset_at(pick, yd.subspan(axis_, picks_rank_), ys.subspan(axis_, picks_rank_));
      if (dense_)
        std::memcpy(to + at_y * bytes_, from + at_x * bytes_,
                    static_cast<size_t>(inner_count_ * bytes_));
      else
        inner_.run(from + at_x * bytes_, to + at_y * bytes_);
    }
  }

 private:
  /// body(elements to the outer position in x, in y, first pick, last pick) for each outer position
  /// of picks [begin, end).
  template <class Body>
  void for_each_outer(int64_t begin, int64_t end, const Body& body) const {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const std::span<const int64_t> xs = x.strides, ys = y.strides, xd = x.dims, yd = y.dims;
    for (int64_t i = begin; i < end;) {
      const int64_t outer = i / picks_, first = outer * picks_;
      const int64_t last = std::min(end, first + picks_);
      body(offset_at(outer, xd.first(axis_), xs.first(axis_)),
           offset_at(outer, yd.first(axis_), ys.first(axis_)), i - first, last - first);
      i = last;
    }
  }

  /// Indices and what they pick lie one after the other.
  void pick_rows(const StepArgs& args, const IndexReader& index, int64_t begin, int64_t end) const {
    const OperandView& x = views_.inputs[0];
    const int64_t bytes = inner_count_ * bytes_, step = x.strides[axis_] * bytes_,
                  extent = x.dims[axis_];
    for_each_outer(begin, end, [&](int64_t x_at, int64_t y_at, int64_t first, int64_t last) {
      const auto* from = static_cast<const std::byte*>(args.buffers[0]) + x_at * bytes_;
      auto* to = static_cast<std::byte*>(args.buffers[2]) + y_at * bytes_;
      for (int64_t pick = first; pick < last; ++pick)
        copy_bytes(to + pick * bytes, from + checked(index[pick], extent) * step,
                   static_cast<size_t>(bytes));
    });
  }

  /// Nothing behind the axis: of each pick offsets are worked out once for a task's outer
  /// positions.
  void pick_elements(const StepArgs& args, const IndexReader& index, int64_t task) const {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    const std::span<const int64_t> xs = x.strides, ys = y.strides, xd = x.dims, yd = y.dims;
    const int64_t outer_parts = tasks / pick_parts_, part = task % pick_parts_,
                  outer_part = task / pick_parts_;
    const int64_t last_pick = picks_ * (part + 1) / pick_parts_;
    const int64_t last_outer = outer_ * (outer_part + 1) / outer_parts;
    auto* const from_at = static_cast<int64_t*>(args.scratch);
    int64_t* const to_at = from_at + std::min(picks_, kPicksAtATime);
    for (int64_t first = picks_ * part / pick_parts_, count = 0; first < last_pick;
         first += count) {
      count = std::min(kPicksAtATime, last_pick - first);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = offset_at(first + i, indices.dims, indices.strides);
        from_at[i] = checked(index[at], xd[axis_]) * xs[axis_];
        to_at[i] =
            offset_at(first + i, yd.subspan(axis_, picks_rank_), ys.subspan(axis_, picks_rank_));
      }
      with_element_bytes(bytes_, [&](auto element) {
        using T = decltype(element);
        for (int64_t o = outer_ * outer_part / outer_parts; o < last_outer; ++o) {
          const T* from = static_cast<const T*>(args.buffers[0]) +
                          offset_at(o, xd.first(axis_), xs.first(axis_));
          T* to = static_cast<T*>(args.buffers[2]) + offset_at(o, yd.first(axis_), ys.first(axis_));
          for (int64_t i = 0; i < count; ++i) to[to_at[i]] = from[from_at[i]];
        }
      });
    }
  }

  OperandViews views_;
  size_t axis_ = 0, picks_rank_ = 0;
  int64_t bytes_ = 1, outer_ = 1, picks_ = 1, inner_count_ = 1;
  int64_t pick_parts_ = 1;  ///< of tasks, where there is nothing behind the axis
  bool dense_ = false, in_turn_ = false;
  CopyPlan inner_;
};

class GatherElementsBound final : public BoundKernel {
 public:
  GatherElementsBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1];
    axis_ = normalise_axis(spec.attrs().get_int("axis", 0), x.dims.size());
    for (size_t i = 0; i < x.dims.size(); ++i)
      if (i != axis_ && indices.dims[i] > x.dims[i])
        fail(Status::kRange, "axis {} of the indices has {}, of the data {}", i, indices.dims[i],
             x.dims[i]);
    moved_ = copied(x.strides);
    moved_[axis_] = 0;
    held_bytes += views_.bytes();
  }
  void run(const StepArgs& args, int64_t, int64_t) const override {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    const IndexReader index{args.buffers[1], indices.dtype == DType::kI64};
    const int64_t step = x.strides[axis_], extent = x.dims[axis_];
    with_element_bytes(element_size(x.dtype), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(args.buffers[0]);
      T* to = static_cast<T*>(args.buffers[2]);
      const auto* const wide = static_cast<const int64_t*>(args.buffers[1]);
      if (y.dims.empty()) {
        *to = from[checked(index[0], extent) * step];
        return;
      }
      const size_t last = y.dims.size() - 1;
      const int64_t n = y.dims[last], from_step = moved_[last], to_step = y.strides[last],
                    index_step = indices.strides[last];
      const bool adjacent = index.wide && index_step == 1 && to_step == 1;  // the usual case
      const auto outer = [&](std::span<const int64_t> values) { return values.first(last); };
      for_each_offset<3>(
          outer(y.dims), {outer(moved_), outer(indices.strides), outer(y.strides)},
          [&](const auto& at) {
            const T* row = from + at[0];
            T* out = to + at[2];
            if (adjacent) return pick(row, from_step, wide + at[1], step, extent, out, n);
            for (int64_t j = 0; j < n; ++j)
              out[j * to_step] =
                  row[j * from_step + checked(index[at[1] + j * index_step], extent) * step];
          });
    });
  }

 private:
  /// Of a line: apart, for registers.
  template <class T>
  static void pick(const T* row, int64_t from_step, const int64_t* index, int64_t step,
                   int64_t extent, T* out, int64_t n) {
    for (int64_t j = 0; j < n; ++j, row += from_step)
      out[j] = row[checked(index[j], extent) * step];
  }

  OperandViews views_;
  size_t axis_ = 0;
  Dims moved_;  ///< strides of the data, 0 along the axis
};

class GatherNdBound final : public BoundKernel {
 public:
  GatherNdBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    batch_ = static_cast<size_t>(spec.attrs().get_int("batch_dims", 0));
    outer_ = indices.dims.size() - 1;
    depth_ = static_cast<size_t>(indices.dims[outer_]);
    for (size_t i = 0; i < batch_; ++i)
      if (x.dims[i] != indices.dims[i]) fail(Status::kRange, "batch axis {} differs", i);
    batch_strides_.assign(outer_, 0);
    std::copy_n(x.strides.begin(), batch_, batch_strides_.begin());
    const auto inner = std::span(x.dims).subspan(batch_ + depth_);
    const auto inner_x = std::span(x.strides).subspan(batch_ + depth_);
    const auto inner_y = std::span(y.strides).subspan(outer_);
    inner_ = CopyPlan(inner, inner_x, inner_y, element_size(x.dtype));
    if (is_contiguous(inner, inner_x) && is_contiguous(inner, inner_y))
      dense_bytes_ = static_cast<size_t>(element_count(inner) * element_size(x.dtype));
    held_bytes += views_.bytes();
  }
  void run(const StepArgs& args, int64_t, int64_t) const override {
    const OperandView &x = views_.inputs[0], &indices = views_.inputs[1], &y = views_.outputs[0];
    if (y.count() == 0) return;  // indices that pick nothing are not looked at
    const IndexReader index{args.buffers[1], indices.dtype == DType::kI64};
    const int64_t bytes = element_size(x.dtype);
    const std::span<const int64_t> dims = std::span(indices.dims).first(outer_);
    for_each_offset<3>(
        dims,
        {batch_strides_, std::span(indices.strides).first(outer_),
         std::span(y.strides).first(outer_)},
        [&](const auto& at) {
          int64_t from = at[0];
          for (size_t k = 0; k < depth_; ++k)
            from += checked(index[at[1] + static_cast<int64_t>(k) * indices.strides[outer_]],
                            x.dims[batch_ + k]) *
                    x.strides[batch_ + k];
          const auto* source = static_cast<const std::byte*>(args.buffers[0]) + from * bytes;
          auto* to = static_cast<std::byte*>(args.buffers[2]) + at[2] * bytes;
          if (dense_bytes_)
            copy_bytes(to, source, *dense_bytes_);
          else
            inner_.run(source, to);
        });
  }

 private:
  OperandViews views_;
  size_t batch_ = 0, outer_ = 0, depth_ = 0;
  Dims batch_strides_;  ///< of the data over the axes of the indices but the last
  CopyPlan inner_;
  std::optional<size_t> dense_bytes_;  ///< of what one index picks, where that is one piece
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (const std::string reason = movable_reason(spec.inputs[0].dtype); !reason.empty())
    return Verdict::no(reason);
  return Verdict::ok();
}

Verdict supports_texts(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kString)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  for (const Operand* operand : {&spec.inputs[0], &spec.inputs[1], &spec.outputs[0]})
    if (!operand->contiguous()) return Verdict::no("operands that are not row-major");
  return Verdict::ok();
}

/// Labels by number.
void gather_texts(const SimpleContext& c) {
  const OperandView &x = c.in(0), &indices = c.in(1);
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", 0), x.dims.size());
  const int64_t outer = product(x.dims, 0, axis), extent = x.dims[axis];
  const int64_t inner = product(x.dims, axis + 1, x.dims.size()), picks = indices.count();
  const IndexReader pick{c.args.buffers[1], indices.dtype == DType::kI64};
  const auto* from = c.input<std::string>(0);
  auto* to = c.output<std::string>();
  if (c.out().count() == 0) return;
  for (int64_t o = 0; o < outer; ++o, from += extent * inner)
    for (int64_t p = 0; p < picks; ++p)
      to = std::copy_n(from + checked(pick[p], extent) * inner, inner, to);
}

}  // namespace

void add_gather(Rows& rows) {
  rows.push_back({"xc.gather", "Gather", supports, create_bound_by<GatherBound>});
  rows.push_back({"xc.gather texts", "Gather", supports_texts, create_simple<gather_texts>});
  rows.push_back({"xc.gather", "GatherElements", supports, create_bound_by<GatherElementsBound>});
  rows.push_back({"xc.gather", "GatherND", supports, create_bound_by<GatherNdBound>});
}

}  // namespace xc::cpu
