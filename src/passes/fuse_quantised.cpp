#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/patch.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/batch_norm.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

// What a rewrite may change. The written graph multiplies bytes as f32 and rounds each sum; the
// rewritten one sums whole numbers exactly and rounds once. Both are within f32 rounding of the
// exact result, so that after QuantizeLinear they differ by a quantum at most, and only next to a
// tie. A bias becomes a whole number of a_scale * b_scale; where that moves it by more than this
// share of the result's quantum, nothing is rewritten.
constexpr double kBiasShare = 1.0 / 64;

constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});

/// Sums are of 32 bits: a rewritten product must not leave them, whatever its operands hold.
constexpr double kMostSum = std::numeric_limits<int32_t>::max();

/// A value that DequantizeLinear makes of bytes by constant scales and zero points.
struct Dequantised {
  ValueId bytes = kNone, scale = kNone, zero = kNone;  ///< zero = kNone: none
  DType type = DType::kUndefined;
  std::vector<double> scales;  ///< one, or one per entry of `axis`
  size_t axis = 0;
  bool per_axis() const { return scales.size() > 1; }
};

struct Reader {
  const Graph& graph;
  std::vector<std::vector<NodeId>> users = graph.users();

  /// The node that makes `value`, when it is the op of that name.
  const Node* made_by(ValueId value, std::string_view op) const {
    if (value == kNone || graph.value(value).producer == kNone) return nullptr;
    const Node& node = graph.node(graph.value(value).producer);
    return is_op(node, op) ? &node : nullptr;
  }
  /// Read once, and by a node of this graph.
  bool private_to_reader(ValueId value) const { return graph.only_user(users, value) != kNone; }
  const Tensor& constant(ValueId value) const { return graph.value(value).constant; }

  std::optional<Dequantised> dequantised(ValueId value) const {
    const Node* node = made_by(value, "DequantizeLinear");
    if (!node || node->attrs.get_int("block_size", 0) != 0) return std::nullopt;
    if (graph.value(value).type.dtype != DType::kF32) return std::nullopt;
    Dequantised out;
    out.bytes = node->inputs[0];
    out.scale = node->inputs[1];
    out.zero = input_of(*node, 2);
    out.type = graph.value(out.bytes).type.dtype;
    const Tensor& scale = constant(out.scale);
    const auto r = rank_of(graph, out.bytes);
    if (!scale || scale.dtype() != DType::kF32 || scale.rank() > 1 || !r || *r == 0)
      return std::nullopt;
    if (out.zero != kNone && !constant(out.zero)) return std::nullopt;
    out.scales = scale.to_doubles();
    if (out.scales.empty()) return std::nullopt;
    for (double s : out.scales)
      if (!(s > 0) || !std::isfinite(s)) return std::nullopt;
    if (out.per_axis()) {
      const int64_t axis = node->attrs.get_int("axis", 1);
      out.axis = *r == 1 ? 0 : normalise_axis(axis, *r);
    }
    return out;
  }
};

/// A product of two dequantised operands, and what follows it up to its quantisation.
struct Product {
  const Node* node = nullptr;
  Dequantised a, b;
  bool convolution = false;
  bool transposed = false;     ///< Gemm's right side, [n, k]
  std::vector<double> bias;    ///< empty: none
  std::vector<double> scales;  ///< a's times b's, times those of a norm behind
  bool normed = false;         ///< there is one: a scale per channel
  size_t rank = 0;             ///< of the result
  double most = 0;             ///< no sum of bytes, without the bias, is further from zero
};

/// A constant of one entry per column or channel (or one for all), along the last axis or alone.
std::optional<std::vector<double>> constant_line(const Reader& read, ValueId value) {
  if (read.graph.value(value).type.dtype != DType::kF32) return std::nullopt;
  if (const Tensor& t = read.constant(value)) {
    for (int64_t axis = 0; axis + 1 < t.rank(); ++axis)
      if (t.dims()[static_cast<size_t>(axis)] != 1) return std::nullopt;
    return t.to_doubles();
  }
  // A bias that is quantised itself.
  const Node* node = read.made_by(value, "DequantizeLinear");
  if (!node || node->attrs.get_int("block_size", 0) != 0) return std::nullopt;
  const Tensor &q = read.constant(node->inputs[0]), &scale = read.constant(node->inputs[1]);
  if (!q || !scale || q.rank() != 1) return std::nullopt;
  const auto scales = scale.to_doubles();
  auto values = q.to_doubles();
  std::vector<double> zeros(1, 0.0);
  if (const ValueId zero = input_of(*node, 2); zero != kNone) {
    if (!read.constant(zero)) return std::nullopt;
    zeros = read.constant(zero).to_doubles();
  }
  const auto at = [](const std::vector<double>& v, size_t i) {
    return v.size() == 1 ? v[0] : v[i];
  };
  if ((scales.size() != 1 && scales.size() != values.size()) ||
      (zeros.size() != 1 && zeros.size() != values.size()))
    return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i) values[i] = (values[i] - at(zeros, i)) * at(scales, i);
  return values;
}

