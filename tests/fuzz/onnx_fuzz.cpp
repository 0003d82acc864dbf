// The ONNX importer: any bytes give a graph or an error, and a graph survives being written.
#include <cstdint>
#include <cstdlib>

#include "formats/format.h"
#include "ir/fingerprint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xc;
  try {
    LoadOptions options;
    options.limits = Limits::high_security();
    const Graph graph = load_model({reinterpret_cast<const std::byte*>(data), size}, options);
    const std::string again = serialize_model(graph, Format::kXcg);
    const Graph back = load_model(std::as_bytes(std::span(again)), {});
    if (fingerprint(back) != fingerprint(graph)) std::abort();
  } catch (const Error& error) {
    if (error.status() == Status::kInternal || error.status() == Status::kOk) std::abort();
  }
  return 0;
}
