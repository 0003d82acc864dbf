// Weights of few bits of com.microsoft. MatMulNBits: a product with weights of 2, 4 or 8 bits in
// blocks along the contracted axis; constant ones become DequantizeLinear, which passes turn into
// xc::DequantizedMatMul, whose kernel keeps them as integers. MatMulBnb4: of 4-bit floats.
// GatherBlockQuantized: rows of a table of such integers.

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <span>

#include "base/checked.h"
#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

// a [..., K]; b u8 [N, blocks, bytes of a block]; scales [N, blocks] or flat; zero points: packed
// like b, u8 [N, bytes] or flat, or of the scales' type and dims; the block of each row of the
// weights, [K] or padded, where that is not its place (GPTQ by activation order).
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

void require_block(const InferContext& ctx, int64_t block) {
  if (block < 16 || !std::has_single_bit(static_cast<uint64_t>(block)))
    ctx.error("attribute 'block_size' is {}, expected a power of two from 16 on", block);
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
  check_dtype(ctx, kOrder, type_set({DType::kI32}));
  microsoft::require_attr(ctx, "weight_prepacked", 0);
  const Packing p = packing_of(*ctx.node);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8)
    fail(Status::kUnsupported, "unsupported: attribute 'bits' = {} (2, 4 and 8 are)", p.bits);
  require_block(ctx, p.block);
  SymDims out = ctx.dims(kA);
  if (out.empty() || known_different(out.back(), p.k))
    ctx.error("a has dims {}, attribute 'K' is {}", to_text(out), p.k);
  require_dims(ctx, kB, {p.n, p.blocks(), p.block_bytes()});
  require_matrix_or_flat(ctx, kScales, p.n, p.blocks());
  if (ctx.has(kZeros)) {
    const bool packed = ctx.dtype(kZeros) == DType::kU8;
    require_matrix_or_flat(ctx, kZeros, p.n, packed ? p.zero_bytes() : p.blocks());
  }
  if (ctx.has(kOrder) && known_different(ctx.dims(kOrder).back(), p.blocks() * p.block))
    require_vector(ctx, kOrder, p.k);
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

/// Rows [first, end) of `rows` of packed integers, the lowest bits first, each padded to whole
/// bytes, as elements of a byte each.
void unpack(const Tensor& bytes, int64_t bits, int64_t rows, int64_t columns, int64_t first,
            int64_t end, std::byte* to) {
  const Tensor dense = bytes.held(true).to_contiguous();
  const int64_t row_bytes = dense.count() / rows;
  const auto unpack_one = bits == 2 ? unpack_row<2> : bits == 4 ? unpack_row<4> : unpack_row<8>;
  for (int64_t r = first; r < end; ++r)
    unpack_one(dense.as<uint8_t>() + r * row_bytes, columns,
               reinterpret_cast<uint8_t*>(to) + (r - first) * columns);
}

/// The places along K in the order of their blocks; nullopt where a block has not its size.
std::optional<std::vector<int64_t>> places_by_block(const Tensor& blocks, const Packing& p) {
  if (!blocks || blocks.count() < p.k) return std::nullopt;
  const std::vector<int64_t> of = int_values(blocks.view());
  std::vector<int64_t> out(static_cast<size_t>(p.k));
  std::iota(out.begin(), out.end(), int64_t{0});
  const auto block = [&](int64_t place) { return of[static_cast<size_t>(place)]; };
  std::stable_sort(out.begin(), out.end(),
                   [&](int64_t a, int64_t b) { return block(a) < block(b); });
  for (int64_t i = 0; i < p.k; ++i)
    if (block(out[static_cast<size_t>(i)]) != i / p.block) return std::nullopt;
  return out;
}

/// Puts the columns of [rows, columns] into this order.
void reorder(uint8_t* elements, int64_t rows, const std::vector<int64_t>& columns) {
  std::vector<uint8_t> row(columns.size());
  for (int64_t r = 0; r < rows; ++r, elements += row.size()) {
    std::copy_n(elements, row.size(), row.begin());
    for (size_t c = 0; c < row.size(); ++c) elements[c] = row[static_cast<size_t>(columns[c])];
  }
}

