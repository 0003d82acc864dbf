// Elements put at given indices: ScatterElements, ScatterND, TensorScatter ("xc.scatter").

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

}  // namespace

void add_scatter(Rows& rows) {
  rows.push_back({"xc.scatter", "ScatterElements", supports_scatter,
                  create_simple<scatter_elements, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "Scatter", supports_scatter, create_simple<scatter_elements, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "ScatterND", supports_scatter, create_simple<scatter_nd, nullptr, 1>});
  rows.push_back(
      {"xc.scatter", "TensorScatter", supports_scatter, create_simple<tensor_scatter, nullptr, 1>});
}

}  // namespace xc::cpu