/// The number of columns or channels, when it is known.
std::optional<int64_t> width(const Reader& read, const Product& p) {
  const Type& b = read.graph.value(p.b.bytes).type;
  const Dim& dim = (*b.dims)[p.convolution || p.transposed ? 0 : b.dims->size() - 1];
  return dim.constant();
}

/// The largest distance between a byte and its zero point.
double reach(const Reader& read, const Dequantised& d, bool look) {
  double low = d.type == DType::kI8 ? -128 : 0, high = low + 255, least = 0, most = 0;
  const auto bounds = [](const Tensor& t, double& first, double& last) {
    if (!t || t.count() == 0) return;
    const std::vector<double> values = t.to_doubles();
    first = *std::min_element(values.begin(), values.end());
    last = *std::max_element(values.begin(), values.end());
  };
  if (look) bounds(read.constant(d.bytes), low, high);
  if (d.zero != kNone) bounds(read.constant(d.zero), least, most);
  return std::max(high - least, most - low);
}

/// The largest sum a product can come to; nullopt where the terms of a sum have no known number.
/// What constants hold is looked at only where the bounds of their type say too little.
std::optional<double> largest_sum(const Reader& read, const Product& p) {
  const SymDims &a = *read.graph.value(p.a.bytes).type.dims,
                &b = *read.graph.value(p.b.bytes).type.dims;
  double terms = 1;
  if (p.convolution) {
    for (size_t i = 1; i < b.size(); ++i) {
      if (!b[i].is_constant()) return std::nullopt;
      terms *= static_cast<double>(b[i].value());
    }
  } else {
    const Dim &left = a.back(), &right = b[b.size() - (p.transposed ? 1 : 2)];
    if (!left.is_constant() && !right.is_constant()) return std::nullopt;
    terms = static_cast<double>((left.is_constant() ? left : right).value());
  }
  const auto sum = [&](bool look) {
    return terms * reach(read, p.a, look) * reach(read, p.b, look);
  };
  const double most = sum(false);
  return most <= kMostSum ? most : sum(true);
}

std::optional<Product> product_at(const Reader& read, ValueId value) {
  const Node* node = nullptr;
  for (std::string_view op : {"Conv", "MatMul", "Gemm"})
    if (!node) node = read.made_by(value, op);
  if (!node) return std::nullopt;
  const auto a = read.dequantised(node->inputs[0]), b = read.dequantised(node->inputs[1]);
  if (!a || !b || a->per_axis() || !contains(kBytes, a->type) || !contains(kBytes, b->type))
    return std::nullopt;
  Product out;
  out.node = node;
  out.a = *a;
  out.b = *b;
  const size_t a_rank = *rank_of(read.graph, a->bytes), b_rank = *rank_of(read.graph, b->bytes);
  out.convolution = node->op->name == "Conv";
  if (out.convolution) {
    out.rank = a_rank;
    if (b->per_axis() && b->axis != 0) return std::nullopt;
  } else {
    if (a_rank < 2 || b_rank < 2) return std::nullopt;
    out.rank = std::max(a_rank, b_rank);
    if (node->op->name == "Gemm") {
      out.transposed = node->attrs.get_int("transB", 0) != 0;
      if (node->attrs.get_int("transA", 0) != 0 || node->attrs.get_float("alpha", 1) != 1)
        return std::nullopt;
      if (input_of(*node, 2) != kNone && node->attrs.get_float("beta", 1) != 1) return std::nullopt;
      if (out.transposed && !read.constant(b->bytes)) return std::nullopt;
    }
    if (b->per_axis() && (b_rank != 2 || b->axis != (out.transposed ? 0u : 1u)))
      return std::nullopt;
  }
  for (double s : b->scales) out.scales.push_back(s * a->scales[0]);
  if (const ValueId bias = input_of(*node, 2); bias != kNone) {
    const auto line = constant_line(read, bias);
    if (!line) return std::nullopt;
    out.bias = *line;
  }
  const auto most = largest_sum(read, out);
  if (!most || *most > kMostSum) return std::nullopt;
  out.most = *most;
  return out;
}

