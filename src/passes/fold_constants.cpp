#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "ir/patch.h"
#include "ops/infer.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

using Clock = std::chrono::steady_clock;

/// Time a reference kernel takes for one operation, pessimistic: to refuse work before doing it.
constexpr double kNanosecondsPerOperation = 20;

class Folder {
 public:
  Folder(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), patch_(graph, "fold-constants") {}

  bool run() {
    for (NodeId id : graph_.order()) visit(id);
    const bool changed = !patch_.empty();
    context_.count("fold-constants", static_cast<int64_t>(patch_.replaced_count()));
    patch_.apply();
    return changed;
  }

 private:
  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->random || node.op->control_flow) return;
    if (from_elements(node)) return;
    if (!node.op->reference || node.op->name == "DequantizeLinear") return;
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) {
      if (input == kNone) {
        inputs.emplace_back();
        continue;
      }
      const auto it = constants_.find(input);
      const Value& value = graph_.value(it == constants_.end() ? input : it->second);
      if (!value.is_constant()) return;
      inputs.push_back(value.constant);
    }
    compute(node, inputs);
  }

  /// Outputs whose elements inference knows, whatever the inputs.
  bool from_elements(const Node& node) {
    bool all = !node.outputs.empty();
    for (ValueId output : node.outputs) {
      if (output == kNone) continue;
      const Value& value = graph_.value(output);
      std::optional<Dims> dims;
      if (value.type.kind == Type::Kind::kTensor && value.type.dims && value.elements)
        dims = to_concrete(*value.type.dims);
      const auto known = dims ? known_integers(value) : std::nullopt;
      if (!known || element_count(*dims) != static_cast<int64_t>(known->size())) {
        all = false;
        continue;
      }
      Tensor tensor(value.type.dtype, *dims);
      for (size_t i = 0; i < known->size(); ++i)
        store_int64(tensor.data(), tensor.dtype(), static_cast<int64_t>(i), (*known)[i]);
      make_constant(output, std::move(tensor));
    }
    return all;
  }

  void compute(const Node& node, const std::vector<Tensor>& inputs) {
    const auto begin = Clock::now();
    try {
      int64_t bytes = 0;
      if (!worth_it(node, inputs, bytes)) return;
      std::vector<Tensor> outputs = run_reference(node, inputs);
      for (size_t i = 0; i < outputs.size(); ++i)
        if (node.outputs[i] != kNone) make_constant(node.outputs[i], std::move(outputs[i]));
      context_.folded_bytes += bytes;
    } catch (const Error&) {
      // Left for the run to tell: the node may never be reached (a branch not taken).
    }
    context_.fold_spent += Clock::now() - begin;
  }

  bool worth_it(const Node& node, const std::vector<Tensor>& inputs, int64_t& bytes) const {
    int64_t elements = 0, input_bytes = 0;
    for (const Tensor& input : inputs)
      if (input) {
        elements = std::max(elements, input.count());
        input_bytes = checked_add(input_bytes, input.byte_size());
      }
    for (const Type& type : infer_concrete(node, inputs)) {
      if (type.kind != Type::Kind::kTensor || !type.dims) return false;
      const std::optional<Dims> dims = to_concrete(*type.dims);
      if (!dims) return false;
      const int64_t count = element_count(*dims);
      elements = std::max(elements, count);
      bytes = checked_add(bytes, checked_mul(count, element_size(type.dtype)));
    }
    const PassOptions& options = context_.options;
    if (bytes > options.fold_bytes_each || bytes > options.fold_bytes_total - context_.folded_bytes)
      return false;
    if (node.op->view && bytes > std::max<int64_t>(input_bytes, 1024)) return false;
    double operations = static_cast<double>(elements) * std::max(1.0, node.op->weight);
    if (node.op->flops)
      if (const auto flops = node.op->flops(graph_, node).constant())
        operations = std::max(operations, static_cast<double>(*flops));
    const std::chrono::nanoseconds left = options.fold_time - context_.fold_spent;
    return operations * kNanosecondsPerOperation < static_cast<double>(left.count());
  }

  void make_constant(ValueId old, Tensor tensor) {
    const ValueId now = patch_.add_constant(graph_.value(old).name, std::move(tensor));
    constants_[old] = now;
    patch_.replace(old, now);
  }

  Graph& graph_;
  PassContext& context_;
  Patch patch_;
  std::unordered_map<ValueId, ValueId> constants_;  // folded in this sweep
};

}  // namespace

bool fold_constants(Graph& graph, PassContext& context) {
  return Folder(graph, context).run();
}

}  // namespace xc