/// The weights [N, K] with their columns in the order of `places`. Kernels pack them and look at
/// them no more: made on demand.
Tensor unpacked_weights(const Tensor& stored, const Packing& p,
                        const std::optional<std::vector<int64_t>>& places) {
  const auto fill = [stored, p, places](std::byte* to, int64_t begin, int64_t end) {
    const int64_t first_row = begin / p.k, end_row = end / p.k;
    unpack(stored, p.bits, p.n, p.k, first_row, end_row, to);
    if (places) reorder(reinterpret_cast<uint8_t*>(to), end_row - first_row, *places);
    if (end_row == p.n) stored.forget();
  };
  return Tensor(Buffer::make_parts_on_demand(checked_mul(p.n, p.k), p.k, fill), 0,
                storage_of(p.bits), {p.n, p.k});
}

/// The weights [N, K] as DequantizeLinear of what they are stored as; `places`: of its columns, as
/// they are without.
ValueId dequantised_constant(Expansion& e, const Packing& p, DType working,
                             const std::optional<std::vector<int64_t>>& places) {
  Tensor zeros(storage_of(p.bits), {p.n, p.blocks()});
  if (e.has(kZeros)) {
    unpack(e.constant_input(kZeros), p.bits, p.n, p.blocks(), 0, p.n, zeros.as<std::byte>());
  } else {
    std::fill_n(zeros.as<uint8_t>(), zeros.count(), static_cast<uint8_t>(1 << (p.bits - 1)));
  }
  const ValueId scales = e.add("Reshape", {e.in(kScales), e.ints({p.n, p.blocks()})});
  return e.add("DequantizeLinear",
               {e.constant(unpacked_weights(e.constant_input(kB), p, places)),
                e.cast(scales, e.dtype(kScales), working), e.constant(std::move(zeros))},
               {{"axis", int64_t{1}}, {"block_size", p.block}});
}

// ---- weights that only the run has --------------------------------------------------------------

/// The integers of each byte along a new last axis, the lowest bits first.
ValueId fields(Expansion& e, ValueId bytes, int64_t bits) {
  const auto byte = [&](int64_t v) { return e.constant(Tensor::scalar(static_cast<uint8_t>(v))); };
  const ValueId apart = e.add("Unsqueeze", {bytes, e.ints({-1})});
  std::vector<ValueId> parts;
  for (int64_t low = 0; low < 8; low += bits) {
    const ValueId shifted =
        low == 0 ? apart
                 : e.add("BitShift", {apart, byte(low)}, {{"direction", std::string("RIGHT")}});
    parts.push_back(e.add("BitwiseAnd", {shifted, byte((1 << bits) - 1)}));
  }
  return parts.size() == 1 ? parts[0] : e.add("Concat", parts, {{"axis", int64_t{-1}}});
}

/// Integers out of bytes along the last axis: [rows, bytes] to [rows, bytes * per_byte], as floats.
ValueId unpacked(Expansion& e, ValueId bytes, const Packing& p, int64_t row_bytes, DType working) {
  const ValueId rows = e.add("Reshape", {bytes, e.ints({p.n, row_bytes})});
  const ValueId flat =
      e.add("Reshape", {fields(e, rows, p.bits), e.ints({p.n, row_bytes * p.per_byte()})});
  return e.cast(flat, DType::kU8, working);
}

ValueId cut(Expansion& e, ValueId x, int64_t columns) {
  return e.add("Slice", {x, e.ints({0}), e.ints({columns}), e.ints({1})});
}

