// xc/graph.h: building graphs node by node.

#include <algorithm>

#include "capi/handles.h"

namespace xc::capi {
namespace {

Node& node_of(xc_graph* graph, xc_node node) {
  Graph& g = live(graph).graph;
  if (node >= g.node_count()) fail(Status::kInvalidArgument, "the graph has no node {}", node);
  return g.node(node);
}

void check_value(const Graph& graph, xc_value value) {
  if (value >= graph.value_count())
    fail(Status::kInvalidArgument, "the graph has no value {}", value);
}

void check_free(const Graph& graph, const std::string& name) {
  if (graph.find_value(name))
    fail(Status::kInvalidArgument, "the graph already has a value named '{}'", name);
}

/// "n, min(h, 4), 3": dims between commas that stand outside parentheses and brackets.
SymDims parse_dims(std::string_view text) {
  SymDims dims;
  if (text.find_first_not_of(" \t") == std::string_view::npos) return dims;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    dims.push_back(Dim::parse(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (dims.size() > kMaxRank)
    fail(Status::kLimit, "rank {} is over the limit of {}", dims.size(), kMaxRank);
  return dims;
}

/// Sets one attribute; `make` builds the value after the checks.
template <class Make>
xc_status set_attribute(xc_graph* graph, xc_node node, const char* name, xc_error** out_error,
                        Make&& make) {
  return guard(out_error, [&] {
    Node& target = node_of(graph, node);
    std::string key = need(name, "name");
    target.attrs.set(std::move(key), Attr(make()));
  });
}

template <class T>
std::vector<T> copy_of(const T* values, uint64_t count) {
  need_array(values, count, "values");
  return std::vector<T>(values, values + count);
}

Tensor tensor_of(const xc_tensor* tensor) {
  const DType dtype = view_of(tensor, "tensor").dtype;
  if (dtype == DType::kTensor)
    fail(Status::kInvalidArgument, "a sequence is no constant of a graph");
  if (dtype == DType::kUndefined)
    fail(Status::kInvalidArgument, "an absent value is no constant of a graph");
  return lasting(*tensor);
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_graph_add_input(xc_graph* graph, const char* name, xc_dtype dtype, const char* dims,
                             xc_value* out_value, xc_error** out_error) {
  return guard(out_error, [&] {
    Graph& g = live(graph).graph;
    need(out_value, "out_value");
    const std::string input = need(name, "name");
    check_free(g, input);
    if (dtype <= 0 || dtype >= kDTypeCount || dtype == XC_DTYPE_TENSOR)
      fail(Status::kInvalidArgument, "{} is no element type", dtype);
    Type type = Type::tensor(static_cast<DType>(dtype));
    if (dims) type.dims = located("input '" + input + "'", [&] { return parse_dims(dims); });
    *out_value = g.add_input(input, std::move(type));
  });
}

xc_status xc_graph_add_constant(xc_graph* graph, const char* name, const xc_tensor* tensor,
                                xc_value* out_value, xc_error** out_error) {
  return guard(out_error, [&] {
    Graph& g = live(graph).graph;
    need(out_value, "out_value");
    Tensor constant = tensor_of(tensor);
    if (name && *name) check_free(g, name);
    *out_value = g.add_constant(name && *name ? name : g.fresh_name("const"), std::move(constant));
  });
}

xc_status xc_graph_add_node(xc_graph* graph, const char* op, const char* domain, const char* name,
                            const xc_value* inputs, uint32_t input_count, xc_value* out_values,
                            uint32_t output_count, xc_node* out_node, xc_error** out_error) {
  return guard(out_error, [&] {
    Graph& g = live(graph).graph;
    const std::string_view in = domain ? domain : "";
    const OpDef* definition = find_op(need(op, "op"), in, graph->operators.library.get());
    if (!definition) fail_unknown_op(op, in);
    need_array(out_values, output_count, "out_values");
    std::vector<ValueId> from = copy_of(inputs, input_count);
    for (ValueId value : from)
      if (value != XC_VALUE_NONE) check_value(g, value);
    const NodeId id = g.add_node(*definition, std::move(from), output_count, {}, name ? name : "");
    for (uint32_t i = 0; i < output_count; ++i) out_values[i] = g.node(id).outputs[i];
    if (out_node) *out_node = id;
  });
}

xc_status xc_graph_set_int(xc_graph* graph, xc_node node, const char* name, int64_t value,
                           xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] { return value; });
}
xc_status xc_graph_set_float(xc_graph* graph, xc_node node, const char* name, double value,
                             xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] { return value; });
}
xc_status xc_graph_set_string(xc_graph* graph, xc_node node, const char* name, const char* value,
                              xc_error** out_error) {
  return set_attribute(graph, node, name, out_error,
                       [&] { return std::string(need(value, "value")); });
}
xc_status xc_graph_set_ints(xc_graph* graph, xc_node node, const char* name, const int64_t* values,
                            uint64_t count, xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] { return copy_of(values, count); });
}
xc_status xc_graph_set_floats(xc_graph* graph, xc_node node, const char* name, const double* values,
                              uint64_t count, xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] { return copy_of(values, count); });
}
xc_status xc_graph_set_strings(xc_graph* graph, xc_node node, const char* name,
                               const char* const* values, uint64_t count, xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] {
    need_array(values, count, "values");
    std::vector<std::string> copies;
    for (uint64_t i = 0; i < count; ++i) copies.emplace_back(need(values[i], "values[]"));
    return copies;
  });
}
xc_status xc_graph_set_tensor(xc_graph* graph, xc_node node, const char* name,
                              const xc_tensor* tensor, xc_error** out_error) {
  return set_attribute(graph, node, name, out_error, [&] { return tensor_of(tensor); });
}

xc_status xc_graph_add_body(xc_graph* graph, xc_node node, const xc_graph* body,
                            uint32_t capture_count, xc_error** out_error) {
  return guard(out_error, [&] {
    Node& target = node_of(graph, node);
    const Graph& from = live(body).graph;
    HostOperators& own = graph->operators;
    if (own.library && body->operators.library && own.library != body->operators.library)
      fail(Status::kInvalidArgument, "the body has another operator library than the graph");
    if (capture_count > target.inputs.size() || capture_count > from.inputs.size())
      fail(Status::kInvalidArgument,
           "{} captures: the node has {} inputs and the body {}, captures among them",
           capture_count, target.inputs.size(), from.inputs.size());
    if (!target.subgraphs.empty() && target.capture_count != capture_count)
      fail(Status::kInvalidArgument, "every body of a node has the same captures: {}, not {}",
           target.capture_count, capture_count);
    target.subgraphs.push_back(std::make_shared<Graph>(from.clone()));
    target.capture_count = capture_count;
    if (!own.library) own = body->operators;
  });
}

xc_status xc_graph_add_output(xc_graph* graph, xc_value value, const char* name,
                              xc_error** out_error) {
  return guard(out_error, [&] {
    Graph& g = live(graph).graph;
    check_value(g, value);
    if (name && *name && g.value(value).name != name) {
      check_free(g, name);
      if (g.value(value).is_input)
        fail(Status::kInvalidArgument, "output '{}' is the input '{}', which keeps its name", name,
             g.value(value).name);
      // An output keeps the name that it was given: another name is another value.
      if (std::find(g.outputs.begin(), g.outputs.end(), value) != g.outputs.end())
        value = g.node(g.add_node(*find_op("Identity"), {value}, 1)).outputs[0];
      g.rename(value, name);
    }
    g.outputs.push_back(value);
  });
}
