#include "ops/infer.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/place.h"
#include "ops/containers.h"
#include "ops/support.h"
#include "tensor/dim_opaque.h"

namespace xc {

namespace {

/// Largest element count of a graph input of integers or truths whose elements become symbols.
constexpr int64_t kMaxInputElements = 64;
/// Bodies of loops are inferred until their states' types stand, nested ones again in each round.
/// This bounds the work that nesting can multiply.
constexpr int64_t kMaxRepeats = 16, kFreeNodes = 100'000;
/// More would not help to find what is wrong with a file.
constexpr int kMostWarnings = 20;
/// Ranks tried to learn the dtypes of outputs when an input's rank is not known.
constexpr size_t kProbedRanks = 6;
/// In all, where several are not known.
constexpr int kProbes = 500;

/// State of one infer_types() call over a graph and its subgraphs.
class Driver {
 public:
  Driver(Graph& root, const std::function<void(const std::string&)>& warn)
      : root_(root), warn_(warn) {
    remember(root);
  }

  void run() {
    for (ValueId id : root_.inputs) {
      Value& value = root_.value(id);
      if (value.type.kind == Type::Kind::kTensor && value.type.dtype == DType::kUndefined)
        fail(Status::kInvalidModel, "graph input '{}' has no type", value.name);
      value.elements = located(fmt::format("input '{}'", value.name),
                               [&] { return input_elements(root_, value); });
    }
    infer_graph(root_);
  }

 private:
  /// Kernels write the outputs an operator must have, and views count those of Split and its like:
  /// where a model leaves one out, it gets a value nobody reads.
  static void complete_outputs(Graph& graph, NodeId id) {
    Node& node = graph.node(id);
    const auto must =
        node.op->max_outputs < 0
            ? node.outputs.size()
            : std::min(node.outputs.size(), static_cast<size_t>(node.op->min_outputs));
    for (uint32_t k = 0; k < must; ++k) {
      if (node.outputs[k] != kNone) continue;
      node.outputs[k] = graph.add_value({});
      Value& value = graph.value(node.outputs[k]);
      value.producer = id;
      value.output_index = k;
    }
  }

  /// Notes the types that a front end declared, and the symbols that stay: those of the model's
  /// inputs. All others are made anew, so that inferring twice gives the same names.
  void remember(Graph& graph) {
    for (NodeId id : graph.order()) complete_outputs(graph, id);
    std::vector<Type>& declared = declared_[&graph];
    budget_ += kMaxRepeats * static_cast<int64_t>(graph.order().size());
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      declared.push_back(graph.value(id).type);
      if (&graph != &root_ || !graph.value(id).is_input || !graph.value(id).type.dims) continue;
      std::vector<std::string> symbols;
      for (const Dim& d : *graph.value(id).type.dims) d.collect_symbols(symbols);
      taken_.insert(symbols.begin(), symbols.end());
    }
    for (NodeId id : graph.order())
      for (const auto& sub : graph.node(id).subgraphs) remember(*sub);
  }

  Dim fresh() {
    std::string name;
    do name = fmt::format("u{}", next_++);
    while (!taken_.insert(name).second);
    return Dim::symbol(name);
  }

  /// Symbols for the elements of a small input of integers or truths: `name[0]`, ... In a subgraph
  /// they must differ from those of the graphs around it.
  std::optional<std::vector<Dim>> input_elements(const Graph& graph, const Value& value) {
    const Type& t = value.type;
    if (t.kind != Type::Kind::kTensor || !t.dims) return std::nullopt;
    const bool truths = t.dtype == DType::kBool;
    if (!truths && !is_integer(t.dtype)) return std::nullopt;
    const Dim count = element_count(*t.dims);
    if (!count.is_constant() || count.value() > kMaxInputElements) return std::nullopt;
    auto& stem = element_stems_[{&graph, value.name}];
    if (stem.empty()) {
      const std::string base = symbol_name(value.name);
      stem = base;
      for (int k = 1; !taken_.insert(stem + "[0]").second; ++k)
        stem = fmt::format("{}.{}", base, k);
    }
    std::vector<Dim> out;
    for (int64_t i = 0; i < count.value(); ++i)
      out.push_back(Dim::symbol(fmt::format("{}[{}]", stem, i), !truths));
    return out;
  }

