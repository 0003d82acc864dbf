// Col2Im: adds columns of sliding blocks back into an image; the transpose of im2col. Where blocks
// overlap, bools are or-ed, integers wrap, and text, which has no sum, is an error.

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/window.h"

namespace xc {

namespace {

// Inputs: columns [N, C * block elements, block positions], image_shape, block_shape.
constexpr size_t kColumns = 0, kImage = 1, kBlock = 2;

void check_sizes(const InferContext& ctx, const std::vector<Dim>& image,
                 const std::vector<Dim>& block) {
  const WindowAttrs window = window_attrs(*ctx.node, image.size());
  const SymDims& x = ctx.dims(kColumns);
  Dim positions(1);
  for (size_t i = 0; i < image.size(); ++i) {
    for (const Dim& size : {image[i], block[i]})
      if (const auto v = size.constant(); v && (*v < 1 || *v > kMaxWindow))
        ctx.error("image {} with blocks {}", to_text(image), to_text(block));
    positions = positions * window_output(window, i, image[i], block[i]);
  }
  if (known_different(positions, x[2]))
    ctx.error("columns {}: blocks {} have {} positions in an image {}", to_text(x), to_text(block),
              positions.text(), to_text(image));
  const auto rows = x[1].constant(), each = element_count(block).constant();
  if (rows && each && *rows % *each != 0)
    ctx.error("{} rows do not divide into blocks {}", *rows, to_text(block));
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kColumns, kNumbers | kComplex | kBools | type_set({DType::kString}));
  check_dtype(ctx, kImage, type_set({DType::kI64}));
  check_dtype(ctx, kBlock, type_set({DType::kI64}));
  require_rank(ctx, kColumns, 3);
  require_rank(ctx, kImage, 1);
  const SymDims& x = ctx.dims(kColumns);
  const auto spatial = ctx.dims(kImage)[0].constant();
  if (!spatial) return set_unknown_rank(ctx, 0, ctx.dtype(kColumns));
  if (*spatial < 1) ctx.error("image_shape has {} entries", *spatial);
  require_vector(ctx, kBlock, *spatial);
  const auto image = ctx.elements(kImage), block = ctx.elements(kBlock);
  if (image && block) check_sizes(ctx, *image, *block);
  SymDims out{x[0], block ? floor_div(x[1], element_count(*block)) : ctx.fresh("channels")};
  const SymDims sizes = image ? SymDims(image->begin(), image->end())
                              : fresh_dims(ctx, static_cast<size_t>(*spatial), "image");
  out.insert(out.end(), sizes.begin(), sizes.end());
  ctx.set(0, ctx.dtype(kColumns), std::move(out));
}

/// Calls body(column element, image element), both row-major, for every one that lies inside.
template <class Body>
void for_each_column_element(const ReferenceContext& ctx, Body body) {
  const TensorView& y = ctx.outputs[0];
  const Dims image = int_values(ctx.inputs[kImage]), block = int_values(ctx.inputs[kBlock]);
  const WindowAttrs window = window_attrs(*ctx.node, image.size());
  // Block elements, then block positions: the order of the columns' last two axes.
  Dims space = block;
  for (size_t i = 0; i < image.size(); ++i)
    space.push_back(window_output(window, i, image[i], block[i]).value());
  const Dims strides = contiguous_strides(image);
  const int64_t plane = element_count(image), planes = y.dims[0] * y.dims[1];
  size_t next = 0;
  for (int64_t p = 0; p < planes; ++p)
    for_each_coordinate(space, [&](std::span<const int64_t> at) {
      int64_t to = p * plane;
      bool inside = true;
      for (size_t i = 0; i < image.size(); ++i) {
        const int64_t index = at[image.size() + i] * window.strides[i] - window.pads_begin[i] +
                              at[i] * window.dilations[i];
        inside = inside && index >= 0 && index < image[i];
        to += index * strides[i];
      }
      if (inside) body(next, static_cast<size_t>(to));
      ++next;
    });
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[kColumns], &y = ctx.outputs[0];
  const auto count = static_cast<size_t>(y.count());
  if (x.dtype == DType::kString) {
    Tensor columns(x.dtype, dims_of(x)), out(y.dtype, dims_of(y));
    copy_elements(x, columns.view());
    std::vector<bool> taken(count);
    for_each_column_element(ctx, [&](size_t from, size_t to) {
      if (taken[to]) fail(Status::kRange, "blocks overlap, and strings have no sum");
      taken[to] = true;
      out.as<std::string>()[to] = columns.as<std::string>()[from];
    });
    return copy_elements(out.view(), y);
  }
  if (is_integer(x.dtype)) {
    const auto columns = read_wrapped(x);
    std::vector<uint64_t> out(count);
    for_each_column_element(ctx, [&](size_t from, size_t to) { out[to] += columns[from]; });
    return write_wrapped(y, out);
  }
  const size_t parts = info(x.dtype).kind == DTypeKind::kComplex ? 2 : 1;
  const auto columns = read_parts(x);
  std::vector<double> out(count * parts);
  for_each_column_element(ctx, [&](size_t from, size_t to) {
    for (size_t k = 0; k < parts; ++k) out[to * parts + k] += columns[from * parts + k];
  });
  write_parts(y, out);
}

}  // namespace

void register_col2im(OpList& ops) {
  OpDef op;
  op.name = "Col2Im";
  op.min_inputs = op.max_inputs = 3;
  op.attrs = {{"dilations", AttrKind::kInts, false, 1, kMaxWindow},
              {"pads", AttrKind::kInts, false, 0, kMaxWindow},
              {"strides", AttrKind::kInts, false, 1, kMaxWindow}};
  op.infer = infer;
  op.reference = reference;
  op.weight = 4;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