double at_channel(const std::vector<double>& values, size_t c) {
  return values[values.size() == 1 ? 0 : c];
}

/// A constant of one element per channel of a convolution, or of one for all.
std::optional<std::vector<double>> constant_channels(const Reader& read, const Product& p,
                                                     ValueId value) {
  const Tensor& t = read.constant(value);
  const auto n = width(read, p);
  if (!t || t.dtype() != DType::kF32 || !n || !lies_along(t, p.rank, 1, Dim(*n)))
    return std::nullopt;
  return t.to_doubles();
}

/// Takes an Add of `value` in; false where that is no constant line.
bool take_bias(const Reader& read, Product& p, ValueId value) {
  const auto r = rank_of(read.graph, value);
  const auto line = p.convolution ? constant_channels(read, p, value) : constant_line(read, value);
  if (!line || !r || *r > p.rank || (!p.convolution && !p.bias.empty())) return false;
  if (p.bias.empty()) p.bias.assign(1, 0);
  std::vector<double> sum(std::max(p.bias.size(), line->size()));
  for (size_t c = 0; c < sum.size(); ++c) sum[c] = at_channel(p.bias, c) + at_channel(*line, c);
  p.bias = std::move(sum);
  return true;
}

/// Takes a BatchNormalization in; false where it is none of positive factors, which scales can be.
bool take_norm(const Reader& read, Product& p, const Node& norm) {
  const auto affine = inference_affine(read.graph, norm);
  const auto n = width(read, p);
  if (!affine || !p.convolution || n != static_cast<int64_t>(affine->scale.size())) return false;
  if (p.bias.empty()) p.bias.assign(1, 0);
  Affine now;
  for (size_t c = 0; c < affine->scale.size(); ++c) {
    now.scale.push_back(at_channel(p.scales, c) * affine->scale[c]);
    now.shift.push_back(at_channel(p.bias, c) * affine->scale[c] + affine->shift[c]);
    const auto scale = static_cast<float>(now.scale[c] / p.a.scales[0]);
    if (!(scale > 0) || !std::isfinite(scale)) return false;
  }
  p.scales = std::move(now.scale);
  p.bias = std::move(now.shift);
  p.normed = true;
  return true;
}

/// The product behind `value`, with an Add of a constant line or a norm taken in.
std::optional<Product> biased_product_at(const Reader& read, ValueId value) {
  if (auto product = product_at(read, value)) return product;
  if (const Node* norm = read.made_by(value, "BatchNormalization")) {
    auto product =
        read.private_to_reader(norm->inputs[0]) ? product_at(read, norm->inputs[0]) : std::nullopt;
    if (product && take_norm(read, *product, *norm)) return product;
  }
  const Node* add = read.made_by(value, "Add");
  if (!add) return std::nullopt;
  for (size_t i : {0, 1}) {
    const ValueId side = add->inputs[i];
    if (side == kNone || !read.private_to_reader(side)) continue;
    auto product = product_at(read, side);
    if (product && take_bias(read, *product, add->inputs[1 - i])) return product;
  }
  return std::nullopt;
}

struct Rewriter {
  Graph& graph;
  Patch& patch;
  const Reader& read;

  ValueId add(std::string_view op, std::vector<ValueId> inputs, const Product& p,
              Attrs attrs = {}) {
    Node node{.op = &get_op(op), .name = p.node->name};
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    return add_typed(graph, patch, std::move(node), 1)[0];
  }
  ValueId zeros(const Dequantised& d) {
    if (d.zero != kNone) return d.zero;
    Tensor none(d.type, d.per_axis() ? read.constant(d.scale).dims() : Dims{});
    std::fill_n(none.as<uint8_t>(), none.count(), uint8_t{0});
    return patch.add_constant("zero", std::move(none));
  }
  /// b as [k, n].
  ValueId right(const Product& p) {
    if (!p.transposed) return p.b.bytes;
    return patch.add_constant(graph.value(p.b.bytes).name + ".turned",
                              turned_on_demand(read.constant(p.b.bytes)));
  }

