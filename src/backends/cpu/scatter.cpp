// Elements put at given indices: ScatterElements, ScatterND, TensorScatter and xc.UpdateCache
// ("xc.scatter"). Where the result lies in the place of the data, nothing else is written.

#include <algorithm>
#include <cstring>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

/// The function that combines what is there with an update; none where the update replaces it.
std::optional<Fn> reduction_of(const StepSpec& spec) {
  const std::string text = spec.attrs().get_string("reduction", "none");
  if (text == "add") return Fn::kAdd;
  if (text == "mul") return Fn::kMul;
  if (text == "max") return Fn::kMax;
  if (text == "min") return Fn::kMin;
  return std::nullopt;
}

Verdict supports_scatter(const StepSpec& spec) {
  const Verdict simple = no_strings(spec);
  if (!simple.yes()) return simple;
  const DType type = spec.inputs[0].dtype;
  const auto reduction = reduction_of(spec);
  const std::string reason = movable_reason(type);
  if (reduction && !contains(kNumbers, type))
    return Verdict::no(fmt::format("a reduction of {}", name(type)));
  return reason.empty() ? Verdict::ok() : Verdict::no(reason);
}

/// What is there and an update, combined.
template <Fn how, class T>
T combined(T there, T update) {
  using V = std::conditional_t<std::is_same_v<T, float>, float, ComputeOf<T>>;
  using W = std::conditional_t<std::is_integral_v<T>, uint64_t, V>;  // integers wrap
  const auto a = static_cast<V>(there), b = static_cast<V>(update);
  if constexpr (how == Fn::kAdd) return static_cast<T>(W(a) + W(b));
  if constexpr (how == Fn::kMul) return static_cast<T>(W(a) * W(b));
  // Which is larger nobody can foretell: one instruction of floats, and no branch. NaN is rare.
  if constexpr (how == Fn::kMax || how == Fn::kMin) {
    const V better = how == Fn::kMax ? (a > b ? a : b) : (a < b ? a : b);
    return static_cast<T>(a != a ? a : better);
  }
}

/// body with what stands for `how`, a constant.
template <class Body>
decltype(auto) dispatch_reduction(Fn how, Body&& body) {
  switch (how) {
    case Fn::kAdd:
      return body.template operator()<Fn::kAdd>();
    case Fn::kMul:
      return body.template operator()<Fn::kMul>();
    case Fn::kMax:
      return body.template operator()<Fn::kMax>();
    default:
      return body.template operator()<Fn::kMin>();
  }
}

/// combined() over elements' bits, for types that are not worth loops of their own.
using CombineBits = uint64_t (*)(uint64_t there, uint64_t update);
template <Fn how, class T>
uint64_t combine_bits(uint64_t there, uint64_t update) {
  T a, b;
  std::memcpy(&a, &there, sizeof(T));
  std::memcpy(&b, &update, sizeof(T));
  const T result = combined<how>(a, b);
  uint64_t bits = 0;
  std::memcpy(&bits, &result, sizeof(T));
  return bits;
}
CombineBits combine_bits_of(Fn how, DType type) {
  return dispatch_reduction(how, [&]<Fn kHow>() {
    return dispatch_number(type, []<class T>() -> CombineBits { return combine_bits<kHow, T>; });
  });
}

/// body(meet, row) with meet(there, update) -> what is there then, and its form for dense rows, or
/// null. T: bits of the element, or float.
template <class Body>
void with_reduction(const StepSpec& spec, Body&& body) {
  const DType type = spec.inputs[0].dtype;
  const auto how = reduction_of(spec);
  if (!how)
    return dispatch_storage(type, [&]<class T>() {
      body.template operator()<T>([](T, T update) { return update; }, nullptr);
    });
  const ElementwiseFn row = elementwise_fn(*how, type, cpu_info().isa);
  if (type == DType::kF32)
    return dispatch_reduction(*how, [&]<Fn kHow>() {
      body.template operator()<float>([](float a, float b) { return combined<kHow>(a, b); }, row);
    });
  const CombineBits combine = combine_bits_of(*how, type);
  dispatch_storage(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      body.template operator()<T>([combine](T a, T b) { return static_cast<T>(combine(a, b)); },
                                  row);
  });
}

