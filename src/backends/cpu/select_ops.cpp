// OneHot, NonZero, Compress, ReverseSequence: "xc.select". Data say which places are read or
// written.

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

Verdict supports_one_hot(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const std::string reason = movable_reason(spec.inputs[2].dtype);
  return reason.empty() ? Verdict::ok() : Verdict::no(reason);
}

struct OneHotPlan {
  OneHotPlan(const StepSpec& spec, const OperandViews& views) {
    const OperandView &indices = views.inputs[0], &y = views.outputs[0];
    const size_t axis = normalise_axis(spec.attrs().get_int("axis", -1), y.dims.size());
    if (y.dims.size() != indices.dims.size() + 1)
      fail(Status::kRange, "the result has rank {}", y.dims.size());
    depth = y.dims[axis];
    step = y.strides[axis];
    off = CopyPlan(y.dims, Dims(y.dims.size(), 0), y.strides, element_size(y.dtype));
    Dims dims = copied(y.dims);
    strides = copied(y.strides);
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    if (!std::ranges::equal(dims, indices.dims))
      fail(Status::kRange, "indices have dims {}, expected {}", to_text(copied(indices.dims)),
           to_text(dims));
  }
  int64_t depth, step;
  CopyPlan off;  ///< everywhere
  Dims strides;  ///< of the result, without the axis
};

/// All is off, then one place per index is on. An index outside the depth switches nothing on.
void one_hot(const SimpleContext& c, const OneHotPlan& plan) {
  const OperandView &indices = c.in(0), &values = c.in(2);
  if (values.count() != 2) fail(Status::kRange, "{} values, expected off and on", values.count());
  const int64_t depth = plan.depth, step = plan.step;
  plan.off.run(c.args.buffers[2], c.output<void>());
  const TensorView index = c.input_view(0);
  dispatch_storage(c.out().dtype, [&]<class T>() {
    const T on = c.input<T>(2)[values.strides[0]];
    T* const to = c.output<T>();
    const auto switch_on = [&](auto index_at) {
      for_each_offset<2>(indices.dims, {indices.strides, plan.strides}, [&](const auto& at) {
        int64_t pick = index_at(at[0]);
        if (pick < 0) pick += depth;
        if (pick >= 0 && pick < depth) to[at[1] + pick * step] = on;
      });
    };
    if (index.dtype == DType::kI64)  // nearly always
      switch_on([&](int64_t i) { return index.as<int64_t>()[i]; });
    else
      switch_on([&](int64_t i) { return load_int64(index.data, index.dtype, i); });
  });
}

Verdict supports_non_zero(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const DType type = spec.inputs[0].dtype;
  return contains(kNumbers | kBools, type)
             ? Verdict::ok()
             : Verdict::no(fmt::format("elements of type {}", name(type)));
}

constexpr int64_t kBlock = 16;  ///< elements that are looked at together

/// Whether any of a block's elements counts. A loop of known length becomes vectors.
template <class T, class Set>
bool any_in_block(const T* x, Set set) {
  bool any = false;
  for (int64_t k = 0; k < kBlock; ++k) any |= set(x[k]);
  return any;
}

/// Calls take(j, k) with every place j < n of a row of which set() holds, the k-th of them, for
/// `room` of them at most, and returns how many there are, room + 1 where there are more. Blocks
/// without any are passed over. Within the others nothing branches on the data, which nothing could
/// predict: take() is called with other places too, and then again with the same k < room.
template <class T, class Set, class Take>
int64_t take_places(const T* row, int64_t n, int64_t step, int64_t room, Set set, Take take) {
  int64_t count = 0, j = 0;
  for (; step == 1 && j + kBlock <= n && count + kBlock <= room; j += kBlock) {
    if (!any_in_block(row + j, set)) continue;
    for (int64_t k = j; k < j + kBlock; ++k) {
      take(k, count);
      count += set(row[k]);
    }
  }
  for (; j < n && count < room; ++j) {
    take(j, count);
    count += set(row[j * step]);
  }
  for (; j < n; ++j)
    if (set(row[j * step])) return room + 1;
  return count;
}

/// Coordinates of the elements that are not zero, one column each, in row-major order. The number
/// of columns was counted from the same data by inference.
void non_zero(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t rank = x.dims.size();
  const int64_t columns = y.dims[1], step = y.strides[1];
  int64_t column = 0;
  // Bools as bytes: what the host gives may hold others than 0 and 1, which a bool may not.
  dispatch_number(x.dtype == DType::kBool ? DType::kU8 : x.dtype, [&]<class T>() {
    const auto set = [](T v) { return static_cast<ComputeOf<T>>(v) != ComputeOf<T>{}; };
    const T* from = c.input<T>(0);
    auto* to = c.output<int64_t>();
    if (rank == 0) {
      column += set(*from);
      return;
    }
    const size_t last = rank - 1;
    const int64_t n = x.dims[last], from_step = x.strides[last];
    Dims at(last, 0);
    for_each_offset<1>(std::span(x.dims).first(last), {std::span(x.strides).first(last)},
                       [&](const auto& offsets) {
                         const T* row = from + offsets[0];
                         int64_t* picked = to + static_cast<int64_t>(last) * y.strides[0];
                         const int64_t first = column;
                         column += take_places(
                             row, n, from_step, columns - first, set,
                             [&](int64_t j, int64_t k) { picked[(first + k) * step] = j; });
                         if (column > columns) fail(Status::kRange, "more elements than inferred");
                         for (size_t axis = 0; axis < last; ++axis)
                           for (int64_t k = first; k < column; ++k)
                             to[static_cast<int64_t>(axis) * y.strides[0] + k * step] = at[axis];
                         for (size_t axis = last; axis-- > 0;) {
                           if (++at[axis] < x.dims[axis]) break;
                           at[axis] = 0;
                         }
                       });
  });
  if (column != columns) fail(Status::kRange, "fewer elements than inferred");
}