  /// The bias as whole numbers of the sums' scale; nullopt where `quantum` is too fine for that, or
  /// the sums have no room for it.
  std::optional<Tensor> whole_bias(const Product& p, double quantum) {
    const auto n = width(read, p);
    if (!n || (p.bias.size() != 1 && static_cast<int64_t>(p.bias.size()) != *n))
      return std::nullopt;
    Tensor out(DType::kI32, {*n});
    for (int64_t i = 0; i < *n; ++i) {
      const auto k = static_cast<size_t>(i);
      const double scale = p.scales[p.scales.size() == 1 ? 0 : k];
      const double bias = p.bias[p.bias.size() == 1 ? 0 : k];
      const double whole = std::nearbyint(bias / scale);
      if (!(p.most + std::fabs(whole) <= kMostSum) ||
          !(std::fabs(whole * scale - bias) <= quantum * kBiasShare))
        return std::nullopt;
      out.as<int32_t>()[i] = static_cast<int32_t>(whole);
    }
    return out;
  }

  /// Scales and zero points of b.
  std::pair<ValueId, ValueId> right_scales(const Product& p) {
    if (!p.normed) return {p.b.scale, zeros(p.b)};
    const auto n = static_cast<int64_t>(p.scales.size());
    Tensor scales(DType::kF32, {n});
    for (size_t c = 0; c < p.scales.size(); ++c)
      scales.as<float>()[c] = static_cast<float>(p.scales[c] / p.a.scales[0]);
    const ValueId scale = patch.add_constant("scale", std::move(scales));
    if (p.b.per_axis()) return {scale, zeros(p.b)};
    Tensor lines(p.b.type, {n});
    const bool none = p.b.zero == kNone;
    std::fill_n(lines.as<uint8_t>(), n, none ? uint8_t{0} : *read.constant(p.b.zero).as<uint8_t>());
    return {scale, patch.add_constant("zero", std::move(lines))};
  }

  ValueId requantised(const Product& p, ValueId y_scale, ValueId y_zero,
                      std::optional<Tensor> bias) {
    std::vector<ValueId> inputs{p.a.bytes, p.a.scale, zeros(p.a), right(p)};
    const auto [b_scale, b_zero] = right_scales(p);
    inputs.insert(inputs.end(), {b_scale, b_zero, y_scale, y_zero});
    if (bias) inputs.push_back(patch.add_constant("bias", std::move(*bias)));
    return p.convolution ? add("QLinearConv", std::move(inputs), p, p.node->attrs)
                         : add("QLinearMatMul", std::move(inputs), p);
  }

  /// The product as f32: sums of bytes, scaled.
  ValueId scaled(const Product& p) {
    const std::vector<ValueId> inputs{p.a.bytes, right(p), zeros(p.a), zeros(p.b)};
    const ValueId sums = p.convolution ? add("ConvInteger", inputs, p, p.node->attrs)
                                       : add("MatMulInteger", inputs, p);
    Attrs to;
    to.set("to", onnx_number(DType::kF32));
    ValueId out = add("Cast", {sums}, p, std::move(to));
    out = add("Mul", {out, line_constant(p, p.scales, "scale")}, p);
    if (!p.bias.empty()) out = add("Add", {out, line_constant(p, p.bias, "bias")}, p);
    return out;
  }
  /// As f32, shaped to broadcast along the columns or channels.
  ValueId line_constant(const Product& p, const std::vector<double>& values,
                        const std::string& stem) {
    Dims dims{static_cast<int64_t>(values.size())};
    if (values.size() == 1) dims.clear();
    if (p.convolution && !dims.empty()) dims.insert(dims.end(), p.rank - 2, 1);
    Tensor out(DType::kF32, dims);
    for (size_t i = 0; i < values.size(); ++i) out.as<float>()[i] = static_cast<float>(values[i]);
    return patch.add_constant(stem, std::move(out));
  }
};

/// Relu and Clip by constants, between a product and its quantisation: bounds of the result.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
/// Steps over one of them; nullopt where there is none.
std::optional<ValueId> step_over_clip(const Reader& read, ValueId value, Bounds& bounds) {
  if (const Node* relu = read.made_by(value, "Relu")) {
    bounds.low = std::max(bounds.low, 0.0);
    return relu->inputs[0];
  }
  const Node* clip = read.made_by(value, "Clip");
  if (!clip) return std::nullopt;
  std::optional<double> ends[2];
  for (size_t i : {0, 1}) {
    const ValueId bound = input_of(*clip, i + 1);
    if (bound == kNone) continue;
    ends[i] = scalar_constant(read.graph.value(bound));
    if (!ends[i] || std::isnan(*ends[i])) return std::nullopt;
  }
  if (ends[0] && ends[1] && *ends[0] > *ends[1]) return std::nullopt;
  if (ends[0]) bounds.low = std::max(bounds.low, *ends[0]);
  if (ends[1]) bounds.high = std::min(bounds.high, *ends[1]);
  return clip->inputs[0];
}

