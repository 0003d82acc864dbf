// xc/graph.h: reading, writing and changing graphs. Building them: graph_builder.cpp.

#include "capi/handles.h"
#include "formats/format.h"
#include "ir/text.h"

namespace xc::capi {
namespace {

void deliver(Graph graph, xc_op_library* operators, xc_graph** out_graph) {
  auto handle = std::make_unique<xc_graph>();
  handle->operators = operators_of(operators);
  put_to_use(operators);
  handle->graph = std::move(graph);
  *out_graph = handle.release();
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_graph_create(const char* name, xc_graph** out_graph, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_graph, "out_graph");
    Graph graph;
    graph.name = name && *name ? name : "main";
    deliver(std::move(graph), nullptr, out_graph);
  });
}

xc_status xc_graph_set_operators(xc_graph* graph, xc_op_library* operators, xc_error** out_error) {
  return guard(out_error, [&] {
    HostOperators& own = live(graph).operators;
    HostOperators given = operators_of(&live(operators));
    if (own.library && own.library != given.library)
      fail(Status::kInvalidArgument, "the graph has another operator library already");
    own = std::move(given);
    put_to_use(operators);
  });
}

xc_status xc_graph_load_file(const char* path, int32_t copy_weights, xc_op_library* operators,
                             xc_graph** out_graph, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_graph, "out_graph");
    LoadOptions options;
    options.copy_weights = copy_weights != 0;
    const HostOperators host = operators_of(operators);
    options.operators = host.library.get();
    deliver(load_model(std::string(need(path, "path")), options), operators, out_graph);
  });
}

xc_status xc_graph_load_bytes(const void* data, uint64_t size, xc_op_library* operators,
                              xc_graph** out_graph, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_graph, "out_graph");
    need_array(data, size, "data");
    LoadOptions options;
    const HostOperators host = operators_of(operators);
    options.operators = host.library.get();
    deliver(load_model(std::span(static_cast<const std::byte*>(data), size), options), operators,
            out_graph);
  });
}

xc_status xc_graph_save_file(const xc_graph* graph, const char* path, xc_error** out_error) {
  return guard(out_error, [&] {
    live(graph);
    const std::string to = need(path, "path");
    save_model(graph->graph, to, format_of_path(to));
  });
}

xc_status xc_graph_text(const xc_graph* graph, int64_t max_elements, xc_blob** out_text,
                        xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_text, "out_text");
    PrintOptions options;
    if (max_elements != 0) options.max_elements = max_elements < 0 ? INT64_MAX : max_elements;
    *out_text = make_blob(print(live(graph).graph, options));
  });
}

void xc_graph_destroy(xc_graph* graph) {
  destroy(graph);
}
