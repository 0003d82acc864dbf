#include "support/evaluate.h"

#include <cmath>
#include <random>

#include "base/error.h"
#include "ops/infer.h"

namespace xc::test {

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.value_count());
  for (ValueId id = 0; id < graph.value_count(); ++id) values[id] = graph.value(id).constant;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> operands, results;
    for (ValueId input : node.inputs) operands.push_back(input == kNone ? Tensor() : values[input]);
    if (node.op->name == "If") {
      const bool taken = load_double(operands[0].data(), operands[0].dtype(), 0) != 0;
      results = evaluate(*node.subgraphs[taken ? 0 : 1],
                         {operands.begin() + static_cast<ptrdiff_t>(operands.size()) -
                              static_cast<ptrdiff_t>(node.capture_count),
                          operands.end()});
    } else {
      results = run_reference(node, operands);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone) values[node.outputs[i]] = results[i];
  }
  std::vector<Tensor> out;
  for (ValueId id : graph.outputs) out.push_back(values[id]);
  return out;
}

std::vector<Tensor> random_inputs(const Graph& graph, int64_t extent, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> out;
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    if (value.type.kind != Type::Kind::kTensor || !value.type.dims)
      fail(Status::kUnsupported, "no inputs of type {}", value.type.text());
    Dims dims;
    for (const Dim& dim : *value.type.dims)
      dims.push_back(dim.evaluate([&](const std::string&) { return extent; }).value_or(extent));
    Tensor tensor(value.type.dtype, dims);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      store_double(tensor.data(), tensor.dtype(), i,
                   is_float(tensor.dtype()) ? 4 * unit - 2 : std::floor(4 * unit));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

Tensor in_f64(const Tensor& tensor) {
  Tensor out(DType::kF64, tensor.dims());
  const std::vector<double> values = tensor.to_doubles();
  std::copy(values.begin(), values.end(), out.as<double>());
  return out;
}

std::string difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                       double tolerance) {
  if (a.size() != b.size()) return fmt::format("{} outputs and {}", a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].dtype() != b[k].dtype() || a[k].dims() != b[k].dims())
      return fmt::format("output {}: {}{} and {}{}", k, name(a[k].dtype()), to_text(a[k].dims()),
                         name(b[k].dtype()), to_text(b[k].dims()));
    const std::vector<double> x = a[k].to_doubles(), y = b[k].to_doubles();
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      if (!(std::abs(x[i] - y[i]) <= tolerance * std::max(1.0, std::abs(x[i]))))
        return fmt::format("output {}, element {}: {} and {}", k, i, x[i], y[i]);
    }
  }
  return {};
}

}  // namespace xc::test