/// QuantizeLinear to bytes by one constant scale and zero point.
struct Quantisation {
  ValueId scale = kNone, zero = kNone;
  DType type = DType::kU8;
  double quantum = 1, zero_point = 0;
  double least() const { return type == DType::kI8 ? -128 : 0; }
  /// Rounding and saturating keep order: bounds before become bounds behind.
  double of(double value) const {
    return std::clamp(std::nearbyint(value / quantum) + zero_point, least(), least() + 255);
  }
};
std::optional<Quantisation> quantisation(const Reader& read, const Node& node) {
  if (!is_op(node, "QuantizeLinear")) return std::nullopt;
  if (node.attrs.get_int("block_size", 0) != 0 || node.attrs.get_int("precision", 0) != 0)
    return std::nullopt;
  Quantisation out{node.inputs[1], input_of(node, 2)};
  out.type = read.graph.value(node.outputs[0]).type.dtype;
  if (!contains(kBytes, out.type) || read.graph.value(out.scale).type.dtype != DType::kF32)
    return std::nullopt;
  const auto scale = scalar_constant(read.graph.value(out.scale));
  if (!scale || !(*scale > 0)) return std::nullopt;
  out.quantum = *scale;
  if (out.zero == kNone) return out;
  const auto zero = scalar_constant(read.graph.value(out.zero));
  if (!zero) return std::nullopt;
  out.zero_point = *zero;
  return out;
}

/// The quantised form of a QuantizeLinear node, or kNone. `taken_in`: the product it contains.
ValueId rewrite_quantised(Rewriter& rewriter, const Node& node, NodeId& taken_in) {
  const Reader& read = rewriter.read;
  const auto q = quantisation(read, node);
  if (!q) return kNone;
  Bounds bounds;
  ValueId value = node.inputs[0];
  while (read.private_to_reader(value)) {
    const auto behind = step_over_clip(read, value, bounds);
    if (!behind) break;
    value = *behind;
  }
  if (!read.private_to_reader(value) || bounds.low > bounds.high) return kNone;
  const auto product = biased_product_at(read, value);
  if (!product) return kNone;
  std::optional<Tensor> bias;
  if (!product->bias.empty() && !(bias = rewriter.whole_bias(*product, q->quantum))) return kNone;
  const auto byte = [&](double v) {
    return q->type == DType::kI8 ? Tensor::scalar(static_cast<int8_t>(v))
                                 : Tensor::scalar(static_cast<uint8_t>(v));
  };
  const ValueId zero =
      q->zero != kNone ? q->zero : rewriter.patch.add_constant("zero", byte(q->zero_point));
  ValueId out = rewriter.requantised(*product, q->scale, zero, std::move(bias));
  const double low = q->of(bounds.low), high = q->of(bounds.high);
  // Saturation does what most exporters' Relu does: it maps zero to the least byte.
  if (low > q->least() || high < q->least() + 255)
    out = rewriter.add("Clip",
                       {out, rewriter.patch.add_constant("low", byte(low)),
                        rewriter.patch.add_constant("high", byte(high))},
                       *product);
  taken_in = rewriter.graph.value(product->node->outputs[0]).producer;
  return out;
}

}  // namespace

bool fuse_quantised(Graph& graph, PassContext& context) {
  if (!context.options.tolerant) return false;
  const Reader read{graph};
  Patch patch(graph, "fuse-quantised");
  Rewriter rewriter{graph, patch, read};
  std::vector<bool> taken(graph.node_count(), false);
  const auto replace = [&](NodeId id, ValueId now) {
    patch.replace(graph.node(id).outputs[0], now);
    patch.remove(id);
    taken[id] = true;
    context.count("fuse-quantised");
  };
  // Quantised results first: what they take in is no product of its own afterwards.
  const std::vector<NodeId> order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph.node(*id);
    if (node.op->name != "QuantizeLinear") continue;
    NodeId product = kNone;
    const ValueId now = rewrite_quantised(rewriter, node, product);
    if (now == kNone) continue;
    taken[product] = true;
    replace(*id, now);
  }
  for (NodeId id : order) {
    if (taken[id]) continue;
    const ValueId value = graph.node(id).outputs.empty() ? kNone : graph.node(id).outputs[0];
    if (value == kNone) continue;
    if (const auto product = product_at(read, value)) replace(id, rewriter.scaled(*product));
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
