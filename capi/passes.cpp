// xc_graph_run_passes of xc/graph.h.

#include "capi/handles.h"
#include "passes/pipeline.h"

namespace xc::capi {
namespace {

constexpr std::string_view kSpace = " \t\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_graph_run_passes(xc_graph* graph, const char* passes, xc_error** out_error) {
  return guard(out_error, [&] {
    Graph copy = live(graph).graph.clone();  // all or nothing
    std::string_view rest = need(passes, "passes");
    PassOptions options;
    options.extra_rules = graph->operators.rules.get();
    while (true) {
      const size_t comma = rest.find(',');
      const std::string_view name = trimmed(rest.substr(0, comma));
      if (name == "all")
        optimise(copy, options);
      else if (!name.empty())
        run_pass(copy, find_pass(name), options);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    graph->graph = std::move(copy);
  });
}
