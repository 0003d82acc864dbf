#include <unordered_set>

#include "base/large_stack.h"
#include "base/utf8.h"
#include "formats/onnx/import.h"
#include "formats/onnx/importer.h"
#include "formats/onnx/subgraph_names.h"
#include "formats/onnx/types.h"
#include "ops/containers.h"

namespace xc::onnx {
namespace {

void check_opsets(const Opsets& opsets) {
  for (const auto& [domain, version] : opsets) {
    const int newest = newest_opset(domain);
    if (newest != 0 && version > newest)
      fail(Status::kUnsupported,
           "opset {} of {} is newer than {}, the newest this version of xc "
           "knows; re-export the model with an older opset",
           version, domain.empty() ? "ai.onnx" : domain, newest);
  }
}

}  // namespace

Importer::Importer(const Source& source, const std::shared_ptr<Buffer>& file,
                   const LoadOptions& options)
    : source_(source),
      operators_(options.operators),
      model_(decode_model(source)),
      functions_(model_),
      tensors_(source, file, options.base_dir, options.copy_weights) {
  functions_.check_expansion(model_, source.limits);
  check_opsets(model_.opsets);
  for (const FunctionProto& f : model_.functions) check_opsets(f.opsets);
}

Graph Importer::run() {
  Graph graph;
  TypeHints hints(graph);
  Scope scope;
  scope.graph = &graph;
  scope.hints = &hints;
  scope.opsets = &model_.opsets;
  import_graph(scope, model_.graph);
  return graph;
}

void Importer::import_graph(Scope& scope, const GraphProto& proto) {
  Graph& graph = *scope.graph;
  graph.name = proto.name;
  std::unordered_map<Bytes, Bytes> declared;  // name -> TypeProto
  for (const ValueInfoProto& info : proto.value_infos) declared.emplace(info.name, info.type);
  for (const ValueInfoProto& info : proto.outputs)
    if (!info.type.empty()) declared[info.name] = info.type;

  std::unordered_set<Bytes> weights;
  for (const auto* list : {&proto.initializers, &proto.sparse_initializers})
    for (const TensorProto& t : *list)
      if (!weights.insert(t.name).second)
        fail(Status::kInvalidModel, "initializer '{}' is given twice", printable(t.name));
  // Older files list initializers among the inputs; a default that a caller might override is
  // taken as a constant too.
  for (const ValueInfoProto& info : proto.inputs)
    if (!weights.contains(info.name)) add_input(scope, info);
  read_weights(proto, [&](Bytes name, Tensor tensor) {
    scope.check_new(name);
    scope.names.emplace(name, graph.add_constant(std::string(name), std::move(tensor)));
  });
  // All names of the file are taken before conversions make up new ones.
  for (const NodeProto& node : proto.nodes)
    for (const Bytes name : node.outputs) {
      if (name.empty()) continue;
      const auto it = declared.find(name);
      const Type type = it == declared.end() || it->second.empty()
                            ? Type{}
                            : decode_type(source_, it->second, std::string(name));
      scope.check_unused(name);
      scope.define(name, graph.add_value(std::string(name), type));
      scope.ahead.insert(name);
    }

  import_nodes(scope, proto.nodes, 0);

  for (const ValueInfoProto& output : proto.outputs) {
    const ValueId id = scope.lookup(output.name);
    if (id == kNone)
      fail(Status::kInvalidModel, "graph output '{}' has no value", printable(output.name));
    graph.outputs.push_back(id);
  }
}

void Importer::import_nodes(Scope& scope, const std::vector<NodeProto>& nodes, int depth) {
  for (const NodeProto* node : execution_order(nodes)) {
    import_node(scope, *node, depth);
    for (const Bytes name : node->outputs) scope.ahead.erase(name);
  }
}

void Importer::add_input(Scope& scope, const ValueInfoProto& info) {
  const std::string name(info.name);
  Type type = info.type.empty() ? Type{} : decode_type(source_, info.type, name);
  // The declared dims of a subgraph's input are no promise: state may change its size. Nor are
  // those of the elements of containers, of which files often say that they are scalars.
  if (scope.parent) type.dims.reset();
  if (type.element) type.element = std::make_shared<const Type>(without_dims(*type.element));
  scope.check_new(info.name);
  scope.names.emplace(info.name, scope.graph->add_input(name, std::move(type)));
}

void Importer::read_weights(const GraphProto& proto,
                            const std::function<void(Bytes, Tensor)>& define) {
  const auto read = [&](const TensorProto& t, auto decode) {
    define(t.name, located(fmt::format("initializer '{}'", printable(t.name)),
                           [&] { return decode(t.body); }));
  };
  for (const TensorProto& t : proto.initializers)
    read(t, [&](Bytes body) { return tensors_.dense(body); });
  for (const TensorProto& t : proto.sparse_initializers)
    read(t, [&](Bytes body) { return tensors_.sparse(body); });
}

void Importer::import_subgraphs(Scope& scope, Draft& draft,
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

Graph import_model(const std::shared_ptr<Buffer>& file, const LoadOptions& options) {
  const Source source{.file = Bytes(reinterpret_cast<const char*>(file->data()),
                                    static_cast<size_t>(file->bytes())),
                      .limits = options.limits};
  // Calls of functions are written out by recursion, as deep as Limits::function_depth.
  return on_large_stack([&] { return Importer(source, file, options).run(); });
}

}  // namespace xc::onnx
