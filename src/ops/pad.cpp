// Pad: constant, reflect, edge or wrap; negative pads crop (before the rest is padded).

#include <algorithm>

#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

namespace {

// Inputs: data, pads, constant_value, axes.
constexpr size_t kData = 0, kPads = 1, kValue = 2, kAxes = 3;

void infer(InferContext& ctx) {
  check_dtype(ctx, kData, kAnyType);
  check_dtype(ctx, kPads, type_set({DType::kI64}));
  check_dtype(ctx, kAxes, kIndices);
  if (ctx.has(kValue)) {
    require_same_dtype(ctx, kValue);
    require_scalar(ctx, kValue);
  }
  SymDims out = ctx.dims(kData);
  require_rank(ctx, kPads, 1);
  std::vector<size_t> axes(out.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  if (ctx.has(kAxes)) {
    const auto given = ctx.ints(kAxes);
    if (!given) {
      for (Dim& d : out) d = ctx.fresh("pad");
      return ctx.set(0, ctx.dtype(kData), std::move(out));
    }
    axes = normalise_axes(*given, out.size());
  }
  require_vector(ctx, kPads, static_cast<int64_t>(2 * axes.size()));
  const auto pads = ctx.elements(kPads);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = out[axes[i]];
    if (!pads) {
      dim = ctx.fresh("pad");
      continue;
    }
    const Dim &begin = (*pads)[i], &end = (*pads)[i + axes.size()];
    const Dim padded = dim + begin + end;
    if (const auto most = padded.upper_bound(); most && *most < 0)
      ctx.error("axis {} of size {} padded by {} and {}", axes[i], dim.text(), begin.text(),
                end.text());
    dim = padded;
  }
  ctx.set(0, ctx.dtype(kData), std::move(out));
}

/// Source index of every output index along one axis; -1 = the constant.
std::vector<int64_t> axis_map(const std::string& mode, int64_t size, int64_t begin, int64_t end) {
  constexpr int64_t kMost = int64_t{1} << 60;
  if (begin < -kMost || begin > kMost || end < -kMost || end > kMost)
    fail(Status::kRange, "an axis padded by {} and {}", begin, end);
  // What cropping leaves: [first, first + kept).
  const int64_t first = std::max<int64_t>(-begin, 0);
  const int64_t kept = size - first - std::max<int64_t>(-end, 0);
  const int64_t before = std::max<int64_t>(begin, 0), after = std::max<int64_t>(end, 0);
  if (kept < 0) fail(Status::kRange, "axis of size {} cropped by {} and {}", size, -begin, -end);
  if (kept == 0 && before + after > 0 && mode != "constant")
    fail(Status::kRange, "nothing to repeat: mode {} pads an empty axis", mode);
  constexpr int64_t kLongest = int64_t{1} << 32;  // of a table
  if (before + kept + after > kLongest)
    fail(Status::kLimit, "an axis of {} elements", before + kept + after);
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(before + kept + after));
  for (int64_t o = -before; o < kept + after; ++o) {
    int64_t i = o;
    if (mode == "constant") {
      if (i < 0 || i >= kept) i = -1 - first;
    } else if (mode == "edge") {
      i = std::clamp<int64_t>(i, 0, kept - 1);
    } else if (mode == "wrap") {
      i -= floor_div(i, kept) * kept;
    } else {  // reflect: there and back without repeating the ends
      const int64_t period = std::max<int64_t>(2 * (kept - 1), 1);
      i -= floor_div(i, period) * period;
      i = std::min(i, period - i);
      if (kept == 1) i = 0;
    }
    out.push_back(first + i);
  }
  return out;
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[kData], &y = ctx.outputs[0];
  const size_t rank = x.dims.size();
  const std::string mode = ctx.attrs().get_string("mode", "constant");
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (ctx.has(kAxes)) axes = normalise_axes(int_values(ctx.inputs[kAxes]), rank);
  const auto pads = int_values(ctx.inputs[kPads]);
  std::vector<std::vector<int64_t>> source(rank);
  for (size_t i = 0; i < rank; ++i) source[i] = axis_map("constant", x.dims[i], 0, 0);
  for (size_t i = 0; i < axes.size(); ++i)
    source[axes[i]] = axis_map(mode, x.dims[axes[i]], pads[i], pads[i + axes.size()]);

  dispatch_storage(x.dtype, [&]<class T>() {
    const T filling = ctx.has(kValue) ? *ctx.inputs[kValue].template as<T>() : T{};
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      int64_t from = 0;
      bool inside = true;
      for (size_t i = 0; i < rank; ++i) {
        const int64_t index = source[i][static_cast<size_t>(at[i])];
        inside = inside && index >= 0;
        from += index * x.strides[i];
      }
      y.as<T>()[offset_of(at, y.strides)] = inside ? x.as<T>()[from] : filling;
    });
  });
}

}  // namespace

void register_pad(OpList& ops) {
  OpDef op;
  op.name = "Pad";
  op.min_inputs = 2;
  op.max_inputs = 4;
  op.attrs = {{"mode", AttrKind::kString, false, 0, 0, "constant|reflect|edge|wrap"}};
  op.infer = infer;
  op.reference = reference;
  op.tolerance = Tolerance::kExact;
  ops.push_back(std::move(op));
}

}  // namespace xc