/// n dense elements meet n dense updates. A call costs as much as a few elements.
template <class T, class Meet>
void meet_row(T* to, const T* from, int64_t n, Meet meet, ElementwiseFn row) {
  if (row && n >= 8)
    row({{to, from}, {1, 1}, to, n, nullptr});
  else
    for (int64_t i = 0; i < n; ++i) to[i] = meet(to[i], from[i]);
}

inline int64_t picked(int64_t index, int64_t extent) {
  return index < 0 || index >= extent ? checked_index(index, extent) : index;
}

/// Strides of a line of updates: of the indices, the updates, and the result beside what the index
/// adds, `step` elements for each of the `extent`.
struct Line {
  int64_t n, index_by, update_by, to_by, extent, step;
};
/// The line's length, or the first update whose index is out of range. A function of its own
/// without a call in its loop, all of it in registers: what spills would be between loads and
/// stores that wait for each other.
template <class T, class I, class Meet>
[[gnu::noinline]] int64_t meet_within(T* to, const T* from, const I* index, const Line line,
                                      Meet meet) {
  for (int64_t j = 0; j < line.n; ++j) {
    int64_t pick = *index;
    if (pick < 0) pick += line.extent;
    if (static_cast<uint64_t>(pick) >= static_cast<uint64_t>(line.extent)) return j;
    T& there = to[pick * line.step];
    there = meet(there, *from);
    index += line.index_by, from += line.update_by, to += line.to_by;
  }
  return line.n;
}
template <class T, class I, class Meet>
void meet_line(T* to, const T* from, const I* index, const Line& line, Meet meet) {
  const int64_t j = meet_within(to, from, index, line, meet);
  if (j < line.n) checked_index(index[j * line.index_by], line.extent);
}

/// body(indices as they are stored).
template <class Body>
void with_indices(const TensorView& index, Body&& body) {
  if (index.dtype == DType::kI64)
    body(index.as<int64_t>());
  else
    body(index.as<int32_t>());
}

/// Dims or strides of the lines along the last axis, and that axis alone (1 or 0 where there is
/// none).
std::span<const int64_t> but_last(std::span<const int64_t> values) {
  return values.first(values.empty() ? 0 : values.size() - 1);
}
int64_t last_of(std::span<const int64_t> values, int64_t otherwise) {
  return values.empty() ? otherwise : values.back();
}

/// What all of them do first.
struct CopyOfData {
  CopyOfData(const StepSpec&, const OperandViews& views) {
    const OperandView &x = views.inputs[0], &y = views.outputs[0];
    copy = CopyPlan(x.dims, x.strides, y.strides, element_size(x.dtype));
  }
  /// The data, where the result does not lie in their place.
  void run(const SimpleContext& c) const {
    if (c.args.buffers[0] != c.output<void>()) copy.run(c.args.buffers[0], c.output<void>());
  }
  CopyPlan copy;
};

struct ElementsPlan {
  ElementsPlan(const StepSpec& spec, const OperandViews& views)
      : data(spec, views),
        axis(normalise_axis(spec.attrs().get_int("axis", 0), views.inputs[0].dims.size())),
        moved(copied(views.outputs[0].strides)) {
    moved[axis] = 0;
  }
  CopyOfData data;
  size_t axis;
  Dims moved;  ///< strides of the result, 0 along the axis
};

void scatter_elements(const SimpleContext& c, const ElementsPlan& plan) {
  const OperandView &x = c.in(0), &indices = c.in(1), &updates = c.in(2), &y = c.out();
  const size_t axis = plan.axis;
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (indices.dims[i] != updates.dims[i] || (i != axis && indices.dims[i] > x.dims[i]))
      fail(Status::kRange, "axis {}: {} indices, {} updates, {} data", i, indices.dims[i],
           updates.dims[i], x.dims[i]);
  plan.data.run(c);
  const Dims& moved = plan.moved;
  const TensorView index = c.input_view(1);
  // Line by line of the indices' last axis.
  const Line line{last_of(indices.dims, 1),
                  last_of(indices.strides, 0),
                  last_of(updates.strides, 0),
                  last_of(moved, 0),
                  x.dims[axis],
                  y.strides[axis]};
  // An index per line, expanded along it: the line lies densely at either end.
  const bool whole = line.n > 1 && line.index_by == 0 && line.update_by == 1 && line.to_by == 1;
  with_reduction(c.spec, [&]<class T>(auto meet, ElementwiseFn row) {
    with_indices(index, [&](const auto* picks) {
      for_each_offset<3>(but_last(indices.dims),
                         {but_last(indices.strides), but_last(updates.strides), but_last(moved)},
                         [&](const auto& at) {
                           const T* from = c.input<T>(2) + at[1];
                           T* to = c.output<T>() + at[2];
                           if (whole)
                             meet_row(to + picked(picks[at[0]], line.extent) * line.step, from,
                                      line.n, meet, row);
                           else
                             meet_line(to, from, picks + at[0], line, meet);
                         });
    });
  });
}

