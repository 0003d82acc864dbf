#include "formats/text/text.h"

#include "base/utf8.h"
#include "ir/text.h"

namespace xc::text {
namespace {

/// Elements of all constants that text may hold.
constexpr int64_t kMaxElements = 1 << 20;

int64_t constant_elements(const Graph& graph) {
  int64_t out = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).is_constant()) out += graph.value(id).constant.count();
  for (const NodeId id : graph.order())
    for (const auto& sub : graph.node(id).subgraphs) out += constant_elements(*sub);
  return out;
}

/// String constants may hold any bytes; names are text.
void check_names(const Graph& graph) {
  const auto check = [](const std::string& name) {
    if (!valid_utf8(name)) fail(Status::kFormat, "the name '{}' is not UTF-8", printable(name));
  };
  check(graph.name);
  for (ValueId id = 0; id < graph.value_count(); ++id) check(graph.value(id).name);
  for (const NodeId id : graph.order()) {
    check(graph.node(id).name);
    for (const auto& sub : graph.node(id).subgraphs) check_names(*sub);
  }
}

}  // namespace

Graph read(std::string_view text, const LoadOptions& options) {
  if (static_cast<int64_t>(text.size()) > options.limits.header_bytes)
    fail(Status::kLimit, "the text has {} bytes, the limit is {}", text.size(),
         options.limits.header_bytes);
  Graph graph = parse_graph(text, options.operators);
  check_names(graph);
  return graph;
}

std::string write(const Graph& graph) {
  if (constant_elements(graph) > kMaxElements)
    fail(Status::kUnsupported, "the constants have more than {} elements: write .xcg instead",
         kMaxElements);
  return print(graph, {.max_elements = kMaxElements, .types = true, .origins = true});
}

}  // namespace xc::text
