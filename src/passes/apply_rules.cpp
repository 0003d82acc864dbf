#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/patch.h"
#include "passes/passes.h"
#include "passes/rules/match.h"
#include "passes/rules/rule_set.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// A rule of a user may make more of what it matches.
constexpr int64_t kMaxApplications = 100000;

/// Builds a replacement through `add_node(Node)` and `add_constant(Tensor)`: once in a scratch
/// graph to see whether it types, once for good.
template <class AddNode, class AddConstant>
class Builder {
 public:
  Builder(const Rule& rule, const Graph& matched, const Match& match, DType dtype,
          const AddNode& add_node, const AddConstant& add_constant)
      : rule_(rule),
        matched_(matched),
        match_(match),
        dtype_(dtype),
        add_node_(add_node),
        add_constant_(add_constant) {}

  /// kNone when an attribute cannot be made of what a variable is bound to.
  ValueId build(uint32_t index, const std::vector<ValueId>& variables) {
    const Term& term = rule_.terms[index];
    switch (term.kind) {
      case Term::Kind::kVariable:
        if (const auto& attr = match_.bindings[term.variable].attr) return number(*attr);
        return variables[term.variable];
      case Term::Kind::kNumber:
        return scalar(term.number);
      case Term::Kind::kInts:
      case Term::Kind::kAxes:
        return add_constant_(Tensor::of(term.ints));
      case Term::Kind::kOp:
        break;
      default:
        return kNone;
    }
    Node node{.op = term.op};
    for (uint32_t arg : term.args) {
      const bool absent = rule_.terms[arg].kind == Term::Kind::kAbsent;
      node.inputs.push_back(absent ? kNone : build(arg, variables));
      if (!absent && node.inputs.back() == kNone) return kNone;
    }
    for (const AttrTerm& attr : term.attrs) {
      std::optional<Attr> value = attr.variable == kNone ? attr.value : bound(term, attr);
      if (!value) return kNone;
      node.attrs.set(attr.name, std::move(*value));
    }
    return add_node_(std::move(node));
  }

 private:
  ValueId scalar(double value) {
    Tensor out(dtype_, {});
    store_double(out.data(), dtype_, 0, value);
    return add_constant_(std::move(out));
  }

  /// An attribute as a value: numbers as scalars of the result's type, lists of integers as i64.
  ValueId number(const Attr& attr) {
    if (const double* real = std::get_if<double>(&attr)) return scalar(*real);
    if (const int64_t* integer = std::get_if<int64_t>(&attr))
      return scalar(static_cast<double>(*integer));
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr))
      return add_constant_(Tensor::of(*ints));
    if (const Tensor* tensor = std::get_if<Tensor>(&attr)) return add_constant_(*tensor);
    return kNone;
  }

  /// What the match bound to the variable, as the kind that the attribute has.
  std::optional<Attr> bound(const Term& term, const AttrTerm& attr) const {
    const Binding& binding = match_.bindings[attr.variable];
    if (binding.attr) return binding.attr;
    const auto spec = std::find_if(term.op->attrs.begin(), term.op->attrs.end(),
                                   [&](const AttrSpec& s) { return s.name == attr.name; });
    if (binding.value == kNone || spec == term.op->attrs.end()) return std::nullopt;
    const Value& value = matched_.value(binding.value);
    if (spec->kind == AttrKind::kFloat)
      if (const auto number = scalar_constant(value)) return *number;
    if (const auto ints = known_integers(value)) {
      if (spec->kind == AttrKind::kInt && ints->size() == 1) return ints->front();
      if (spec->kind == AttrKind::kInts) return *ints;
    }
    return std::nullopt;
  }

  const Rule& rule_;
  const Graph& matched_;
  const Match& match_;
  DType dtype_;
  const AddNode& add_node_;
  const AddConstant& add_constant_;
};

class Applier {
 public:
  Applier(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), patch_(graph, "rules"), users_(graph.users()) {
    if (context.options.extra_rules) collect(*context.options.extra_rules);
    if (context.options.rules) collect(builtin_rules());
  }