void scatter_nd(const SimpleContext& c, const CopyOfData& data) {
  const OperandView &x = c.in(0), &indices = c.in(1), &updates = c.in(2), &y = c.out();
  const size_t outer = indices.dims.size() - 1;
  const auto depth = static_cast<size_t>(indices.dims[outer]);
  if (depth > x.dims.size()) fail(Status::kRange, "indices of {} coordinates", depth);
  const auto picks = std::span(indices.dims).first(outer);
  const auto inner = std::span(x.dims).subspan(depth);
  const std::span<const int64_t> given = updates.dims;
  if (given.size() != outer + inner.size() || !std::ranges::equal(given.first(outer), picks) ||
      !std::ranges::equal(given.subspan(outer), inner))
    fail(Status::kRange, "updates have dims {}, expected {} followed by {}",
         to_text(copied(updates.dims)), to_text(Dims(picks.begin(), picks.end())),
         to_text(Dims(inner.begin(), inner.end())));
  data.run(c);
  const auto from_strides = std::span(updates.strides).subspan(outer),
             to_strides = std::span(y.strides).subspan(depth);
  const bool dense = is_contiguous(inner, from_strides) && is_contiguous(inner, to_strides);
  const int64_t n = element_count(inner);
  const TensorView index = c.input_view(1);
  const auto index_strides = std::span<const int64_t>(indices.strides).first(outer);
  const int64_t coordinate_by = indices.strides[outer];
  const auto place = [&](const auto* coordinates) {
    int64_t offset = 0;
    for (size_t k = 0; k < depth; ++k)
      offset +=
          picked(coordinates[static_cast<int64_t>(k) * coordinate_by], x.dims[k]) * y.strides[k];
    return offset;
  };
  with_reduction(c.spec, [&]<class T>(auto meet, ElementwiseFn row) {
    with_indices(index, [&](const auto* coordinates) {
      const T* from = c.input<T>(2);
      T* to = c.output<T>();
      if (n == 1 && depth == 1 && outer == 1)
        return meet_line(
            to, from, coordinates,
            {indices.dims[0], index_strides[0], updates.strides[0], 0, x.dims[0], y.strides[0]},
            meet);
      for_each_offset<2>(
          picks, {index_strides, std::span(updates.strides).first(outer)}, [&](const auto& at) {
            T* there = to + place(coordinates + at[0]);
            const T* update = from + at[1];
            if (dense) return meet_row(there, update, n, meet, row);
            for_each_offset<2>(inner, {from_strides, to_strides}, [&](const auto& e) {
              there[e[1]] = meet(there[e[1]], update[e[0]]);
            });
          });
    });
  });
}

/// A cache and, per sample, an update of consecutive entries along an axis: one block each, two
/// where it wraps around. A task is a row of what lies outside the axis.
struct CachePlan {
  CachePlan(const StepSpec& spec, const OperandViews& views)
      : axis(normalise_axis(spec.attrs().get_int("axis", -2), views.outputs[0].dims.size())),
        circular(spec.attrs().get_string("mode", "linear") == "circular") {
    const OperandView &cache = views.inputs[0], &update = views.inputs[1], &y = views.outputs[0];
    const auto inside = [&](std::span<const int64_t> of) { return of.subspan(axis); };
    const auto outside = [&](std::span<const int64_t> of) {
      return Dims(of.begin(), of.begin() + static_cast<ptrdiff_t>(axis));
    };
    const Dims none(y.dims.size() - axis, 0);
    const auto plan = [&](std::span<const int64_t> dims, std::span<const int64_t> from) {
      return CopyPlan(dims, from, inside(y.strides), element_size(y.dtype));
    };
    there = plan(inside(cache.dims), inside(cache.strides));
    Dims dims(y.dims.begin() + static_cast<ptrdiff_t>(axis), y.dims.end());
    dims[0] = y.dims[axis] - cache.dims[axis];
    behind = plan(dims, none);
    block = plan(inside(update.dims), inside(update.strides));
    dims[0] = std::min<int64_t>(1, update.dims[axis]);
    entry = plan(dims, inside(update.strides));
    rows = outside(y.dims);
    from_cache = outside(cache.strides);
    from_update = outside(update.strides);
    to = outside(y.strides);
    constexpr int64_t kLeast = 1 << 16, kMost = 64;  // bytes per task, tasks
    const int64_t all = element_count(rows);
    const int64_t written = checked_mul(there.bytes() + behind.bytes() + block.bytes(), all);
    tasks = std::clamp<int64_t>(written / kLeast, 1, std::clamp<int64_t>(all, 1, kMost));
  }
  size_t axis;
  bool circular;
  CopyPlan there, behind;  ///< of a row: what the cache has, zeros behind that
  CopyPlan block, entry;   ///< a row's update, one entry of it
  Dims rows, from_cache, from_update, to;
  int64_t tasks;
};