/// The weights [N, K], computed.
ValueId dequantised(Expansion& e, const Packing& p, DType working) {
  /// [N, blocks] as it goes with the weights.
  const auto spread = [&](ValueId x) {
    if (!e.has(kOrder)) return e.add("Reshape", {x, e.ints({p.n, p.blocks(), 1})});
    const ValueId blocks = e.add("Slice", {e.in(kOrder), e.ints({0}), e.ints({p.k})});
    x = e.add("Reshape", {x, e.ints({p.n, p.blocks()})});
    return e.add("Gather", {x, blocks}, {{"axis", int64_t{1}}});
  };
  const int64_t padded = p.blocks() * p.block;
  ValueId w = unpacked(e, e.in(kB), p, p.blocks() * p.block_bytes(), working);
  w = e.has(kOrder) ? cut(e, w, p.k) : e.add("Reshape", {w, e.ints({p.n, p.blocks(), p.block})});
  ValueId zero = e.scalar(static_cast<double>(int64_t{1} << (p.bits - 1)));
  if (e.has(kZeros) && e.dtype(kZeros) == DType::kU8)
    zero = spread(cut(e, unpacked(e, e.in(kZeros), p, p.zero_bytes(), working), p.blocks()));
  else if (e.has(kZeros))
    zero = spread(e.widened(kZeros));
  w = e.add("Mul", {e.add("Sub", {w, zero}), spread(e.widened(kScales))});
  if (e.has(kOrder)) return w;
  w = e.add("Reshape", {w, e.ints({p.n, padded})});
  return padded == p.k ? w : cut(e, w, p.k);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const Packing p = packing_of(node);
  std::optional<std::vector<int64_t>> places;
  if (e.has(kOrder)) places = places_by_block(e.constant_input(kOrder), p);
  // Rows that are only in another order are put into that of their blocks.
  const bool stored =
      e.constant_input(kB) && e.has(kOrder) == places.has_value() &&
      (!e.has(kZeros) || (e.constant_input(kZeros) && e.dtype(kZeros) == DType::kU8));
  const ValueId w =
      stored ? dequantised_constant(e, p, e.working(), places) : dequantised(e, p, e.working());
  Expansion::AttrList attrs;
  if (stored && !places && node.attrs.get_int("accuracy_level", 0) == kInBytes)
    attrs.emplace_back(kLeftInBytes.name, int64_t{1});
  ValueId a = e.widened(kA);
  if (stored && places) a = e.add("Gather", {a, e.ints(*places)}, {{"axis", int64_t{-1}}});
  ValueId y = e.add("MatMul", {a, e.transposed(w, {1, 0})}, attrs);
  if (e.has(kBias)) y = e.add("Add", {y, e.widened(kBias)});
  return {e.narrowed(y)};
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& out = graph.value(node.outputs[0]).type.dims;
  return out ? Dim(2 * node.attrs.get_int("K", 0)) * element_count(*out) : Dim(0);
}

// ---- MatMulBnb4 ---------------------------------------------------------------------------------