  /// From the outputs up: large patterns are met at their roots before small ones inside them.
  bool run() {
    const std::vector<NodeId> order(graph_.order().rbegin(), graph_.order().rend());
    for (NodeId id : order) {
      const auto it = by_root_.find(graph_.node(id).op);
      if (it == by_root_.end() || taken_.count(id)) continue;
      for (const Rule* rule : it->second)
        if (try_rule(*rule, id)) break;
      if (applied_ > kMaxApplications) break;
    }
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  void collect(const RuleSet& set) {
    const auto& disabled = context_.options.disabled;
    for (const Rule& rule : set.rules()) {
      if (std::find(disabled.begin(), disabled.end(), "rule:" + rule.name) != disabled.end())
        continue;
      if (names_.insert(rule.name).second) add_roots(rule, rule.pattern);
    }
  }

  void add_roots(const Rule& rule, uint32_t index) {
    const Term& root = rule.terms[index];
    for (uint32_t arg : root.kind == Term::Kind::kAlternative ? root.args : std::vector<uint32_t>{})
      add_roots(rule, arg);
    if (root.kind != Term::Kind::kOp) return;
    std::vector<const Rule*>& rules = by_root_[root.op];
    if (rules.empty() || rules.back() != &rule) rules.push_back(&rule);
  }

  bool try_rule(const Rule& rule, NodeId root) {
    const std::optional<Match> match = match_rule(rule, graph_, root, context_.options.tolerant);
    if (!match || !is_free(rule, *match)) return false;
    const Node& node = graph_.node(root);
    const ValueId old = node.outputs[0];
    const std::optional<ValueId> now = instantiate(rule, *match, old, node.name);
    if (!now || !patch_.can_replace(old, *now)) return false;
    patch_.replace(old, *now);
    taken_.insert(match->nodes.begin(), match->nodes.end());
    context_.count("rule:" + rule.name);
    ++applied_;
    return true;
  }

  /// True when nobody outside of the match needs what it would make superfluous, and no other
  /// rewrite of this sweep has touched it. What the replacement itself reads may have other users.
  bool is_free(const Rule& rule, const Match& match) const {
    std::unordered_set<NodeId> inside(match.nodes.begin(), match.nodes.end());
    for (NodeId id : inside) {
      if (taken_.count(id)) return false;
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const ValueId output = node.outputs[i];
        if (output == kNone || (id == match.nodes[0] && i == 0)) continue;
        if (i == 0 && is_read_by_replacement(rule, match, output)) continue;
        if (graph_.is_output(output)) return false;
        for (NodeId user : users_[output])
          if (!inside.count(user)) return false;
      }
    }
    return true;
  }

  static bool is_read_by_replacement(const Rule& rule, const Match& match, ValueId value) {
    std::vector<uint32_t> work{rule.replacement};
    while (!work.empty()) {
      const Term& term = rule.terms[work.back()];
      work.pop_back();
      if (term.kind == Term::Kind::kVariable && match.bindings[term.variable].value == value)
        return true;
      work.insert(work.end(), term.args.begin(), term.args.end());
    }
    return false;
  }

  /// The replacement's value, when it has the type of what it replaces.
  std::optional<ValueId> instantiate(const Rule& rule, const Match& match, ValueId old,
                                     const std::string& stem) {
    const Type type = graph_.value(old).type;
    if (!types_agree(rule, match, type)) return std::nullopt;
    patch_.relabel("rule:" + rule.name);
    const auto add_node = [&](Node node) {
      node.name = stem;
      return add_typed(graph_, patch_, std::move(node), 1)[0];
    };
    const auto add_constant = [&](Tensor tensor) {
      return patch_.add_constant(rule.name, std::move(tensor));
    };
    std::vector<ValueId> variables;
    for (const Binding& binding : match.bindings) variables.push_back(binding.value);
    Builder builder(rule, graph_, match, type.dtype, add_node, add_constant);
    return builder.build(rule.replacement, variables);
  }

  bool types_agree(const Rule& rule, const Match& match, const Type& wanted) const {
    if (wanted.kind != Type::Kind::kTensor || !is_number(wanted.dtype) || !wanted.dims)
      return false;
    Graph scratch;
    std::vector<ValueId> variables;
    for (const Binding& binding : match.bindings) {
      variables.push_back(kNone);
      if (binding.value == kNone) continue;
      const Value& value = graph_.value(binding.value);
      variables.back() = value.is_constant() ? scratch.add_constant("", value.constant)
                                             : scratch.add_input("", value.type);
      scratch.value(variables.back()).elements = value.elements;
    }
    const auto add_node = [&](Node node) -> ValueId {
      node.outputs = {scratch.add_value("")};
      const std::optional<Inferred> inferred = infer_node(scratch, node);
      if (!inferred) return kNone;
      scratch.value(node.outputs[0]).type = inferred->types[0];
      return node.outputs[0];
    };
    const auto add_constant = [&](Tensor tensor) {
      return scratch.add_constant("", std::move(tensor));
    };
    Builder builder(rule, graph_, match, wanted.dtype, add_node, add_constant);
    const ValueId result = builder.build(rule.replacement, variables);
    if (result == kNone) return false;
    const Type& got = scratch.value(result).type;
    return got.kind == wanted.kind && got.dtype == wanted.dtype && got.dims &&
           *got.dims == *wanted.dims;
  }

  static bool is_number(DType type) {
    return is_float(type) || is_integer(type) || type == DType::kBool;
  }

  Graph& graph_;
  PassContext& context_;
  Patch patch_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_set<std::string> names_;  // a user's rule hides a built-in one of its name
  std::unordered_map<const OpDef*, std::vector<const Rule*>> by_root_;
  std::unordered_set<NodeId> taken_;  // by rewrites of this sweep
  int64_t applied_ = 0;
};

}  // namespace

bool apply_rules(Graph& graph, PassContext& context) {
  const PassOptions& options = context.options;
  return (options.rules || options.extra_rules) && Applier(graph, context).run();
}

}  // namespace xc
