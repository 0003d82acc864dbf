// Ops whose output size follows from data: NonZero, Compress, Unique. With the data at hand
// (constants, concrete inference) the size is counted; else it is a fresh symbol.

#include <algorithm>
#include <numeric>

#include "ops/support.h"

namespace xc {

namespace {

const Tensor* value_of(const InferContext& c, size_t i) {
  return c.has(i) && c.inputs[i].value && *c.inputs[i].value ? c.inputs[i].value : nullptr;
}

// ---- NonZero ------------------------------------------------------------------------------------

bool is_nonzero(const TensorView& x, int64_t offset) {
  if (x.dtype == DType::kString) return !x.as<std::string>()[offset].empty();
  const auto either_part = [&]<class T>(T) {
    const T* parts = reinterpret_cast<const T*>(x.data) + 2 * offset;
    return parts[0] != 0 || parts[1] != 0;
  };
  if (x.dtype == DType::kC64) return either_part(float{});
  if (x.dtype == DType::kC128) return either_part(double{});
  return load_double(x.data, x.dtype, offset) != 0;
}

/// Of a row of adjacent elements. Loops of known length become vectors.
template <class T>
int64_t count_in_row(const T* x, int64_t n) {
  constexpr int64_t kBlock = 64;
  const auto set = [](T v) { return static_cast<ComputeOf<T>>(v) != ComputeOf<T>{}; };
  int64_t count = 0, i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int32_t some = 0;
    for (int64_t k = 0; k < kBlock; ++k) some += set(x[i + k]);
    count += some;
  }
  for (; i < n; ++i) count += set(x[i]);
  return count;
}

int64_t count_nonzero(const TensorView& x) {
  int64_t n = 0;
  // Bools as bytes: what the host gives may hold others than 0 and 1, which a bool may not.
  const DType type = x.dtype == DType::kBool ? DType::kU8 : x.dtype;
  if (contains(kNumbers, type) && is_contiguous(x.dims, x.strides)) {
    dispatch_number(type, [&]<class T>() { n = count_in_row(x.as<T>(), element_count(x.dims)); });
    return n;
  }
  if (contains(kNumbers, type))
    dispatch_number(type, [&]<class T>() {
      const T* data = x.as<T>();
      for_each_offset<1>(x.dims, {x.strides}, [&](const auto& at) {
        n += static_cast<ComputeOf<T>>(data[at[0]]) != ComputeOf<T>{};
      });
    });
  else
    for_each_offset<1>(x.dims, {x.strides}, [&](const auto& at) { n += is_nonzero(x, at[0]); });
  return n;
}

void infer_non_zero(InferContext& c) {
  const SymDims& in = c.dims(0);
  Dim count;
  if (const Tensor* x = value_of(c, 0)) {
    count = count_nonzero(x->view());
  } else {
    count = c.fresh("NonZero");
  }
  c.set(0, DType::kI64, {Dim(static_cast<int64_t>(in.size())), count});
}

void reference_non_zero(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  int64_t column = 0;
  for_each_coordinate(x.dims, [&](std::span<const int64_t> at) {
    if (!is_nonzero(x, offset_of(at, x.strides))) return;
    if (column >= y.dims[1]) fail(Status::kRange, "more elements than inferred");
    for (size_t i = 0; i < at.size(); ++i)
      y.as<int64_t>()[static_cast<int64_t>(i) * y.strides[0] + column * y.strides[1]] = at[i];
    ++column;
  });
  if (column != y.dims[1]) fail(Status::kRange, "fewer elements than inferred");
}

// ---- Compress -----------------------------------------------------------------------------------

void infer_compress(InferContext& c) {
  check_dtype(c, 1, kBools);
  if (c.rank(1) != 1) c.error("the condition has rank {}, expected 1", c.rank(1));
  const SymDims& in = c.dims(0);
  Dim count;
  if (const Tensor* condition = value_of(c, 1))
    count = count_nonzero(condition->view());
  else if (const auto known = c.ints(1))
    count = std::count(known->begin(), known->end(), 1);
  else
    count = c.fresh("Compress");
  if (!c.attrs().has("axis")) return c.set(0, c.dtype(0), {count});
  SymDims out = in;
  out[normalise_axis(c.attrs().get_int("axis", 0), in.size())] = count;
  c.set(0, c.dtype(0), std::move(out));
}

void reference_compress(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const std::vector<int64_t> condition = int_values(c.inputs[1]);
  const bool flat = !c.attrs().has("axis");
  const size_t axis = flat ? 0 : normalise_axis(c.attrs().get_int("axis", 0), x.dims.size());
  const int64_t extent = flat ? x.count() : x.dims[axis];
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) kept.push_back(checked_index(static_cast<int64_t>(i), extent, "condition"));
  const Dims flat_strides = contiguous_strides(Dims(x.dims.begin(), x.dims.end()));
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      int64_t from = 0;
      if (flat) {
        int64_t rest = kept[static_cast<size_t>(at[0])];
        for (size_t i = 0; i < x.dims.size(); ++i) {
          from += rest / flat_strides[i] * x.strides[i];
          rest %= flat_strides[i];
        }
      } else {
        from = offset_of(at, x.strides) +
               (kept[static_cast<size_t>(at[axis])] - at[axis]) * x.strides[axis];
      }
      y.as<T>()[offset_of(at, y.strides)] = x.as<T>()[from];
    });
  });
}

