// Ops along one axis or at given indices: ArgMax, ArgMin, CumSum, CumProd, TopK ("xc.axis"),
// ScatterElements, ScatterND, TensorScatter ("xc.scatter"), and tensors made from sizes: Shape,
// Size, ConstantOfShape, Range, Trilu ("xc.fill").

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

Verdict supports_simple(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const Operand& input : spec.inputs)
    if (input.present() && input.dtype == DType::kString)
      return Verdict::no("elements of type string");
  return Verdict::ok();
}
Verdict supports_numbers(const StepSpec& spec) {
  const Verdict simple = supports_simple(spec);
  if (!simple.yes()) return simple;
  if (!contains(kNumbers, spec.inputs[0].dtype))
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  return Verdict::ok();
}

/// Lines of a tensor along one axis: first elements by row-major number of the other axes.
struct Lines {
  Dims dims, from, to;
  int64_t count;
  Lines(std::span<const int64_t> of, std::span<const int64_t> from_strides,
        std::span<const int64_t> to_strides, size_t axis) {
    for (size_t i = 0; i < of.size(); ++i) {
      if (i == axis) continue;
      dims.push_back(of[i]);
      from.push_back(from_strides[i]);
      to.push_back(to_strides[i]);
    }
    count = element_count(dims);
  }
  std::pair<int64_t, int64_t> at(int64_t line) const {
    int64_t a = 0, b = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      a += line % dims[axis] * from[axis];
      b += line % dims[axis] * to[axis];
      line /= dims[axis];
    }
    return {a, b};
  }
};

/// Lines [begin, end) in groups that lie side by side in both tensors: body(from, to, count). What
/// walks along an axis that is not innermost then reads whole cache lines.
template <class Body>
void for_line_groups(const Lines& lines, int64_t begin, int64_t end, Body&& body) {
  if (begin >= end) return;
  if (lines.dims.empty()) return body(0, 0, 1);
  const size_t last = lines.dims.size() - 1;
  const bool adjacent = lines.from[last] == 1 && lines.to[last] == 1;
  // Lines along the last of the other axes, which needs no division.
  while (begin < end) {
    auto [from, to] = lines.at(begin);
    int64_t left = std::min(end - begin, lines.dims[last] - begin % lines.dims[last]);
    begin += left;
    while (left > 0) {
      const int64_t count = adjacent ? std::min(kSideBySide, left) : 1;
      body(from, to, count);
      from += count * lines.from[last];
      to += count * lines.to[last];
      left -= count;
    }
  }
}

int64_t line_tasks(const StepSpec&, const OperandViews& views) {
  const OperandView& x = views.inputs[0];
  return x.dims.empty() ? 1 : std::clamp<int64_t>(x.count() / (64 << 10), 1, 64);
}

// ---- arg-reductions
// ------------------------------------------------------------------------------

/// Without a branch on the data.
template <bool kMax>
int64_t best_of_short_row(const float* x, int64_t n) {
  int64_t best = 0;
  float value = x[0];
  for (int64_t i = 1; i < n; ++i) {
    const bool better = (kMax ? x[i] > value : x[i] < value) | ((x[i] != x[i]) & (value == value));
    best = better ? i : best;
    value = better ? x[i] : value;
  }
  return best;
}

/// A line of adjacent f32 is walked as kSideBySide lines, whose bests are compared at the end.
template <bool kMax>
int64_t best_of_row(const float* x, int64_t n) {
  int32_t rows[kSideBySide] = {};
  const int64_t whole = n / kSideBySide;
  int64_t best = 0;
  const auto take = [&](int64_t i) {
    const float a = x[i], b = x[best];
    const bool nan = a != a, best_nan = b != b;
    if (nan != best_nan ? nan : (kMax ? a > b : a < b) || ((nan || a == b) && i < best)) best = i;
  };
  if (whole > 0) {
    line_fns(cpu_info().isa).arg_best(x, whole, kSideBySide, kSideBySide, kMax, rows);
    for (int64_t l = 0; l < kSideBySide; ++l) take(rows[l] * kSideBySide + l);
  }
  for (int64_t i = whole * kSideBySide; i < n; ++i) take(i);
  return best;
}

template <bool kMax>
void best_of_lines(const float* x, int64_t n, int64_t step, int64_t lines, int64_t* out) {
  if (step == 1 && lines == 1) {
    *out = n < 2 * kSideBySide ? best_of_short_row<kMax>(x, n) : best_of_row<kMax>(x, n);
    return;
  }
  int32_t best[kSideBySide];
  line_fns(cpu_info().isa).arg_best(x, n, step, lines, kMax, best);
  std::copy_n(best, lines, out);
}

