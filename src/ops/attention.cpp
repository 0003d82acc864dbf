// Attention: scaled dot products of queries and keys, masked, through softmax, times values.
// Grouped heads, a key/value cache inside (past, present) or outside (nonpad_kv_seqlen), causal and
// sliding windows, soft cap.

#include <algorithm>
#include <cmath>

#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/dense.h"

namespace xc {

using namespace attention;

namespace {

// ---- inference ----------------------------------------------------------------------------------

void require_divisible(const InferContext& ctx, const Dim& size, int64_t by, const char* what) {
  if (const auto v = size.constant(); v && *v % by != 0)
    ctx.error("{} of {} does not divide by {}", what, *v, by);
}

Sizes<Dim> checked_sizes(const InferContext& ctx) {
  const size_t rank = ctx.rank(kQ);
  if (rank != 3 && rank != 4) ctx.error("input 0 has rank {}, expected 3 or 4", rank);
  require_rank(ctx, kK, rank);
  require_rank(ctx, kV, rank);
  const SymDims &q = ctx.dims(kQ), &k = ctx.dims(kK), &v = ctx.dims(kV);
  if (ctx.has(kPastKey) != ctx.has(kPastValue))
    ctx.error("past_key and past_value come together or not at all");
  if (ctx.has(kValid) && ctx.has(kPastKey))
    ctx.error("nonpad_kv_seqlen and past_key exclude each other");
  if (ctx.has(kPastKey)) require_rank(ctx, kPastKey, 4);
  if (rank == 3) {
    const int64_t q_heads = ctx.attrs().get_int("q_num_heads", 0);
    const int64_t kv_heads = ctx.attrs().get_int("kv_num_heads", 0);
    if (q_heads < 1 || kv_heads < 1)
      ctx.error("attributes 'q_num_heads' and 'kv_num_heads' are needed for operands of rank 3");
    require_divisible(ctx, q[2], q_heads, "query size");
    require_divisible(ctx, k[2], kv_heads, "key size");
    require_divisible(ctx, v[2], kv_heads, "value size");
  }
  const auto s =
      sizes_of<Dim>(*ctx.node, q, k, v, ctx.has(kPastKey) ? ctx.dims(kPastKey) : SymDims{});
  if (s.q_heads == Dim(0) || s.kv_heads == Dim(0) || s.head == Dim(0))
    ctx.error("operands {} and {} have no heads or no head size", to_text(q), to_text(k));
  if (const auto heads = s.kv_heads.constant())
    require_divisible(ctx, s.q_heads, *heads, "number of query heads");
  if (rank == 3) {
    require_dims(ctx, kK, {s.batch, s.keys, s.kv_heads * s.head});
    require_dims(ctx, kV, {s.batch, s.keys, s.kv_heads * s.value_head});
  } else {
    require_dims(ctx, kK, {s.batch, s.kv_heads, s.keys, s.head});
    require_dims(ctx, kV, {s.batch, s.kv_heads, s.keys, s.value_head});
  }
  return s;
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kQ, kFloats);
  require_same_dtype(ctx, kK);
  check_dtype(ctx, kV, kFloats);
  check_dtype(ctx, kMask, kNumbers | kBools);
  require_same_dtype(ctx, kPastKey);
  require_same_dtype(ctx, kPastValue, kV);
  check_dtype(ctx, kValid, type_set({DType::kI64}));
  const Sizes<Dim> s = checked_sizes(ctx);
  if (ctx.has(kPastKey)) {
    require_dims(ctx, kPastKey, {s.batch, s.kv_heads, s.past, s.head});
    require_dims(ctx, kPastValue, {s.batch, s.kv_heads, s.past, s.value_head});
  }
  if (ctx.has(kValid)) require_vector(ctx, kValid, s.batch);
  if (ctx.has(kMask)) {
    const SymDims &mask = ctx.dims(kMask), full{s.batch, s.q_heads, s.queries, s.total()};
    bool fits = mask.size() >= 1 && mask.size() <= 4;
    for (size_t i = 0; fits && i + 1 < mask.size(); ++i)
      fits = mask[i] == Dim(1) || !known_different(mask[i], full[4 - mask.size() + i]);
    const auto excess = fits ? (mask.back() - s.total()).lower_bound() : std::nullopt;
    if (!fits || (excess && *excess > 0))
      ctx.error("mask has dims {}, not broadcast to {}", to_text(mask), to_text(full));
  }
  ctx.set(0, ctx.dtype(kQ),
          s.split ? SymDims{s.batch, s.q_heads, s.queries, s.value_head}
                  : SymDims{s.batch, s.queries, s.q_heads * s.value_head});
  ctx.set(1, ctx.dtype(kK), {s.batch, s.kv_heads, s.total(), s.head});
  ctx.set(2, ctx.dtype(kV), {s.batch, s.kv_heads, s.total(), s.value_head});
  ctx.set(3, ctx.dtype(kQ), {s.batch, s.q_heads, s.queries, s.total()});
}

// ---- reference ----------------------------------------------------------------------------------

/// Which stage of the scores the fourth output shows.
enum class Shown : int64_t { kRaw = 0, kCapped = 1, kBiased = 2, kProbabilities = 3 };

struct AttentionRun {
  const ReferenceContext& ctx;
  Sizes<int64_t> s;
  std::vector<double> q, k, v, mask;  // k and v as [batch, kv_heads, total, size]
  std::vector<int64_t> valid;
  int64_t left, right;
  bool causal;