  void infer_graph(Graph& graph) {
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      Value& value = graph.value(id);
      if (!value.is_input && value.producer == kNone && value.type.dims &&
          !to_concrete(*value.type.dims))
        value.type.dims.reset();  // of what was removed: other sizes get its symbols
      if (value.is_constant())
        value.type = Type::tensor(value.constant.dtype(), to_symbolic(value.constant.dims()));
    }
    for (NodeId id : graph.order())
      located([&] { return node_place(graph, graph.node(id)); },
              [&] { infer_node(graph, graph.node(id)); });
  }

  void infer_node(Graph& graph, Node& node) {
    if (--budget_ < 0) fail(Status::kLimit, "nested loops take too many rounds of type inference");
    check_node(node);
    InferContext c;
    c.node = &node;
    for (ValueId id : node.inputs) {
      InferContext::Input input;
      if (id != kNone) {
        const Value& value = graph.value(id);
        input.type = &value.type;
        if (value.is_constant()) input.value = &value.constant;
        if (value.elements) input.elements = &*value.elements;
      }
      c.inputs.push_back(input);
    }
    reset(c);
    c.fresh = [this](const std::string&) { return fresh(); };
    c.infer_subgraph = [&](size_t k, const std::vector<Type>& inputs) {
      return infer_subgraph(graph, node, k, inputs);
    };
    try {
      node.op->infer(c);
    } catch (const UnknownRank& error) {
      if (node.op->control_flow) throw;  // bodies keep what was inferred last
      probe_dtypes(c, error);
    }
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone) set_output(graph, node.outputs[k], k, c);
  }

  static void reset(InferContext& c) {
    c.outputs.assign(c.node->outputs.size(), {});
    c.output_elements.assign(c.node->outputs.size(), std::nullopt);
  }

  /// Learns the outputs' dtypes by trying ranks for the inputs whose rank is asked for; their dims
  /// stay unknown.
  static void probe_dtypes(InferContext& c, const UnknownRank& error) {
    int64_t next = 0;
    int tries = kProbes;
    InferContext trial = c;
    trial.fresh = [&](const std::string&) { return Dim::symbol(fmt::format("?{}", next++)); };
    std::string last;
    if (!try_ranks(trial, error.input, tries, last))
      throw Error(error.status(), fmt::format("{} ({})", error.message(), last));
    reset(c);
    c.outputs = std::move(trial.outputs);
    for (Type& t : c.outputs) t = without_dims(std::move(t));
  }

  /// Infers the node with some rank for the input, and for those asked for after it. `last`: what
  /// was wrong with the one tried last.
  static bool try_ranks(InferContext& trial, size_t input, int& tries, std::string& last) {
    const Type* const unknown = trial.inputs[input].type;
    Type type = *unknown;
    type.dims.emplace();
    trial.inputs[input].type = &type;
    for (; type.dims->size() < kProbedRanks && tries-- > 0; type.dims->push_back(trial.fresh(""))) {
      reset(trial);
      try {
        trial.node->op->infer(trial);
        return true;
      } catch (const UnknownRank& error) {
        if (try_ranks(trial, error.input, tries, last)) return true;
      } catch (const Error& wrong) {  // another rank may do
        last = fmt::format("with {} axes: {}", type.dims->size(), wrong.message());
      }
    }
    trial.inputs[input].type = unknown;
    return false;
  }

  void set_output(Graph& graph, ValueId id, size_t k, InferContext& c) {
    Value& value = graph.value(id);
    const Type& declared = declared_.at(&graph)[id];
    Type type = std::move(c.outputs[k]);
    if (type.kind == Type::Kind::kTensor && type.dtype == DType::kUndefined)
      fail(Status::kInternal, "inference left output {} without a type", k);
    if (declared.kind == Type::Kind::kTensor && declared.dtype != DType::kUndefined)
      check_declared(graph, value, declared, type);
    value.type = std::move(type);
    value.elements = std::move(c.output_elements[k]);
    if (!value.elements) return;
    XC_CHECK(value.type.dims);
    const Dim count = element_count(*value.type.dims);
    if (count == Dim(static_cast<int64_t>(value.elements->size()))) return;
    XC_CHECK(!count.is_constant());
    value.elements.reset();  // sizes of a run: that they fit is not known yet
  }

  /// Inferred dims win over declared ones, which exporters often get wrong, those of graph outputs
  /// included. A declared rank is taken where none can be inferred. Dtypes must agree.
  void check_declared(const Graph& graph, const Value& value, const Type& declared,
                      Type& inferred) {
    if (inferred.kind != declared.kind || inferred.dtype != declared.dtype)
      fail(Status::kInvalidModel, "'{}' is declared as {}, inferred is {}", value.name,
           declared.text(), inferred.text());
    if (inferred.kind != Type::Kind::kTensor || !declared.dims) return;
    if (!inferred.dims) {
      inferred.dims = declared.dims;
      for (Dim& d : *inferred.dims)
        if (!d.is_constant()) d = fresh();
      return;
    }
    // Behind an If exporters declare what its other branch gives; bodies are inferred repeatedly.
    const Node& node = graph.node(value.producer);
    if (&graph != &root_ || node.op->control_flow || agree(*declared.dims, *inferred.dims)) return;
    if (warn_ && ++warnings_ <= kMostWarnings)
      warn_(fmt::format("{}: '{}' is declared as {}, inferred is {}, which counts",
                        node_place(graph, node), value.name, declared.text(), inferred.text()));
  }

  /// Sizes that both know are equal. Another number of symbols says nothing.
  static bool agree(const SymDims& declared, const SymDims& inferred) {
    const bool same_rank = inferred.size() == declared.size();
    for (size_t i = 0; i < declared.size(); ++i)
      if (declared[i].is_constant() &&
          (!same_rank || (inferred[i].is_constant() && !(inferred[i] == declared[i]))))
        return false;
    return true;
  }

  std::vector<Type> infer_subgraph(const Graph& outer, const Node& node, size_t k,
                                   const std::vector<Type>& inputs) {
    Graph& sub = *node.subgraphs.at(k);
    if (inputs.size() != sub.inputs.size())
      fail(Status::kInvalidModel, "subgraph {} has {} inputs, expected {}", k, sub.inputs.size(),
           inputs.size());
    const size_t own = inputs.size() - node.capture_count;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Value& value = sub.value(sub.inputs[i]);
      const Type& declared = declared_.at(&sub)[sub.inputs[i]];
      value.type = inputs[i];
      if (declared.kind == Type::Kind::kTensor && declared.dtype != DType::kUndefined)
        check_declared_input(value, declared);
      if (i >= own) {
        const ValueId captured = node.inputs[node.inputs.size() - node.capture_count + (i - own)];
        value.elements = captured == kNone ? std::nullopt : elements_of(outer.value(captured));
      } else {
        value.elements = input_elements(sub, value);
      }
    }
    infer_graph(sub);
    std::vector<Type> out;
    for (ValueId id : sub.outputs) out.push_back(sub.value(id).type);
    return out;
  }

  static void check_declared_input(const Value& value, const Type& declared) {
    if (declared.kind != value.type.kind || declared.dtype != value.type.dtype)
      fail(Status::kInvalidModel, "subgraph input '{}' is declared as {}, given is {}", value.name,
           declared.text(), value.type.text());
  }

  /// Elements of a captured value; those of a constant are known by content.
  static std::optional<std::vector<Dim>> elements_of(const Value& value) {
    if (value.elements || !value.is_constant()) return value.elements;
    if (!is_integer(value.constant.dtype()) && value.constant.dtype() != DType::kBool)
      return std::nullopt;
    if (value.constant.count() > kMaxKnownElements) return std::nullopt;
    const std::vector<int64_t> v = value.constant.to_int64s();
    return std::vector<Dim>(v.begin(), v.end());
  }

  Graph& root_;
  const std::function<void(const std::string&)>& warn_;
  int warnings_ = 0;
  std::map<const Graph*, std::vector<Type>> declared_;
  std::unordered_set<std::string> taken_;
  std::map<std::pair<const Graph*, std::string>, std::string> element_stems_;
  int64_t next_ = 0;
  int64_t budget_ = kFreeNodes;  ///< nodes that may still be inferred, repeats included
};

}  // namespace

