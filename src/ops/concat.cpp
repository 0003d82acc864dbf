// Concat and Tile.

#include "ops/support.h"

namespace xc {

namespace {

void infer_concat(InferContext& c) {
  const DType t = check_same_dtype(c, 0, c.input_count());
  SymDims out = c.dims(0);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), out.size());
  std::vector<Dim> elements;
  bool known = true;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const SymDims& in = c.dims(i);
    if (in.size() != out.size())
      c.error("input {} has rank {}, input 0 has rank {}", i, in.size(), out.size());
    for (size_t k = 0; k < out.size(); ++k) {
      if (k == axis)
        out[k] = i == 0 ? in[k] : out[k] + in[k];
      else
        out[k] = same_dim(out[k], in[k], [&] { return fmt::format("axis {} of input {}", k, i); });
    }
    const auto part = out.size() == 1 ? c.elements(i) : std::nullopt;
    known = known && part;
    if (known) elements.insert(elements.end(), part->begin(), part->end());
  }
  c.set(0, t, std::move(out));
  if (known) c.set_elements(0, std::move(elements));
}

void reference_concat(const ReferenceContext& c) {
  const TensorView& y = c.outputs[0];
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), y.dims.size());
  int64_t start = 0;
  for (const TensorView& x : c.inputs) {
    for (size_t k = 0; k < y.dims.size(); ++k)
      if (k == axis ? start + x.dims[k] > y.dims[k] : x.dims[k] != y.dims[k])
        fail(Status::kRange, "dims {} do not fit into {}",
             to_text(Dims(x.dims.begin(), x.dims.end())),
             to_text(Dims(y.dims.begin(), y.dims.end())));
    copy_elements(x, restrided(y, x.dims, y.strides, start * y.strides[axis]));
    start += x.dims[axis];
  }
}

void infer_tile(InferContext& c) {
  check_dtype(c, 1, kIndices);
  const SymDims& in = c.dims(0);
  const auto repeats = c.elements(1);
  if (repeats && repeats->size() != in.size())
    c.error("{} repeats for a tensor of rank {}", repeats->size(), in.size());
  SymDims out;
  for (size_t i = 0; i < in.size(); ++i)
    out.push_back(repeats ? in[i] * (*repeats)[i] : c.fresh("Tile"));
  c.set(0, c.dtype(0), out);
  const auto known = c.elements(0);
  const auto dims = to_concrete(in), counts = to_concrete(out);
  if (!known || !dims || !counts || element_count(*counts) > kMaxKnownElements) return;
  const Dims strides = contiguous_strides(*dims);
  std::vector<Dim> tiled;
  for_each_coordinate(*counts, [&](std::span<const int64_t> at) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] % (*dims)[i] * strides[i];
    tiled.push_back((*known)[static_cast<size_t>(offset)]);
  });
  c.set_elements(0, std::move(tiled));
}

void reference_tile(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      int64_t from = 0;
      for (size_t i = 0; i < at.size(); ++i) from += at[i] % x.dims[i] * x.strides[i];
      y.as<T>()[offset_of(at, y.strides)] = x.as<T>()[from];
    });
  });
}

}  // namespace

void register_concat(OpList& ops) {
  ops.push_back({.name = "Concat",
                 .max_inputs = -1,
                 .attrs = {{"axis", AttrKind::kInt, true}},
                 .infer = infer_concat,
                 .reference = reference_concat});
  ops.push_back({.name = "Tile",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .infer = infer_tile,
                 .reference = reference_tile});
}

}  // namespace xc
