#include "formats/onnx/import.h"

#include <algorithm>

#include "formats/onnx/attributes.h"
#include "formats/onnx/flex_attention.h"
#include "formats/onnx/functions.h"
#include "formats/onnx/op_map.h"
#include "formats/onnx/op_versions.h"
#include "formats/onnx/scope.h"
#include "formats/onnx/subgraph_names.h"
#include "formats/onnx/types.h"
#include "formats/utf8.h"
#include "ops/op.h"
#include "ops/registry.h"

namespace xc::onnx {
namespace {

std::string place(const NodeProto& node) {
  const Bytes shown = !node.name.empty()      ? node.name
                      : !node.outputs.empty() ? node.outputs.front()
                                              : Bytes();
  return fmt::format("node '{}' ({})", printable(shown), printable(node.op));
}

class Importer {
 public:
  Importer(const Source& source, const std::shared_ptr<Buffer>& file, const LoadOptions& options)
      : source_(source), model_(decode_model(source)), functions_(model_),
        tensors_(source, file, options.base_dir, options.copy_weights) {
    functions_.check_expansion(model_, source.limits);
    check_opsets(model_.opsets);
    for (const FunctionProto& f : model_.functions) check_opsets(f.opsets);
  }

  Graph run() {
    Graph graph;
    TypeHints hints(graph);
    Scope scope;
    scope.graph = &graph;
    scope.hints = &hints;
    scope.opsets = &model_.opsets;
    import_graph(scope, model_.graph);
    return graph;
  }

 private:
  static void check_opsets(const Opsets& opsets) {
    for (const auto& [domain, version] : opsets) {
      const int newest = newest_opset(domain);
      if (newest != 0 && version > newest)
        fail(Status::kUnsupported, "opset {} of {} is newer than {}, the newest this version of xc "
             "knows; re-export the model with an older opset",
             version, domain.empty() ? "ai.onnx" : domain, newest);
    }
  }

  // ---- graphs -----------------------------------------------------------------------------------

  void import_graph(Scope& scope, const GraphProto& proto) {
    Graph& graph = *scope.graph;
    graph.name = proto.name;
    std::unordered_map<Bytes, Bytes> declared;  // name -> TypeProto
    for (const ValueInfoProto& info : proto.value_infos) declared.emplace(info.name, info.type);
    for (const ValueInfoProto& info : proto.outputs)
      if (!info.type.empty()) declared[info.name] = info.type;

    std::unordered_map<Bytes, const TensorProto*> weights;
    for (const TensorProto& t : proto.initializers)
      if (!weights.emplace(t.name, &t).second)
        fail(Status::kInvalidModel, "initializer '{}' is given twice", printable(t.name));
    // Older files list initializers among the inputs; a default that a caller might override is
    // taken as a constant too.
    for (const ValueInfoProto& info : proto.inputs)
      if (!weights.contains(info.name)) add_input(scope, info);
    for (const TensorProto& t : proto.initializers) {
      Tensor tensor = located(fmt::format("initializer '{}'", printable(t.name)),
                              [&] { return tensors_.dense(t.body); });
      define_weight(scope, t.name, std::move(tensor));
    }
    for (const TensorProto& t : proto.sparse_initializers) {
      Tensor tensor = located(fmt::format("initializer '{}'", printable(t.name)),
                              [&] { return tensors_.sparse(t.body); });
      define_weight(scope, t.name, std::move(tensor));
    }
    // All names of the file are taken before conversions make up new ones.
    for (const NodeProto& node : proto.nodes)
      for (const Bytes name : node.outputs) {
        if (name.empty()) continue;
        const auto it = declared.find(name);
        const Type type = it == declared.end() || it->second.empty()
                              ? Type{}
                              : decode_type(source_, it->second, std::string(name), true);
        if (scope.visible(name))
          fail(Status::kInvalidModel, "value '{}' is defined twice", printable(name));
        scope.define(name, graph.add_value(std::string(name), type));
      }

    for (const NodeProto* node : execution_order(proto.nodes)) import_node(scope, *node, 0);

    for (const ValueInfoProto& output : proto.outputs) {
      const ValueId id = scope.lookup(output.name);
      if (id == kNone)
        fail(Status::kInvalidModel, "graph output '{}' has no value", printable(output.name));
      graph.outputs.push_back(id);
    }
  }