void infer_types(Graph& graph, const std::function<void(const std::string&)>& warn) {
  Driver(graph, warn).run();
}

void infer_types_again(Graph& graph) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    Value& value = graph.value(v);
    if (value.is_input || value.is_constant() || value.producer == kNone) continue;
    value.type.dims.reset();
    value.elements.reset();
  }
  infer_types(graph);
}

namespace {

/// Does every operand broadcast to the result whatever the symbols are?
bool broadcasts_always(const SymDims& dims, const SymDims& result) {
  if (dims.size() > result.size()) return false;
  for (size_t k = 1; k <= dims.size(); ++k) {
    const Dim& d = dims[dims.size() - k];
    if (!(d == Dim(1)) && !(d == result[result.size() - k])) return false;
  }
  return true;
}

/// The number that stands for a dim, or for an element of a shape.
using Number = std::function<std::optional<int64_t>(const Dim&)>;

std::optional<std::vector<Type>> infer_with(const Graph& graph, const Node& node,
                                            const Number& number_of) {
  const auto with_numbers = [&](const std::vector<Dim>& dims) {
    std::vector<Dim> out = dims;
    for (Dim& d : out)
      if (const auto number = number_of(d)) d = *number;
    return out;
  };
  const size_t count = node.inputs.size();
  std::vector<Type> types(count);
  std::vector<std::vector<Dim>> elements(count);
  InferContext c;
  c.node = &node;
  c.inputs.resize(count);
  c.outputs.resize(node.outputs.size());
  c.output_elements.resize(node.outputs.size());
  c.fresh = [](const std::string& hint) { return Dim::symbol(hint); };
  for (size_t k = 0; k < count; ++k) {
    if (node.inputs[k] == kNone) continue;
    const Value& value = graph.value(node.inputs[k]);
    if (!value.type.dims) return std::nullopt;
    types[k] = Type::tensor(value.type.dtype, with_numbers(*value.type.dims));
    c.inputs[k].type = &types[k];
    if (value.is_constant()) {
      c.inputs[k].value = &value.constant;
    } else if (const auto known = known_elements(graph, node, k)) {
      elements[k] = with_numbers(*known);
      c.inputs[k].elements = &elements[k];
    }
  }
  node.op->infer(c);
  return std::move(c.outputs);
}

/// Does inference accept these numbers, and infer what the graph says?
bool accepts(const Graph& graph, const Node& node, const Number& number_of) {
  const auto planned_is = [&](ValueId v, const Type& inferred) {
    const auto& planned = graph.value(v).type.dims;
    if (!planned || !inferred.dims) return true;
    if (planned->size() != inferred.dims->size()) return false;
    return std::equal(planned->begin(), planned->end(), inferred.dims->begin(),
                      [&](const Dim& p, const Dim& d) {
                        const auto number = number_of(p);
                        return !number || !d.is_constant() || d.value() == *number;
                      });
  };
  try {
    const auto types = infer_with(graph, node, number_of);
    for (size_t k = 0; types && k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone && !planned_is(node.outputs[k], (*types)[k])) return false;
    return types.has_value();
  } catch (const Error&) {
    return false;
  }
}

/// Does inference accept symbols that have nothing in common? All apart, the first the least, and
/// the first the most: none of them is to be another's equal, nor to be less. `number_of` gives the
/// number of a dim from those of its symbols.
template <class NumberOf>
bool accepts_apart(const Graph& graph, const Node& node, NumberOf&& number_of) {
  constexpr int64_t kFirst = 1009, kStep = 1000, kLast = 99'991;
  for (const auto& [first, step] : {std::pair(kFirst, kStep), std::pair(kLast, -kStep)}) {
    std::unordered_map<std::string, int64_t> apart;
    const Dim::Lookup lookup = [&](const std::string& symbol) {
      const auto next = first + step * static_cast<int64_t>(apart.size());
      return apart.try_emplace(symbol, next).first->second;
    };
    if (!accepts(graph, node, [&](const Dim& d) { return number_of(d, lookup); })) return false;
  }
  return true;
}

/// Windows over operand 0, the only one whose sizes a run decides: they ask nothing of those but
/// that an axis, padded, is as long as a window. Where the shortest one is, all are.
SizeProof proof_of_windows(const Graph& graph, const Node& node) {
  const auto is_number = [](const Dim& d) { return d.is_constant(); };
  for (size_t k = 1; k < node.inputs.size(); ++k) {
    if (node.inputs[k] == kNone) continue;
    const auto& dims = graph.value(node.inputs[k]).type.dims;
    if (!dims || !std::ranges::all_of(*dims, is_number)) return SizeProof::kNone;
  }
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims || !std::ranges::all_of(*dims, [](const Dim& d) { return d.of_sizes(); }))
    return SizeProof::kNone;
  const auto evaluated = [](const Dim& d, const Dim::Lookup& size) { return d.evaluate(size); };
  if (!accepts_apart(graph, node, evaluated)) return SizeProof::kNone;
  const auto from = [&](int64_t least) {
    const Dim::Lookup all = [&](const std::string&) { return least; };
    const auto is_least = [&](const Dim& d) {
      const Dim above = d.substitute([&](const std::string& symbol) {
        return std::optional<Dim>(Dim::symbol(symbol) + least);
      });
      return above.lower_bound() == d.evaluate(all);
    };
    try {
      return std::ranges::all_of(*dims, is_least) &&
             accepts(graph, node, [&](const Dim& d) { return d.evaluate(all); });
    } catch (const Error&) {
      return false;  // no size at all there: n / n, or a crop of more than there is
    }
  };
  return from(0) ? SizeProof::kAll : from(1) ? SizeProof::kAboveZero : SizeProof::kNone;
}