template <bool kMax>
void arg_reduce(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", 0), x.dims.size());
  const bool keep = c.spec.attrs().get_int("keepdims", 1) != 0;
  const bool last = c.spec.attrs().get_int("select_last_index", 0) != 0;
  const int64_t n = x.dims[axis], step = x.strides[axis];
  if (n == 0) fail(Status::kRange, "axis {} has no elements", axis);
  Dims ys = y.strides;
  if (!keep) ys.insert(ys.begin() + static_cast<ptrdiff_t>(axis), 0);
  const Lines lines(x.dims, x.strides, ys, axis);
  dispatch_number(x.dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    const auto better = [&](V a, V b) {  // a, which comes later, replaces b
      if (b != b) return last && a != a;
      if (a != a) return true;
      return (kMax ? a > b : a < b) || (last && a == b);
    };
    const T* x0 = c.input<T>(0);
    for_line_groups(lines, lines.count * c.begin / c.tasks, lines.count * c.end / c.tasks,
                    [&](int64_t from, int64_t to, int64_t count) {
                      if constexpr (std::is_same_v<T, float>)
                        if (!last && n < INT32_MAX) {
                          best_of_lines<kMax>(x0 + from, n, step, count, c.output<int64_t>() + to);
                          return;
                        }
                      V value[kSideBySide];
                      int64_t best[kSideBySide] = {};
                      for (int64_t l = 0; l < count; ++l) value[l] = static_cast<V>(x0[from + l]);
                      for (int64_t i = 1; i < n; ++i)
                        for (int64_t l = 0; l < count; ++l) {
                          const V v = static_cast<V>(x0[from + i * step + l]);
                          if (better(v, value[l])) best[l] = i, value[l] = v;
                        }
                      for (int64_t l = 0; l < count; ++l) c.output<int64_t>()[to + l] = best[l];
                    });
  });
}

// ---- running totals
// ------------------------------------------------------------------------------

template <bool kSum>
void cumulative(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t axis = normalise_axis(scalar_int(c.input_view(1)), x.dims.size());
  const bool exclusive = c.spec.attrs().get_int("exclusive", 0) != 0;
  const bool reverse = c.spec.attrs().get_int("reverse", 0) != 0;
  const Lines lines(x.dims, x.strides, y.strides, axis);
  const int64_t n = x.dims[axis];
  dispatch_number(x.dtype, [&]<class T>() {
    using V = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    for_line_groups(lines, lines.count * c.begin / c.tasks, lines.count * c.end / c.tasks,
                    [&](int64_t a, int64_t b, int64_t count) {
                      if (n == 0) return;
                      if constexpr (kSum && std::is_same_v<T, float>) {
                        const int64_t start = reverse ? n - 1 : 0, sign = reverse ? -1 : 1;
                        line_fns(cpu_info().isa)
                            .running_sum(c.input<T>(0) + a + start * x.strides[axis],
                                         sign * x.strides[axis],
                                         c.output<T>() + b + start * y.strides[axis],
                                         sign * y.strides[axis], n, count, exclusive);
                        return;
                      }
                      V acc[kSideBySide];
                      std::fill_n(acc, count, static_cast<V>(kSum ? 0 : 1));
                      for (int64_t k = 0; k < n; ++k) {
                        const int64_t i = reverse ? n - 1 - k : k;
                        const T* from = c.input<T>(0) + a + i * x.strides[axis];
                        T* to = c.output<T>() + b + i * y.strides[axis];
                        for (int64_t l = 0; l < count; ++l) {
                          const auto v = static_cast<V>(from[l]);
                          const V with = kSum ? acc[l] + v : acc[l] * v;
                          to[l] = static_cast<T>(exclusive ? acc[l] : with);
                          acc[l] = with;
                        }
                      }
                    });
  });
}

// ---- TopK
// ----------------------------------------------------------------------------------------

/// Up to so many, the best so far are kept in order and others only compared with the last of them.
constexpr int64_t kFewBest = 64;

