#include <cmath>
#include <optional>

#include "ir/patch.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/batch_norm.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {

std::optional<Affine> inference_affine(const Graph& graph, const Node& norm) {
  if (!is_op(norm, "BatchNormalization") || norm.inputs.size() != 5 ||
      norm.attrs.get_int("training_mode", 0) != 0)
    return std::nullopt;
  for (size_t i = 1; i < norm.outputs.size(); ++i)
    if (norm.outputs[i] != kNone) return std::nullopt;
  std::vector<std::vector<double>> parameters;
  for (size_t i = 1; i < 5; ++i) {
    const Tensor& t = graph.value(norm.inputs[i]).constant;
    if (!t || !is_float(t.dtype()) || t.rank() != 1) return std::nullopt;
    parameters.push_back(t.to_doubles());
    if (parameters.back().size() != parameters.front().size()) return std::nullopt;
  }
  const double epsilon = norm.attrs.get_float("epsilon", 1e-5);
  Affine out;
  for (size_t c = 0; c < parameters[0].size(); ++c) {
    const double scale = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
    out.scale.push_back(scale);
    out.shift.push_back(parameters[1][c] - parameters[2][c] * scale);
    if (!std::isfinite(scale) || !std::isfinite(out.shift.back())) return std::nullopt;
  }
  return out;
}

namespace {

/// Weights with the slices of axis 0, or of axis 1 within each of `groups` parts of axis 0, scaled:
/// where a convolution and a transposed one have their output channels, and a product of rows its
/// columns.
Tensor scaled(const Tensor& weights, const std::vector<double>& scale, bool transposed,
              int64_t groups) {
  const Tensor from = weights.to_contiguous();
  Tensor out(from.dtype(), from.dims());
  const Dims& dims = from.dims();
  const int64_t rows = transposed ? dims[0] : 1, columns = transposed ? dims[1] : dims[0];
  const int64_t slice = from.count() / (rows * columns);
  // Once: asking for the address of a model's own weights takes a lock.
  const void* const source = from.data();
  void* const target = out.data();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = transposed ? row / (dims[0] / groups) * dims[1] : 0;
    for (int64_t column = 0; column < columns; ++column) {
      const double factor = scale[static_cast<size_t>(first + column)];
      const int64_t at = (row * columns + column) * slice;
      if (from.dtype() == DType::kF32) {
        const float* a = static_cast<const float*>(source) + at;
        float* b = static_cast<float*>(target) + at;
        for (int64_t i = 0; i < slice; ++i) b[i] = static_cast<float>(a[i] * factor);
        continue;
      }
      for (int64_t i = at; i < at + slice; ++i)
        store_double(target, out.dtype(), i, load_double(source, from.dtype(), i) * factor);
    }
  }
  return out;
}

/// What becomes of a bias per channel.
Tensor moved(const std::vector<double>& bias, const Affine& affine, DType type) {
  Tensor out(type, {static_cast<int64_t>(bias.size())});
  for (size_t c = 0; c < bias.size(); ++c)
    store_double(out.data(), type, static_cast<int64_t>(c),
                 affine.shift[c] + affine.scale[c] * bias[c]);
  return out;
}

/// [C, 1, 1...] of `type`, which broadcasts along axis 1 of `rank` axes.
Tensor per_channel(const std::vector<double>& values, DType type, size_t rank) {
  Dims dims(rank - 1, 1);
  dims[0] = static_cast<int64_t>(values.size());
  Tensor out(type, dims);
  for (size_t c = 0; c < values.size(); ++c)
    store_double(out.data(), type, static_cast<int64_t>(c), values[c]);
  return out;
}

class BatchNorms {
 public:
  BatchNorms(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "fold-batch-norm") {}

