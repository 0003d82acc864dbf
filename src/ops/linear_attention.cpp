// LinearAttention: attention as a recurrence over a state matrix per head, with optional decay and
// delta rule.

#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"

namespace xc {

namespace {

// Inputs: query [B, T, Hq * dk], key [B, T, H * dk], value [B, T, H * dv], past [B, H, dk, dv],
// decay [B, T, H * dk] or [B, T, H], beta [B, T, H] or [B, T, 1].
constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kPast = 3, kDecay = 4, kBeta = 5;

struct Rule {
  bool gated, delta;
};
Rule rule_of(const Node& node) {
  const std::string text = node.attrs.get_string("update_rule", "gated_delta");
  return {text == "gated" || text == "gated_delta", text == "delta" || text == "gated_delta"};
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kQuery, kFloats);
  for (size_t i : {kKey, kValue, kDecay, kBeta}) require_same_dtype(ctx, i);
  check_dtype(ctx, kPast, kFloats);
  for (size_t i : {kQuery, kKey, kValue}) require_rank(ctx, i, 3);
  const int64_t q_heads = ctx.attrs().get_int("q_num_heads", 0);
  const int64_t heads = ctx.attrs().get_int("kv_num_heads", 0);
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0)
    ctx.error("{} query heads for {} key heads", q_heads, heads);
  const SymDims &q = ctx.dims(kQuery), &k = ctx.dims(kKey), &v = ctx.dims(kValue);
  const Dim dk = floor_div(k[2], heads), dv = floor_div(v[2], heads);
  if (dk == Dim(0)) ctx.error("key has dims {}", to_text(k));
  require_dims(ctx, kQuery, {q[0], q[1], dk * q_heads});
  require_dims(ctx, kKey, {q[0], q[1], dk * heads});
  require_dims(ctx, kValue, {q[0], q[1], dv * heads});
  const SymDims state{q[0], heads, dk, dv};
  if (ctx.has(kPast)) require_dims(ctx, kPast, state);
  const Rule rule = rule_of(*ctx.node);
  if (rule.gated && !ctx.has(kDecay)) ctx.error("the update rule needs a decay");
  if (rule.delta && !ctx.has(kBeta)) ctx.error("the update rule needs beta");
  if (ctx.has(kDecay)) {
    require_rank(ctx, kDecay, 3);
    const bool per_head = !known_different(ctx.dims(kDecay)[2], heads);
    require_dims(ctx, kDecay, {q[0], q[1], per_head ? Dim(heads) : dk * heads});
  }
  if (ctx.has(kBeta)) {
    require_rank(ctx, kBeta, 3);
    const bool shared = ctx.dims(kBeta)[2] == Dim(1);
    require_dims(ctx, kBeta, {q[0], q[1], shared ? Dim(1) : Dim(heads)});
  }
  ctx.set(0, ctx.dtype(kQuery), {q[0], q[1], dv * q_heads});
  ctx.set(1, ctx.has(kPast) ? ctx.dtype(kPast) : ctx.dtype(kQuery), state);
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const int64_t q_heads = ctx.attrs().get_int("q_num_heads", 1);
  const int64_t heads = ctx.attrs().get_int("kv_num_heads", 1), group = q_heads / heads;
  const int64_t batch = ctx.inputs[kQuery].dims[0], steps = ctx.inputs[kQuery].dims[1];
  const int64_t dk = ctx.inputs[kKey].dims[2] / heads, dv = ctx.inputs[kValue].dims[2] / heads;
  const Rule rule = rule_of(*ctx.node);
  double scale = ctx.attrs().get_float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dk));
  const auto dense = [&](size_t i) {
    return ctx.has(i) ? double_values(ctx.inputs[i]) : std::vector<double>{};
  };
  const auto q = dense(kQuery), k = dense(kKey), v = dense(kValue), decay = dense(kDecay);
  const auto beta = dense(kBeta);
  auto state = dense(kPast);
  state.resize(static_cast<size_t>(batch * heads * dk * dv), 0.0);
  const int64_t gates = decay.empty() ? 1 : ctx.inputs[kDecay].dims[2];
  const int64_t rates = beta.empty() ? 1 : ctx.inputs[kBeta].dims[2];
  std::vector<double> y(static_cast<size_t>(batch * steps * q_heads * dv), 0.0);
  std::vector<double> change(static_cast<size_t>(dv));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h) {
      double* s = state.data() + (b * heads + h) * dk * dv;
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t row = b * steps + t;
        const double* key = k.data() + (row * heads + h) * dk;
        const double* value = v.data() + (row * heads + h) * dv;
        if (rule.gated)
          for (int64_t i = 0; i < dk; ++i) {
            const int64_t gate = gates == heads ? h : h * dk + i;
            const double keep = std::exp(decay[static_cast<size_t>(row * gates + gate)]);
            for (int64_t j = 0; j < dv; ++j) s[i * dv + j] *= keep;
          }
        for (int64_t j = 0; j < dv; ++j) {
          double recalled = 0;
          for (int64_t i = 0; i < dk; ++i) recalled += s[i * dv + j] * key[i];
          const double rate =
              rule.delta ? beta[static_cast<size_t>(row * rates + (rates == 1 ? 0 : h))] : 1;
          change[static_cast<size_t>(j)] = rate * (value[j] - (rule.delta ? recalled : 0));
        }
        for (int64_t i = 0; i < dk; ++i)
          for (int64_t j = 0; j < dv; ++j) s[i * dv + j] += key[i] * change[static_cast<size_t>(j)];
        for (int64_t g = h * group; g < (h + 1) * group; ++g) {
          const double* query = q.data() + (row * q_heads + g) * dk;
          double* out = y.data() + (row * q_heads + g) * dv;
          for (int64_t i = 0; i < dk; ++i)
            for (int64_t j = 0; j < dv; ++j) out[j] += scale * query[i] * s[i * dv + j];
        }
      }
    }
  write_dense(ctx.outputs[0], y);
  if (ctx.outputs.size() > 1) write_dense(ctx.outputs[1], state);
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& k = graph.value(node.inputs[kKey]).type.dims;
  const auto& v = graph.value(node.inputs[kValue]).type.dims;
  const int64_t heads = node.attrs.get_int("kv_num_heads", 1);
  if (!k || !v || k->size() != 3 || v->size() != 3) return 0;
  return Dim(8) * element_count(*k) * floor_div(v->back(), heads);
}

}  // namespace

void register_linear_attention(OpList& ops) {
  OpDef op;
  op.name = "LinearAttention";
  op.min_inputs = 3;
  op.max_inputs = 6;
  op.max_outputs = 2;
  op.attrs = {{"chunk_size", AttrKind::kInt, false, 1, INT32_MAX},
              {"kv_num_heads", AttrKind::kInt, true, 1, INT32_MAX},
              {"q_num_heads", AttrKind::kInt, true, 1, INT32_MAX},
              {"scale", AttrKind::kFloat},
              {"update_rule", AttrKind::kString, false, 0, 0, "linear|gated|delta|gated_delta"}};
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
