// Normalisations with one scale and shift per channel (axis 1): BatchNormalization with given (or,
// in training mode, computed) statistics, InstanceNormalization and GroupNormalization.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/support.h"

namespace xc {

namespace {

constexpr double kDefaultEpsilon = 1e-5;

double epsilon_of(const Node& node) {
  return node.attrs.get_float("epsilon", kDefaultEpsilon);
}

void infer_batch_norm(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  const SymDims& x = ctx.dims(0);
  if (x.empty()) ctx.error("input has rank 0, expected at least 1");
  // A vector [N] is N samples of one channel.
  const Dim channels = x.size() > 1 ? x[1] : Dim(1);
  for (size_t i = 1; i < 5; ++i) {
    check_dtype(ctx, i, kFloats);
    require_vector(ctx, i, channels);
  }
  const bool training = ctx.attrs().get_int("training_mode", 0) != 0;
  if (!training && ctx.outputs.size() > 1)
    ctx.error("running statistics are outputs in training mode only");
  ctx.set(0, ctx.dtype(0), x);
  ctx.set(1, ctx.dtype(3), {channels});
  ctx.set(2, ctx.dtype(4), {channels});
}

/// A tensor seen as [batch, channels, plane].
struct Planes {
  int64_t batch, channels, plane;
  explicit Planes(std::span<const int64_t> dims)
      : batch(dims[0]),
        channels(dims.size() > 1 ? dims[1] : 1),
        plane(dims.size() > 2 ? product(dims, 2, dims.size()) : 1) {}
  std::span<double> row(std::vector<double>& x, int64_t n, int64_t c) const {
    return {x.data() + (n * channels + c) * plane, static_cast<size_t>(plane)};
  }
};

void reference_batch_norm(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const Planes p(ctx.inputs[0].dims);
  auto x = double_values(ctx.inputs[0]);
  const auto scale = double_values(ctx.inputs[1]), shift = double_values(ctx.inputs[2]);
  auto mean = double_values(ctx.inputs[3]), variance = double_values(ctx.inputs[4]);
  if (ctx.attrs().get_int("training_mode", 0) != 0) {
    const double momentum = ctx.attrs().get_float("momentum", 0.9);
    auto running_mean = mean, running_variance = variance;
    const auto count = static_cast<double>(p.batch * p.plane);
    for (int64_t c = 0; c < p.channels; ++c) {
      double sum = 0, squares = 0;
      for (int64_t n = 0; n < p.batch; ++n)
        for (double v : p.row(x, n, c)) sum += v;
      for (int64_t n = 0; n < p.batch; ++n)
        for (double v : p.row(x, n, c)) squares += (v - sum / count) * (v - sum / count);
      const auto i = static_cast<size_t>(c);
      running_mean[i] = running_mean[i] * momentum + sum / count * (1 - momentum);
      running_variance[i] = running_variance[i] * momentum + squares / count * (1 - momentum);
      mean[i] = sum / count;
      variance[i] = squares / count;
    }
    if (ctx.outputs.size() > 1) write_dense(ctx.outputs[1], running_mean);
    if (ctx.outputs.size() > 2) write_dense(ctx.outputs[2], running_variance);
  }
  const double epsilon = epsilon_of(*ctx.node);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t c = 0; c < p.channels; ++c) {
      const auto i = static_cast<size_t>(c);
      for (double& v : p.row(x, n, c))
        v = (v - mean[i]) / std::sqrt(variance[i] + epsilon) * scale[i] + shift[i];
    }
  write_dense(ctx.outputs[0], x);
}

/// Input i, one entry per channel, as [C, 1, 1...]: broadcast along axis 1 of `rank` axes.
ValueId per_channel(Expansion& e, size_t i, int64_t rank) {
  const ValueId v = e.widened(i);
  if (rank <= 2) return v;
  std::vector<int64_t> axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), 1);
  return e.add("Unsqueeze", {v, e.ints(axes)});
}

// ---- statistics of each sample ------------------------------------------------------------------

void infer_per_channel(InferContext& ctx, size_t least_rank) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  require_same_dtype(ctx, 2);
  const SymDims& x = ctx.dims(0);
  if (x.size() < least_rank)
    ctx.error("input has rank {}, expected at least {}", x.size(), least_rank);
  require_vector(ctx, 1, x[1]);
  require_vector(ctx, 2, x[1]);
  ctx.set(0, ctx.dtype(0), x);
}

void infer_instance_norm(InferContext& ctx) {
  infer_per_channel(ctx, 3);
}

void infer_group_norm(InferContext& ctx) {
  infer_per_channel(ctx, 2);  // of one element a channel: groups of those
  const int64_t groups = ctx.attrs().get_int("num_groups", 0);
  if (groups < 1) ctx.error("attribute 'num_groups' is {}", groups);
  if (!contains(kFloats, dtype_attr(ctx.attrs().get_int("stash_type", 1))))
    ctx.error("attribute 'stash_type' is {}", ctx.attrs().get_int("stash_type", 1));
  if (const auto c = ctx.dims(0)[1].constant(); c && *c % groups != 0)
    ctx.error("{} channels do not divide into {} groups", *c, groups);
}