  explicit AttentionRun(const ReferenceContext& context) : ctx(context) {
    const auto past = ctx.has(kPastKey) ? dims_of(ctx.inputs[kPastKey]) : Dims{};
    s = sizes_of<int64_t>(*ctx.node, dims_of(ctx.inputs[kQ]), dims_of(ctx.inputs[kK]),
                          dims_of(ctx.inputs[kV]), past);
    q = by_heads(kQ, s.q_heads, s.queries, s.head);
    k = cached(kPastKey, by_heads(kK, s.kv_heads, s.keys, s.head), s.head);
    v = cached(kPastValue, by_heads(kV, s.kv_heads, s.keys, s.value_head), s.value_head);
    if (ctx.has(kMask)) mask = double_values(ctx.inputs[kMask]);
    valid.assign(static_cast<size_t>(s.batch), s.total());
    if (ctx.has(kValid)) valid = int_values(ctx.inputs[kValid]);
    for (int64_t n : valid)
      if (n < 0 || n > s.total()) fail(Status::kRange, "{} valid keys of {}", n, s.total());
    causal = ctx.attrs().get_int("is_causal", 0) != 0;
    left = ctx.attrs().get_int("left_window_size", -1);
    right = ctx.attrs().get_int("right_window_size", -1);
  }

  /// Input i as [batch, heads, sequence, size], whatever its rank.
  std::vector<double> by_heads(size_t i, int64_t heads, int64_t sequence, int64_t size) const {
    const auto from = double_values(ctx.inputs[i]);
    if (s.split) return from;
    std::vector<double> out;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < sequence; ++t)
          for (int64_t d = 0; d < size; ++d)
            out.push_back(from[static_cast<size_t>(((b * sequence + t) * heads + h) * size + d)]);
    return out;
  }

