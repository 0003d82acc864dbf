// What products round to bf16 before they multiply it is stored in bf16: its producer rounds once,
// half the bytes go through memory, and no product rounds for itself.
//
// A value is stored so where every reader is such a product, or moves elements for such products
// (no number changes), or where the model itself has it in bf16 (kHeldIn): then elementwise readers
// widen it as they read. Only where the rounding costs nothing: behind a product or an elementwise
// operator, whose kernels store bf16 as well as f32, or where several products would round it.

#include <algorithm>
#include <unordered_map>

#include "ir/patch.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

constexpr DType kNarrow = DType::kBF16;

/// Whether the operator may have operands in halves beside f32 (kHeldIn).
bool widens_operands(const Node& node) {
  const auto& attrs = node.op->attrs;
  return node.op->scalar && std::any_of(attrs.begin(), attrs.end(), [](const AttrSpec& attr) {
           return attr.name == kHeldIn.name;
         });
}

class Narrower {
 public:
  Narrower(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        order_(graph.order()),
        users_(graph.users()),
        roles_(graph.node_count(), Role::kOther),
        narrow_(graph.value_count(), false),
        patch_(graph, "narrow-values") {}

  bool run() {
    for (NodeId id : order_) roles_[id] = role(graph_.node(id));
    // A mover that cannot be stored so after all leaves what it reads with a reader that does not
    // round.
    do choose();
    while (drop_movers());
    for (NodeId id : order_) rewrite(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  enum class Role : uint8_t {
    kProduct,  ///< reads operand 0 in bf16
    kMover,    ///< gives in bf16 what it reads in bf16: views, Concat, MaxPool
    kScalar,
    kOther
  };

  Role role(const Node& node) const {
    const auto reads = [&] { return context_.options.reads_bf16(graph_, node); };
    if (node.op->control_flow) return Role::kOther;
    if (is_product(node)) return reads() ? Role::kProduct : Role::kOther;
    if (is_op(node, "MaxPool")) return reads() ? Role::kMover : Role::kOther;
    if (node.op->view || is_op(node, "Concat")) return Role::kMover;
    return node.op->scalar && node.outputs.size() == 1 ? Role::kScalar : Role::kOther;
  }

  /// Of a mover: the operands whose elements it moves.
  static size_t moved(const Node& node) { return is_op(node, "Concat") ? node.inputs.size() : 1; }

  bool all_narrow(const std::vector<ValueId>& values) const {
    return std::all_of(values.begin(), values.end(),
                       [&](ValueId v) { return v == kNone || narrow_[v]; });
  }

  /// What the readers of a value, decided so far, make of it.
  struct Readers {
    int products = 0;      ///< that would round it
    bool rounding = true;  ///< nobody else reads it, but through movers
    bool held = false;     ///< in bf16 by the model
    bool widening = true;  ///< who else reads it may widen it
  };
  Readers readers(ValueId value) const {
    Readers out;
    for (NodeId id : users_[value]) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != value) continue;
        if (roles_[id] == Role::kProduct && i == 0) {
          ++out.products;
          out.held |= node.attrs.get_int(kHeldIn.name, 0) == onnx_number(kNarrow);
        } else if (roles_[id] == Role::kMover && i < moved(node) && all_narrow(node.outputs)) {
          ++out.products;
          for (ValueId v : node.outputs)
            if (v != kNone) out.held |= held_.count(v) != 0;
        } else {
          out.rounding = false;
          out.widening &= widens_operands(node);
        }
      }
    }
    return out;
  }

  bool may_be_narrow(ValueId value) const {
    const Value& v = graph_.value(value);
    return v.type.kind == Type::Kind::kTensor && v.type.dtype == DType::kF32 &&
           !graph_.is_output(value);
  }

  /// From the readers backwards, what should be stored so.
  void choose() {
    std::fill(narrow_.begin(), narrow_.end(), false);
    held_.clear();
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      for (ValueId value : graph_.node(*id).outputs) {
        if (value == kNone || !may_be_narrow(value)) continue;
        const Readers r = readers(value);
        if (r.held) held_.insert(value);
        const bool free = roles_[*id] != Role::kOther || r.products > 1;
        narrow_[value] = r.products > 0 && free && (r.rounding || (r.held && r.widening));
      }
  }