  void add_input(Scope& scope, const ValueInfoProto& info) {
    const std::string name(info.name);
    Type type = info.type.empty() ? Type{} : decode_type(source_, info.type, name, true);
    // The declared dims of a subgraph's input are no promise: state may change its size.
    if (scope.parent) type.dims.reset();
    if (scope.visible(info.name))
      fail(Status::kInvalidModel, "value '{}' is defined twice", printable(name));
    scope.define(info.name, scope.graph->add_input(name, std::move(type)));
  }

  /// A weight may hide one of an enclosing graph; exporters reuse their names.
  void define_weight(Scope& scope, Bytes name, Tensor tensor) {
    if (scope.names.contains(name))
      fail(Status::kInvalidModel, "value '{}' is defined twice", printable(name));
    scope.names.emplace(name, scope.graph->add_constant(std::string(name), std::move(tensor)));
  }

  // ---- nodes ------------------------------------------------------------------------------------

  void import_node(Scope& scope, const NodeProto& proto, int depth) {
    located(place(proto), [&] {
      const bool any_output =
          std::any_of(proto.outputs.begin(), proto.outputs.end(), [](Bytes b) { return !b.empty(); });
      if (!any_output) fail(Status::kInvalidModel, "the node has no outputs");
      if (const FunctionProto* function = functions_.find(proto))
        call_function(scope, proto, *function, depth);
      else if (proto.op == "Constant" && proto.domain.empty())
        import_constant(scope, proto);
      else
        import_op(scope, proto);
    });
  }

  int64_t opset_of(const Scope& scope, std::string_view domain) const {
    if (const auto it = scope.opsets->find(domain); it != scope.opsets->end()) return it->second;
    fail(Status::kInvalidModel, "domain '{}' is used but not imported",
         domain.empty() ? "ai.onnx" : printable(domain));
  }

  /// Checks a node against the schema of the version it means.
  void check_version(const NodeProto& proto, const OpVersion& version) const {
    const auto check_count = [&](size_t n, int low, int high, std::string_view what) {
      const auto count = static_cast<int64_t>(n);
      if (count < low || (high >= 0 && count > high))
        fail(Status::kInvalidModel, "{} version {} takes {} to {} {}, the node has {}", proto.op,
             version.since, low, high < 0 ? "any number of" : std::to_string(high), what, count);
    };
    // Absent values at the end may be written or left out.
    const auto used = [](const std::vector<Bytes>& names) {
      size_t n = names.size();
      while (n > 0 && names[n - 1].empty()) --n;
      return n;
    };
    check_count(std::max<size_t>(used(proto.inputs), std::min<size_t>(
                    proto.inputs.size(), static_cast<size_t>(version.min_inputs))),
                version.min_inputs, version.max_inputs, "inputs");
    check_count(std::max<size_t>(used(proto.outputs), std::min<size_t>(
                    proto.outputs.size(), static_cast<size_t>(version.min_outputs))),
                version.min_outputs, version.max_outputs, "outputs");
    for (size_t i = 0; i < proto.attributes.size(); ++i)
      for (size_t j = 0; j < i && proto.attributes.size() <= 64; ++j)
        if (proto.attributes[i].name == proto.attributes[j].name)
          fail(Status::kInvalidModel, "attribute '{}' is given twice",
               printable(proto.attributes[i].name));
  }

  void check_attribute(const NodeProto& proto, const OpVersion& version,
                       const AttributeProto& attribute) const {
    const AttributeRow* row = version.find(attribute.name);
    if (!row) {
      std::string others;
      for (const OpVersion& v : op_versions(proto.domain, proto.op))
        if (v.find(attribute.name))
          others += (others.empty() ? "" : ", ") + std::to_string(v.since);
      fail(Status::kInvalidModel, "{} version {} has no attribute '{}'{}", proto.op, version.since,
           printable(attribute.name),
           others.empty() ? "" : fmt::format(" (versions {} have it)", others));
    }
    const AttributeType type = type_of(source_, attribute);
    if (row->type != type)
      fail(Status::kInvalidModel, "attribute '{}' is of type {}, expected {}",
           printable(attribute.name), name(type), name(row->type));
  }

