#include "formats/format.h"

#include <cstring>
#include <filesystem>
#include <unordered_set>

#include "base/utf8.h"
#include "formats/mapped_file.h"
#include "formats/onnx/export.h"
#include "formats/onnx/import.h"
#include "formats/text/text.h"
#include "formats/xcg/xcg.h"
#include "ir/verify.h"
#include "ops/infer.h"

namespace xc {
namespace {

bool starts_with(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
}

/// Kinds of files that are often given by mistake.
void refuse_known_foreigners(std::string_view bytes) {
  const auto refuse = [](const char* what) {
    fail(Status::kFormat, "this is {}, not a model in a format xc reads (ONNX, .xcg, text IR)",
         what);
  };
  if (starts_with(bytes, "version https://git-lfs"))
    refuse("a Git LFS pointer: fetch the real file with `git lfs pull`");
  if (starts_with(bytes,
                  "\x7f"
                  "ELF"))
    refuse("an executable or library");
  if (starts_with(bytes, "GGUF")) refuse("a GGUF file");
  if (starts_with(bytes, "PK\x03\x04")) refuse("a ZIP archive (a PyTorch or Keras file?)");
  if (starts_with(bytes, "\x89HDF")) refuse("an HDF5 file");
  if (bytes.size() > 8 && bytes.substr(4, 4) == "TFL3") refuse("a TensorFlow Lite file");
  if (starts_with(bytes, "{") || starts_with(bytes, "[")) refuse("JSON text");
  if (starts_with(bytes, "<")) refuse("XML or HTML text");
}

/// Characters of a path in a message.
constexpr size_t kMostPath = 1000;

Format detect(std::string_view bytes) {
  if (bytes.empty()) fail(Status::kFormat, "the file is empty");
  refuse_known_foreigners(bytes);
  if (starts_with(bytes, xcg::kMagic)) return Format::kXcg;
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  // No ONNX file starts with these characters: they would be fields that the format does not have.
  if (start != std::string_view::npos &&
      (starts_with(bytes.substr(start), "graph") || starts_with(bytes.substr(start), "//") ||
       starts_with(bytes.substr(start), "#")))
    return Format::kText;
  if (!onnx::begins_model(bytes)) fail(Status::kFormat, "the file is no ONNX, .xcg or text model");
  return Format::kOnnx;
}

/// A run reads the number of a size symbol off a dim that is nothing but that symbol.
void check_input_sizes(const Graph& graph) {
  std::unordered_set<std::string> given;
  for (ValueId id : graph.inputs)
    for (const Dim& dim : graph.value(id).type.dims.value_or(SymDims{}))
      if (const auto symbol = dim.as_symbol()) given.insert(*symbol);
  for (ValueId id : graph.inputs) {
    std::vector<std::string> symbols;
    for (const Dim& dim : graph.value(id).type.dims.value_or(SymDims{}))
      dim.collect_symbols(symbols);
    for (const std::string& symbol : symbols)
      if (!given.contains(symbol))
        fail(Status::kInvalidModel,
             "input '{}': its dims name the size '{}', which is no input's dim by itself",
             printable(graph.value(id).name), printable(symbol));
  }
}

Graph load(const std::shared_ptr<Buffer>& file, const LoadOptions& options) {
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()),
                               static_cast<size_t>(file->bytes()));
  Graph graph = [&] {
    switch (detect(bytes)) {
      case Format::kOnnx:
        return onnx::import_model(file, options);
      case Format::kXcg:
        return xcg::read(file, options);
      case Format::kText:
        return text::read(bytes, options);
    }
    fail(Status::kInternal, "unknown format");
  }();
  verify(graph, options.limits.subgraph_depth);
  check_input_sizes(graph);
  if (options.infer) infer_types(graph, options.warn);
  return graph;
}

}  // namespace

Limits Limits::high_security() {
  Limits out;
  out.file_bytes = 64'000'000;
  out.header_bytes = 4'000'000;
  out.nodes = 50'000;
  out.values = 500'000;
  out.functions = 256;
  out.function_depth = 16;
  out.subgraph_depth = 8;
  out.rank = 8;
  out.attribute_elements = 65'536;
  out.string_bytes = 1'000'000;
  out.name_bytes = 256;
  out.generated_bytes = 16 << 20;
  return out;
}

std::string_view name(Format format) {
  return format == Format::kOnnx ? "onnx" : format == Format::kXcg ? "xcg" : "text";
}

Format format_of_path(std::string_view path) {
  if (path.ends_with(".onnx")) return Format::kOnnx;
  if (path.ends_with(".xcg")) return Format::kXcg;
  if (path.ends_with(".xct")) return Format::kText;
  fail(Status::kInvalidArgument, "'{}' ends in no known format (.onnx, .xcg, .xct)", path);
}

Graph load_model(const std::string& path, const LoadOptions& options) {
  const auto file = map_file(path, options.limits.file_bytes, options.copy_weights);
  const std::string shown = fmt::format("'{}'", printable(path, kMostPath));
  LoadOptions with_base = options;
  if (with_base.base_dir.empty()) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    with_base.base_dir = parent.empty() ? "." : parent;
  }
  try {
    return load(file, with_base);
  } catch (const Error& error) {  // the place is one in this file
    throw Error(error.status(), error.message(),
                error.where().empty() ? shown : shown + ", " + error.where());
  }
}

Graph load_model(std::span<const std::byte> bytes, const LoadOptions& options) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > options.limits.file_bytes)
    fail(Status::kLimit, "the model has {} bytes, the limit is {}", size,
         options.limits.file_bytes);
  auto copy = Buffer::allocate(size);
  if (size > 0) std::memcpy(copy->data(), bytes.data(), bytes.size());
  return load(copy, options);
}

std::string serialize_model(const Graph& graph, Format format, const SaveOptions& options) {
  switch (format) {
    case Format::kXcg:
      return xcg::write(graph, options);
    case Format::kText:
      return text::write(graph);
    case Format::kOnnx:
      return onnx::export_model(graph);
  }
  fail(Status::kInternal, "unknown format");
}

void save_model(const Graph& graph, const std::string& path, Format format,
                const SaveOptions& options) {
  write_file(path, serialize_model(graph, format, options));
}

}  // namespace xc
