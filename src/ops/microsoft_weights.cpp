// MatMulNBits of com.microsoft: a product with weights of 2, 4 or 8 bits in blocks along the
// contracted axis. Constant weights become DequantizeLinear, which passes turn into
// xc::DequantizedMatMul, whose kernel keeps them as integers.

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

// a [..., K]; b u8 [N, blocks, bytes of a block]; scales [N, blocks] or flat; zero points: packed
// like b, u8 [N, bytes] or flat, or of the scales' type and dims.
enum : size_t { kA, kB, kScales, kZeros, kOrder, kBias };

/// The accuracy_level that lets a be rounded to 8 bits, block by block.
constexpr int64_t kInBytes = 4;

struct Packing {
  int64_t k, n, bits, block;
  int64_t blocks() const { return ceil_div(k, block); }
  int64_t per_byte() const { return 8 / bits; }
  int64_t block_bytes() const { return ceil_div(block, per_byte()); }
  int64_t zero_bytes() const { return ceil_div(blocks(), per_byte()); }
};

Packing packing_of(const Node& node) {
  return {node.attrs.get_int("K", 0), node.attrs.get_int("N", 0), node.attrs.get_int("bits", 4),
          node.attrs.get_int("block_size", 0)};
}

/// [rows, columns], or both in one axis.
void require_matrix_or_flat(const InferContext& ctx, size_t i, int64_t rows, int64_t columns) {
  if (ctx.rank(i) == 1)
    require_vector(ctx, i, rows * columns);
  else
    require_dims(ctx, i, {rows, columns});
}

void infer(InferContext& ctx) {
  constexpr TypeSet kTypes = type_set({DType::kF32, DType::kF16, DType::kBF16});
  check_dtype(ctx, kA, kTypes);
  check_dtype(ctx, kB, type_set({DType::kU8}));
  require_same_dtype(ctx, kScales);
  check_dtype(ctx, kZeros, kTypes | type_set({DType::kU8}));
  require_same_dtype(ctx, kBias);
  microsoft::refuse_input(ctx, kOrder, "g_idx: groups in another order than that of the rows");
  microsoft::require_attr(ctx, "weight_prepacked", 0);
  const Packing p = packing_of(*ctx.node);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8)
    fail(Status::kUnsupported, "unsupported: attribute 'bits' = {} (2, 4 and 8 are)", p.bits);
  if (p.block < 16 || !std::has_single_bit(static_cast<uint64_t>(p.block)))
    ctx.error("attribute 'block_size' is {}, expected a power of two from 16 on", p.block);
  SymDims out = ctx.dims(kA);
  if (out.empty() || known_different(out.back(), p.k))
    ctx.error("a has dims {}, attribute 'K' is {}", to_text(out), p.k);
  require_dims(ctx, kB, {p.n, p.blocks(), p.block_bytes()});
  require_matrix_or_flat(ctx, kScales, p.n, p.blocks());
  if (ctx.has(kZeros)) {
    const bool packed = ctx.dtype(kZeros) == DType::kU8;
    require_matrix_or_flat(ctx, kZeros, p.n, packed ? p.zero_bytes() : p.blocks());
  }
  if (ctx.has(kBias)) require_vector(ctx, kBias, p.n);
  out.back() = p.n;
  ctx.set(0, ctx.dtype(kA), std::move(out));
}

// ---- constant weights ---------------------------------------------------------------------------

DType storage_of(int64_t bits) {
  return bits == 2 ? DType::kU2 : bits == 4 ? DType::kU4 : DType::kU8;
}

template <int kBits>
void unpack_row(const uint8_t* from, int64_t columns, uint8_t* to) {
  constexpr int64_t kPerByte = 8 / kBits;
  constexpr unsigned kMask = (1u << kBits) - 1;
  int64_t c = 0;
  for (; c + kPerByte <= columns; c += kPerByte, ++from)
    for (int64_t i = 0; i < kPerByte; ++i)
      to[c + i] = static_cast<uint8_t>(unsigned{*from} >> i * kBits & kMask);
  for (int64_t i = 0; c < columns; ++c, ++i)
    to[c] = static_cast<uint8_t>(unsigned{*from} >> i * kBits & kMask);
}

/// Rows of packed integers, the lowest bits first, each padded to whole bytes, as a tensor of
/// [rows, columns], whose elements have a byte each.
Tensor unpacked(const Tensor& bytes, int64_t bits, int64_t rows, int64_t columns) {
  const Tensor dense = bytes.to_contiguous();
  const int64_t row_bytes = dense.count() / rows;
  Tensor out(storage_of(bits), {rows, columns});
  const auto unpack = bits == 2 ? unpack_row<2> : bits == 4 ? unpack_row<4> : unpack_row<8>;
  for (int64_t r = 0; r < rows; ++r)
    unpack(dense.as<uint8_t>() + r * row_bytes, columns, out.as<uint8_t>() + r * columns);
  return out;
}