  void import_op(Scope& scope, const NodeProto& proto) {
    Graph& graph = *scope.graph;
    const std::string domain(proto.domain);
    const OpVersion* version = nullptr;
    const bool standard = !op_versions(domain, proto.op).empty();
    if (standard) {
      version = &op_version(domain, proto.op, opset_of(scope, domain));
      check_version(proto, *version);
    } else if (!find_op(proto.op, domain)) {
      op_version(domain, proto.op, 0);  // fails and says why
    }

    Draft draft{.graph = graph, .hints = *scope.hints, .op = std::string(proto.op),
                .domain = domain, .version = version ? version->since : 1, .name = {},
                .inputs = {}, .outputs = {}, .attrs = {}, .subgraphs = {}};
    for (const Bytes name : proto.outputs) draft.outputs.push_back(scope.lookup(name));
    for (const ValueId id : draft.outputs)
      if (id != kNone && draft.name.empty()) draft.name = graph.value(id).name;
    if (!proto.name.empty()) draft.name = scope.prefix + std::string(proto.name);
    for (const Bytes name : proto.inputs) draft.inputs.push_back(scope.lookup(name));

    std::map<std::string_view, const GraphProto*> graphs;
    for (const AttributeProto& written : proto.attributes) {
      const auto attribute = resolve(written, scope.environment);
      if (!attribute) continue;
      if (version) check_attribute(proto, *version, *attribute);
      if (type_of(source_, *attribute) == AttributeType::kGraph) {
        if (!attribute->graph)
          fail(Status::kInvalidModel, "attribute '{}' has no graph", printable(attribute->name));
        graphs[attribute->name] = attribute->graph.get();
      } else {
        draft.attrs.set(std::string(attribute->name),
                        located(fmt::format("{}, attribute '{}'", place(proto),
                                            printable(attribute->name)),
                                [&] { return decode_payload(source_, *attribute, tensors_); }));
      }
    }
    if (version)
      for (const AttributeRow& row : version->attributes)
        if (row.required && !draft.attrs.has(row.name) && !graphs.contains(row.name))
          fail(Status::kInvalidModel, "attribute '{}' is missing", row.name);
    if (proto.op == "FlexAttention" && standard) {
      const auto modifier = [&](std::string_view key) -> ModifierFn {
        const auto it = graphs.find(key);
        if (it == graphs.end()) return {};
        return [this, &scope, &draft, body = it->second](ValueId x) {
          return inline_graph(scope, *body, x, draft.name + "/");
        };
      };
      return expand_flex_attention(draft, modifier("score_mod"), modifier("prob_mod"));
    }
    if (!graphs.empty()) import_subgraphs(scope, draft, graphs);

    normalise(draft);
    if (!draft.finished) add_node(draft);
  }

  void add_node(Draft& draft) {
    const OpDef* op = find_op(draft.op, draft.domain);
    if (!op)
      fail(Status::kUnsupported, "operator {}{}{} is not implemented", draft.domain,
           draft.domain.empty() ? "" : ".", draft.op);
    const auto trim = [](std::vector<ValueId>& ids, int least) {
      while (!ids.empty() && ids.back() == kNone && static_cast<int>(ids.size()) > least)
        ids.pop_back();
    };
    if (draft.capture_count == 0) trim(draft.inputs, op->min_inputs);
    trim(draft.outputs, op->min_outputs);
    Node node;
    node.op = op;
    node.name = std::move(draft.name);
    node.inputs = std::move(draft.inputs);
    node.outputs = std::move(draft.outputs);
    node.attrs = std::move(draft.attrs);
    node.subgraphs = std::move(draft.subgraphs);
    node.capture_count = draft.capture_count;
    check_node(node);
    draft.graph.add_node(std::move(node));
  }