namespace bnb4 {

// a [..., K]; b u8, two weights a byte, the first in the high bits, of [N, K] in a row; absmax:
// what each block of them is multiplied by.
enum : size_t { kA, kB, kScales };

// The values of each code (bitsandbytes; QLoRA, arXiv:2305.14314, appendix E).
constexpr std::array<float, 16> kFp4{
    0,     5.208333333e-03f,  0.66666667f,  1,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr std::array<float, 16> kNf4{-1.0f,
                                     -0.6961928009986877f,
                                     -0.5250730514526367f,
                                     -0.39491748809814453f,
                                     -0.28444138169288635f,
                                     -0.18477343022823334f,
                                     -0.09105003625154495f,
                                     0.0f,
                                     0.07958029955625534f,
                                     0.16093020141124725f,
                                     0.24611230194568634f,
                                     0.33791524171829224f,
                                     0.44070982933044434f,
                                     0.5626170039176941f,
                                     0.7229568362236023f,
                                     1.0f};

struct Sizes {
  int64_t k, n, block;
  int64_t count() const { return checked_mul(n, k); }
  int64_t bytes() const { return ceil_div(count(), 2); }
  int64_t blocks() const { return ceil_div(count(), block); }
};
Sizes sizes_of(const Node& node) {
  return {node.attrs.get_int("K", 0), node.attrs.get_int("N", 0),
          node.attrs.get_int("block_size", 0)};
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kA, type_set({DType::kF32, DType::kF16, DType::kBF16}));
  check_dtype(ctx, kB, type_set({DType::kU8}));
  require_same_dtype(ctx, kScales);
  microsoft::require_attr(ctx, "training_mode", 0);
  microsoft::require_attr(ctx, "transB", 1);
  const Sizes s = sizes_of(*ctx.node);
  require_block(ctx, s.block);
  SymDims out = ctx.dims(kA);
  if (out.empty() || known_different(out.back(), s.k))
    ctx.error("a has dims {}, attribute 'K' is {}", to_text(out), s.k);
  require_vector(ctx, kB, s.bytes());
  require_vector(ctx, kScales, s.blocks());
  out.back() = s.n;
  ctx.set(0, ctx.dtype(kA), std::move(out));
}

/// The values of both codes of every byte, [256, 2].
Tensor pairs(std::span<const float, 16> values) {
  Tensor out(DType::kF32, {256, 2});
  for (size_t byte = 0; byte < 256; ++byte) {
    out.as<float>()[2 * byte] = values[byte >> 4];
    out.as<float>()[2 * byte + 1] = values[byte & 15];
  }
  return out;
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const Sizes s = sizes_of(node);
  const auto& values = node.attrs.get_int("quant_type", 0) == 0 ? kFp4 : kNf4;
  const ValueId codes = e.cast(e.in(kB), DType::kU8, DType::kI32);
  ValueId w = e.add("Gather", {e.constant(pairs(values)), codes}, {{"axis", int64_t{0}}});
  w = e.add("Reshape", {w, e.ints({2 * s.bytes()})});
  // Whole blocks, of which the last may be longer than the weights.
  const int64_t whole = s.blocks() * s.block;
  w = e.add("Pad", {w, e.ints({0, whole - 2 * s.bytes()})});
  w = e.add("Mul", {e.add("Reshape", {w, e.ints({s.blocks(), s.block})}),
                    e.add("Unsqueeze", {e.widened(kScales), e.ints({1})})});
  w = cut(e, e.add("Reshape", {w, e.ints({1, whole})}), s.count());
  w = e.add("Reshape", {w, e.ints({s.n, s.k})});
  return {e.narrowed(e.add("MatMul", {e.widened(kA), e.transposed(w, {1, 0})}))};
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& a = graph.value(node.inputs[kA]).type.dims;
  const auto& y = graph.value(node.outputs[0]).type.dims;
  return a && y ? Dim(2) * a->back() * element_count(*y) : Dim(0);
}

}  // namespace bnb4

// ---- GatherBlockQuantized -----------------------------------------------------------------------

