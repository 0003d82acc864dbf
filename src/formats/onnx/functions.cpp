#include "formats/onnx/functions.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/utf8.h"
#include "formats/onnx/op_versions.h"

namespace xc::onnx {

Functions::Functions(const ModelProto& model) {
  for (const FunctionProto& f : model.functions) {
    if (!by_key_.emplace(Key{f.domain, f.name, f.overload}, &f).second)
      fail(Status::kInvalidModel, "function '{}' is defined twice", printable(f.name));
    // Operators of com.microsoft are nobody's standard: the model says what it means by the name.
    if (f.domain != "com.microsoft" && !op_versions(f.domain, f.name).empty())
      fail(Status::kUnsupported, "function '{}' redefines an operator of the standard",
           printable(f.name));
  }
}

const FunctionProto* Functions::find(const NodeProto& node) const {
  const auto it = by_key_.find(Key{node.domain, node.op, node.overload});
  return it == by_key_.end() ? nullptr : it->second;
}

namespace {

struct Size {
  int64_t nodes = 0;
  int64_t bytes = 0;    ///< of what is decoded: attributes and names
  int64_t inlined = 0;  ///< of these, in bodies of functions
  int depth = 0;        ///< calls inside of calls
  int graphs = 0;       ///< subgraphs inside of subgraphs, those of functions included
};

class Expansion {
 public:
  Expansion(const Functions& functions, const Limits& limits)
      : functions_(functions), limits_(limits) {}

  Size of(const std::vector<NodeProto>& nodes, int depth) {
    if (depth > limits_.function_depth)
      fail(Status::kLimit, "functions are nested deeper than {}", limits_.function_depth);
    Size out;
    for (const NodeProto& node : nodes) {
      add(out, {.nodes = 1, .bytes = bytes_of(node)});
      if (const FunctionProto* callee = functions_.find(node)) {
        Size size = call(*callee, depth);
        ++size.depth;
        size.inlined = size.bytes;
        add(out, size);
      }
      for (const AttributeProto& attribute : node.attributes)
        if (attribute.graph) {
          Size size = of(attribute.graph->nodes, depth);
          ++size.graphs;
          add(out, size);
        }
    }
    return out;
  }

 private:
  static int64_t bytes_of(const NodeProto& node) {
    size_t bytes = node.name.size();
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const Bytes name : *names) bytes += name.size();
    for (const AttributeProto& attribute : node.attributes)
      bytes += attribute.name.size() + attribute.body.size();
    return static_cast<int64_t>(bytes);
  }

  void add(Size& to, const Size& size) const {
    to.depth = std::max(to.depth, size.depth);
    to.graphs = std::max(to.graphs, size.graphs);
    if (to.graphs > limits_.subgraph_depth)
      fail(Status::kLimit, "subgraphs are nested deeper than {} once functions are expanded",
           limits_.subgraph_depth);
    if (__builtin_add_overflow(to.nodes, size.nodes, &to.nodes) || to.nodes > limits_.nodes)
      fail(Status::kLimit, "the model has more than {} nodes once its functions are expanded",
           limits_.nodes);
    to.bytes = checked_add(to.bytes, size.bytes);
    to.inlined = checked_add(to.inlined, size.inlined);
    if (to.inlined > limits_.generated_bytes)
      fail(Status::kLimit, "the model has more than {} bytes once its functions are expanded",
           limits_.generated_bytes);
  }

  Size call(const FunctionProto& callee, int depth) {
    if (const auto it = known_.find(&callee); it != known_.end()) {
      if (depth + it->second.depth >= limits_.function_depth)
        fail(Status::kLimit, "functions are nested deeper than {}", limits_.function_depth);
      return it->second;
    }
    if (!active_.insert(&callee).second)
      fail(Status::kInvalidModel, "function '{}' calls itself", printable(callee.name));
    const Size size = of(callee.nodes, depth + 1);
    active_.erase(&callee);
    return known_[&callee] = size;
  }

  const Functions& functions_;
  const Limits& limits_;
  std::unordered_map<const FunctionProto*, Size> known_;
  std::unordered_set<const FunctionProto*> active_;
};

/// Names a node reads from around it: its inputs, and what its subgraphs do not define themselves.
void collect_reads(const NodeProto& node, std::vector<Bytes>& out) {
  for (const Bytes name : node.inputs)
    if (!name.empty()) out.push_back(name);
  for (const AttributeProto& attribute : node.attributes) {
    if (!attribute.graph) continue;
    const GraphProto& g = *attribute.graph;
    std::vector<Bytes> inner;
    for (const NodeProto& n : g.nodes) collect_reads(n, inner);
    for (const ValueInfoProto& output : g.outputs) inner.push_back(output.name);
    std::unordered_set<Bytes> own;
    for (const ValueInfoProto& input : g.inputs) own.insert(input.name);
    for (const TensorProto& t : g.initializers) own.insert(t.name);
    for (const TensorProto& t : g.sparse_initializers) own.insert(t.name);
    for (const NodeProto& n : g.nodes) own.insert(n.outputs.begin(), n.outputs.end());
    std::sort(inner.begin(), inner.end());
    inner.erase(std::unique(inner.begin(), inner.end()), inner.end());
    for (const Bytes name : inner)
      if (!own.contains(name)) out.push_back(name);
  }
}

}  // namespace

void Functions::check_expansion(const ModelProto& model, const Limits& limits) const {
  Expansion expansion(*this, limits);
  expansion.of(model.graph.nodes, 0);
  // Functions nobody calls are held to the same rules.
  for (const FunctionProto& f : model.functions) expansion.of(f.nodes, 1);
}

std::vector<const NodeProto*> execution_order(const std::vector<NodeProto>& nodes) {
  std::unordered_map<Bytes, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Bytes name : nodes[i].outputs)
      if (!name.empty()) producer.emplace(name, i);

  std::vector<std::vector<size_t>> users(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  bool sorted = true;
  std::vector<Bytes> reads;
  for (size_t i = 0; i < nodes.size(); ++i) {
    reads.clear();
    collect_reads(nodes[i], reads);
    for (const Bytes name : reads) {
      const auto it = producer.find(name);
      if (it == producer.end()) continue;
      users[it->second].push_back(i);
      ++missing[i];
      if (it->second >= i) sorted = false;
    }
  }
  std::vector<const NodeProto*> out;
  out.reserve(nodes.size());
  if (sorted) {
    for (const NodeProto& node : nodes) out.push_back(&node);
    return out;
  }
  // The earliest node in the file that is ready comes first.
  std::vector<size_t> ready;
  const auto later = std::greater<size_t>();
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0) ready.push_back(i);
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const size_t node = ready.back();
    ready.pop_back();
    out.push_back(&nodes[node]);
    for (const size_t user : users[node])
      if (--missing[user] == 0) {
        ready.push_back(user);
        std::push_heap(ready.begin(), ready.end(), later);
      }
  }
  if (out.size() == nodes.size()) return out;
  const size_t stuck = static_cast<size_t>(
      std::find_if(missing.begin(), missing.end(), [](size_t n) { return n > 0; }) -
      missing.begin());
  fail(Status::kInvalidModel, "{} is part of a cycle or depends on one", place(nodes[stuck]));
}

}  // namespace xc::onnx
