// Signatures of the host's operators, and a model that uses what parses.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ir/text.h"
#include "ops/custom.h"
#include "ops/infer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xc;
  OpLibrary library;
  try {
    library.add({reinterpret_cast<const char*>(data), size}, {});
  } catch (const Error& error) {
    if (error.status() != Status::kFormat) std::abort();
    return 0;
  }
  const CustomOp& op = *library.ops().front();
  std::string inputs, outputs;
  for (int i = 0; i < op.min_inputs; ++i) inputs += i % 2 ? ", %w" : ", %x";
  for (int k = 0; k < op.min_outputs; ++k) outputs += ", %y" + std::to_string(k);
  if (inputs.empty() || outputs.empty()) return 0;
  const std::string uses = inputs.substr(2), gives = outputs.substr(2);
  try {
    Graph graph = parse_graph("graph g(%x: f32[n, 4], %w: f32[4]) -> (" + gives + ") { " + gives +
                                  " = " + std::string(op.name) + "(" + uses + ") }",
                              &library);
    infer_types(graph);
  } catch (const Error& error) {
    if (error.status() == Status::kInternal) std::abort();
  }
  return 0;
}
