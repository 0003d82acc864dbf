// The graph text parser: what parses must print and parse again to the same text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/fingerprint.h"
#include "ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xc;
  try {
    const Graph graph = parse_graph({reinterpret_cast<const char*>(data), size});
    fingerprint(graph);
    PrintOptions options;
    options.max_elements = 1 << 20;
    options.origins = true;
    const std::string text = print(graph, options);
    if (print(parse_graph(text), options) != text) std::abort();
  } catch (const Error& error) {
    if (error.status() == Status::kInternal || error.status() == Status::kOk) std::abort();
  }
  return 0;
}
