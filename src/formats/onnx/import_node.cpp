#include <algorithm>

#include "base/utf8.h"
#include "formats/onnx/flex_attention.h"
#include "formats/onnx/importer.h"
#include "formats/onnx/op_map.h"
#include "ops/custom.h"
#include "ops/op.h"
#include "ops/registry.h"

namespace xc::onnx {
namespace {

/// Checks a node against the schema of the version it means.
void check_version(const NodeProto& proto, const OpVersion& version) {
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
  check_count(std::max<size_t>(
                  used(proto.inputs),
                  std::min<size_t>(proto.inputs.size(), static_cast<size_t>(version.min_inputs))),
              version.min_inputs, version.max_inputs, "inputs");
  check_count(std::max<size_t>(
                  used(proto.outputs),
                  std::min<size_t>(proto.outputs.size(), static_cast<size_t>(version.min_outputs))),
              version.min_outputs, version.max_outputs, "outputs");
  for (size_t i = 0; i < proto.attributes.size(); ++i)
    for (size_t j = 0; j < i && proto.attributes.size() <= 64; ++j)
      if (proto.attributes[i].name == proto.attributes[j].name)
        fail(Status::kInvalidModel, "attribute '{}' is given twice",
             printable(proto.attributes[i].name));
}

void add_node(Draft& draft, const OpLibrary* operators) {
  const OpDef* op = find_op(draft.op, draft.domain, operators);
  if (!op)
    fail(Status::kUnsupported, "operator {}{}{} is not implemented", draft.domain,
         draft.domain.empty() ? "" : ".", draft.op);
  const auto trim = [](std::vector<ValueId>& ids, int least) {
    while (!ids.empty() && ids.back() == kNone && static_cast<int>(ids.size()) > least)
      ids.pop_back();
  };
  // The first inputs of control flow are what they are by their places, absent ones too.
  if (!op->control_flow) trim(draft.inputs, op->min_inputs);
  if (op->max_outputs >= 0) trim(draft.outputs, op->min_outputs);
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

/// The value was added before, as every name of the file is.
void set_constant(Graph& graph, ValueId id, Tensor tensor) {
  Value& value = graph.value(id);
  const Type type = Type::tensor(tensor.dtype(), to_symbolic(tensor.dims()));
  if (value.type.dtype != DType::kUndefined && value.type.dtype != tensor.dtype())
    fail(Status::kInvalidModel, "'{}' is declared as {}, the constant is {}", printable(value.name),
         value.type.text(), type.text());
  value.type = type;
  value.constant = std::move(tensor);
}

Tensor constant_of(const Attr& attr) {
  switch (kind_of(attr)) {
    case AttrKind::kTensor:
      return std::get<Tensor>(attr);
    case AttrKind::kInt:
      return Tensor::scalar(std::get<int64_t>(attr));
    case AttrKind::kFloat:
      return Tensor::scalar(static_cast<float>(std::get<double>(attr)));
    case AttrKind::kString:
      return Tensor::of<std::string>({std::get<std::string>(attr)}, {});
    case AttrKind::kInts:
      return Tensor::of(std::get<std::vector<int64_t>>(attr));
    case AttrKind::kFloats: {
      const auto& values = std::get<std::vector<double>>(attr);
      return Tensor::of(std::vector<float>(values.begin(), values.end()));
    }
    case AttrKind::kStrings:
      return Tensor::of(std::get<std::vector<std::string>>(attr));
  }
  fail(Status::kInternal, "unknown attribute kind");
}

}  // namespace

void Importer::import_node(Scope& scope, const NodeProto& proto, int depth) {
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

int64_t Importer::opset_of(const Scope& scope, std::string_view domain) const {
  if (const auto it = scope.opsets->find(domain); it != scope.opsets->end()) return it->second;
  fail(Status::kInvalidModel, "domain '{}' is used but not imported",
       domain.empty() ? "ai.onnx" : printable(domain));
}

void Importer::check_attribute(const NodeProto& proto, const OpVersion& version,
                               const AttributeProto& attribute) const {
  const AttributeRow* row = version.find(attribute.name);
  if (!row) {
    std::string others;
    for (const OpVersion& v : op_versions(proto.domain, proto.op))
      if (v.find(attribute.name)) others += (others.empty() ? "" : ", ") + std::to_string(v.since);
    fail(Status::kInvalidModel, "{} version {} has no attribute '{}'{}", proto.op, version.since,
         printable(attribute.name),
         others.empty() ? "" : fmt::format(" (versions {} have it)", others));
  }
  const AttributeType type = type_of(source_, attribute);
  if (row->type != type)
    fail(Status::kInvalidModel, "attribute '{}' is of type {}, expected {}",
         printable(attribute.name), name(type), name(row->type));
}

std::map<std::string_view, const GraphProto*> Importer::import_attributes(const Scope& scope,
                                                                          const NodeProto& proto,
                                                                          const OpVersion* version,
                                                                          Attrs& attrs) {
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
      attrs.set(std::string(attribute->name),
                located(fmt::format("{}, attribute '{}'", place(proto), printable(attribute->name)),
                        [&] { return decode_payload(source_, *attribute, tensors_); }));
    }
  }
  if (version)
    for (const AttributeRow& row : version->attributes)
      if (row.required && !attrs.has(row.name) && !graphs.contains(row.name))
        fail(Status::kInvalidModel, "attribute '{}' is missing", row.name);
  return graphs;
}

void Importer::import_op(Scope& scope, const NodeProto& proto) {
  Graph& graph = *scope.graph;
  const std::string domain(proto.domain);
  const OpVersion* version = nullptr;
  const bool of_host = operators_ && operators_->find(proto.op, domain);
  const bool standard = !of_host && !op_versions(domain, proto.op).empty();
  if (standard) {
    version = &op_version(domain, proto.op, opset_of(scope, domain));
    check_version(proto, *version);
  } else if (const OpDef* op = find_op(proto.op, domain, operators_); !op) {
    fail_unknown_op(printable(proto.op), printable(domain));
  } else if (as_custom(*op)) {
    opset_of(scope, domain);  // any version, but imported
  }

  Draft draft{.graph = graph,
              .hints = *scope.hints,
              .op = std::string(proto.op),
              .domain = domain,
              .version = version ? version->since : 1,
              .name = {},
              .inputs = {},
              .outputs = {},
              .attrs = {},
              .subgraphs = {}};
  for (const Bytes name : proto.outputs) draft.outputs.push_back(scope.lookup(name));
  for (const ValueId id : draft.outputs)
    if (id != kNone && draft.name.empty()) draft.name = graph.value(id).name;
  if (!proto.name.empty()) draft.name = scope.prefix + std::string(proto.name);
  for (const Bytes name : proto.inputs) draft.inputs.push_back(scope.lookup(name));

  const auto graphs = import_attributes(scope, proto, version, draft.attrs);
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
  if (!draft.finished) add_node(draft, operators_);
}

void Importer::import_constant(Scope& scope, const NodeProto& proto) {
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

}  // namespace xc::onnx
