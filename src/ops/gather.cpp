// Gather, GatherElements, GatherND. Indices may be negative; out of range fails with kRange.

#include "ops/support.h"

namespace xc {

namespace {

// ---- Gather -------------------------------------------------------------------------------------

void infer_gather(InferContext& c) {
  check_dtype(c, 1, kIndices);
  const SymDims &data = c.dims(0), &indices = c.dims(1);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), data.size());
  SymDims out(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  c.set(0, c.dtype(0), std::move(out));

  const auto known = data.size() == 1 ? c.elements(0) : std::nullopt;
  const auto picks = known ? c.ints(1) : std::nullopt;
  if (!picks) return;
  std::vector<Dim> elements;
  const auto n = static_cast<int64_t>(known->size());
  for (int64_t i : *picks) {
    if (i < -n || i >= n) c.error("index {} is outside [{}, {})", i, -n, n);
    elements.push_back((*known)[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  c.set_elements(0, std::move(elements));
}

void reference_gather(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), x.dims.size());
  const size_t n = indices.dims.size();
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t pick =
          load_int64(indices.data, indices.dtype, offset_of(at.subspan(axis, n), indices.strides));
      int64_t from = checked_index(pick, x.dims[axis]) * x.strides[axis];
      from += offset_of(at.first(axis), x.strides.first(axis));
      from += offset_of(at.subspan(axis + n), x.strides.subspan(axis + 1));
      y.as<T>()[offset_of(at, y.strides)] = x.as<T>()[from];
    });
  });
}

// ---- GatherElements -----------------------------------------------------------------------------

void infer_gather_elements(InferContext& c) {
  check_dtype(c, 1, kIndices);
  const SymDims &data = c.dims(0), &indices = c.dims(1);
  normalise_axis(c.attrs().get_int("axis", 0), data.size());
  if (data.size() != indices.size())
    c.error("data has rank {}, indices have rank {}", data.size(), indices.size());
  c.set(0, c.dtype(0), indices);
}

void reference_gather_elements(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), x.dims.size());
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (i != axis && indices.dims[i] > x.dims[i])
      fail(Status::kRange, "axis {} of the indices has {}, of the data {}", i, indices.dims[i],
           x.dims[i]);
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t pick = load_int64(indices.data, indices.dtype, offset_of(at, indices.strides));
      const int64_t moved = checked_index(pick, x.dims[axis]) - at[axis];
      y.as<T>()[offset_of(at, y.strides)] =
          x.as<T>()[offset_of(at, x.strides) + moved * x.strides[axis]];
    });
  });
}

// ---- GatherND -----------------------------------------------------------------------------------

void infer_gather_nd(InferContext& c) {
  check_dtype(c, 1, kIndices);
  const SymDims &data = c.dims(0), &indices = c.dims(1);
  if (data.empty() || indices.empty()) c.error("data and indices need at least one axis");
  const int64_t batch = c.attrs().get_int("batch_dims", 0);
  const auto rank = static_cast<int64_t>(data.size());
  if (batch < 0 || batch >= std::min(rank, static_cast<int64_t>(indices.size())))
    c.error("batch_dims {} does not fit ranks {} and {}", batch, data.size(), indices.size());
  if (!indices.back().is_constant()) return set_unknown_rank(c, 0, c.dtype(0));
  const int64_t depth = indices.back().value();
  if (depth < 1 || batch + depth > rank)
    c.error("indices of {} coordinates after {} batch axes, the data has rank {}", depth, batch,
            rank);
  SymDims out(indices.begin(), indices.end() - 1);
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i)
    out[i] = same_dim(data[i], indices[i], [&] { return fmt::format("batch axis {}", i); });
  out.insert(out.end(), data.begin() + batch + depth, data.end());
  c.set(0, c.dtype(0), std::move(out));
}

void reference_gather_nd(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
  const auto batch = static_cast<size_t>(c.attrs().get_int("batch_dims", 0));
  const size_t outer = indices.dims.size() - 1;
  const auto depth = static_cast<size_t>(indices.dims[outer]);
  for (size_t i = 0; i < batch; ++i)
    if (x.dims[i] != indices.dims[i]) fail(Status::kRange, "batch axis {} differs", i);
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const int64_t row = offset_of(at.first(outer), indices.strides);
      int64_t from = offset_of(at.first(batch), x.strides);
      for (size_t k = 0; k < depth; ++k) {
        const int64_t pick = load_int64(indices.data, indices.dtype,
                                        row + static_cast<int64_t>(k) * indices.strides[outer]);
        from += checked_index(pick, x.dims[batch + k]) * x.strides[batch + k];
      }
      from += offset_of(at.subspan(outer), x.strides.subspan(batch + depth));
      y.as<T>()[offset_of(at, y.strides)] = x.as<T>()[from];
    });
  });
}

}  // namespace

void register_gather(OpList& ops) {
  ops.push_back({.name = "Gather",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer_gather,
                 .reference = reference_gather});
  ops.push_back({.name = "GatherElements",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer_gather_elements,
                 .reference = reference_gather_elements});
  ops.push_back({.name = "GatherND",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"batch_dims", AttrKind::kInt, false, 0}},
                 .infer = infer_gather_nd,
                 .reference = reference_gather_nd});
}

}  // namespace xc