  /// Movers whose results would be stored so and whose operands are not. False: none.
  bool drop_movers() {
    bool found = false;
    for (NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (roles_[id] != Role::kMover) continue;
      const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId v) { return v != kNone && narrow_[v]; });
      const bool given = all_narrow(node.outputs) && !pools_more(node) &&
                         std::all_of(node.inputs.begin(),
                                     node.inputs.begin() + static_cast<ptrdiff_t>(moved(node)),
                                     [&](ValueId v) { return v != kNone && narrow_[v]; });
      if (!wanted || given) continue;
      roles_[id] = Role::kOther;
      for (ValueId v : node.outputs)
        if (v != kNone) narrow_[v] = false;  // the next along a chain sees it at once
      found = true;
    }
    return found;
  }

  /// A pooling operator behind what is not rounded for free: there are fewer elements behind it.
  bool pools_more(const Node& node) const {
    if (!is_op(node, "MaxPool")) return false;
    NodeId from = graph_.value(node.inputs[0]).producer;
    while (from != kNone && roles_[from] == Role::kScalar)
      from = graph_.node(from).inputs[0] == kNone
                 ? kNone
                 : graph_.value(graph_.node(from).inputs[0]).producer;
    return from == kNone || roles_[from] == Role::kOther;
  }

  void rewrite(NodeId id) {
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    if (roles_[id] == Role::kMover && all_narrow(outputs))
      move(id);
    else if (std::any_of(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end(),
                         [&](ValueId v) { return v != kNone && narrow_[v]; }))
      read(id);
    if (roles_[id] == Role::kMover) return;
    for (ValueId v : outputs)
      if (v != kNone && narrow_[v]) stored_[v] = cast(v);
  }

  /// All who read its results are rewritten, too: nothing is left to give in f32.
  void move(NodeId id) {
    Node now = graph_.node(id);
    const std::vector<ValueId> old = now.outputs;
    for (size_t i = 0; i < moved(now); ++i) now.inputs[i] = stored_.at(now.inputs[i]);
    now.outputs.clear();
    const auto made = add_typed(graph_, patch_, std::move(now), static_cast<uint32_t>(old.size()));
    for (size_t k = 0; k < old.size(); ++k)
      if (old[k] != kNone) stored_[old[k]] = made[k];
    patch_.remove(id);
    context_.count("narrow-values");
  }

  void read(NodeId id) {
    Node now = graph_.node(id);
    for (ValueId& v : now.inputs)
      if (v != kNone && narrow_[v]) v = stored_.at(v);
    now.attrs.set(std::string(kHeldIn.name), onnx_number(kNarrow));
    put_in_place_of(graph_, patch_, id, std::move(now));
    context_.count("narrow-values");
  }

  ValueId cast(ValueId v) {
    Node node{.op = &get_op("Cast"), .name = {}};
    node.inputs = {v};
    node.attrs.set("to", onnx_number(kNarrow));
    return add_typed(graph_, patch_, std::move(node), 1)[0];
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<NodeId> order_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<Role> roles_;   ///< by node
  std::vector<bool> narrow_;  ///< by value
  std::unordered_set<ValueId> held_;
  std::unordered_map<ValueId, ValueId> stored_;  ///< what stands for a value in bf16
  Patch patch_;
};

}  // namespace

bool may_narrow_values(const Graph& graph, const PassOptions& options) {
  const std::vector<NodeId> order = graph.order();
  return options.reads_bf16 && std::any_of(order.begin(), order.end(), [&](NodeId id) {
           const Node& node = graph.node(id);
           return (is_product(node) && options.reads_bf16(graph, node)) ||
                  std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                              [&](const auto& body) { return may_narrow_values(*body, options); });
         });
}

bool narrow_values(Graph& graph, PassContext& context) {
  return context.options.reads_bf16 && Narrower(graph, context).run();
}

}  // namespace xc
