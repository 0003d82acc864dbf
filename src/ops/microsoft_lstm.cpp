// DynamicQuantizeLSTM of com.microsoft: LSTM with weights of 8 bits. Here they are dequantised,
// once where they are constant; the kernel finds the bytes again. onnxruntime also rounds the
// inputs of a step's products to 8 bits: what is left lets a kernel do so (kLeftInBytes).

#include <array>

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"
#include "ops/recurrent.h"
#include "ops/registry.h"

namespace xc {

namespace {

// Inputs: those of LSTM with the weights turned, [directions, input, 4 * hidden] and [directions,
// hidden, 4 * hidden]; then a scale and a zero point of each.
enum : size_t { kX, kWeights, kRecurrence, kLengths = 4, kScales = 8, kCount = 12 };

size_t scale_of(size_t weights) {
  return kScales + 2 * (weights - kWeights);
}
size_t zero_of(size_t weights) {
  return scale_of(weights) + 1;
}

/// The weights' type as LSTM has them.
Type turned(const InferContext& ctx, size_t i) {
  require_rank(ctx, i, 3);
  const SymDims& w = ctx.dims(i);
  return Type::tensor(DType::kF32, SymDims{w[0], w[2], w[1]});
}

/// One entry, one per direction or one per direction and column.
void require_quantum(const InferContext& ctx, size_t i, const SymDims& weights) {
  if (!ctx.has(i) || microsoft::has_one_entry(ctx, i)) return;
  if (ctx.rank(i) == 1)
    require_vector(ctx, i, weights[0]);
  else
    require_dims(ctx, i, {weights[0], weights[2]});
}

void infer(InferContext& ctx) {
  constexpr TypeSet kF32 = type_set({DType::kF32}), kBytes = type_set({DType::kI8, DType::kU8});
  for (size_t i = kX; i < kScales; ++i) {
    const bool weights = i == kWeights || i == kRecurrence;
    check_dtype(ctx, i, weights ? kBytes : i == kLengths ? type_set({DType::kI32}) : kF32);
  }
  for (size_t i : {kWeights, kRecurrence}) {
    require_same_dtype(ctx, i, kWeights);
    check_dtype(ctx, scale_of(i), kF32);
    require_same_dtype(ctx, zero_of(i), i);
  }
  for (size_t i : {kWeights, kRecurrence}) ctx.type(scale_of(i));  // not optional
  const std::array<Type, 2> weights{turned(ctx, kWeights), turned(ctx, kRecurrence)};
  for (size_t i : {kWeights, kRecurrence})
    for (size_t k : {scale_of(i), zero_of(i)}) require_quantum(ctx, k, ctx.dims(i));
  InferContext inner;
  inner.node = ctx.node;
  inner.inputs.assign(ctx.inputs.begin(),
                      ctx.inputs.begin() + static_cast<std::ptrdiff_t>(kScales));
  for (size_t i : {kWeights, kRecurrence})
    inner.inputs[i] = {&weights[i - kWeights], nullptr, nullptr};
  inner.outputs.resize(ctx.outputs.size());
  get_op("LSTM").infer(inner);
  ctx.outputs = std::move(inner.outputs);
}

/// [directions, rows, columns] of bytes as floats, turned.
ValueId dequantised(Expansion& e, size_t i) {
  // [directions] or [directions, columns] against [directions, rows, columns].
  const auto spread = [&](size_t k, ValueId x) {
    const int64_t rank = *e.rank(k);
    if (rank == 0) return x;
    return e.add("Unsqueeze", {x, rank == 1 ? e.ints({1, 2}) : e.ints({1})});
  };
  ValueId w = e.cast(e.in(i), e.dtype(i), DType::kF32);
  if (const size_t zero = zero_of(i); e.has(zero))
    w = e.add("Sub", {w, spread(zero, e.cast(e.in(zero), e.dtype(zero), DType::kF32))});
  w = e.add("Mul", {w, spread(scale_of(i), e.in(scale_of(i)))});
  return e.transposed(w, {0, 2, 1});
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  for (size_t i = kScales; i < kCount; ++i)
    if (e.has(i) && !e.rank(i)) return {};
  std::vector<ValueId> inputs(node.inputs.begin(),
                              node.inputs.begin() + static_cast<std::ptrdiff_t>(kScales));
  for (size_t i : {kWeights, kRecurrence}) inputs[i] = dequantised(e, i);
  while (inputs.back() == kNone) inputs.pop_back();
  Attrs attrs = node.attrs;
  attrs.set(std::string(kLeftInBytes.name), int64_t{1});
  return e.add("LSTM", std::move(inputs), static_cast<uint32_t>(node.outputs.size()),
               {attrs.entries().begin(), attrs.entries().end()});
}

}  // namespace

void register_microsoft_lstm(OpList& ops) {
  std::vector<AttrSpec> attrs = recurrent_attr_specs();
  std::erase_if(attrs, [](const AttrSpec& a) { return a.name == "layout"; });
  attrs.push_back(microsoft::flag("input_forget"));
  OpDef op =
      microsoft::op("com.microsoft::DynamicQuantizeLSTM", 3, 12, infer, expand, std::move(attrs));
  op.max_outputs = 3;
  op.flops = recurrent_flops;
  ops.push_back(std::move(op));
}

}  // namespace xc