namespace gathered {

// data: integers of 4 bits, or packed in bytes along the last axis; indices; scales and zero points
// of blocks along one axis.
enum : size_t { kData, kRows, kScales, kZeros };

/// Integers of a byte of the data: 1 where it has a type of 4 bits.
int64_t per_byte(const Node& node, DType data) {
  return data == DType::kU8 ? 8 / node.attrs.get_int("bits", 4) : 1;
}

struct Axes {
  size_t gathered, quantised;
};
Axes axes_of(const Node& node, size_t rank) {
  return {normalise_axis(node.attrs.get_int("gather_axis", 0), rank, "gather_axis"),
          normalise_axis(node.attrs.get_int("quantize_axis", 1), rank, "quantize_axis")};
}

int64_t block_of(const Node& node) {
  return node.attrs.get_int("block_size", 128);
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kData, type_set({DType::kU8, DType::kI4, DType::kU4}));
  check_dtype(ctx, kRows, kIndices);
  check_dtype(ctx, kScales, type_set({DType::kF32, DType::kF16, DType::kBF16}));
  require_same_dtype(ctx, kZeros, kData);
  const int64_t bits = ctx.attrs().get_int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) ctx.error("attribute 'bits' is {}", bits);
  require_block(ctx, block_of(*ctx.node));
  SymDims data = ctx.dims(kData);
  const Axes axes = axes_of(*ctx.node, data.size());
  const bool packed = ctx.dtype(kData) == DType::kU8;
  if (axes.gathered == axes.quantised)
    fail(Status::kUnsupported, "unsupported: rows are gathered along the axis of their blocks");
  if (packed && axes.gathered != 0) ctx.error("bytes are gathered along axis {}", axes.gathered);
  const int64_t fields = per_byte(*ctx.node, ctx.dtype(kData));
  data.back() = data.back() * Dim(fields);
  SymDims blocks = data;
  blocks[axes.quantised] = ceil_div(data[axes.quantised], block_of(*ctx.node));
  require_dims(ctx, kScales, blocks);
  blocks.back() = ceil_div(blocks.back(), fields);
  if (ctx.has(kZeros)) require_dims(ctx, kZeros, blocks);
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axes.gathered);
  SymDims out(data.begin(), at);
  const SymDims& rows = ctx.dims(kRows);
  out.insert(out.end(), rows.begin(), rows.end());
  out.insert(out.end(), at + 1, data.end());
  ctx.set(0, ctx.dtype(kScales), std::move(out));
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(kData) || !e.rank(kRows)) return {};
  const SymDims& data = *e.type(kData).dims;
  const size_t rank = data.size();
  const Axes axes = axes_of(node, rank);
  const bool packed = e.dtype(kData) == DType::kU8;
  const int64_t bits = node.attrs.get_int("bits", 4), count = per_byte(node, e.dtype(kData));
  const auto last = data.back().constant(), along = data[axes.quantised].constant();
  if (!last || !along) return {};
  const int64_t size = axes.quantised + 1 == rank ? *last * count : *along;
  const DType type = e.dtype(kScales), working = loop::value_type(type);
  const auto rows = [&](size_t i) {
    return e.add("Gather", {e.in(i), e.in(kRows)}, {{"axis", static_cast<int64_t>(axes.gathered)}});
  };
  /// Rows of input i with `length` bytes, in floats.
  const auto numbers = [&](size_t i, int64_t length) {
    ValueId x = rows(i);
    if (packed) {
      std::vector<int64_t> dims(rank - 1 + static_cast<size_t>(*e.rank(kRows)), 0);
      dims.back() = length * count;
      x = e.add("Reshape", {fields(e, x, bits), e.ints(dims)});
    }
    return e.cast(x, e.dtype(i), working);
  };
  // Where the blocks' axis is in the result, and the block of each place.
  const int64_t axis = static_cast<int64_t>(axes.quantised) +
                       (axes.quantised > axes.gathered ? *e.rank(kRows) - 1 : 0);
  std::vector<int64_t> block;
  for (int64_t i = 0; i < size; ++i) block.push_back(i / block_of(node));
  const auto spread = [&](ValueId x) {
    return e.add("Gather", {x, e.ints(block)}, {{"axis", axis}});
  };
  ValueId zero = e.scalar(packed ? static_cast<double>(int64_t{1} << (bits - 1)) : 0, working);
  if (e.has(kZeros)) {
    const auto bytes = e.type(kZeros).dims ? e.type(kZeros).dims->back().constant() : std::nullopt;
    if (!bytes) return {};
    zero = spread(numbers(kZeros, *bytes));
  }
  const ValueId scale = spread(e.cast(rows(kScales), type, working));
  const ValueId y = e.add("Mul", {e.add("Sub", {numbers(kData, *last), zero}), scale});
  return {e.cast(y, working, type)};
}

}  // namespace gathered

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

  OpDef four = microsoft::op("com.microsoft::MatMulBnb4", 3, 3, bnb4::infer, bnb4::expand,
                             {{"K", AttrKind::kInt, true, 1, INT32_MAX},
                              {"N", AttrKind::kInt, true, 1, INT32_MAX},
                              {"block_size", AttrKind::kInt, true, 1, INT32_MAX},
                              {"quant_type", AttrKind::kInt, true, 0, 1},
                              {"training_mode", AttrKind::kInt},
                              {"transB", AttrKind::kInt}});
  four.flops = bnb4::flops;
  ops.push_back(std::move(four));

  ops.push_back(microsoft::op("com.microsoft::GatherBlockQuantized", 3, 4, gathered::infer,
                              gathered::expand,
                              {{"bits", AttrKind::kInt},
                               {"block_size", AttrKind::kInt, false, 0, INT32_MAX},
                               {"gather_axis", AttrKind::kInt},
                               {"quantize_axis", AttrKind::kInt}},
                              Tolerance::kElementwise));
}

}  // namespace xc