  void import_subgraphs(Scope& scope, Draft& draft,
                        const std::map<std::string_view, const GraphProto*>& graphs) {
    std::vector<std::unique_ptr<Scope>> scopes;
    std::vector<std::unique_ptr<TypeHints>> hints;
    std::vector<Scope*> pointers;
    for (const std::string_view name : subgraph_names(draft.op)) {
      const auto it = graphs.find(name);
      if (it == graphs.end())
        fail(Status::kUnsupported, "{} with graph attributes other than '{}'", draft.op, name);
      auto graph = std::make_shared<Graph>();
      auto inner = std::make_unique<Scope>();
      hints.push_back(std::make_unique<TypeHints>(*graph));
      inner->graph = graph.get();
      inner->hints = hints.back().get();
      inner->parent = &scope;
      inner->opsets = scope.opsets;
      inner->environment = scope.environment;
      import_graph(*inner, *it->second);
      draft.subgraphs.push_back(std::move(graph));
      pointers.push_back(inner.get());
      scopes.push_back(std::move(inner));
    }
    if (graphs.size() != pointers.size())
      fail(Status::kUnsupported, "{} with {} graph attributes", draft.op, graphs.size());
    const std::vector<ValueId> captured = join_captures(pointers);
    draft.inputs.insert(draft.inputs.end(), captured.begin(), captured.end());
    draft.capture_count = static_cast<uint32_t>(captured.size());
  }

  // ---- constants --------------------------------------------------------------------------------

  void import_constant(Scope& scope, const NodeProto& proto) {
    const OpVersion& version = op_version("", "Constant", opset_of(scope, ""));
    check_version(proto, version);
    std::optional<Tensor> tensor;
    for (const AttributeProto& written : proto.attributes) {
      const auto attribute = resolve(written, scope.environment);
      if (!attribute) continue;
      check_attribute(proto, version, *attribute);
      if (tensor) fail(Status::kInvalidModel, "the constant has two values");
      tensor = constant_of(decode_payload(source_, *attribute, tensors_));
    }
    if (!tensor) fail(Status::kInvalidModel, "the constant has no value");
    set_constant(*scope.graph, scope.lookup(proto.outputs[0]), std::move(*tensor));
  }

  /// The value was added before, as every name of the file is.
  static void set_constant(Graph& graph, ValueId id, Tensor tensor) {
    Value& value = graph.value(id);
    const Type type = Type::tensor(tensor.dtype(), to_symbolic(tensor.dims()));
    if (value.type.dtype != DType::kUndefined && value.type.dtype != tensor.dtype())
      fail(Status::kInvalidModel, "'{}' is declared as {}, the constant is {}", printable(value.name),
           value.type.text(), type.text());
    value.type = type;
    value.constant = std::move(tensor);
  }

  static Tensor constant_of(const Attr& attr) {
    switch (kind_of(attr)) {
      case AttrKind::kTensor: return std::get<Tensor>(attr);
      case AttrKind::kInt: return Tensor::scalar(std::get<int64_t>(attr));
      case AttrKind::kFloat: return Tensor::scalar(static_cast<float>(std::get<double>(attr)));
      case AttrKind::kString: return Tensor::of<std::string>({std::get<std::string>(attr)}, {});
      case AttrKind::kInts: return Tensor::of(std::get<std::vector<int64_t>>(attr));
      case AttrKind::kFloats: {
        const auto& values = std::get<std::vector<double>>(attr);
        return Tensor::of(std::vector<float>(values.begin(), values.end()));
      }
      case AttrKind::kStrings: return Tensor::of(std::get<std::vector<std::string>>(attr));
    }
    fail(Status::kInternal, "unknown attribute kind");
  }

  // ---- functions --------------------------------------------------------------------------------