/// order[0, k) = positions of the k <= kFewBest best of n values, in order; of equal ones the
/// first.
template <class V, class Value, class Better>
void few_best(int64_t n, int64_t k, Value value, Better better, int64_t* order) {
  if (k == 0) return;
  V best[kFewBest];
  const auto insert = [&](V v, int64_t i, int64_t at) {
    for (; at > 0 && better(v, best[at - 1]); --at) {
      best[at] = best[at - 1];
      order[at] = order[at - 1];
    }
    best[at] = v;
    order[at] = i;
  };
  for (int64_t i = 0; i < k; ++i) insert(value(i), i, i);
  for (int64_t i = k; i < n; ++i)
    if (const V v = value(i); better(v, best[k - 1])) insert(v, i, k - 1);
}

void top_k(const SimpleContext& c) {
  const OperandView& x = c.in(0);
  const OperandView& shaped = c.wants(0) ? c.out(0) : c.out(1);
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", -1), x.dims.size());
  const bool largest = c.spec.attrs().get_int("largest", 1) != 0;
  const int64_t n = x.dims[axis], k = shaped.dims[axis];
  if (k > n) fail(Status::kRange, "k is {} of {} elements", k, n);
  const Dims none(x.dims.size(), 0);
  const Lines values(x.dims, x.strides, c.wants(0) ? c.out(0).strides : none, axis);
  const Lines indices(x.dims, x.strides, c.wants(1) ? c.out(1).strides : none, axis);
  std::vector<int64_t> order(static_cast<size_t>(n));
  dispatch_number(x.dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    std::vector<T> line(static_cast<size_t>(n));
    for (int64_t l = values.count * c.begin / c.tasks; l < values.count * c.end / c.tasks; ++l) {
      const auto [from, to] = values.at(l);
      const int64_t to_index = indices.at(l).second;
      for (int64_t i = 0; i < n; ++i)
        line[static_cast<size_t>(i)] = c.input<T>(0)[from + i * x.strides[axis]];
      const auto at = [&](int64_t i) { return static_cast<V>(line[static_cast<size_t>(i)]); };
      // NaN is the largest.
      const auto above = [](V a, V b) { return a > b || (a != a && b == b); };
      const auto under = [](V a, V b) { return a < b || (b != b && a == a); };
      if (k <= kFewBest) {
        largest ? few_best<V>(n, k, at, above, order.data())
                : few_best<V>(n, k, at, under, order.data());
      } else {
        // The index decides among equals, so that any sort is stable.
        const auto before = [&](int64_t a, int64_t b) {
          const V p = at(a), q = at(b);
          if (largest ? above(p, q) : under(p, q)) return true;
          return !(largest ? above(q, p) : under(q, p)) && a < b;
        };
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
      }
      for (int64_t i = 0; i < k; ++i) {
        const int64_t pick = order[static_cast<size_t>(i)];
        if (c.wants(0))
          c.output<T>(0)[to + i * c.out(0).strides[axis]] = line[static_cast<size_t>(pick)];
        if (c.wants(1)) c.output<int64_t>(1)[to_index + i * c.out(1).strides[axis]] = pick;
      }
    }
  });
}

// ---- scatter
// -------------------------------------------------------------------------------------

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
  const Verdict simple = supports_simple(spec);
  if (!simple.yes()) return simple;
  const DType type = spec.inputs[0].dtype;
  const auto reduction = reduction_of(spec);
  const std::string reason = movable_reason(type);
  if (reduction && !contains(kNumbers, type))
    return Verdict::no(fmt::format("a reduction of {}", name(type)));
  return reason.empty() ? Verdict::ok() : Verdict::no(reason);
}