// ---- Unique -------------------------------------------------------------------------------------

struct Uniques {
  std::vector<int64_t> first;    ///< slice index of the first occurrence, per unique value
  std::vector<int64_t> inverse;  ///< per slice: its unique value
  std::vector<int64_t> counts;
};

/// Slices of a tensor along an axis, or all elements: what Unique compares.
struct Slices {
  const TensorView& x;
  bool flat;
  size_t axis;
  Dims rest_dims, rest_strides;

  Slices(const TensorView& view, const Attrs& attrs)
      : x(view),
        flat(!attrs.has("axis")),
        axis(flat ? 0 : normalise_axis(attrs.get_int("axis", 0), view.dims.size())) {
    for (size_t i = 0; i < x.dims.size(); ++i)
      if (flat || i != axis) {
        rest_dims.push_back(x.dims[i]);
        rest_strides.push_back(x.strides[i]);
      }
  }
  int64_t count() const { return flat ? x.count() : x.dims[axis]; }
  /// Keys of every slice: read(keys, i) appends those of element i.
  template <class K, class Read>
  std::vector<std::vector<K>> keys_by(const Read& read) const {
    std::vector<std::vector<K>> out(static_cast<size_t>(count()));
    size_t k = 0;
    if (flat) {
      for_each_offset<1>(x.dims, {x.strides}, [&](const auto& at) { read(out[k++], at[0]); });
      return out;
    }
    for (; k < out.size(); ++k)
      for_each_offset<1>(rest_dims, {rest_strides}, [&](const auto& at) {
        read(out[k], at[0] + static_cast<int64_t>(k) * x.strides[axis]);
      });
    return out;
  }
  /// Elements as keys of type K.
  template <class T, class K>
  std::vector<std::vector<K>> keys() const {
    return keys_by<K>(
        [this](std::vector<K>& to, int64_t i) { to.push_back(static_cast<K>(x.as<T>()[i])); });
  }
  /// Real, then imaginary parts.
  template <class T>
  std::vector<std::vector<double>> complex_keys() const {
    return keys_by<double>([this](std::vector<double>& to, int64_t i) {
      const T* parts = reinterpret_cast<const T*>(x.data) + 2 * i;
      to.insert(to.end(), {static_cast<double>(parts[0]), static_cast<double>(parts[1])});
    });
  }
};

/// Strict order of keys. NaN is larger than any number, as for TopK, and equal to itself.
template <class Key>
bool below(const Key& a, const Key& b) {
  if constexpr (std::is_floating_point_v<Key>)
    return a < b || (std::isnan(b) && !std::isnan(a));
  else
    return a < b;
}
template <class T>
bool below(const std::vector<T>& a, const std::vector<T>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](const T& x, const T& y) { return below(x, y); });
}

/// Positions of the keys in their order, equal ones as they come.
template <class Key>
std::vector<size_t> sorted_order(const std::vector<Key>& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if constexpr (std::is_arithmetic_v<Key>) {  // side by side: one miss less per comparison
    std::vector<std::pair<Key, size_t>> pairs;
    pairs.reserve(keys.size());
    for (size_t i : order) pairs.emplace_back(keys[i], i);
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const auto& a, const auto& b) { return below(a.first, b.first); });
    std::transform(pairs.begin(), pairs.end(), order.begin(),
                   [](const auto& p) { return p.second; });
  } else {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return below(keys[a], keys[b]); });
  }
  return order;
}

/// The same unique values in another order: the k-th is what the order[k]-th was.
Uniques reordered(const Uniques& found, const std::vector<size_t>& order) {
  Uniques out;
  std::vector<int64_t> place(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    place[order[k]] = static_cast<int64_t>(k);
    out.first.push_back(found.first[order[k]]);
    out.counts.push_back(found.counts[order[k]]);
  }
  out.inverse.reserve(found.inverse.size());
  for (int64_t k : found.inverse) out.inverse.push_back(place[static_cast<size_t>(k)]);
  return out;
}

/// Key: of one slice; ordered, and equal for equal slices.
template <class Key>
Uniques find_unique(const std::vector<Key>& keys, bool sorted) {
  const std::vector<size_t> order = sorted_order(keys);
  Uniques out;
  out.inverse.resize(keys.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || below(keys[order[i - 1]], keys[order[i]])) {
      out.first.push_back(static_cast<int64_t>(order[i]));
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[order[i]] = static_cast<int64_t>(out.first.size()) - 1;
  }
  return sorted ? out : reordered(out, sorted_order(out.first));
}