  void call_function(Scope& caller, const NodeProto& proto, const FunctionProto& function,
                     int depth) {
    Graph& graph = *caller.graph;
    if (proto.inputs.size() > function.inputs.size() || proto.outputs.size() > function.outputs.size())
      fail(Status::kInvalidModel, "function '{}' has {} inputs and {} outputs, the call {} and {}",
           printable(function.name), function.inputs.size(), function.outputs.size(),
           proto.inputs.size(), proto.outputs.size());
    const AttributeEnvironment environment = call_environment(caller, proto, function);

    Scope scope;
    scope.graph = &graph;
    scope.hints = caller.hints;
    scope.opsets = &function.opsets;
    scope.environment = &environment;
    const Bytes stem = proto.name.empty() ? proto.op : proto.name;
    scope.prefix = caller.prefix + std::string(stem) + "/";
    // Names grow with depth; only their ends are told apart anyway.
    if (scope.prefix.size() > 1024) scope.prefix = std::string(stem) + "/";

    for (size_t i = 0; i < function.inputs.size(); ++i)
      scope.define(function.inputs[i],
                   i < proto.inputs.size() ? caller.lookup(proto.inputs[i]) : kNone);
    // Outputs of the body that are outputs of the call are the caller's values themselves.
    std::unordered_map<Bytes, ValueId> results;
    for (size_t i = 0; i < proto.outputs.size(); ++i)
      if (!proto.outputs[i].empty())
        results.emplace(function.outputs[i], caller.lookup(proto.outputs[i]));
    import_inlined(scope, function.nodes, results, depth + 1);

    // What remains: an output that is an input, or one value under two names.
    for (size_t i = 0; i < proto.outputs.size(); ++i) {
      if (proto.outputs[i].empty()) continue;
      const ValueId wanted = caller.lookup(proto.outputs[i]);
      const ValueId have = scope.lookup(function.outputs[i]);
      if (have == wanted) continue;
      if (have == kNone)
        fail(Status::kInvalidModel, "output '{}' of function '{}' has no value",
             printable(function.outputs[i]), printable(function.name));
      Node node;
      node.op = &get_op("Identity");
      node.name = graph.value(wanted).name;
      node.inputs = {have};
      node.outputs = {wanted};
      graph.add_node(std::move(node));
    }
  }

  /// Nodes that join the graph of their caller under names of their own; `results` are outputs that
  /// have a value already.
  void import_inlined(Scope& scope, const std::vector<NodeProto>& nodes,
                      const std::unordered_map<Bytes, ValueId>& results, int depth) {
    Graph& graph = *scope.graph;
    for (const NodeProto& node : nodes)
      for (const Bytes name : node.outputs) {
        if (name.empty()) continue;
        const auto it = results.find(name);
        scope.define(name, it != results.end()
                               ? it->second
                               : graph.add_value(graph.fresh_name(scope.prefix + std::string(name))));
      }
    for (const NodeProto* node : execution_order(nodes)) import_node(scope, *node, depth);
  }

  /// A graph attribute of one input and one output, written out in the graph around it.
  ValueId inline_graph(Scope& caller, const GraphProto& body, ValueId input,
                       const std::string& prefix) {
    if (body.inputs.size() != 1 || body.outputs.size() != 1)
      fail(Status::kInvalidModel, "graph '{}' has {} inputs and {} outputs, expected one of each",
           printable(body.name), body.inputs.size(), body.outputs.size());
    Scope scope;
    scope.graph = caller.graph;
    scope.hints = caller.hints;
    scope.parent = &caller;
    scope.opsets = caller.opsets;
    scope.environment = caller.environment;
    scope.prefix = prefix + std::string(body.name) + "/";
    scope.define(body.inputs[0].name, input);
    for (const TensorProto& t : body.initializers)
      scope.names.emplace(t.name, scope.graph->add_constant(
                                      scope.graph->fresh_name(scope.prefix + std::string(t.name)),
                                      tensors_.dense(t.body)));
    import_inlined(scope, body.nodes, {}, 0);
    return scope.lookup(body.outputs[0].name);
  }

  static AttributeEnvironment call_environment(const Scope& caller, const NodeProto& proto,
                                               const FunctionProto& function) {
    AttributeEnvironment out;
    for (const AttributeProto& attribute : function.defaults) out[attribute.name] = attribute;
    for (const AttributeProto& written : proto.attributes) {
      const bool known =
          out.contains(written.name) ||
          std::find(function.attributes.begin(), function.attributes.end(), written.name) !=
              function.attributes.end();
      if (!known)
        fail(Status::kInvalidModel, "function '{}' has no attribute '{}'", printable(function.name),
             printable(written.name));
      if (const auto attribute = resolve(written, caller.environment))
        out[written.name] = *attribute;
    }
    return out;
  }

  const Source& source_;
  const ModelProto model_;
  const Functions functions_;
  TensorReader tensors_;
};

}  // namespace

Graph import_model(const std::shared_ptr<Buffer>& file, const LoadOptions& options) {
  const Source source{.file = Bytes(reinterpret_cast<const char*>(file->data()),
                                    static_cast<size_t>(file->bytes())),
                      .limits = options.limits};
  return Importer(source, file, options).run();
}

}  // namespace xc::onnx
