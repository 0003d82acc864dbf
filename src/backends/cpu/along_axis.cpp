// Ops along one axis: ArgMax, ArgMin, CumSum, CumProd, TopK ("xc.axis").

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

Verdict supports_numbers(const StepSpec& spec) {
  const Verdict simple = no_strings(spec);
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
/// walks along an axis that is not innermost then reads whole cache lines. `apart`: groups lie side
/// by side in the result only.
template <class Body>
void for_line_groups(const Lines& lines, int64_t begin, int64_t end, Body&& body,
                     bool apart = false) {
  if (begin >= end) return;
  if (lines.dims.empty()) return body(0, 0, 1);
  const size_t last = lines.dims.size() - 1;
  const bool adjacent = (apart || lines.from[last] == 1) && lines.to[last] == 1;
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

/// Short rows are lines of adjacent elements: several to a vector.
void best_of_short_rows(const Lines& lines, const float* x, int64_t n, bool largest, int64_t* out,
                        int64_t begin, int64_t end) {
  const auto best_of = line_fns(cpu_info().isa).arg_best_of_rows;
  const int64_t stride = lines.from.empty() ? 0 : lines.from.back();
  for_line_groups(
      lines, begin, end,
      [&](int64_t from, int64_t to, int64_t count) {
        int32_t best[kSideBySide];
        best_of(x + from, n, stride, count, largest, best);
        std::copy_n(best, count, out + to);
      },
      true);
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

void arg_reduce(const SimpleContext& c, bool largest) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", 0), x.dims.size());
  const bool keep = c.spec.attrs().get_int("keepdims", 1) != 0;
  const bool last = c.spec.attrs().get_int("select_last_index", 0) != 0;
  const int64_t n = x.dims[axis], step = x.strides[axis];
  if (n == 0) fail(Status::kRange, "axis {} has no elements", axis);
  Dims ys = y.strides;
  if (!keep) ys.insert(ys.begin() + static_cast<ptrdiff_t>(axis), 0);
  const Lines lines(x.dims, x.strides, ys, axis);
  const int64_t begin = lines.count * c.begin / c.tasks, end = lines.count * c.end / c.tasks;
  auto* const out = c.output<int64_t>();
  if (x.dtype == DType::kF32 && !last && n < INT32_MAX) {
    const auto* const x0 = c.input<float>(0);
    if (step == 1 && n <= kShortRow)
      return best_of_short_rows(lines, x0, n, largest, out, begin, end);
    for_line_groups(lines, begin, end, [&](int64_t from, int64_t to, int64_t count) {
      largest ? best_of_lines<true>(x0 + from, n, step, count, out + to)
              : best_of_lines<false>(x0 + from, n, step, count, out + to);
    });
    return;
  }
  dispatch_number(x.dtype, [&]<class T>() {
    // Every other type fits into f64. What is smallest there is largest with the sign, or every
    // bit, turned.
    using V = std::conditional_t<std::is_integral_v<T> && sizeof(T) == 8, T, double>;
    const V turn = static_cast<V>(std::is_integral_v<V> ? (largest ? 0 : -1) : (largest ? 1 : -1));
    const auto read = [&](T x) {
      if constexpr (std::is_integral_v<V>)
        return static_cast<V>(x ^ turn);
      else
        return static_cast<double>(x) * turn;
    };
    // Whether a later value takes the place of the best so far. Of floats NaN is the best.
    constexpr bool kFloats = !std::is_integral_v<T>;
    const auto above = [](V v, V best) { return v > best || (kFloats && v != v && best == best); };
    const auto above_or_same = [](V v, V best) { return v >= best || (kFloats && v != v); };
    const T* x0 = c.input<T>(0);
    const auto walk = [&](auto better) {
      for_line_groups(lines, begin, end, [&](int64_t from, int64_t to, int64_t count) {
        V value[kSideBySide];
        int64_t best[kSideBySide] = {};
        for (int64_t l = 0; l < count; ++l) value[l] = read(x0[from + l]);
        for (int64_t i = 1; i < n; ++i)
          for (int64_t l = 0; l < count; ++l) {
            const V v = read(x0[from + i * step + l]);
            if (better(v, value[l])) best[l] = i, value[l] = v;
          }
        std::copy_n(best, count, out + to);
      });
    };
    last ? walk(above_or_same) : walk(above);
  });
}
void arg_max(const SimpleContext& c) {
  arg_reduce(c, true);
}
void arg_min(const SimpleContext& c) {
  arg_reduce(c, false);
}

// ---- running totals

template <bool kSum>
void cumulative(const SimpleContext& c) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t axis = normalise_axis(scalar_int(c.input_view(1)), x.dims.size());
  const bool exclusive = c.spec.attrs().get_int("exclusive", 0) != 0;
  const bool reverse = c.spec.attrs().get_int("reverse", 0) != 0;
  const Lines lines(x.dims, x.strides, y.strides, axis);
  const int64_t n = x.dims[axis], start = reverse ? n - 1 : 0, sign = reverse ? -1 : 1;
  const int64_t from_step = sign * x.strides[axis], to_step = sign * y.strides[axis];
  const int64_t begin = lines.count * c.begin / c.tasks, end = lines.count * c.end / c.tasks;
  if (n == 0) return;
  dispatch_number(x.dtype, [&]<class T>() {
    using V = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    const T* const x0 = c.input<T>(0) + start * x.strides[axis];
    T* const y0 = c.output<T>() + start * y.strides[axis];
    for_line_groups(lines, begin, end, [&](int64_t a, int64_t b, int64_t count) {
      if constexpr (kSum && std::is_same_v<T, float>) {
        line_fns(cpu_info().isa)
            .running_sum(x0 + a, from_step, y0 + b, to_step, n, count, exclusive);
        return;
      }
      V acc[kSideBySide];
      std::fill_n(acc, count, static_cast<V>(kSum ? 0 : 1));
      for (int64_t k = 0; k < n; ++k) {
        const T* from = x0 + a + k * from_step;
        T* to = y0 + b + k * to_step;
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

/// Unsigned numbers in the order of the elements, so that all types share two routines: zeros of
/// both signs are equal, NaN is above all.
template <class T>
using KeyOf = std::conditional_t<(sizeof(T) <= 4), uint32_t, uint64_t>;
template <class T>
KeyOf<T> key_of(T v) {
  using Key = KeyOf<T>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  // The bits of a float that is no negative zero.
  const auto ordered = [](Key bits, bool nan) {
    const Key negative = bits >> (8 * sizeof(Key) - 1);
    return nan ? std::numeric_limits<Key>::max() : bits ^ ((Key{0} - negative) | kSign);
  };
  // The upper half of an f32, or what is ordered like one; infinity in it.
  const auto half = [&](Key bits, Key infinity) {
    const Key magnitude = bits & 0x7fff;
    return ordered(magnitude == 0 ? 0 : bits << 16, magnitude > infinity);
  };
  if constexpr (std::is_unsigned_v<T>)
    return v;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<Key>(static_cast<std::make_signed_t<Key>>(v)) ^ kSign;
  else if constexpr (std::is_same_v<T, F16>)
    return half(v.bits, 0x7c00);
  else if constexpr (std::is_same_v<T, BF16>)
    return half(v.bits, 0x7f80);
  else
    return ordered(std::bit_cast<Key>(v + T{0}), v != v);
}

/// take(i) for each key from `first` on that is above what limit() gives by then.
template <class Key, class Limit, class Take>
void for_above(const Key* keys, int64_t first, int64_t n, const Limit& limit, const Take& take) {
  for (int64_t i = first; i < n;) {
    if constexpr (sizeof(Key) == 4)
      i += line_fns(cpu_info().isa).none_above(keys + i, n - i, limit());
    for (const int64_t end = std::min(n, i + kKeyBlock); i < end; ++i)
      if (keys[i] > limit()) take(i);
  }
}

/// Up to so many, the best so far are kept in order and others only compared with the last of them.
constexpr int64_t kFewBest = 64;

/// order[0, k) = positions of the k <= kFewBest largest of n keys, in order; of equal ones the
/// first.
template <class Key>
void few_best(const Key* keys, int64_t n, int64_t k, int64_t* order) {
  if (k == 0) return;
  Key best[kFewBest];
  const auto insert = [&](Key key, int64_t i, int64_t at) {
    for (; at > 0 && key > best[at - 1]; --at) {
      best[at] = best[at - 1];
      order[at] = order[at - 1];
    }
    best[at] = key;
    order[at] = i;
  };
  for (int64_t i = 0; i < k; ++i) insert(keys[i], i, i);
  for_above(keys, k, n, [&] { return best[k - 1]; }, [&](int64_t i) { insert(keys[i], i, k - 1); });
}

/// A key beside its position, so that sorting moves what it compares.
template <class Key, class Index>
struct Ranked {
  Key key;
  Index index;
  bool operator<(const Ranked& other) const {
    return key != other.key ? key > other.key : index < other.index;
  }
};

/// Largest keys first; equal ones keep their order. By digits of a byte, the lowest first; one that
/// all keys share moves nothing.
template <class R>
void sort_by_digits(std::vector<R>& items, std::vector<R>& spare) {
  constexpr size_t kDigits = sizeof(R::key), kValues = 256;
  const auto digit = [](const R& item, size_t d) {
    return static_cast<size_t>((~item.key >> (8 * d)) & 0xff);
  };
  size_t starts[kDigits][kValues] = {};
  for (const R& item : items)
    for (size_t d = 0; d < kDigits; ++d) ++starts[d][digit(item, d)];
  spare.resize(items.size());
  for (size_t d = 0; d < kDigits; ++d) {
    size_t* const start = starts[d];
    if (items.empty() || start[digit(items[0], d)] == items.size()) continue;
    size_t before = 0;
    for (size_t v = 0; v < kValues; ++v) before += std::exchange(start[v], before);
    for (const R& item : items) spare[start[digit(item, d)]++] = item;
    items.swap(spare);
  }
}

/// The k largest of n keys, in order, of equal ones the first: items[0, k).
template <class Key, class R>
void best_ranked(const Key* keys, int64_t n, int64_t k, std::vector<R>& items,
                 std::vector<R>& spare) {
  const auto append = [&](int64_t i) {
    items.push_back({keys[i], static_cast<decltype(R::index)>(i)});
  };
  items.clear();
  // Twice k candidates at most: of so many the better half is kept, the last of which others must
  // be above.
  const auto room = static_cast<size_t>(4 * k <= n ? 2 * k : n), wanted = static_cast<size_t>(k);
  items.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < static_cast<int64_t>(room); ++i) append(i);
  Key limit = 0;
  const auto keep_best = [&] {
    const auto last = items.begin() + static_cast<ptrdiff_t>(k) - 1;
    std::nth_element(items.begin(), last, items.end());
    limit = last->key;
    items.resize(wanted);
  };
  if (items.size() > wanted && room < static_cast<size_t>(n)) keep_best();
  for_above(
      keys, static_cast<int64_t>(room), n, [&] { return limit; },
      [&](int64_t i) {
        append(i);
        if (items.size() == room) keep_best();
      });
  if (room < static_cast<size_t>(n))  // equal keys stand in any order by now
    return std::sort(items.begin(), items.end());
  sort_by_digits(items, spare);
}

/// The best of one line after another, in memory they share.
template <class Key>
class BestOfLines {
 public:
  BestOfLines(int64_t n, int64_t k) : n_(n), k_(k), order_(static_cast<size_t>(k)) {}

  /// Positions of the k largest keys of a line, in order; of equal ones the first.
  std::span<const int64_t> of(const Key* keys) {
    if (k_ <= kFewBest)
      few_best(keys, n_, k_, order_.data());
    else if (n_ <= std::numeric_limits<uint32_t>::max())
      take(keys, short_);
    else
      take(keys, long_);
    return order_;
  }

 private:
  template <class Index>
  struct Room {
    std::vector<Ranked<Key, Index>> items, spare;
  };
  template <class Index>
  void take(const Key* keys, Room<Index>& room) {
    best_ranked(keys, n_, k_, room.items, room.spare);
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = static_cast<int64_t>(room.items[i].index);
  }

  int64_t n_, k_;
  std::vector<int64_t> order_;
  Room<uint32_t> short_;
  Room<int64_t> long_;
};

/// keys[i] = key of the element i steps on.
template <class T>
void keys_of_line(const T* line, int64_t step, std::vector<KeyOf<T>>& keys) {
  const auto n = static_cast<int64_t>(keys.size());
  if constexpr (std::is_same_v<T, float>)
    if (step == 1) return line_fns(cpu_info().isa).ordered_keys(line, n, keys.data());
  for (int64_t i = 0; i < n; ++i) keys[static_cast<size_t>(i)] = key_of(line[i * step]);
}

/// Parts to sort, which takes longer than to walk.
int64_t top_k_tasks(const StepSpec&, const OperandViews& views) {
  const OperandView& x = views.inputs[0];
  return x.dims.empty() ? 1 : std::clamp<int64_t>(x.count() / (8 << 10), 1, 64);
}

void top_k(const SimpleContext& c) {
  const OperandView& x = c.in(0);
  const OperandView& shaped = c.wants(0) ? c.out(0) : c.out(1);
  const size_t axis = normalise_axis(c.spec.attrs().get_int("axis", -1), x.dims.size());
  const bool largest = c.spec.attrs().get_int("largest", 1) != 0;
  const int64_t n = x.dims[axis], k = shaped.dims[axis], step = x.strides[axis];
  if (k > n) fail(Status::kRange, "k is {} of {} elements", k, n);
  const Dims none(x.dims.size(), 0);
  const Lines values(x.dims, x.strides, c.wants(0) ? c.out(0).strides : none, axis);
  const Lines indices(x.dims, x.strides, c.wants(1) ? c.out(1).strides : none, axis);
  const int64_t begin = values.count * c.begin / c.tasks, end = values.count * c.end / c.tasks;
  if (begin >= end) return;  // however long the lines would be
  dispatch_number(x.dtype, [&]<class T>() {
    using Key = KeyOf<T>;
    std::vector<Key> keys(static_cast<size_t>(n));
    BestOfLines<Key> best(n, k);
    for (int64_t l = begin; l < end; ++l) {
      const auto [from, to] = values.at(l);
      const int64_t to_index = indices.at(l).second;
      const T* line = c.input<T>(0) + from;
      keys_of_line(line, step, keys);
      if (!largest)  // NaN comes last then
        for (Key& key : keys) key = ~key;
      const auto order = best.of(keys.data());
      for (int64_t i = 0; i < k; ++i) {
        const int64_t pick = order[static_cast<size_t>(i)];
        if (c.wants(0)) c.output<T>(0)[to + i * c.out(0).strides[axis]] = line[pick * step];
        if (c.wants(1)) c.output<int64_t>(1)[to_index + i * c.out(1).strides[axis]] = pick;
      }
    }
  });
}

}  // namespace

void add_along_axis(Rows& rows) {
  rows.push_back({"xc.axis", "ArgMax", supports_numbers, create_simple<arg_max, line_tasks>});
  rows.push_back({"xc.axis", "ArgMin", supports_numbers, create_simple<arg_min, line_tasks>});
  rows.push_back(
      {"xc.axis", "CumSum", supports_numbers, create_simple<cumulative<true>, line_tasks>});
  rows.push_back(
      {"xc.axis", "CumProd", supports_numbers, create_simple<cumulative<false>, line_tasks>});
  rows.push_back({"xc.axis", "TopK", supports_numbers, create_simple<top_k, top_k_tasks>});
}

}  // namespace xc::cpu