/// body(meet, row) with meet(there, update) -> what is there then, and its form for dense rows, or
/// null. T: bits of the element where an update replaces it.
template <class Body>
void with_reduction(const StepSpec& spec, Body&& body) {
  const DType type = spec.inputs[0].dtype;
  const auto how = reduction_of(spec);
  if (!how)
    return dispatch_storage(type, [&]<class T>() {
      body.template operator()<T>([](T, T update) { return update; }, nullptr);
    });
  const ElementwiseFn row = elementwise_fn(*how, type, cpu_info().isa);
  dispatch_number(type, [&]<class T>() {
    using V = ComputeOf<T>;
    using W = std::conditional_t<std::is_integral_v<T>, uint64_t, V>;  // integers wrap
    const auto computed = [&](auto meet) {
      body.template operator()<T>([meet](T a, T b) { return meet(V(a), V(b)); }, row);
    };
    switch (*how) {
      case Fn::kAdd:
        return computed([](V a, V b) { return static_cast<T>(W(a) + W(b)); });
      case Fn::kMul:
        return computed([](V a, V b) { return static_cast<T>(W(a) * W(b)); });
      case Fn::kMax:
        return computed([](V a, V b) { return static_cast<T>(a > b || a != a ? a : b); });
      default:
        return computed([](V a, V b) { return static_cast<T>(a < b || a != a ? a : b); });
    }
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

/// The data, where the result does not lie in their place.
void copy_all(const SimpleContext& c) {
  if (c.args.buffers[0] == c.output<void>()) return;
  const OperandView &x = c.in(0), &y = c.out();
  CopyPlan(x.dims, x.strides, y.strides, element_size(x.dtype))
      .run(c.args.buffers[0], c.output<void>());
}

void scatter_elements(const SimpleContext& c) {
  const OperandView &x = c.in(0), &indices = c.in(1), &updates = c.in(2), &y = c.out();
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", 0), x.dims.size());
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (indices.dims[i] != updates.dims[i] || (i != axis && indices.dims[i] > x.dims[i]))
      fail(Status::kRange, "axis {}: {} indices, {} updates, {} data", i, indices.dims[i],
           updates.dims[i], x.dims[i]);
  copy_all(c);
  Dims moved = y.strides;
  moved[axis] = 0;
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

void scatter_nd(const SimpleContext& c) {
  const OperandView &x = c.in(0), &indices = c.in(1), &updates = c.in(2), &y = c.out();
  const size_t outer = indices.dims.size() - 1;
  const auto depth = static_cast<size_t>(indices.dims[outer]);
  if (depth > x.dims.size()) fail(Status::kRange, "indices of {} coordinates", depth);
  Dims expected(indices.dims.begin(), indices.dims.end() - 1);
  expected.insert(expected.end(), x.dims.begin() + static_cast<ptrdiff_t>(depth), x.dims.end());
  if (expected != updates.dims)
    fail(Status::kRange, "updates have dims {}, expected {}", to_text(updates.dims),
         to_text(expected));
  copy_all(c);
  const auto inner = std::span(updates.dims).subspan(outer);
  const auto from_strides = std::span(updates.strides).subspan(outer),
             to_strides = std::span(y.strides).subspan(depth);
  const bool dense = is_contiguous(inner, from_strides) && is_contiguous(inner, to_strides);
  const int64_t n = element_count(inner);
  const TensorView index = c.input_view(1);
  with_reduction(c.spec, [&]<class T>(auto meet, ElementwiseFn row) {
    for_each_offset<2>(
        std::span(indices.dims).first(outer),
        {std::span(indices.strides).first(outer), std::span(updates.strides).first(outer)},
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
/// where it wraps around.
void tensor_scatter(const SimpleContext& c) {
  const OperandView &update = c.in(1), &y = c.out();
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", -2), y.dims.size());
  const bool circular = c.spec.attrs().get_string("mode", "linear") == "circular";
  const int64_t length = y.dims[axis], entries = update.dims[axis];
  std::vector<int64_t> starts(static_cast<size_t>(y.dims[0]), 0);
  if (c.has(2)) starts = int_values(c.input_view(2));
  for (const int64_t start : starts)
    if (start < 0 || entries > length || (!circular && start > length - entries))
      fail(Status::kRange, "an update of {} at {} does not fit a cache of {}", entries, start,
           length);
  copy_all(c);
  if (update.count() == 0) return;
  const int64_t bytes = element_size(y.dtype);
  const auto put = [&](size_t sample, int64_t first, int64_t count, int64_t at) {
    Dims dims(update.dims.begin() + 1, update.dims.end());
    dims[axis - 1] = count;
    const CopyPlan block(dims, std::span(update.strides).subspan(1),
                         std::span(y.strides).subspan(1), bytes);
    const auto n = static_cast<int64_t>(sample);
    block.run(
        c.input<std::byte>(1) + (n * update.strides[0] + first * update.strides[axis]) * bytes,
        c.output<std::byte>() + (n * y.strides[0] + at * y.strides[axis]) * bytes);
  };
  for (size_t sample = 0; sample < starts.size(); ++sample) {
    const int64_t at = starts[sample] % length, whole = std::min(entries, length - at);
    put(sample, 0, whole, at);
    if (whole < entries) put(sample, whole, entries - whole, 0);
  }
}

// ---- tensors from sizes
// --------------------------------------------------------------------------

void shape(const SimpleContext& c) {
  const auto rank = static_cast<int64_t>(c.in(0).dims.size());
  const int64_t start = c.spec.attrs().get_int("start", 0);
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  for (int64_t i = 0; i < c.out().dims[0]; ++i)
    c.output<int64_t>()[i * c.out().strides[0]] = c.in(0).dims[static_cast<size_t>(first + i)];
}

void size(const SimpleContext& c) {
  *c.output<int64_t>() = c.in(0).count();
}

void constant_of_shape(const SimpleContext& c) {
  Tensor value = c.spec.attrs().get_tensor("value");
  if (!value) value = Tensor::scalar(0.0f);
  const OperandView& y = c.out();
  const Dims none(y.dims.size(), 0);
  CopyPlan(y.dims, none, y.strides, element_size(y.dtype)).run(value.data(), c.output<void>());
}

void range(const SimpleContext& c) {
  const OperandView& y = c.out();
  const int64_t n = y.count(), step = y.strides[0];
  if (is_float(y.dtype)) {
    const double start = scalar_value(c.input_view(0)), delta = scalar_value(c.input_view(2));
    for (int64_t i = 0; i < n; ++i)
      store_double(c.output<void>(), y.dtype, i * step, start + static_cast<double>(i) * delta);
    return;
  }
  const auto start = static_cast<uint64_t>(scalar_int(c.input_view(0)));
  const auto delta = static_cast<uint64_t>(scalar_int(c.input_view(2)));
  for (int64_t i = 0; i < n; ++i)
    store_wrapped(c.output<void>(), y.dtype, i * step,
                  static_cast<int64_t>(start + static_cast<uint64_t>(i) * delta));
}

void trilu(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const int64_t k = c.has(1) ? scalar_int(c.input_view(1)) : 0;
  const bool upper = c.spec.attrs().get_int("upper", 1) != 0;
  const size_t rank = x.dims.size();
  const int64_t rows = x.dims[rank - 2], cols = x.dims[rank - 1];
  const Dims outer(x.dims.begin(), x.dims.end() - 2);
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_offset<2>(
        outer, {std::span(x.strides).first(rank - 2), std::span(y.strides).first(rank - 2)},
        [&](const auto& at) {
          for (int64_t r = 0; r < rows; ++r) {
            // First column that is kept (upper) or not (lower); k may be any number.
            const int64_t edge = std::clamp<int64_t>(k > cols    ? cols + 1
                                                     : k < -rows ? -1
                                                                 : r + k + (upper ? 0 : 1),
                                                     0, cols);
            const T* from = c.input<T>(0) + at[0] + r * x.strides[rank - 2];
            T* to = c.output<T>() + at[1] + r * y.strides[rank - 2];
            const int64_t first = upper ? edge : 0, last = upper ? cols : edge;  // kept
            if (x.strides[rank - 1] == 1 && y.strides[rank - 1] == 1) {
              std::fill(to, to + first, T{});
              std::copy(from + first, from + last, to + first);
              std::fill(to + last, to + cols, T{});
              continue;
            }
            for (int64_t j = 0; j < cols; ++j)
              to[j * y.strides[rank - 1]] =
                  j >= first && j < last ? from[j * x.strides[rank - 1]] : T{};
          }
        });
  });
}

}  // namespace

void add_indexed(Rows& rows) {
  rows.push_back(
      {"xc.axis", "ArgMax", supports_numbers, create_simple<arg_reduce<true>, line_tasks>});
  rows.push_back(
      {"xc.axis", "ArgMin", supports_numbers, create_simple<arg_reduce<false>, line_tasks>});
  rows.push_back(
      {"xc.axis", "CumSum", supports_numbers, create_simple<cumulative<true>, line_tasks>});
  rows.push_back(
      {"xc.axis", "CumProd", supports_numbers, create_simple<cumulative<false>, line_tasks>});
  rows.push_back({"xc.axis", "TopK", supports_numbers, create_simple<top_k, line_tasks>});
  rows.push_back({"xc.scatter", "ScatterElements", supports_scatter,
                  create_simple<scatter_elements, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "Scatter", supports_scatter, create_simple<scatter_elements, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "ScatterND", supports_scatter, create_simple<scatter_nd, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "TensorScatter", supports_scatter, create_simple<tensor_scatter, nullptr, 1>});
  rows.push_back({"xc.fill", "Shape", supports_simple, create_simple<shape>});
  rows.push_back({"xc.fill", "Size", supports_simple, create_simple<size>});
  rows.push_back({"xc.fill", "ConstantOfShape", supports_simple, create_simple<constant_of_shape>});
  rows.push_back({"xc.fill", "Range", supports_simple, create_simple<range>});
  rows.push_back({"xc.fill", "Trilu", supports_simple, create_simple<trilu>});
}

}  // namespace xc::cpu
