#include <algorithm>

#include "ir/patch.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// A product is left where it is when its result is so many times as wide as what it multiplies:
/// all steps' results would take that much more memory than what they are made of.
constexpr int64_t kMostWidening = 16;

/// Rewrites one Scan: products of a slice along axis 0 with what is the same in every step.
class ProductHoister {
 public:
  ProductHoister(Graph& graph, Patch& patch, NodeId id)
      : graph_(graph), patch_(patch), scan_(graph.node(id)), id_(id) {}

  /// Number of products moved.
  int64_t run() {
    const Graph& body = *scan_.subgraphs[0];
    for (NodeId id : body.order()) consider(body, body.node(id));
    if (moved_.empty()) return 0;
    rewrite();
    return static_cast<int64_t>(moved_.size());
  }

 private:
  struct Product {
    ValueId result;   ///< in the body
    ValueId stacked;  ///< of all steps, in the graph
    int64_t direction;
  };

  size_t own() const { return scan_.inputs.size() - scan_.capture_count; }
  size_t slices() const { return static_cast<size_t>(scan_.attrs.get_int("num_scan_inputs", 0)); }

  /// The input of the Scan whose slice along axis 0 the value is.
  std::optional<size_t> slice_of(const Graph& body, ValueId value) const {
    const auto axes = scan_.attrs.get_ints("scan_input_axes");
    for (size_t k = 0; k < slices(); ++k)
      if (body.inputs[own() - slices() + k] == value && (axes.empty() || axes[k] == 0))
        return own() - slices() + k;
    return std::nullopt;
  }

  bool invariant(const Graph& body, ValueId value) const {
    const auto first = body.inputs.begin() + static_cast<ptrdiff_t>(own());
    return body.value(value).is_constant() ||
           std::find(first, body.inputs.end(), value) != body.inputs.end();
  }
  ValueId outside(const Graph& body, ValueId value) {
    if (body.value(value).is_constant())
      return patch_.add_constant(body.value(value).name, body.value(value).constant);
    const auto at = std::find(body.inputs.begin(), body.inputs.end(), value) - body.inputs.begin();
    return scan_.inputs[static_cast<size_t>(at)];
  }
  ValueId add(const char* op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    Node node{.op = &get_op(op), .name = scan_.name, .inputs = std::move(inputs)};
    node.attrs = std::move(attrs);
    return add_typed(graph_, patch_, std::move(node), 1)[0];
  }

  void consider(const Graph& body, const Node& node) {
    const bool gemm = is_op(node, "Gemm");
    if (!gemm && !is_op(node, "MatMul")) return;
    const auto input = slice_of(body, node.inputs[0]);
    const auto& weights = body.value(node.inputs[1]).type.dims;
    const auto& result = body.value(node.outputs[0]).type.dims;
    if (!input || !invariant(body, node.inputs[1]) || !weights || weights->size() != 2 || !result ||
        result->empty() || body.is_output(node.outputs[0]))
      return;
    const bool turned = gemm && node.attrs.get_int("transB", 0) != 0;
    const auto depth = (*weights)[turned ? 1 : 0].constant();
    const auto width = (*weights)[turned ? 0 : 1].constant();
    if (!depth || !width || *width > checked_mul(kMostWidening, *depth)) return;
    const bool added = gemm && node.inputs.size() > 2 && node.inputs[2] != kNone;
    if (gemm && (node.attrs.get_int("transA", 0) != 0 || node.attrs.get_float("alpha", 1) != 1 ||
                 (added && node.attrs.get_float("beta", 1) != 1)))
      return;
    if (added && !invariant(body, node.inputs[2])) return;

    ValueId w = outside(body, node.inputs[1]);
    if (turned) {
      Attrs attrs;
      attrs.set("perm", std::vector<int64_t>{1, 0});
      w = add("Transpose", {w}, std::move(attrs));
    }
    ValueId stacked = add("MatMul", {scan_.inputs[*input], w});
    if (added) stacked = add("Add", {stacked, outside(body, node.inputs[2])});
    const auto directions = scan_.attrs.get_ints("scan_input_directions");
    moved_.push_back({node.outputs[0], stacked,
                      directions.empty() ? 0 : directions[*input - (own() - slices())]});
  }

  /// The Scan with slices of the stacked products as inputs, after its own.
  void rewrite() {
    auto body = std::make_shared<Graph>(scan_.subgraphs[0]->clone());
    Patch inside(*body, "hoist-products");
    Node scan{.op = scan_.op, .name = scan_.name, .inputs = scan_.inputs};
    scan.attrs = scan_.attrs;
    scan.capture_count = scan_.capture_count;
    auto axes = scan_.attrs.get_ints("scan_input_axes"),
         directions = scan_.attrs.get_ints("scan_input_directions");
    axes.resize(slices(), 0);
    directions.resize(slices(), 0);
    auto at = static_cast<ptrdiff_t>(own());
    for (const Product& product : moved_) {
      const Value& result = body->value(product.result);
      const ValueId slice = body->add_input(body->fresh_name(result.name), result.type);
      body->inputs.pop_back();
      body->inputs.insert(body->inputs.begin() + at, slice);
      scan.inputs.insert(scan.inputs.begin() + at, product.stacked);
      ++at;
      axes.push_back(0);
      directions.push_back(product.direction);
      inside.replace(product.result, slice);
      inside.remove(result.producer);
    }
    inside.apply();
    scan.attrs.set("num_scan_inputs", static_cast<int64_t>(axes.size()));
    scan.attrs.set("scan_input_axes", axes);
    scan.attrs.set("scan_input_directions", directions);
    scan.subgraphs = {std::move(body)};
    put_in_place_of(graph_, patch_, id_, std::move(scan));
  }

  Graph& graph_;
  Patch& patch_;
  const Node& scan_;
  NodeId id_;
  std::vector<Product> moved_;
};

}  // namespace

bool hoist_products(Graph& graph, PassContext& context) {
  Patch patch(graph, "hoist-products");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "Scan") || node.subgraphs.size() != 1) continue;
    context.count("hoist-products", ProductHoister(graph, patch, id).run());
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
