// Ops along one axis: ArgMax, ArgMin, CumSum, CumProd, LpNormalization, TopK ("xc.axis").

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "backends/cpu/side_by_side.h"
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
  /// Whether neighbours along the last of the other axes lie side by side in both tensors.
  bool side_by_side() const { return !dims.empty() && from.back() == 1 && to.back() == 1; }
  /// Lines [first, second) of tasks [begin, end).
  std::pair<int64_t, int64_t> of_tasks(const SimpleContext& c) const {
    const LineGroups groups(count, side_by_side() ? dims.back() : 1);
    return {groups.of_task(c.begin, c.tasks), groups.of_task(c.end, c.tasks)};
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
  const bool adjacent = lines.side_by_side() || (apart && lines.to[last] == 1);
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

void best_of_lines(const float* x, int64_t n, int64_t step, int64_t lines, bool largest,
                   int64_t* out) {
  const LineFns& fns = line_fns(cpu_info().isa);
  if (step == 1 && lines == 1 && n >= 16) {
    *out = fns.arg_best_along(x, n, largest);
    return;
  }
  int32_t best[kSideBySide];
  fns.arg_best(x, n, step, lines, largest, best);
  std::copy_n(best, lines, out);
}

struct ArgLines {
  ArgLines(const StepSpec& spec, const OperandViews& views)
      : axis(normalise_axis(spec.attrs().get_int("axis", 0), views.inputs[0].dims.size())),
        lines(lines_of(spec, views, axis)) {}
  static Lines lines_of(const StepSpec& spec, const OperandViews& views, size_t axis) {
    const OperandView& x = views.inputs[0];
    Dims ys = copied(views.outputs[0].strides);
    if (spec.attrs().get_int("keepdims", 1) == 0)
      ys.insert(ys.begin() + static_cast<ptrdiff_t>(axis), 0);
    return Lines(x.dims, x.strides, ys, axis);
  }
  size_t axis;
  Lines lines;
};

void arg_reduce(const SimpleContext& c, const ArgLines& plan, bool largest) {
  const OperandView& x = c.in(0);
  const size_t axis = plan.axis;
  const bool last = c.spec.attrs().get_int("select_last_index", 0) != 0;
  const int64_t n = x.dims[axis], step = x.strides[axis];
  if (n == 0) fail(Status::kRange, "axis {} has no elements", axis);
  const Lines& lines = plan.lines;
  const auto [begin, end] = lines.of_tasks(c);
  auto* const out = c.output<int64_t>();
  if (x.dtype == DType::kF32 && !last && n < INT32_MAX) {
    const auto* const x0 = c.input<float>(0);
    const bool alone = lines.dims.empty() || lines.dims.back() < 4;
    if (step == 1 && n <= kShortRow && !(alone && n >= 16))
      return best_of_short_rows(lines, x0, n, largest, out, begin, end);
    for_line_groups(lines, begin, end, [&](int64_t from, int64_t to, int64_t count) {
      best_of_lines(x0 + from, n, step, count, largest, out + to);
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
        if (count == 1) {  // in registers
          V only = read(x0[from]);
          int64_t at = 0;
          for (int64_t i = 1; i < n; ++i) {
            const V v = read(x0[from + i * step]);
            const bool other = better(v, only);
            only = other ? v : only;
            at = other ? i : at;
          }
          out[to] = at;
          return;
        }
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
void arg_max(const SimpleContext& c, const ArgLines& plan) {
  arg_reduce(c, plan, true);
}
void arg_min(const SimpleContext& c, const ArgLines& plan) {
  arg_reduce(c, plan, false);
}

// ---- running totals

/// Lines along each axis: which one counts is an input.
struct LinesByAxis {
  LinesByAxis(const StepSpec&, const OperandViews& views) {
    const OperandView &x = views.inputs[0], &y = views.outputs[0];
    for (size_t axis = 0; axis < x.dims.size(); ++axis)
      along.emplace_back(x.dims, x.strides, y.strides, axis);
  }
  std::vector<Lines> along;
};

template <bool kSum>
void cumulative(const SimpleContext& c, const LinesByAxis& plan) {
  const OperandView &x = c.in(0), &y = c.out();
  const size_t axis = normalise_axis(scalar_int(c.input_view(1)), x.dims.size());
  const bool exclusive = c.spec.attrs().get_int("exclusive", 0) != 0;
  const bool reverse = c.spec.attrs().get_int("reverse", 0) != 0;
  const Lines& lines = plan.along[axis];
  const int64_t n = x.dims[axis], start = reverse ? n - 1 : 0, sign = reverse ? -1 : 1;
  const int64_t from_step = sign * x.strides[axis], to_step = sign * y.strides[axis];
  const auto [begin, end] = lines.of_tasks(c);
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

// ---- norms

struct NormLines {
  NormLines(const StepSpec& spec, const OperandViews& views)
      : axis(normalise_axis(spec.attrs().get_int("axis", -1), views.inputs[0].dims.size())),
        lines(views.inputs[0].dims, views.inputs[0].strides, views.outputs[0].strides, axis) {}
  size_t axis;
  Lines lines;
};

/// Sums are of f64, for norms of what f32 cannot square.
void lp_normalise(const SimpleContext& c, const NormLines& plan) {
  const OperandView &x = c.in(0), &y = c.out();
  const bool squares = c.spec.attrs().get_int("p", 2) == 2;
  const int64_t n = x.dims[plan.axis];
  const int64_t from_step = x.strides[plan.axis], to_step = y.strides[plan.axis];
  const auto [begin, end] = plan.lines.of_tasks(c);
  if (n == 0) return;  // however many lines there would be
  const bool apart = !plan.lines.side_by_side();
  constexpr int64_t kPartial = 8;  // sums of a line alone, which do not wait for each other
  dispatch_number(x.dtype, [&]<class T>() {
    // By an inverse of f64, which loses nothing of smaller types and is finite for their norms.
    constexpr bool kMultiplies = sizeof(T) <= 4;
    const auto term = [&](T at) {
      const auto v = static_cast<double>(at);
      return squares ? v * v : std::abs(v);
    };
    for_line_groups(plan.lines, begin, end, [&](int64_t a, int64_t b, int64_t count) {
      const T* const from = c.input<T>(0) + a;
      T* const to = c.output<T>() + b;
      double norm[kSideBySide] = {};
      if (apart) {
        double sums[kPartial] = {};
        int64_t k = 0;
        for (; k + kPartial <= n; k += kPartial)
          for (int64_t i = 0; i < kPartial; ++i) sums[i] += term(from[(k + i) * from_step]);
        for (; k < n; ++k) sums[0] += term(from[k * from_step]);
        for (const double sum : sums) norm[0] += sum;
      } else {
        for (int64_t k = 0; k < n; ++k)
          for (int64_t l = 0; l < count; ++l) norm[l] += term(from[k * from_step + l]);
      }
      for (int64_t l = 0; l < count; ++l) {
        if (squares) norm[l] = std::sqrt(norm[l]);
        if (norm[l] == 0) norm[l] = 1;  // of zeros alone
        if (kMultiplies) norm[l] = 1 / norm[l];
      }
      for (int64_t k = 0; k < n; ++k)
        for (int64_t l = 0; l < count; ++l) {
          const auto v = static_cast<double>(from[k * from_step + l]);
          to[k * to_step + l] = static_cast<T>(kMultiplies ? v * norm[l] : v / norm[l]);
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
/// all keys share moves nothing. Where they lie then: `items` or `spare`, of the same size.
template <class R>
std::span<R> sort_by_digits(std::span<R> items, std::span<R> spare) {
  constexpr size_t kDigits = sizeof(R::key), kValues = 256;
  const auto digit = [](const R& item, size_t d) {
    return static_cast<size_t>((~item.key >> (8 * d)) & 0xff);
  };
  size_t starts[kDigits][kValues] = {};
  for (const R& item : items)
    for (size_t d = 0; d < kDigits; ++d) ++starts[d][digit(item, d)];
  for (size_t d = 0; d < kDigits; ++d) {
    size_t* const start = starts[d];
    if (items.empty() || start[digit(items[0], d)] == items.size()) continue;
    size_t before = 0;
    for (size_t v = 0; v < kValues; ++v) before += std::exchange(start[v], before);
    for (const R& item : items) spare[start[digit(item, d)]++] = item;
    std::swap(items, spare);
  }
  return items;
}

/// The k largest of n keys, in order, of equal ones the first: the first k of what it returns.
/// `items` and `spare`: room for n each.
template <class Key, class R>
std::span<const R> best_ranked(const Key* keys, int64_t n, int64_t k, R* items, R* spare) {
  size_t count = 0;
  const auto append = [&](int64_t i) {
    items[count++] = {keys[i], static_cast<decltype(R::index)>(i)};
  };
  // Twice k candidates at most: of so many the better half is kept, the last of which others must
  // be above.
  const auto room = static_cast<size_t>(4 * k <= n ? 2 * k : n), wanted = static_cast<size_t>(k);
  for (int64_t i = 0; i < static_cast<int64_t>(room); ++i) append(i);
  Key limit = 0;
  const auto keep_best = [&] {
    R* const last = items + k - 1;
    std::nth_element(items, last, items + count);
    limit = last->key;
    count = wanted;
  };
  if (count > wanted && room < static_cast<size_t>(n)) keep_best();
  for_above(
      keys, static_cast<int64_t>(room), n, [&] { return limit; },
      [&](int64_t i) {
        append(i);
        if (count == room) keep_best();
      });
  if (room == static_cast<size_t>(n))
    return sort_by_digits(std::span(items, count), std::span(spare, count));
  std::sort(items, items + count);  // equal keys stand in any order by now
  return {items, count};
}

/// Room in scratch for one line of n elements of `T`: its keys, the positions of the k largest, and
/// where these are more than a few, two lists to sort in.
template <class T>
class LineRoom {
 public:
  using Key = KeyOf<T>;
  LineRoom(int64_t n, int64_t k) : n_(n), k_(k) {
    const auto place = [&](int64_t count, size_t bytes) {
      const int64_t here = bytes_;
      bytes_ = checked_add(bytes_, align_up(checked_mul(count, static_cast<int64_t>(bytes)), 64));
      return here;
    };
    keys_at_ = place(n, sizeof(Key));
    order_at_ = place(k, sizeof(int64_t));
    if (k <= kFewBest) return;
    const size_t item = is_short() ? sizeof(Ranked<Key, uint32_t>) : sizeof(Ranked<Key, int64_t>);
    items_at_ = place(n, item);
    spare_at_ = place(n, item);
  }
  int64_t bytes() const { return bytes_; }
  std::span<Key> keys(void* scratch) const {
    return {at<Key>(scratch, keys_at_), static_cast<size_t>(n_)};
  }
  /// Positions of the k largest of those keys, in order; of equal ones the first.
  const int64_t* best(void* scratch) const {
    auto* const order = at<int64_t>(scratch, order_at_);
    const Key* const keys = at<Key>(scratch, keys_at_);
    if (k_ <= kFewBest)
      few_best(keys, n_, k_, order);
    else if (is_short())
      rank<uint32_t>(keys, scratch, order);
    else
      rank<int64_t>(keys, scratch, order);
    return order;
  }

 private:
  bool is_short() const { return n_ <= std::numeric_limits<uint32_t>::max(); }
  template <class V>
  static V* at(void* scratch, int64_t offset) {
    return reinterpret_cast<V*>(static_cast<std::byte*>(scratch) + offset);
  }
  template <class Index>
  void rank(const Key* keys, void* scratch, int64_t* order) const {
    using R = Ranked<Key, Index>;
    const auto ranked =
        best_ranked(keys, n_, k_, at<R>(scratch, items_at_), at<R>(scratch, spare_at_));
    for (int64_t i = 0; i < k_; ++i)
      order[i] = static_cast<int64_t>(ranked[static_cast<size_t>(i)].index);
  }

  int64_t n_, k_;
  int64_t keys_at_ = 0, order_at_ = 0, items_at_ = 0, spare_at_ = 0, bytes_ = 0;
};

/// keys[i] = key of the element i steps on; `falling`: the other way round, with NaN last.
template <class T>
void keys_of_line(const T* line, int64_t step, bool falling, std::span<KeyOf<T>> keys) {
  const auto n = static_cast<int64_t>(keys.size());
  if constexpr (std::is_same_v<T, float>)
    if (step == 1) return line_fns(cpu_info().isa).ordered_keys(line, n, falling, keys.data());
  const auto turn = static_cast<KeyOf<T>>(falling ? -1 : 0);
  for (int64_t i = 0; i < n; ++i)
    keys[static_cast<size_t>(i)] = static_cast<KeyOf<T>>(key_of(line[i * step]) ^ turn);
}

/// Parts to sort, which takes longer than to walk.
int64_t top_k_tasks(const StepSpec&, const OperandViews& views) {
  const OperandView& x = views.inputs[0];
  return x.dims.empty() ? 1 : std::clamp<int64_t>(x.count() / (8 << 10), 1, 64);
}

struct TopKPlan {
  TopKPlan(const StepSpec& spec, const OperandViews& views)
      : axis(normalise_axis(spec.attrs().get_int("axis", -1), views.inputs[0].dims.size())),
        n(views.inputs[0].dims[axis]),
        k(shaped(views).dims[axis]),
        values(lines_of(views, 0, axis)),
        indices(lines_of(views, 1, axis)) {
    if (k > n) fail(Status::kRange, "k is {} of {} elements", k, n);
    if (values.count == 0) return;  // however long the lines would be
    together = together_of(views);
    if (together != Together::kNone) return;
    dispatch_number(views.inputs[0].dtype,
                    [&]<class T>() { scratch_bytes = LineRoom<T>(n, k).bytes(); });
  }
  /// Whether lines are ranked some at a time, one in each lane: where they lie side by side, or are
  /// rows so short that in most steps one of so many has an element to be put in its place.
  enum class Together : uint8_t { kNone, kLines, kRows };
  Together together_of(const OperandViews& views) const {
    constexpr int64_t kLeast = 4, kLongest = 32;  // lines; elements of a row per one that is wanted
    const OperandView& x = views.inputs[0];
    if (x.dtype != DType::kF32 || k == 0 || k > kFewOfLines || n > INT32_MAX ||
        values.dims.empty() || values.dims.back() < kLeast)
      return Together::kNone;
    if (values.from.back() == 1) return Together::kLines;
    return x.strides[axis] == 1 && n <= k * kLongest ? Together::kRows : Together::kNone;
  }
  /// An output that is wanted.
  static const OperandView& shaped(const OperandViews& views) {
    return views.outputs[0].present() ? views.outputs[0] : views.outputs[1];
  }
  static Lines lines_of(const OperandViews& views, size_t output, size_t axis) {
    const OperandView& x = views.inputs[0];
    const bool wanted = output < views.outputs.size() && views.outputs[output].present();
    return Lines(x.dims, x.strides, wanted ? views.outputs[output].strides : Dims(x.dims.size(), 0),
                 axis);
  }
  size_t axis;
  int64_t n, k;
  Lines values, indices;
  Together together = Together::kNone;
  int64_t scratch_bytes = 0;
};

/// Lines [begin, end), some at a time.
void few_of_lines(const SimpleContext& c, const TopKPlan& plan, int64_t begin, int64_t end) {
  const LineFns& fns = line_fns(cpu_info().isa);
  const bool largest = c.spec.attrs().get_int("largest", 1) != 0;
  const int64_t step = c.in(0).strides[plan.axis], last = plan.values.dims.back();
  const int64_t apart = plan.values.from.back();
  for (int64_t l = begin; l < end;) {
    const int64_t count = std::min({end - l, last - l % last, kSideBySide});
    const auto [from, to] = plan.values.at(l);
    const int64_t to_index = plan.indices.at(l).second;
    const float* const x = c.input<float>(0) + from;
    int32_t order[kFewOfLines * kSideBySide];
    if (plan.together == TopKPlan::Together::kLines)
      fns.best_few(x, plan.n, step, count, largest, plan.k, order);
    else
      fns.best_few_of_rows(x, plan.n, apart, count, largest, plan.k, order);
    for (int64_t r = 0; r < plan.k; ++r)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t pick = order[r * kSideBySide + i];
        if (c.wants(0))
          c.output<float>(0)[to + i * plan.values.to.back() + r * c.out(0).strides[plan.axis]] =
              x[i * apart + pick * step];
        if (c.wants(1))
          c.output<int64_t>(
              1)[to_index + i * plan.indices.to.back() + r * c.out(1).strides[plan.axis]] = pick;
      }
    l += count;
  }
}

void top_k(const SimpleContext& c, const TopKPlan& plan) {
  const OperandView& x = c.in(0);
  const size_t axis = plan.axis;
  const bool largest = c.spec.attrs().get_int("largest", 1) != 0;
  const int64_t k = plan.k, step = x.strides[axis];
  const int64_t begin = plan.values.count * c.begin / c.tasks,
                end = plan.values.count * c.end / c.tasks;
  if (begin >= end) return;
  if (plan.together != TopKPlan::Together::kNone) return few_of_lines(c, plan, begin, end);
  dispatch_number(x.dtype, [&]<class T>() {
    const LineRoom<T> room(plan.n, k);
    const auto keys = room.keys(c.args.scratch);
    for (int64_t l = begin; l < end; ++l) {
      const auto [from, to] = plan.values.at(l);
      const int64_t to_index = plan.indices.at(l).second;
      const T* line = c.input<T>(0) + from;
      keys_of_line(line, step, !largest, keys);
      const int64_t* const order = room.best(c.args.scratch);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t pick = order[i];
        if (c.wants(0)) c.output<T>(0)[to + i * c.out(0).strides[axis]] = line[pick * step];
        if (c.wants(1)) c.output<int64_t>(1)[to_index + i * c.out(1).strides[axis]] = pick;
      }
    }
  });
}

}  // namespace

void add_along_axis(Rows& rows) {
  rows.push_back(
      {"xc.axis", "ArgMax", supports_numbers, create_planned<ArgLines, arg_max, line_tasks>});
  rows.push_back(
      {"xc.axis", "ArgMin", supports_numbers, create_planned<ArgLines, arg_min, line_tasks>});
  rows.push_back({"xc.axis", "CumSum", supports_numbers,
                  create_planned<LinesByAxis, cumulative<true>, line_tasks>});
  rows.push_back({"xc.axis", "CumProd", supports_numbers,
                  create_planned<LinesByAxis, cumulative<false>, line_tasks>});
  rows.push_back({"xc.axis", "LpNormalization", supports_numbers,
                  create_planned<NormLines, lp_normalise, line_tasks>});
  rows.push_back(
      {"xc.axis", "TopK", supports_numbers, create_planned<TopKPlan, top_k, top_k_tasks>});
}

}  // namespace xc::cpu