  /// The past of input i in front of `now`, along the sequence.
  std::vector<double> cached(size_t i, const std::vector<double>& now, int64_t size) const {
    if (!ctx.has(i)) return now;
    const auto before = double_values(ctx.inputs[i]);
    std::vector<double> out;
    for (int64_t row = 0; row < s.batch * s.kv_heads; ++row) {
      const auto append = [&](const std::vector<double>& from, int64_t length) {
        const auto begin = from.begin() + static_cast<std::ptrdiff_t>(row * length * size);
        out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(length * size));
      };
      append(before, s.past);
      append(now, s.keys);
    }
    return out;
  }

  /// What is added to the score of query i and key j: minus infinity where it must not look.
  double bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t seen = valid[static_cast<size_t>(b)];
    const int64_t position = i + (ctx.has(kValid) ? seen - s.queries : s.past);
    if (ctx.has(kValid) && j >= seen) return kMinusInfinity;
    if (causal && j > position) return kMinusInfinity;
    if (left >= 0 && j < position - left) return kMinusInfinity;
    if (right >= 0 && j > position + right) return kMinusInfinity;
    if (mask.empty()) return 0;
    const auto dims = ctx.inputs[kMask].dims;
    if (j >= dims.back()) return kMinusInfinity;
    const int64_t at[4] = {b, h, i, j};
    int64_t index = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const int64_t position_here = at[4 - dims.size() + axis];
      const bool spread = dims[axis] == 1 && axis + 1 < dims.size();
      index = index * dims[axis] + (spread ? 0 : position_here);
    }
    const double given = mask[static_cast<size_t>(index)];
    if (ctx.inputs[kMask].dtype == DType::kBool) return given != 0 ? 0.0 : kMinusInfinity;
    return given;
  }

  void run() const {
    const double scale = scale_of(*ctx.node, static_cast<double>(s.head));
    const double cap = ctx.attrs().get_float("softcap", 0);
    const auto shown = static_cast<Shown>(ctx.attrs().get_int("qk_matmul_output_mode", 0));
    const int64_t group = s.q_heads / s.kv_heads, total = s.total();
    std::vector<double> y(static_cast<size_t>(s.batch * s.q_heads * s.queries * s.value_head), 0.0);
    std::vector<double> trace;
    std::vector<double> row(static_cast<size_t>(total));
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.q_heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          const int64_t kv = b * s.kv_heads + h / group;
          const double* query = q.data() + ((b * s.q_heads + h) * s.queries + i) * s.head;
          bool blind = true;  // no key to look at: the result is zero
          std::vector<double> stage;
          for (int64_t j = 0; j < total; ++j) {
            const double* key = k.data() + (kv * total + j) * s.head;
            double score = 0;
            for (int64_t d = 0; d < s.head; ++d) score += query[d] * key[d];
            score *= scale;
            const double capped = cap > 0 ? cap * std::tanh(score / cap) : score;
            const double added = bias(b, h, i, j);
            blind = blind && added == kMinusInfinity;
            row[static_cast<size_t>(j)] = capped + added;
            stage.push_back(shown == Shown::kRaw      ? score
                            : shown == Shown::kCapped ? capped
                                                      : capped + added);
          }
          softmax(row, blind);
          trace.insert(trace.end(), shown == Shown::kProbabilities ? row.begin() : stage.begin(),
                       shown == Shown::kProbabilities ? row.end() : stage.end());
          const int64_t place =
              s.split ? (b * s.q_heads + h) * s.queries + i : (b * s.queries + i) * s.q_heads + h;
          double* out = y.data() + place * s.value_head;
          for (int64_t j = 0; j < total; ++j)
            for (int64_t d = 0; d < s.value_head; ++d)
              if (!blind)
                out[d] += row[static_cast<size_t>(j)] *
                          v[static_cast<size_t>((kv * total + j) * s.value_head + d)];
        }
    const auto write = [&](size_t i, const std::vector<double>& values) {
      if (i < ctx.outputs.size()) write_dense(ctx.outputs[i], values);
    };
    write(0, y);
    write(1, k);
    write(2, v);
    write(3, trace);
  }

  static void softmax(std::vector<double>& row, bool blind) {
    if (blind) {
      std::fill(row.begin(), row.end(), 0.0);
      return;
    }
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& x : row) sum += x = std::exp(x - top);
    for (double& x : row) x /= sum;
  }
};

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  AttentionRun(ctx).run();
}

Dim flops(const Graph& graph, const Node& node) {
  const auto dims = [&](size_t i) { return graph.value(node.inputs[i]).type.dims; };
  if (!dims(kQ) || !dims(kK) || !dims(kV)) return 0;
  const bool past = node.inputs.size() > kPastKey && node.inputs[kPastKey] != kNone;
  const auto s = sizes_of<Dim>(node, *dims(kQ), *dims(kK), *dims(kV),
                               past && dims(kPastKey) ? *dims(kPastKey) : SymDims{});
  return Dim(2) * s.batch * s.q_heads * s.queries * s.total() * (s.head + s.value_head);
}

}  // namespace

void register_attention(OpList& ops) {
  OpDef op;
  op.name = "Attention";
  op.min_inputs = 3;
  op.max_inputs = 7;
  op.max_outputs = 4;
  op.attrs = {{"is_causal", AttrKind::kInt, false, 0, 1},
              {"kv_num_heads", AttrKind::kInt, false, 0, INT32_MAX},
              {"left_window_size", AttrKind::kInt, false, -1, INT32_MAX},
              {"q_num_heads", AttrKind::kInt, false, 0, INT32_MAX},
              {"qk_matmul_output_mode", AttrKind::kInt, false, 0, 3},
              {"right_window_size", AttrKind::kInt, false, -1, INT32_MAX},
              {"scale", AttrKind::kFloat},
              {"softcap", AttrKind::kFloat},
              dtype_spec("softmax_precision", false, true)};
  op.infer = infer;
  op.reference = reference;
  op.expand = attention::expand;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