/// Does inference accept dims that have nothing in common but what they share as polynomials, and
/// the least there are? Functions in them (a minimum of a size and a number) may be equal to others
/// for some sizes and not for others: they stand for themselves, as symbols do.
bool accepts_any_sizes(const Graph& graph, const Node& node) {
  std::map<std::string, Dim> functions;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.inputs[k] == kNone) continue;
    const Value& value = graph.value(node.inputs[k]);
    if (!value.type.dims) return false;
    for (const Dim& d : *value.type.dims)
      if (!d.of_sizes()) return false;
    const auto elements = value.is_constant() ? std::nullopt : known_elements(graph, node, k);
    if (!elements) continue;
    std::map<std::string, Dim> in_elements;  // whose sign may say something else
    for (const Dim& e : *elements)
      if (!e.of_sizes() || (with_opaque_functions(e, in_elements), !in_elements.empty()))
        return false;
  }
  // A dim that is negative ends a run before.
  const auto polynomial = [&](const Dim& d, const Dim::Lookup& size) {
    const auto number = with_opaque_functions(d, functions).evaluate(size);
    return number ? std::optional(std::max<int64_t>(*number, 0)) : number;
  };
  if (!accepts_apart(graph, node, polynomial)) return false;
  const Dim::Lookup ones = [](const std::string&) { return 1; };
  const Dim::Lookup least = [&](const std::string& symbol) -> std::optional<int64_t> {
    const auto function = functions.find(symbol);
    return function == functions.end() ? 0 : function->second.lower_bound();
  };
  const auto bounded = [](const auto& named) { return named.second.lower_bound().has_value(); };
  return std::ranges::all_of(functions, bounded) &&
         accepts(graph, node, [&](const Dim& d) { return polynomial(d, ones); }) &&
         accepts(graph, node, [&](const Dim& d) { return polynomial(d, least); });
}