/// The weights [N, K] as DequantizeLinear of what they are stored as.
ValueId dequantised_constant(Expansion& e, const Packing& p, DType working) {
  Tensor zeros(storage_of(p.bits), {p.n, p.blocks()});
  if (e.has(kZeros)) {
    zeros = unpacked(e.constant_input(kZeros), p.bits, p.n, p.blocks());
  } else {
    std::fill_n(zeros.as<uint8_t>(), zeros.count(), static_cast<uint8_t>(1 << (p.bits - 1)));
  }
  const ValueId scales = e.add("Reshape", {e.in(kScales), e.ints({p.n, p.blocks()})});
  return e.add("DequantizeLinear",
               {e.constant(unpacked(e.constant_input(kB), p.bits, p.n, p.k)),
                e.cast(scales, e.dtype(kScales), working), e.constant(std::move(zeros))},
               {{"axis", int64_t{1}}, {"block_size", p.block}});
}

// ---- weights that only the run has --------------------------------------------------------------

/// Integers out of bytes along the last axis: [rows, bytes] to [rows, bytes * per_byte], as floats.
ValueId unpacked(Expansion& e, ValueId bytes, const Packing& p, int64_t row_bytes, DType working) {
  const auto byte = [&](int64_t v) { return e.constant(Tensor::scalar(static_cast<uint8_t>(v))); };
  const ValueId rows = e.add("Reshape", {bytes, e.ints({p.n, row_bytes, 1})});
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < p.per_byte(); ++i) {
    const ValueId shifted =
        i == 0 ? rows
               : e.add("BitShift", {rows, byte(i * p.bits)}, {{"direction", std::string("RIGHT")}});
    parts.push_back(e.add("BitwiseAnd", {shifted, byte((1 << p.bits) - 1)}));
  }
  const ValueId all = parts.size() == 1 ? parts[0] : e.add("Concat", parts, {{"axis", int64_t{2}}});
  const ValueId flat = e.add("Reshape", {all, e.ints({p.n, row_bytes * p.per_byte()})});
  return e.cast(flat, DType::kU8, working);
}

ValueId cut(Expansion& e, ValueId x, int64_t columns) {
  return e.add("Slice", {x, e.ints({0}), e.ints({columns}), e.ints({1})});
}

/// The weights [N, K], computed.
ValueId dequantised(Expansion& e, const Packing& p, DType working) {
  const auto column = [&](ValueId x) {
    return e.add("Reshape", {x, e.ints({p.n, p.blocks(), 1})});
  };
  const int64_t padded = p.blocks() * p.block;
  ValueId w = unpacked(e, e.in(kB), p, p.blocks() * p.block_bytes(), working);
  w = e.add("Reshape", {w, e.ints({p.n, p.blocks(), p.block})});
  ValueId zero = e.scalar(static_cast<double>(int64_t{1} << (p.bits - 1)));
  if (e.has(kZeros) && e.dtype(kZeros) == DType::kU8)
    zero = column(cut(e, unpacked(e, e.in(kZeros), p, p.zero_bytes(), working), p.blocks()));
  else if (e.has(kZeros))
    zero = column(e.widened(kZeros));
  w = e.add("Mul", {e.add("Sub", {w, zero}), column(e.widened(kScales))});
  w = e.add("Reshape", {w, e.ints({p.n, padded})});
  return padded == p.k ? w : cut(e, w, p.k);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const Packing p = packing_of(node);
  const bool stored =
      e.constant_input(kB) &&
      (!e.has(kZeros) || (e.constant_input(kZeros) && e.dtype(kZeros) == DType::kU8));
  const ValueId w =
      stored ? dequantised_constant(e, p, e.working()) : dequantised(e, p, e.working());
  Expansion::AttrList attrs;
  if (stored && node.attrs.get_int("accuracy_level", 0) == kInBytes)
    attrs.emplace_back(kLeftInBytes.name, int64_t{1});
  ValueId y = e.add("MatMul", {e.widened(kA), e.transposed(w, {1, 0})}, attrs);
  if (e.has(kBias)) y = e.add("Add", {y, e.widened(kBias)});
  return {e.narrowed(y)};
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& out = graph.value(node.outputs[0]).type.dims;
  return out ? Dim(2 * node.attrs.get_int("K", 0)) * element_count(*out) : Dim(0);
}

}  // namespace

void register_microsoft_weights(OpList& ops) {
  OpDef op = microsoft::op("com.microsoft::MatMulNBits", 3, 6, infer, expand,
                           {{"K", AttrKind::kInt, true, 1, INT32_MAX},
                            {"N", AttrKind::kInt, true, 1, INT32_MAX},
                            {"accuracy_level", AttrKind::kInt, false, 0, 4},
                            {"bits", AttrKind::kInt},
                            {"block_size", AttrKind::kInt, true, 1, INT32_MAX},
                            {"weight_prepacked", AttrKind::kInt}});
  op.flops = flops;
  ops.push_back(std::move(op));
}

}  // namespace xc
