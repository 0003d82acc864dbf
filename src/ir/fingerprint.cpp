#include "ir/fingerprint.h"

#include <unordered_map>

#include "ir/op_ref.h"
#include "ir/text_tensor.h"
#include "ir/topology.h"

namespace xc {
namespace {

/// Constants up to this size count by content: shapes, axes, scalars. Larger ones are weights, and
/// kernels do not depend on what they hold.
constexpr int64_t kSmallConstant = 1024;

/// Writes an unambiguous description; every string carries its length.
class Writer {
 public:
  void graph(const Graph& g) {
    Scope scope;
    tag('G');
    number(g.inputs.size());
    for (ValueId id : g.inputs) {
      external(scope, g, id);
    }
    for (NodeId id : g.order()) node(scope, g, g.node(id));
    number(g.outputs.size());
    for (ValueId id : g.outputs) use(scope, g, id);
  }

  void nodes(const Graph& g, std::span<const NodeId> given) {
    std::unordered_map<NodeId, uint32_t> inside;
    for (uint32_t i = 0; i < given.size(); ++i) inside.emplace(given[i], i);
    const auto producer_inside = [&](ValueId id) {
      const NodeId producer = id == kNone ? kNone : g.value(id).producer;
      const auto it = producer == kNone ? inside.end() : inside.find(producer);
      return it == inside.end() ? kNone : it->second;
    };
    // Roots first: what lies below them then follows from the wiring alone, not from the order in
    // which the nodes were given.
    std::vector<bool> used(given.size());
    for (NodeId id : given)
      for (ValueId input : g.node(id).inputs)
        if (const uint32_t p = producer_inside(input); p != kNone) used[p] = true;
    std::vector<NodeId> roots;
    for (uint32_t i = 0; i < given.size(); ++i)
      if (!used[i]) roots.push_back(i);
    const Topology sorted = topological_order(
        roots, static_cast<uint32_t>(given.size()),
        [&](NodeId n) { return static_cast<uint32_t>(g.node(given[n]).inputs.size()); },
        [&](NodeId n, uint32_t i) { return producer_inside(g.node(given[n]).inputs[i]); });
    Scope scope;
    tag('R');
    for (NodeId i : sorted.order) node(scope, g, g.node(given[i]));
  }

  Hash128 hash() const { return hash_text(out_); }

 private:
  struct Scope {
    std::unordered_map<ValueId, uint64_t> numbers;
  };

  void tag(char c) { out_ += c; }
  void number(uint64_t v) { out_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void text(std::string_view s) {
    number(s.size());
    out_ += s;
  }

  void type(const Type& t) {
    tag(static_cast<char>('0' + static_cast<int>(t.kind)));
    tag(static_cast<char>('A' + static_cast<int>(t.dtype)));
    if (t.dims) {
      number(t.dims->size());
      for (const Dim& dim : *t.dims) text(renamed_(dim).text());
    } else {
      tag('*');
    }
    if (t.element) type(*t.element);
  }

  /// A value met for the first time and not made by a node of the set.
  void external(Scope& scope, const Graph& g, ValueId id) {
    scope.numbers.emplace(id, scope.numbers.size());
    const Value& value = g.value(id);
    tag(value.is_constant() ? 'C' : 'E');
    type(value.type);
    if (value.is_constant() && value.constant.byte_size() <= kSmallConstant)
      append_content(out_, value.constant);
  }

  void use(Scope& scope, const Graph& g, ValueId id) {
    if (id == kNone) return tag('_');
    if (const auto it = scope.numbers.find(id); it != scope.numbers.end()) {
      tag('%');
      number(it->second);
    } else {
      external(scope, g, id);
    }
  }

  void node(Scope& scope, const Graph& g, const Node& n) {
    tag('N');
    text(op_domain(*n.op));
    text(op_name(*n.op));
    number(n.inputs.size());
    for (ValueId input : n.inputs) use(scope, g, input);
    number(n.outputs.size());
    for (ValueId output : n.outputs) {
      if (output == kNone) {
        tag('_');
        continue;
      }
      scope.numbers.emplace(output, scope.numbers.size());
      type(g.value(output).type);
    }
    n.attrs.append_key(out_);
    number(n.capture_count);
    number(n.subgraphs.size());
    for (const auto& subgraph : n.subgraphs) graph(*subgraph);
  }

  std::string out_;
  SymbolRenamer renamed_;
};

}  // namespace

Dim SymbolRenamer::operator()(const Dim& dim) {
  return dim.substitute([&](const std::string& symbol) -> std::optional<Dim> {
    const auto [it, added] = numbers_.emplace(symbol, numbers_.size());
    // As in Dim::parse: names of possibly negative symbols end in ']'.
    const bool negative = !symbol.empty() && symbol.back() == ']';
    return Dim::symbol(fmt::format("s{}{}", it->second, negative ? "[]" : ""), negative);
  });
}

Hash128 fingerprint(const Graph& graph) {
  Writer writer;
  writer.graph(graph);
  return writer.hash();
}

Hash128 fingerprint(const Graph& graph, std::span<const NodeId> nodes) {
  Writer writer;
  writer.nodes(graph, nodes);
  return writer.hash();
}

}  // namespace xc