Uniques find_unique(const Slices& slices, const Attrs& attrs) {
  const bool sorted = attrs.get_int("sorted", 1) != 0;
  if (slices.x.dtype == DType::kString)
    return find_unique(slices.keys<std::string, std::string>(), sorted);
  const DType dtype = slices.x.dtype;
  if (dtype == DType::kC64) return find_unique(slices.complex_keys<float>(), sorted);
  if (dtype == DType::kC128) return find_unique(slices.complex_keys<double>(), sorted);
  if (!contains(kNumbers | kBools, dtype))  // f8, f4, i4 and the like
    return find_unique(slices.keys_by<double>([&](std::vector<double>& to, int64_t i) {
      to.push_back(load_double(slices.x.data, dtype, i));
    }),
                       sorted);
  return dispatch_number(dtype, [&]<class T>() {
    // vector<bool> has no references; bools compare as bytes.
    using K = std::conditional_t<std::is_same_v<T, bool>, uint8_t, ComputeOf<T>>;
    if (!slices.flat) return find_unique(slices.keys<T, K>(), sorted);
    std::vector<K> keys;
    keys.reserve(static_cast<size_t>(slices.count()));
    for_each_offset<1>(slices.x.dims, {slices.x.strides}, [&](const auto& at) {
      keys.push_back(static_cast<K>(slices.x.as<T>()[at[0]]));
    });
    return find_unique(keys, sorted);
  });
}

void infer_unique(InferContext& c) {
  SymDims out = c.dims(0);
  Dim count, slices;
  const bool flat = !c.attrs().has("axis");
  const size_t axis = flat ? 0 : normalise_axis(c.attrs().get_int("axis", 0), out.size());
  slices = flat ? element_count(out) : out[axis];
  if (const Tensor* x = value_of(c, 0)) {
    const TensorView view = x->view();
    count = static_cast<int64_t>(find_unique(Slices(view, c.attrs()), c.attrs()).first.size());
  } else {
    count = c.fresh("Unique");
  }
  if (flat)
    out = {count};
  else
    out[axis] = count;
  c.set(0, c.dtype(0), std::move(out));
  c.set(1, DType::kI64, {count});
  c.set(2, DType::kI64, {slices});
  c.set(3, DType::kI64, {count});
}

void write_unique(const ReferenceContext& c, const Slices& slices, const Uniques& found) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const auto n = static_cast<int64_t>(found.first.size());
  if (y && (slices.flat ? y.dims[0] : y.dims[slices.axis]) != n)
    fail(Status::kRange, "{} unique values, inferred were others", n);
  if (y && slices.flat) {
    const Tensor copy = Tensor(x.dtype, {x.count()});
    copy_row_major(x, copy.view());
    dispatch_storage(x.dtype, [&]<class T>() {
      for (int64_t i = 0; i < n; ++i)
        y.as<T>()[i * y.strides[0]] = copy.as<T>()[found.first[static_cast<size_t>(i)]];
    });
  } else if (y) {
    dispatch_storage(x.dtype, [&]<class T>() {
      for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
        const int64_t k = at[slices.axis];
        const int64_t moved = found.first[static_cast<size_t>(k)] - k;
        y.as<T>()[offset_of(at, y.strides)] =
            x.as<T>()[offset_of(at, x.strides) + moved * x.strides[slices.axis]];
      });
    });
  }
  const std::vector<int64_t>* lists[] = {&found.first, &found.inverse, &found.counts};
  for (size_t k = 0; k < 3; ++k)
    if (k + 1 < c.outputs.size() && c.outputs[k + 1])
      for (size_t i = 0; i < lists[k]->size(); ++i)
        c.outputs[k + 1].as<int64_t>()[static_cast<int64_t>(i) * c.outputs[k + 1].strides[0]] =
            (*lists[k])[i];
}

void reference_unique(const ReferenceContext& c) {
  const Slices slices(c.inputs[0], c.attrs());
  write_unique(c, slices, find_unique(slices, c.attrs()));
}

std::vector<Tensor> make_unique(const Node& node, const std::vector<Tensor>& inputs) {
  ReferenceContext c;
  c.node = &node;
  c.inputs.push_back(inputs[0].view());
  const Slices slices(c.inputs[0], node.attrs);
  const Uniques found = find_unique(slices, node.attrs);
  const auto n = static_cast<int64_t>(found.first.size());
  Dims kept{n};
  if (!slices.flat) {
    kept = inputs[0].dims();
    kept[slices.axis] = n;
  }
  std::vector<Tensor> out;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    Tensor made;
    if (node.outputs[k] != kNone)
      made = k == 0 ? Tensor(inputs[0].dtype(), kept)
                    : Tensor(DType::kI64, {k == 2 ? slices.count() : n});
    c.outputs.push_back(made ? made.view() : TensorView{});
    out.push_back(std::move(made));
  }
  write_unique(c, slices, found);
  return out;
}

}  // namespace

void register_select(OpList& ops) {
  ops.push_back({.name = "NonZero", .infer = infer_non_zero, .reference = reference_non_zero});
  ops.push_back({.name = "Compress",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer_compress,
                 .reference = reference_compress});
  ops.push_back({.name = "Unique",
                 .max_outputs = 4,
                 .attrs = {{"axis", AttrKind::kInt}, {"sorted", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_unique,
                 .reference = reference_unique,
                 .make = make_unique});
}

}  // namespace xc
