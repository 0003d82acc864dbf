// xc::Lookup: every byte is replaced by the byte a table of 256 has for it. A byte that counts as
// signed finds its place by its bits: 0 .. 127, then -128 .. -1.

#include <cstring>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/support.h"

namespace xc {
namespace {

constexpr size_t kX = 0, kTable = 1;
constexpr int64_t kBytes = 256;

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, type_set({DType::kI8, DType::kU8}));
  check_dtype(ctx, kTable, type_set({DType::kI8, DType::kU8}));
  require_vector(ctx, kTable, Dim(kBytes));
  ctx.set(0, ctx.dtype(kTable), ctx.dims(kX));
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[kX], &table = ctx.inputs[kTable], &y = ctx.outputs[0];
  for_each_offset<2>(x.dims, {x.strides, y.strides}, [&](const auto& at) {
    y.as<uint8_t>()[at[1]] = table.as<uint8_t>()[x.as<uint8_t>()[at[0]] * table.strides[0]];
  });
}

}  // namespace

void register_lookup(OpList& ops) {
  OpDef op;
  op.name = "Lookup";
  op.domain = "xc";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer;
  op.reference = reference;
  ops.push_back(std::move(op));
}

}  // namespace xc