/// Normalises over each sample's groups of channels.
void normalise_groups(const ReferenceContext& ctx, int64_t groups) {
  const Planes p(ctx.inputs[0].dims);
  auto x = double_values(ctx.inputs[0]);
  const auto scale = double_values(ctx.inputs[1]), shift = double_values(ctx.inputs[2]);
  const int64_t per_group = p.channels / groups;
  const auto size = static_cast<size_t>(per_group * p.plane);
  const double epsilon = epsilon_of(*ctx.node);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t g = 0; g < groups; ++g) {
      const std::span<double> all(p.row(x, n, g * per_group).data(), size);
      const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(size);
      double squares = 0;
      for (double v : all) squares += (v - mean) * (v - mean);
      const double deviation = std::sqrt(squares / static_cast<double>(size) + epsilon);
      for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        const auto i = static_cast<size_t>(c);
        for (double& v : p.row(x, n, c)) v = (v - mean) / deviation * scale[i] + shift[i];
      }
    }
  write_dense(ctx.outputs[0], x);
}

void reference_instance_norm(const ReferenceContext& ctx) {
  check_shapes(ctx);
  normalise_groups(ctx, std::max<int64_t>(ctx.inputs[0].dims[1], 1));
}
void reference_group_norm(const ReferenceContext& ctx) {
  check_shapes(ctx);
  normalise_groups(ctx, ctx.attrs().get_int("num_groups", 1));
}

/// (x - mean) / sqrt(variance + epsilon) over the axes.
ValueId standardised(Expansion& e, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  const ValueId centred = e.add("Sub", {x, e.reduce("ReduceMean", x, axes)});
  const ValueId variance = e.reduce("ReduceMean", e.add("Mul", {centred, centred}), axes);
  return e.add("Div", {centred, e.add("Sqrt", {e.add("Add", {variance, e.scalar(epsilon)})})});
}

ValueId scaled(Expansion& e, ValueId y, int64_t rank) {
  return e.narrowed(
      e.add("Add", {e.add("Mul", {y, per_channel(e, 1, rank)}), per_channel(e, 2, rank)}));
}

/// With the statistics of the batch itself; the running ones as further outputs do not expand. One
/// sample is normalised by itself: weights standardised in the graph come as that.
std::vector<ValueId> expand_trained_norm(Expansion& e, const Node& node) {
  const auto unwanted = [](ValueId id) { return id == kNone; };
  if (!std::all_of(node.outputs.begin() + 1, node.outputs.end(), unwanted)) return {};
  const int64_t rank = *e.rank(0);
  if (rank >= 3 && (*e.type(0).dims)[0] == Dim(1) && e.dtype(1) == e.dtype(0) &&
      e.dtype(2) == e.dtype(0))
    return {e.add("InstanceNormalization", {e.in(0), e.in(1), e.in(2)},
                  {{"epsilon", static_cast<float>(epsilon_of(node))}})};
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (rank > 1) axes.erase(axes.begin() + 1);
  return {scaled(e, standardised(e, e.widened(0), axes, epsilon_of(node)), rank)};
}

/// x * factor + shift with factor = scale / sqrt(variance + epsilon): everything but the last two
/// nodes folds when the parameters are constants.
std::vector<ValueId> expand_batch_norm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(0)) return {};
  if (node.attrs.get_int("training_mode", 0) != 0) return expand_trained_norm(e, node);
  const int64_t rank = *e.rank(0);
  const ValueId variance = e.add("Add", {per_channel(e, 4, rank), e.scalar(epsilon_of(node))});
  const ValueId factor = e.add("Div", {per_channel(e, 1, rank), e.add("Sqrt", {variance})});
  const ValueId shift =
      e.add("Sub", {per_channel(e, 2, rank), e.add("Mul", {per_channel(e, 3, rank), factor})});
  return {e.narrowed(e.add("Add", {e.add("Mul", {e.widened(0), factor}), shift}))};
}

std::vector<ValueId> expand_instance_norm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(0)) return {};
  std::vector<int64_t> axes(static_cast<size_t>(*e.rank(0) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return {scaled(e, standardised(e, e.widened(0), axes, epsilon_of(node)), *e.rank(0))};
}

std::vector<ValueId> expand_group_norm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(0)) return {};
  const int64_t groups = node.attrs.get_int("num_groups", 1);
  const ValueId x = e.widened(0);
  const ValueId grouped = e.add("Reshape", {x, e.ints({0, groups, -1})});
  const ValueId y = standardised(e, grouped, {2}, epsilon_of(node));
  return {scaled(e, e.add("Reshape", {y, e.add("Shape", {x})}), *e.rank(0))};
}

Dim flops_norm(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  return dims ? Dim(8) * element_count(*dims) : Dim(0);
}

OpDef norm(std::string_view name, InferFn infer, ReferenceFn reference, ExpandFn expand) {
  OpDef op;
  op.name = name;
  op.min_inputs = op.max_inputs = 3;
  op.attrs = {{"epsilon", AttrKind::kFloat}};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops_norm;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_channel_norm(OpList& ops) {
  OpDef batch =
      norm("BatchNormalization", infer_batch_norm, reference_batch_norm, expand_batch_norm);
  batch.min_inputs = batch.max_inputs = 5;
  batch.max_outputs = 3;
  batch.attrs.push_back({"momentum", AttrKind::kFloat});
  batch.attrs.push_back({"training_mode", AttrKind::kInt, false, 0, 1});
  ops.push_back(std::move(batch));

  ops.push_back(norm("InstanceNormalization", infer_instance_norm, reference_instance_norm,
                     expand_instance_norm));

  OpDef group =
      norm("GroupNormalization", infer_group_norm, reference_group_norm, expand_group_norm);
  group.attrs.push_back({"num_groups", AttrKind::kInt, true, 1, INT32_MAX});
  group.attrs.push_back(dtype_spec("stash_type"));
  ops.push_back(std::move(group));
}

}  // namespace xc