template <class T>
struct Slices {
  const T* from;
  int64_t places, inner, kept;
};

/// Returns how many there are; no more than are kept are copied.
template <class T>
int64_t copy_slices(const Slices<T>& slices, const uint8_t* wanted, int64_t step, T* to) {
  const auto set = [](uint8_t v) { return v != 0; };
  int64_t count = 0;
  for (int64_t j = 0; j < slices.places;) {
    const int64_t end = std::min(j + kBlock, slices.places);
    if (step == 1 && end == j + kBlock && !any_in_block(wanted + j, set)) j = end;
    for (; j < end; ++j) {
      if (!set(wanted[j * step])) continue;
      if (count == slices.kept) return count + 1;
      to = std::copy_n(slices.from + j * slices.inner, slices.inner, to);
      ++count;
    }
  }
  return count;
}

/// Whole slices, wherever the condition holds.
void compress(const SimpleContext& c) {
  const OperandView &x = c.in(0), &condition = c.in(1), &y = c.out();
  const bool flat = !c.spec.attrs().has("axis");
  const size_t axis = flat ? 0 : normalise_axis(c.spec.attrs().get_int("axis", 0), x.dims.size());
  const int64_t size = flat ? x.count() : x.dims[axis];
  const int64_t outer = flat ? 1 : element_count(std::span(x.dims).first(axis));
  const int64_t inner = flat ? 1 : element_count(std::span(x.dims).subspan(axis + 1));
  const int64_t kept = flat ? y.dims[0] : y.dims[axis];
  const auto* wanted = c.input<uint8_t>(1);
  dispatch_storage(y.dtype, [&]<class T>() {
    T* to = c.output<T>();
    const int64_t step = condition.strides[0], places = std::min(condition.dims[0], size);
    const auto set = [](uint8_t v) { return v != 0; };
    for (int64_t k = places; k < condition.dims[0]; ++k)
      if (set(wanted[k * step])) checked_index(k, size, "condition");
    for (int64_t o = 0; o < outer; ++o, to += kept * inner) {
      const T* const from = c.input<T>(0) + o * size * inner;
      const int64_t count = inner == 1
                                ? take_places(wanted, places, step, kept, set,
                                              [&](int64_t j, int64_t k) { to[k] = from[j]; })
                                : copy_slices<T>({from, places, inner, kept}, wanted, step, to);
      if (count > kept) fail(Status::kRange, "more slices than inferred");
      if (count < kept) fail(Status::kRange, "fewer slices than inferred");
    }
  });
}

/// Time runs backwards up to each sequence's length, then as it was.
void reverse_sequence(const SimpleContext& c) {
  const OperandView &x = c.in(0), &lengths = c.in(1);
  const auto time = static_cast<size_t>(c.spec.attrs().get_int("time_axis", 0));
  const size_t batch = 1 - time;
  if (lengths.dims[0] != x.dims[batch]) fail(Status::kRange, "{} lengths", lengths.dims[0]);
  const int64_t inner = element_count(std::span(x.dims).subspan(2));
  const int64_t time_step = x.strides[time], batch_step = x.strides[batch];
  dispatch_storage(x.dtype, [&]<class T>() {
    for (int64_t b = 0; b < x.dims[batch]; ++b) {
      const int64_t length = c.input<int64_t>(1)[b * lengths.strides[0]];
      if (length < 0 || length > x.dims[time])
        fail(Status::kRange, "sequence length {} of {}", length, x.dims[time]);
      for (int64_t t = 0; t < x.dims[time]; ++t) {
        const int64_t from = t < length ? length - 1 - t : t;
        std::copy_n(c.input<T>(0) + b * batch_step + from * time_step, inner,
                    c.output<T>() + b * batch_step + t * time_step);
      }
    }
  });
}

/// Operands of any type that is moved bit by bit, row-major.
Verdict supports_slices(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const std::string reason = movable_reason(spec.inputs[0].dtype);
  if (!reason.empty()) return Verdict::no(reason);
  if (!spec.inputs[0].contiguous() || !spec.outputs[0].contiguous())
    return Verdict::no("operands that are not row-major");
  return Verdict::ok();
}
Verdict supports_reverse(const StepSpec& spec) {
  if (spec.attrs().get_int("time_axis", 0) + spec.attrs().get_int("batch_axis", 1) != 1)
    return Verdict::no("axes behind the second");
  return supports_slices(spec);
}

}  // namespace

void add_select_ops(Rows& rows) {
  rows.push_back({"xc.select", "OneHot", supports_one_hot, create_planned<OneHotPlan, one_hot>});
  rows.push_back({"xc.select", "NonZero", supports_non_zero, create_simple<non_zero>});
  rows.push_back({"xc.select", "Compress", supports_slices, create_simple<compress>});
  rows.push_back(
      {"xc.select", "ReverseSequence", supports_reverse, create_simple<reverse_sequence>});
}

}  // namespace xc::cpu
