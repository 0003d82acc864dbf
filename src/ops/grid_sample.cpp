// GridSample: reads an image of any number of spatial axes at the points of a grid.

#include <algorithm>
#include <array>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/grid_sampler.h"

namespace xc {

namespace {

/// A point reads up to four elements to the power of them.
constexpr int64_t kMostInterpolated = 8;

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kNumbers | kComplex | kBools | type_set({DType::kString}));
  check_dtype(ctx, 1, kFloats);
  const SymDims &x = ctx.dims(0), &grid = ctx.dims(1);
  if (x.size() < 3) ctx.error("input has rank {}, expected at least 3", x.size());
  const auto spatial = static_cast<int64_t>(x.size()) - 2;
  if (grid.size() != x.size() || known_different(grid.back(), spatial) ||
      known_different(grid[0], x[0]))
    ctx.error("grid has dims {}, input {}", to_text(grid), to_text(x));
  const std::string mode = ctx.attrs().get_string("mode", "linear");
  if (mode != "nearest") {
    check_dtype(ctx, 0, kNumbers | kComplex);  // the others have no mean
    if (spatial > kMostInterpolated)
      fail(Status::kLimit, "GridSample interpolates over {} axes, at most {}", spatial,
           kMostInterpolated);
  }
  SymDims out{x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  for (size_t i = 2; i < x.size(); ++i)
    if (x[i] == Dim(0)) ctx.error("input has dims {}", to_text(x));
  ctx.set(0, ctx.dtype(0), std::move(out));
}

/// Calls body(n, p, offset, weight) for every element that point p of image n reads, with its
/// place in a row-major plane; those outside are left out.
template <class Body>
void for_each_tap(const ReferenceContext& ctx, Body body) {
  const TensorView &x = ctx.inputs[0], &y = ctx.outputs[0];
  const GridSampler sampler(*ctx.node);
  const auto grid = double_values(ctx.inputs[1]);
  const size_t spatial = x.dims.size() - 2;
  const int64_t points = product(y.dims, 2, y.dims.size());
  const Dims strides = contiguous_strides(dims_of(x));
  std::vector<std::array<GridSampler::Tap, GridSampler::kMaxTaps>> taps(spatial);
  const Dims counts(spatial, static_cast<int64_t>(sampler.taps()));
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t p = 0; p < points; ++p) {
      // A grid point names the innermost axis first.
      const double* point = grid.data() + (n * points + p) * static_cast<int64_t>(spatial);
      for (size_t axis = 0; axis < spatial; ++axis)
        taps[axis] = sampler.at(point[spatial - 1 - axis], x.dims[axis + 2]);
      for_each_coordinate(counts, [&](std::span<const int64_t> at) {
        double weight = 1;
        int64_t offset = 0;
        bool inside = true;
        for (size_t axis = 0; axis < spatial; ++axis) {
          const GridSampler::Tap& tap = taps[axis][static_cast<size_t>(at[axis])];
          weight *= tap.weight;
          inside = inside && tap.index >= 0;
          offset += tap.index * strides[axis + 2];
        }
        if (inside) body(n, p, offset, weight);
      });
    }
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[0], &y = ctx.outputs[0];
  const int64_t channels = x.dims[1], plane = product(x.dims, 2, x.dims.size());
  const int64_t points = product(y.dims, 2, y.dims.size());
  if (ctx.attrs().get_string("mode", "linear") == "nearest") {  // elements move as they are
    Tensor image(x.dtype, dims_of(x)), out(y.dtype, dims_of(y));
    copy_elements(x, image.view());
    dispatch_storage(x.dtype, [&]<class T>() {
      std::fill_n(out.as<T>(), out.count(), T{});
      for_each_tap(ctx, [&](int64_t n, int64_t p, int64_t offset, double) {
        for (int64_t c = n * channels; c < (n + 1) * channels; ++c)
          out.as<T>()[c * points + p] = image.as<T>()[c * plane + offset];
      });
    });
    return copy_elements(out.view(), y);
  }
  const int64_t parts = info(x.dtype).kind == DTypeKind::kComplex ? 2 : 1;
  const auto image = read_parts(x);
  std::vector<double> out(static_cast<size_t>(y.count() * parts));
  for_each_tap(ctx, [&](int64_t n, int64_t p, int64_t offset, double weight) {
    for (int64_t c = n * channels; c < (n + 1) * channels; ++c)
      for (int64_t k = 0; k < parts; ++k)
        out[static_cast<size_t>((c * points + p) * parts + k)] +=
            weight * image[static_cast<size_t>((c * plane + offset) * parts + k)];
  });
  write_parts(y, out);
}

}  // namespace

void register_grid_sample(OpList& ops) {
  OpDef op;
  op.name = "GridSample";
  op.min_inputs = op.max_inputs = 2;
  op.attrs = {{"align_corners", AttrKind::kInt, false, 0, 1},
              {"mode", AttrKind::kString, false, 0, 0, "linear|nearest|cubic"},
              {"padding_mode", AttrKind::kString, false, 0, 0, "zeros|border|reflection"}};
  op.infer = infer;
  op.reference = reference;
  op.weight = 16;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