bool has_windows(const OpDef& op) {
  constexpr std::string_view kOps[] = {"Conv", "MaxPool", "AveragePool", "LpPool"};
  return op.domain.empty() && std::ranges::find(kOps, op.name) != std::end(kOps);
}

}  // namespace

SizeProof proof_of_sizes(const Graph& graph, const Node& node) {
  const auto dims_of = [&](ValueId v) -> const std::optional<SymDims>& {
    return graph.value(v).type.dims;
  };
  const auto is_number = [](const Dim& d) { return d.is_constant(); };
  const auto all_fit = [&](auto&& holds) {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return v == kNone || (dims_of(v) && holds(*dims_of(v))); });
  };
  if (all_fit([&](const SymDims& d) { return std::all_of(d.begin(), d.end(), is_number); }))
    return SizeProof::kAll;
  if (node.op->scalar) {
    const auto& result = dims_of(node.outputs[0]);
    if (result && all_fit([&](const SymDims& d) { return broadcasts_always(d, *result); }))
      return SizeProof::kAll;
  }
  if (has_windows(*node.op)) return proof_of_windows(graph, node);
  return accepts_any_sizes(graph, node) ? SizeProof::kAll : SizeProof::kNone;
}

std::optional<std::vector<Type>> infer_for_sizes(const Graph& graph, const Node& node,
                                                 const Dim::Lookup& size) {
  return infer_with(graph, node, [&](const Dim& d) { return d.evaluate(size); });
}

