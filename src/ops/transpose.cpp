// Transpose and Expand.

#include "ops/transpose.h"

#include <algorithm>

#include "ops/support.h"

namespace xc {

std::vector<size_t> permutation(const Node& node, size_t rank) {
  std::vector<size_t> perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = rank - 1 - i;
  if (!node.attrs.has("perm")) return perm;
  const std::vector<int64_t> given = node.attrs.get_ints("perm");
  if (given.size() != rank)
    fail(Status::kInvalidModel, "perm has {} axes, the input has {}", given.size(), rank);
  return normalise_axes(given, rank, false, "perm");
}

namespace {

void infer_transpose(InferContext& c) {
  const SymDims& in = c.dims(0);
  const std::vector<size_t> perm = permutation(*c.node, in.size());
  SymDims out;
  for (size_t axis : perm) out.push_back(in[axis]);
  c.set(0, c.dtype(0), out);

  const auto known = c.elements(0);
  const auto from = to_concrete(in), to = to_concrete(out);
  if (!known || !from || !to) return;
  const Dims strides = contiguous_strides(*from);
  std::vector<Dim> moved;
  for_each_coordinate(*to, [&](std::span<const int64_t> at) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[perm[i]];
    moved.push_back((*known)[static_cast<size_t>(offset)]);
  });
  c.set_elements(0, std::move(moved));
}

void reference_transpose(const ReferenceContext& c) {
  Dims strides;
  for (size_t axis : permutation(*c.node, c.inputs[0].dims.size()))
    strides.push_back(c.inputs[0].strides[axis]);
  copy_elements(restrided(c.inputs[0], c.outputs[0].dims, strides), c.outputs[0]);
}

bool view_transpose(ViewContext& c) {
  ViewContext::Out& out = c.outputs[0];
  out.offset = 0;
  out.strides.clear();
  for (size_t axis : permutation(*c.node, c.dims.size())) out.strides.push_back(c.strides[axis]);
  return true;
}

void infer_expand(InferContext& c) {
  check_dtype(c, 1, kIndices);
  const SymDims& in = c.dims(0);
  const SymDims& shape_dims = c.dims(1);
  if (shape_dims.size() != 1) c.error("the shape has rank {}, expected 1", shape_dims.size());
  if (const auto shape = c.elements(1)) {
    SymDims out = broadcast_dims(in, *shape);
    const auto known = c.elements(0);
    const bool one = known && known->size() == 1;
    const Dim count = element_count(out);
    c.set(0, c.dtype(0), std::move(out));
    if (one && count.is_constant() && count.value() <= kMaxKnownElements)
      c.set_elements(0, std::vector<Dim>(static_cast<size_t>(count.value()), known->front()));
    else if (known && !known->empty() && count == Dim(static_cast<int64_t>(known->size())))
      c.set_elements(0, *known);  // of none it would be a constant, whatever a run asks for
    return;
  }
  if (!shape_dims[0].is_constant()) return set_unknown_rank(c, 0, c.dtype(0));
  const size_t rank = std::max(in.size(), static_cast<size_t>(shape_dims[0].value()));
  SymDims out = fresh_dims(c, rank - in.size(), "Expand");
  for (const Dim& d : in) out.push_back(d.is_constant() && d.value() > 1 ? d : c.fresh("Expand"));
  c.set(0, c.dtype(0), std::move(out));
}

void reference_expand(const ReferenceContext& c) {
  const Dims strides = broadcast_strides(c.inputs[0], c.outputs[0].dims);
  copy_elements(restrided(c.inputs[0], c.outputs[0].dims, strides), c.outputs[0]);
}

std::vector<ConcreteView> concrete_expand(const Node&, std::span<const TensorView> inputs) {
  const TensorView &x = inputs[0], &shape = inputs[1];
  if (shape.dims.size() != 1)
    fail(Status::kInvalidModel, "the shape has rank {}, expected 1", shape.dims.size());
  if (std::max(x.rank(), shape.dims[0]) > kMostConcreteAxes) return {};
  const std::vector<int64_t> values = int_values(shape);
  if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; })) return {};
  const SymDims out =
      broadcast_dims(SymDims(x.dims.begin(), x.dims.end()), SymDims(values.begin(), values.end()));
  (void)element_count(out);  // refuses what cannot be counted
  Dims dims = *to_concrete(out);
  Dims strides = broadcast_strides(x, dims);
  return {{std::move(dims), std::move(strides), 0}};
}

/// Stride 0 along the axes that are known to be expanded; no view while that is open.
bool view_expand(ViewContext& c) {
  ViewContext::Out& out = c.outputs[0];
  out.offset = 0;
  out.strides.assign(out.dims.size(), Dim(0));
  const size_t lead = out.dims.size() - c.dims.size();
  for (size_t i = 0; i < c.dims.size(); ++i) {
    if (c.dims[i] == out.dims[lead + i])
      out.strides[lead + i] = c.strides[i];
    else if (c.dims[i] != Dim(1))
      return false;
  }
  return true;
}

}  // namespace

void register_transpose(OpList& ops) {
  ops.push_back({.name = "Transpose",
                 .attrs = {{"perm", AttrKind::kInts}},
                 .infer = infer_transpose,
                 .reference = reference_transpose,
                 .view = view_transpose,
                 .weight = 0});
  ops.push_back({.name = "Expand",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .infer = infer_expand,
                 .reference = reference_expand,
                 .view = view_expand,
                 .concrete_views = concrete_expand,
                 .weight = 0});
}

}  // namespace xc