void update_cache(const SimpleContext& c, const CachePlan& plan) {
  const OperandView &cache = c.in(0), &update = c.in(1), &y = c.out();
  const size_t axis = plan.axis;
  const int64_t length = y.dims[axis], entries = update.dims[axis], bytes = element_size(y.dtype);
  const auto start_of = [&](int64_t sample) {
    return c.has(2) ? load_int64(c.args.buffers[2], c.in(2).dtype, sample * c.in(2).strides[0]) : 0;
  };
  for (int64_t sample = 0; sample < y.dims[0]; ++sample)
    if (const int64_t start = start_of(sample);
        start < 0 || entries > length || (!plan.circular && start > length - entries))
      fail(Status::kRange, "an update of {} at {} does not fit a cache of {}", entries, start,
           length);
  const bool in_place = c.args.buffers[0] == c.output<void>() && cache.dims[axis] == length;
  const int64_t rows = element_count(plan.rows),
                per_sample = rows / std::max<int64_t>(1, y.dims[0]);
  const auto put_row = [&](int64_t sample, const std::byte* from, const std::byte* added,
                           std::byte* to) {
    constexpr uint64_t kZero[2] = {0, 0};  // of any type
    if (!in_place) {
      plan.there.run(from, to);
      plan.behind.run(kZero, to + cache.dims[axis] * y.strides[axis] * bytes);
    }
    if (update.count() == 0) return;
    const int64_t at = start_of(sample) % length;
    const auto put = [&](const CopyPlan& copy, int64_t first, int64_t where) {
      copy.run(added + first * update.strides[axis] * bytes, to + where * y.strides[axis] * bytes);
    };
    if (at + entries <= length)
      put(plan.block, 0, at);
    else
      for (int64_t i = 0; i < entries; ++i) put(plan.entry, i, (at + i) % length);
  };
  const int64_t first = c.begin * rows / c.tasks, last = c.end * rows / c.tasks;
  int64_t row = 0;
  for_each_offset<3>(plan.rows, {plan.from_cache, plan.from_update, plan.to}, [&](const auto& at) {
    if (const int64_t r = row++; r >= first && r < last)
      put_row(r / per_sample, c.input<std::byte>(0) + at[0] * bytes,
              c.input<std::byte>(1) + at[1] * bytes, c.output<std::byte>() + at[2] * bytes);
  });
}

}  // namespace

void add_scatter(Rows& rows) {
  rows.push_back({"xc.scatter", "ScatterElements", supports_scatter,
                  create_planned<ElementsPlan, scatter_elements, nullptr, 1>});
  rows.push_back({"xc.scatter", "Scatter", supports_scatter,
                  create_planned<ElementsPlan, scatter_elements, nullptr, 1>});
  rows.push_back({"xc.scatter", "ScatterND", supports_scatter,
                  create_planned<CopyOfData, scatter_nd, nullptr, 1>});
  rows.push_back({"xc.scatter", "TensorScatter", supports_scatter,
                  create_planned<CachePlan, update_cache, nullptr, 1>});
  rows.push_back({"xc.scatter", "UpdateCache", supports_scatter,
                  create_planned<CachePlan, update_cache, nullptr, 1>});
}

}  // namespace xc::cpu