std::vector<Type> infer_concrete(const Node& node, const std::vector<Tensor>& inputs,
                                 OpenSizes open) {
  return located(
      [&] { return node_place(node); },
      [&] {
        check_node(node);
        std::vector<Type> types;
        types.reserve(inputs.size());
        for (const Tensor& t : inputs)
          types.push_back(t ? Type::tensor(t.dtype(), to_symbolic(t.dims())) : Type{});
        InferContext c;
        c.node = &node;
        for (size_t i = 0; i < inputs.size(); ++i) {
          const Tensor* value = open == OpenSizes::kKept ? nullptr : &inputs[i];
          c.inputs.push_back(inputs[i] ? InferContext::Input{&types[i], value, nullptr}
                                       : InferContext::Input{});
        }
        c.outputs.resize(node.outputs.size());
        c.output_elements.resize(node.outputs.size());
        int64_t fresh = 0;
        c.fresh = [&](const std::string& hint) -> Dim {
          if (open != OpenSizes::kRefused) return Dim::symbol(fmt::format("u{}", fresh++));
          fail(Status::kUnsupported, "unsupported: the size of {} follows from a run only", hint);
        };
        c.infer_subgraph = [](size_t, const std::vector<Type>&) -> std::vector<Type> {
          fail(Status::kUnsupported, "unsupported: concrete inference of control flow");
        };
        node.op->infer(c);
        for (const Type& t : c.outputs)
          if (open == OpenSizes::kRefused && t.kind == Type::Kind::kTensor && t.dims &&
              !to_concrete(*t.dims))
            fail(Status::kUnsupported, "unsupported: sizes {} are not numbers", t.text());
        return std::move(c.outputs);
      });
}

std::vector<Tensor> run_reference(const Node& node, const std::vector<Tensor>& inputs) {
  const std::vector<Type> types = infer_concrete(node, inputs);
  return located(
      [&] { return node_place(node); },
      [&] {
        if (!node.op->reference)
          fail(Status::kUnsupported, "unsupported: {} has no reference kernel", node.op->name);
        ReferenceContext c;
        c.node = &node;
        for (const Tensor& t : inputs) c.inputs.push_back(t ? t.view() : TensorView{});
        std::vector<Tensor> outputs;
        for (size_t k = 0; k < types.size(); ++k) {
          if (types[k].kind != Type::Kind::kTensor)
            fail(Status::kUnsupported, "unsupported: outputs of type {}", types[k].text());
          outputs.push_back(node.outputs[k] == kNone
                                ? Tensor{}
                                : Tensor(types[k].dtype, *to_concrete(*types[k].dims)));
        }
        for (const Tensor& t : outputs) c.outputs.push_back(t ? t.view() : TensorView{});
        if (!walks_for_nothing(c)) node.op->reference(c);
        return outputs;
      });
}

}  // namespace xc
