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
  using V = ComputeOf<T>;
  using W = std::conditional_t<std::is_integral_v<T>, uint64_t, V>;  // integers wrap
  const auto a = static_cast<V>(there), b = static_cast<V>(update);
  if constexpr (how == Fn::kAdd) return static_cast<T>(W(a) + W(b));
  if constexpr (how == Fn::kMul) return static_cast<T>(W(a) * W(b));
  if constexpr (how == Fn::kMax) return static_cast<T>(a > b || a != a ? a : b);
  if constexpr (how == Fn::kMin) return static_cast<T>(a < b || a != a ? a : b);
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

/// n dense elements meet n dense updates.
template <class T, class Meet>
void meet_row(T* to, const T* from, int64_t n, Meet meet, ElementwiseFn row) {
  if (row)
    row({{to, from}, {1, 1}, to, n, nullptr});
  else
    for (int64_t i = 0; i < n; ++i) to[i] = meet(to[i], from[i]);
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
        moved(views.outputs[0].strides) {
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
  const int64_t extent = x.dims[axis], step = y.strides[axis];
  // Line by line of the indices' last axis.
  const size_t last = indices.dims.empty() ? 0 : indices.dims.size() - 1;
  const int64_t n = indices.dims.empty() ? 1 : indices.dims[last];
  const auto outer = [&](std::span<const int64_t> values) { return values.first(last); };
  const auto along = [&](std::span<const int64_t> s) { return s.empty() ? 0 : s[last]; };
  const int64_t index_by = along(indices.strides), update_by = along(updates.strides),
                to_by = along(moved);
  // An index per line, expanded along it: the line lies densely at either end.
  const bool whole = n > 1 && index_by == 0 && update_by == 1 && to_by == 1;
  with_reduction(c.spec, [&]<class T>(auto meet, ElementwiseFn row) {
    const auto lines = [&](auto read) {
      const auto picked = [&](int64_t at) {
        const int64_t pick = read(at);
        return pick < 0 || pick >= extent ? checked_index(pick, extent) : pick;
      };
      for_each_offset<3>(outer(indices.dims),
                         {outer(indices.strides), outer(updates.strides), outer(moved)},
                         [&](const auto& at) {
                           const T* from = c.input<T>(2) + at[1];
                           T* to = c.output<T>() + at[2];
                           if (whole) {
                             meet_row(to + picked(at[0]) * step, from, n, meet, row);
                             return;
                           }
                           for (int64_t j = 0; j < n; ++j) {
                             T& there = to[j * to_by + picked(at[0] + j * index_by) * step];
                             there = meet(there, from[j * update_by]);
                           }
                         });
    };
    if (index.dtype == DType::kI64)
      lines([&](int64_t i) { return index.as<int64_t>()[i]; });
    else
      lines([&](int64_t i) { return load_int64(index.data, index.dtype, i); });
  });
}

void scatter_nd(const SimpleContext& c, const CopyOfData& data) {
  const OperandView &x = c.in(0), &indices = c.in(1), &updates = c.in(2), &y = c.out();
  const size_t outer = indices.dims.size() - 1;
  const auto depth = static_cast<size_t>(indices.dims[outer]);
  if (depth > x.dims.size()) fail(Status::kRange, "indices of {} coordinates", depth);
  const auto picked = std::span(indices.dims).first(outer);
  const auto inner = std::span(x.dims).subspan(depth);
  const std::span<const int64_t> given = updates.dims;
  if (given.size() != outer + inner.size() || !std::ranges::equal(given.first(outer), picked) ||
      !std::ranges::equal(given.subspan(outer), inner))
    fail(Status::kRange, "updates have dims {}, expected {} followed by {}", to_text(updates.dims),
         to_text(Dims(picked.begin(), picked.end())), to_text(Dims(inner.begin(), inner.end())));
  data.run(c);
  const auto from_strides = std::span(updates.strides).subspan(outer),
             to_strides = std::span(y.strides).subspan(depth);
  const bool dense = is_contiguous(inner, from_strides) && is_contiguous(inner, to_strides);
  const int64_t n = element_count(inner);
  const TensorView index = c.input_view(1);
  with_reduction(c.spec, [&]<class T>(auto meet, ElementwiseFn row) {
    for_each_offset<2>(
        picked, {std::span(indices.strides).first(outer), std::span(updates.strides).first(outer)},
        [&](const auto& at) {
          const T* from = c.input<T>(2) + at[1];
          T* to = c.output<T>();
          for (size_t k = 0; k < depth; ++k) {
            const int64_t where = at[0] + static_cast<int64_t>(k) * indices.strides[outer];
            to +=
                checked_index(load_int64(index.data, index.dtype, where), x.dims[k]) * y.strides[k];
          }
          if (dense) return meet_row(to, from, n, meet, row);
          for_each_offset<2>(inner, {from_strides, to_strides},
                             [&](const auto& e) { to[e[1]] = meet(to[e[1]], from[e[0]]); });
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
  }
  static int64_t tasks(const StepSpec& spec, const OperandViews& views) {
    constexpr int64_t kLeast = 1 << 16;  // bytes per task
    const CachePlan plan(spec, views);
    const int64_t written = plan.there.bytes() + plan.behind.bytes() + plan.block.bytes();
    const int64_t all = element_count(plan.rows);
    constexpr int64_t kMost = 64;
    return std::clamp<int64_t>(checked_mul(written, all) / kLeast, 1,
                               std::clamp<int64_t>(all, 1, kMost));
  }
  size_t axis;
  bool circular;
  CopyPlan there, behind;  ///< of a row: what the cache has, zeros behind that
  CopyPlan block, entry;   ///< a row's update, one entry of it
  Dims rows, from_cache, from_update, to;
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
                  create_planned<CachePlan, update_cache, CachePlan::tasks, 1>});
  rows.push_back({"xc.scatter", "UpdateCache", supports_scatter,
                  create_planned<CachePlan, update_cache, CachePlan::tasks, 1>});
}

}  // namespace xc::cpu