  bool run() {
    for (NodeId id : graph_.order()) {
      const Node& norm = graph_.node(id);
      if (const std::optional<Affine> affine = inference_affine(graph_, norm))
        if (into_weights(id, norm, *affine) || into_product(id, norm, *affine) ||
            into_elements(id, norm, *affine))
          context_.count("fold-batch-norm");
    }
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  /// Into the weights of the convolution in front, where nothing else reads its result.
  bool into_weights(NodeId id, const Node& norm, const Affine& affine) {
    const ValueId between = norm.inputs[0];
    const NodeId conv_id = graph_.value(between).producer;
    if (conv_id == kNone || graph_.only_user(users_, between) == kNone) return false;
    const Node& conv = graph_.node(conv_id);
    const bool transposed = is_op(conv, "ConvTranspose");
    if (!transposed && !is_op(conv, "Conv")) return false;
    const Value& weights = graph_.value(conv.inputs[1]);
    const bool biased = conv.inputs.size() > 2 && conv.inputs[2] != kNone;
    const Tensor& w = weights.constant;
    if (!w || !is_float(w.dtype()) || w.rank() < 2 || w.count() == 0) return false;
    const int64_t groups = transposed ? conv.attrs.get_int("group", 1) : 1;
    const int64_t channels = transposed ? w.dims()[1] * groups : w.dims()[0];
    if (channels != static_cast<int64_t>(affine.scale.size())) return false;
    if (transposed && (groups < 1 || w.dims()[0] % groups != 0)) return false;
    if (biased && !graph_.value(conv.inputs[2]).is_constant()) return false;

    std::vector<double> bias(affine.scale.size(), 0);
    if (biased) bias = graph_.value(conv.inputs[2]).constant.to_doubles();
    Node now{.op = conv.op, .name = conv.name};
    now.attrs = conv.attrs;
    now.inputs = {
        conv.inputs[0],
        patch_.add_constant(weights.name + ".folded", scaled(w, affine.scale, transposed, groups)),
        patch_.add_constant(weights.name + ".bias", moved(bias, affine, w.dtype()))};
    patch_.replace(norm.outputs[0], add_typed(graph_, patch_, std::move(now), 1)[0]);
    patch_.remove(id);
    patch_.remove(conv_id);
    return true;
  }

  /// The node that makes `value`, where nothing else reads that.
  NodeId only_maker(ValueId value) const {
    return graph_.only_user(users_, value) == kNone ? kNone : graph_.value(value).producer;
  }
  /// Whether it is a constant of one number per channel, along the last axis.
  bool is_per_column(ValueId value, int64_t channels) const {
    const Tensor& t = graph_.value(value).constant;
    return t && is_float(t.dtype()) && t.count() == channels && t.rank() > 0 &&
           t.dims().back() == channels;
  }

  bool ends_with(ValueId value, int64_t channels) const {
    const auto& dims = graph_.value(value).type.dims;
    return dims && !dims->empty() && dims->back() == Dim(channels);
  }

  /// MatMul or Gemm by constant weights, then, where there are such, a sum with a constant and a
  /// Reshape or Flatten that leaves the columns alone.
  struct Product {
    NodeId node = kNone, sum = kNone, reshape = kNone;
    bool rows = false;         ///< weights are [columns, terms]
    std::vector<double> bias;  ///< of everything, per column
  };
  std::optional<Product> product_in_front(ValueId value, int64_t channels) const {
    Product out;
    out.bias.assign(static_cast<size_t>(channels), 0);
    const auto add = [&](ValueId constant, double factor) {
      const std::vector<double> values = graph_.value(constant).constant.to_doubles();
      for (size_t c = 0; c < values.size(); ++c) out.bias[c] += factor * values[c];
    };
    NodeId maker = only_maker(value);
    if (maker != kNone &&
        (is_op(graph_.node(maker), "Reshape") || is_op(graph_.node(maker), "Flatten"))) {
      out.reshape = maker;
      const ValueId before = graph_.node(maker).inputs[0];
      maker = ends_with(before, channels) ? only_maker(before) : kNone;
    }
    if (maker != kNone && is_op(graph_.node(maker), "Add")) {
      const std::vector<ValueId>& inputs = graph_.node(maker).inputs;
      const size_t constant = is_per_column(inputs[0], channels) ? 0 : 1;
      if (!is_per_column(inputs[constant], channels)) return std::nullopt;
      // A constant of more axes would give the sum more than the product has.
      const ValueId added_to = inputs[1 - constant];
      const auto& dims = graph_.value(added_to).type.dims;
      if (!dims || dims != graph_.value(graph_.node(maker).outputs[0]).type.dims)
        return std::nullopt;
      add(inputs[constant], 1);
      out.sum = maker;
      maker = only_maker(added_to);
    }
    if (maker == kNone) return std::nullopt;
    const Node& product = graph_.node(maker);
    const bool gemm = is_op(product, "Gemm");
    out.node = maker;
    out.rows = gemm && product.attrs.get_int("transB", 0) != 0;
    if (!gemm && !is_op(product, "MatMul")) return std::nullopt;
    const Tensor& w = graph_.value(product.inputs[1]).constant;
    if (!w || !is_float(w.dtype()) || w.rank() != 2 || w.dims()[out.rows ? 0 : 1] != channels)
      return std::nullopt;
    if (gemm && product.inputs.size() > 2 && product.inputs[2] != kNone) {
      if (!is_per_column(product.inputs[2], channels)) return std::nullopt;
      add(product.inputs[2], product.attrs.get_float("beta", 1));
    }
    return out;
  }

  /// Into the weights of the product in front, whose columns are the channels: Linear and
  /// BatchNorm1d.
  bool into_product(NodeId id, const Node& norm, const Affine& affine) {
    const auto channels = static_cast<int64_t>(affine.scale.size());
    const auto& dims = graph_.value(norm.inputs[0]).type.dims;
    if (!dims || dims->size() != 2 || !ends_with(norm.inputs[0], channels)) return false;
    const std::optional<Product> found = product_in_front(norm.inputs[0], channels);
    if (!found) return false;
    const Node& product = graph_.node(found->node);
    const Value& weights = graph_.value(product.inputs[1]);
    const auto added = [&](const OpDef* op, const std::string& name, const Attrs& attrs,
                           std::vector<ValueId> inputs) {
      Node now{.op = op, .name = name};
      now.attrs = attrs;
      now.inputs = std::move(inputs);
      return add_typed(graph_, patch_, std::move(now), 1)[0];
    };
    const ValueId shift = patch_.add_constant(weights.name + ".bias",
                                              moved(found->bias, affine, weights.constant.dtype()));
    std::vector<ValueId> operands = {
        product.inputs[0],
        patch_.add_constant(weights.name + ".folded",
                            scaled(weights.constant, affine.scale, !found->rows, 1))};
    const bool gemm = is_op(product, "Gemm");
    Attrs attrs = product.attrs;
    attrs.erase("beta");
    if (gemm) operands.push_back(shift);
    ValueId value = added(product.op, product.name, attrs, std::move(operands));
    if (!gemm) value = added(&get_op("Add"), norm.name, {}, {value, shift});
    if (found->reshape != kNone) {
      const Node& reshape = graph_.node(found->reshape);
      std::vector<ValueId> inputs = reshape.inputs;
      inputs[0] = value;
      value = added(reshape.op, reshape.name, reshape.attrs, std::move(inputs));
    }
    patch_.replace(norm.outputs[0], value);
    for (const NodeId node : {id, found->reshape, found->sum, found->node})
      if (node != kNone) patch_.remove(node);
    return true;
  }

  /// Into a product and a sum, which join what stands around them.
  bool into_elements(NodeId id, const Node& norm, const Affine& affine) {
    const Type& type = graph_.value(norm.inputs[0]).type;
    if (!type.dims || type.dims->size() < 2 || !is_float(type.dtype)) return false;
    const auto apply = [&](const char* op, const char* suffix, ValueId x,
                           const std::vector<double>& values) {
      const std::string name = graph_.value(norm.outputs[0]).name + suffix;
      Node now{.op = &get_op(op), .name = norm.name};
      now.inputs = {x,
                    patch_.add_constant(name, per_channel(values, type.dtype, type.dims->size()))};
      return add_typed(graph_, patch_, std::move(now), 1)[0];
    };
    const ValueId product = apply("Mul", ".scale", norm.inputs[0], affine.scale);
    patch_.replace(norm.outputs[0], apply("Add", ".shift", product, affine.shift));
    // A single channel would broadcast to the constants'.
    if ((*type.dims)[1].is_constant())
      patch_.remove(id);
    else
      patch_.supersede(id);
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<std::vector<NodeId>> users_;
  Patch patch_;
};

}  // namespace

bool fold_batch_norm(Graph& graph, PassContext& context) {
  return context.options.tolerant && BatchNorms(graph, context).run();
}

}  // namespace xc
