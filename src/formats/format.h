#pragma once
// The one interface of all front ends: a file or bytes in, a verified graph out, and back.
//
// A model is data: whatever the bytes are, these functions return a graph or throw xc::Error, in
// time and memory bounded by Limits. They do not keep global state and may run on any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace xc {

class OpLibrary;  // ops/custom.h

/// What a model may make the loader do. Checked before the memory is allocated.
struct Limits {
  int64_t file_bytes = int64_t{1} << 40;  ///< of a model file, its external data apart
  int64_t header_bytes = 100'000'000;     ///< JSON header of .xcg, text IR
  int64_t nodes = 1'000'000;              ///< after inlining of functions, subgraphs included
  int64_t values = 8'000'000;             ///< value names, tensors and list entries of nodes
  int functions = 10'000;
  int function_depth = 100;
  int subgraph_depth = 16;
  int rank = 16;
  int64_t attribute_elements = 16'000'000;  ///< of one list attribute
  int64_t string_bytes = 100'000'000;       ///< of one string that is not a name
  int64_t name_bytes = 4096;
  int64_t generated_bytes = int64_t{256}
                            << 20;  ///< of tensors stored smaller than they are (sparse)

  /// The values for models of unknown origin.
  static Limits high_security();
};

struct LoadOptions {
  /// Reads the file instead of mapping it, for files that change while the model is loaded.
  bool copy_weights = false;
  /// Runs type and shape inference, which also refuses operators used against their definition.
  bool infer = true;
  /// Where external data is looked for, and nowhere else; empty = beside the model file, or refused
  /// for a model given as bytes.
  std::string base_dir = {};
  Limits limits = {};
  /// Operators of the host that a model may use; null = none. The graph points into it.
  const OpLibrary* operators = nullptr;
  /// Told of what contradicts itself in the file and was settled; may be empty.
  std::function<void(const std::string&)> warn = {};
};

enum class Format : uint8_t { kOnnx, kXcg, kText };
std::string_view name(Format format);  ///< "onnx", "xcg", "text"

/// The format of a file name by its ending (.onnx, .xcg, .xct); fails with kInvalidArgument.
Format format_of_path(std::string_view path);

/// Loads a model; the format is found from the content, never from the name. Weights point into the
/// mapped file, which must not change while a tensor of the graph lives (or set copy_weights).
/// Fails with kNotFound, kIo, kFormat (with the byte offset), kInvalidModel, kUnsupported, kLimit.
Graph load_model(const std::string& path, const LoadOptions& options = {});

/// The same from memory; the bytes are copied where tensors need them.
Graph load_model(std::span<const std::byte> bytes, const LoadOptions& options = {});

struct SaveOptions {
  /// Adds a checksum of the weights, which readers then verify (.xcg).
  bool checksum = false;
};

/// Writes the graph to a new file beside `path` and renames it over it.
void save_model(const Graph& graph, const std::string& path, Format format,
                const SaveOptions& options = {});
/// The same as bytes.
std::string serialize_model(const Graph& graph, Format format, const SaveOptions& options = {});

}  // namespace xc
