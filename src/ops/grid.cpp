// AffineGrid: where the points of a regular grid lie after an affine map, what GridSample reads at.
// CenterCropPad: the middle of a tensor, or the tensor in the middle of zeros.

#include "ops/affine_grid.h"
#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

double grid_point(int64_t i, int64_t n, bool align_corners) {
  const auto at = static_cast<double>(i), count = static_cast<double>(n);
  if (align_corners) return n > 1 ? -1 + 2 * at / (count - 1) : -1;
  return -1 + (2 * at + 1) / count;
}

namespace {

// ---- AffineGrid ---------------------------------------------------------------------------------

void infer_affine_grid(InferContext& c) {
  const DType t = check_dtype(c, 0, kFloats);
  check_dtype(c, 1, type_set({DType::kI64}));
  require_rank(c, 0, 3);
  const SymDims& theta = c.dims(0);
  if (!theta[1].is_constant()) return set_unknown_rank(c, 0, t);
  const int64_t axes = theta[1].value();
  if (axes != 2 && axes != 3) c.error("theta maps {} coordinates, expected 2 or 3", axes);
  require_dims(c, 0, {theta[0], axes, axes + 1});
  require_vector(c, 1, axes + 2);
  const auto size = c.elements(1);
  SymDims dims;
  if (size) {
    dims = {same_dim(theta[0], (*size)[0], "the batch of theta and size")};
    dims.insert(dims.end(), size->begin() + 2, size->end());
  } else {
    dims = fresh_dims(c, static_cast<size_t>(axes) + 1, "AffineGrid");
  }
  dims.emplace_back(axes);
  c.set(0, t, dims);
}

void reference_affine_grid(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView &theta = c.inputs[0], &y = c.outputs[0];
  const bool align_corners = c.attrs().get_int("align_corners", 0) != 0;
  const size_t axes = y.dims.size() - 2;
  for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
    const int64_t row = at[0] * theta.strides[0] + at[axes + 1] * theta.strides[1];
    const auto element = [&](size_t k) {
      return load_double(theta.data, theta.dtype, row + static_cast<int64_t>(k) * theta.strides[2]);
    };
    // Coordinates are x, y, z: the last axis of the grid first.
    double sum = element(axes);
    for (size_t k = 0; k < axes; ++k)
      sum += element(k) * grid_point(at[axes - k], y.dims[axes - k], align_corners);
    store_double(y.data, y.dtype, offset_of(at, y.strides), sum);
  });
}

// ---- CenterCropPad ------------------------------------------------------------------------------

std::vector<size_t> crop_axes(const Node& node, size_t rank) {
  if (node.attrs.has("axes")) return normalise_axes(node.attrs.get_ints("axes"), rank);
  std::vector<size_t> all(rank);
  for (size_t i = 0; i < rank; ++i) all[i] = i;
  return all;
}

void infer_center_crop_pad(InferContext& c) {
  check_dtype(c, 1, kIndices);
  SymDims dims = c.dims(0);
  const auto axes = crop_axes(*c.node, dims.size());
  require_vector(c, 1, static_cast<int64_t>(axes.size()));
  const auto shape = c.elements(1);
  for (size_t k = 0; k < axes.size(); ++k) {
    if (shape && (*shape)[k].is_constant() && (*shape)[k].value() < 0)
      c.error("shape has a dim of {}", (*shape)[k].value());
    dims[axes[k]] = shape ? (*shape)[k] : c.fresh("CenterCropPad");
  }
  c.set(0, check_dtype(c, 0, kAnyType), dims);
}

void reference_center_crop_pad(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  Dims common(x.dims.size());
  int64_t from = 0, to = 0;
  for (size_t i = 0; i < common.size(); ++i) {
    common[i] = std::min(x.dims[i], y.dims[i]);
    from += (x.dims[i] - common[i]) / 2 * x.strides[i];
    to += (y.dims[i] - common[i]) / 2 * y.strides[i];
  }
  dispatch_storage(y.dtype, [&]<class T>() {
    for_each_offset<1>(y.dims, {y.strides}, [&](const auto& at) { y.as<T>()[at[0]] = T{}; });
    for_each_offset<2>(common, {x.strides, y.strides},
                       [&](const auto& at) { y.as<T>()[to + at[1]] = x.as<T>()[from + at[0]]; });
  });
}

}  // namespace

void register_grid(OpList& ops) {
  ops.push_back({.name = "AffineGrid",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"align_corners", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_affine_grid,
                 .reference = reference_affine_grid,
                 .tolerance = Tolerance::kContraction});
  ops.push_back({.name = "CenterCropPad",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"axes", AttrKind::kInts}},
                 .infer = infer_center_crop_pad,
                 .reference = reference_center_crop_pad});
}

}  // namespace xc
