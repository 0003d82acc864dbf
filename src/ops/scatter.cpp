// ScatterElements (also under its old name Scatter) and ScatterND: a copy of the data with updates
// written or combined at indices, in row-major order of the updates.

#include "ops/support.h"

namespace xc {

namespace {

constexpr std::string_view kReductions = "none|add|mul|max|min";
enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Reduction reduction_of(const Attrs& attrs) {
  const std::string text = attrs.get_string("reduction", "none");
  return text == "add"   ? Reduction::kAdd
         : text == "mul" ? Reduction::kMul
         : text == "max" ? Reduction::kMax
         : text == "min" ? Reduction::kMin
                         : Reduction::kNone;
}

template <class V>
V combine(Reduction how, V a, V b) {
  switch (how) {
    case Reduction::kAdd:
      return static_cast<V>(a + b);
    case Reduction::kMul:
      return static_cast<V>(a * b);
    case Reduction::kMax:
      return a > b || a != a ? a : b;
    case Reduction::kMin:
      return a < b || a != a ? a : b;
    case Reduction::kNone:
      break;
  }
  return b;
}

/// Combines element `from` of the updates into element `to` of the output.
void update(Reduction how, const TensorView& updates, int64_t from, const TensorView& y,
            int64_t to) {
  if (how == Reduction::kNone)
    return dispatch_storage(y.dtype, [&]<class T>() { y.as<T>()[to] = updates.as<T>()[from]; });
  dispatch_number(y.dtype, [&]<class T>() {
    using V = ComputeOf<T>;
    // Unsigned arithmetic wraps; signed overflow must not be undefined.
    using W = std::conditional_t<std::is_integral_v<V> && !std::is_same_v<V, bool>,
                                 std::make_unsigned_t<std::conditional_t<
                                     std::is_integral_v<V> && !std::is_same_v<V, bool>, V, int>>,
                                 V>;
    T& target = y.as<T>()[to];
    const auto a = static_cast<V>(target), b = static_cast<V>(updates.as<T>()[from]);
    if (how == Reduction::kAdd || how == Reduction::kMul)
      target = static_cast<T>(combine(how, static_cast<W>(a), static_cast<W>(b)));
    else
      target = static_cast<T>(combine(how, a, b));
  });
}

// ---- ScatterElements ----------------------------------------------------------------------------

void infer_scatter_elements(InferContext& c) {
  check_dtype(c, 1, kIndices);
  if (c.dtype(0) != c.dtype(2))
    c.error("data are {}, updates are {}", name(c.dtype(0)), name(c.dtype(2)));
  const SymDims &data = c.dims(0), &indices = c.dims(1), &updates = c.dims(2);
  normalise_axis(c.attrs().get_int("axis", 0), data.size());
  if (indices.size() != data.size() || updates.size() != data.size())
    c.error("data, indices and updates have ranks {}, {} and {}", data.size(), indices.size(),
            updates.size());
  for (size_t i = 0; i < indices.size(); ++i)
    same_dim(indices[i], updates[i],
             [&] { return fmt::format("axis {} of indices and updates", i); });
  infer_same(c);
}

void reference_scatter_elements(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &indices = c.inputs[1], &updates = c.inputs[2];
  const TensorView& y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), x.dims.size());
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (indices.dims[i] != updates.dims[i] || (i != axis && indices.dims[i] > x.dims[i]))
      fail(Status::kRange, "axis {}: {} indices, {} updates, {} data", i, indices.dims[i],
           updates.dims[i], x.dims[i]);
  copy_elements(x, y);
  const Reduction how = reduction_of(c.attrs());
  for_each_coordinate(indices.dims, [&](std::span<const int64_t> at) {
    const int64_t pick = load_int64(indices.data, indices.dtype, offset_of(at, indices.strides));
    const int64_t moved = checked_index(pick, x.dims[axis]) - at[axis];
    update(how, updates, offset_of(at, updates.strides), y,
           offset_of(at, y.strides) + moved * y.strides[axis]);
  });
}

// ---- ScatterND ----------------------------------------------------------------------------------

void infer_scatter_nd(InferContext& c) {
  check_dtype(c, 1, kIndices);
  if (c.dtype(0) != c.dtype(2))
    c.error("data are {}, updates are {}", name(c.dtype(0)), name(c.dtype(2)));
  const SymDims &data = c.dims(0), &indices = c.dims(1), &updates = c.dims(2);
  if (data.empty() || indices.empty()) c.error("data and indices need at least one axis");
  if (indices.back().is_constant()) {
    const int64_t depth = indices.back().value();
    if (depth < 0 || depth > static_cast<int64_t>(data.size()))
      c.error("indices of {} coordinates, the data has rank {}", depth, data.size());
    SymDims expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), data.begin() + depth, data.end());
    if (expected.size() != updates.size())
      c.error("updates have dims {}, expected {}", to_text(updates), to_text(expected));
    for (size_t i = 0; i < expected.size(); ++i)
      same_dim(expected[i], updates[i], [&] { return fmt::format("axis {} of the updates", i); });
  }
  infer_same(c);
}

void reference_scatter_nd(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &indices = c.inputs[1], &updates = c.inputs[2];
  const TensorView& y = c.outputs[0];
  const size_t outer = indices.dims.size() - 1;
  const auto depth = static_cast<size_t>(indices.dims[outer]);
  Dims expected(indices.dims.begin(), indices.dims.end() - 1);
  if (depth > x.dims.size()) fail(Status::kRange, "indices of {} coordinates", depth);
  expected.insert(expected.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(depth),
                  x.dims.end());
  if (!std::equal(expected.begin(), expected.end(), updates.dims.begin(), updates.dims.end()))
    fail(Status::kRange, "updates have dims {}, expected {}",
         to_text(Dims(updates.dims.begin(), updates.dims.end())), to_text(expected));
  copy_elements(x, y);
  const Reduction how = reduction_of(c.attrs());
  for_each_coordinate(updates.dims, [&](std::span<const int64_t> at) {
    const int64_t row = offset_of(at.first(outer), indices.strides);
    int64_t to = offset_of(at.subspan(outer), y.strides.subspan(depth));
    for (size_t k = 0; k < depth; ++k) {
      const int64_t pick = load_int64(indices.data, indices.dtype,
                                      row + static_cast<int64_t>(k) * indices.strides[outer]);
      to += checked_index(pick, x.dims[k]) * y.strides[k];
    }
    update(how, updates, offset_of(at, updates.strides), y, to);
  });
}

}  // namespace

void register_scatter(OpList& ops) {
  const AttrSpec axis{"axis", AttrKind::kInt};
  AttrSpec reduction{"reduction", AttrKind::kString};
  reduction.choices = kReductions;
  for (const char* name : {"Scatter", "ScatterElements"})
    ops.push_back({.name = name,
                   .min_inputs = 3,
                   .max_inputs = 3,
                   .attrs = {axis, reduction},
                   .infer = infer_scatter_elements,
                   .reference = reference_scatter_elements,
                   .tolerance = Tolerance::kReduction});
  ops.push_back({.name = "ScatterND",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .attrs = {reduction},
                 .infer = infer_scatter_nd,
                 .reference = reference_scatter_nd,
                 .tolerance = Tolerance::kReduction});
}

}  // namespace xc
