#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "formats/packed.h"
#include "formats/xcg/json.h"
#include "formats/xcg/xcg.h"
#include "ir/op_ref.h"
#include "ops/op.h"

namespace xc::xcg {
namespace {

constexpr int64_t kMaxInt = INT64_MAX;
constexpr int kMaxTypeDepth = 8;

std::string at(const std::string& path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

/// Where the parts of a file lie.
struct Layout {
  std::string_view header;
  int64_t blob_start = 0, blob_bytes = 0;
};

Layout read_layout(const Buffer& file) {
  constexpr auto kStart = static_cast<int64_t>(kMagic.size() + sizeof(uint64_t));
  const auto* bytes = reinterpret_cast<const char*>(file.data());
  if (file.bytes() < kStart)
    throw Error(Status::kFormat, "the file ends before its header",
                fmt::format("byte {}", file.bytes()));
  uint64_t length = 0;
  std::memcpy(&length, bytes + kMagic.size(), sizeof(length));
  if (length > static_cast<uint64_t>(file.bytes() - kStart))
    throw Error(Status::kFormat,
                fmt::format("the header of {} bytes is longer than the file", length), "byte 8");
  Layout out;
  out.header = std::string_view(bytes + kStart, static_cast<size_t>(length));
  out.blob_start = kStart + static_cast<int64_t>(length);
  if (out.blob_start % kAlignment != 0)
    throw Error(Status::kFormat,
                fmt::format("the blob at {} is not aligned to {}", out.blob_start, kAlignment),
                "byte 8");
  out.blob_bytes = file.bytes() - out.blob_start;
  return out;
}

std::string unhex(const std::string& text, const std::string& path) {
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail_at(path, "expected hexadecimal digits");
  };
  if (text.size() % 2 != 0) fail_at(path, "expected an even number of hexadecimal digits");
  std::string out;
  for (size_t i = 0; i < text.size(); i += 2)
    out += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return out;
}

class Reader {
 public:
  Reader(const std::shared_ptr<Buffer>& file, const Layout& layout, const LoadOptions& options)
      : file_(file), layout_(layout), limits_(options.limits), operators_(options.operators) {}

  Graph run() {
    if (static_cast<int64_t>(layout_.header.size()) > limits_.header_bytes)
      fail(Status::kLimit, "the header has {} bytes, the limit is {}", layout_.header.size(),
           limits_.header_bytes);
    const Json json = parse_strict(layout_.header, 16, limits_);
    Object header(json, "$");
    // The version first: what a newer schema means is not guessed.
    const int64_t schema = integer(header.required("schema"), header.path("schema"), 0, kMaxInt);
    if (schema != kSchema)
      throw Error(Status::kUnsupported,
                  fmt::format("schema {} of .xcg is not supported, this version reads {}; convert "
                              "the model with a matching version",
                              schema, kSchema),
                  "$.schema");
    if (const Json* producer = header.optional("producer"))
      short_text(*producer, header.path("producer"), limits_);
    const int64_t blob =
        integer(header.required("blob_bytes"), header.path("blob_bytes"), 0, kMaxInt);
    if (blob != layout_.blob_bytes)
      fail_at(header.path("blob_bytes"),
              fmt::format("the blob has {} bytes, the header says {}", layout_.blob_bytes, blob));
    if (const Json* sum = header.optional("blob_xxh3_128"))
      if (text(*sum, header.path("blob_xxh3_128")) !=
          hash_bytes(file_->data() + layout_.blob_start, static_cast<size_t>(blob)).text())
        fail_at(header.path("blob_xxh3_128"), "the checksum of the blob does not match");
    read_tensors(array(header.required("tensors"), header.path("tensors")), header.path("tensors"));
    const Json& body = header.required("graph");
    header.done();
    Graph out;
    read_graph(body, "graph", out, 0);
    return out;
  }

 private:
  // ---- tensors ----------------------------------------------------------------------------------

  /// Tensors lie one after the other in the order of the table, each at the next aligned offset; so
  /// none can overlap another and no byte is unaccounted for.
  void read_tensors(const Json& table, const std::string& path) {
    int64_t end = 0;
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string here = at(path, i);
      Object row(table[i], here);
      const auto dtype = dtype_from_name(text(row.required("dtype"), row.path("dtype")));
      if (!dtype) fail_at(row.path("dtype"), "unknown element type");
      const Json& list = array(row.required("dims"), row.path("dims"));
      if (list.size() > static_cast<size_t>(limits_.rank))
        throw Error(Status::kLimit, fmt::format("more than {} dimensions", limits_.rank), here);
      Dims dims;
      for (const Json& d : list) dims.push_back(integer(d, row.path("dims"), 0, kMaxInt));
      const int64_t offset = integer(row.required("offset"), row.path("offset"), 0, kMaxInt);
      const int64_t bytes = integer(row.required("bytes"), row.path("bytes"), 0, kMaxInt);
      row.done();
      if (offset != align_up(end, kAlignment))
        fail_at(row.path("offset"), fmt::format("expected offset {}", align_up(end, kAlignment)));
      if (offset > layout_.blob_bytes || bytes > layout_.blob_bytes - offset)
        fail_at(here, fmt::format("{} bytes at offset {} lie outside of the blob of {}", bytes,
                                  offset, layout_.blob_bytes));
      check_zeros(end, offset, here);
      end = offset + bytes;
      tensors_.push_back(located(here, [&] { return tensor(*dtype, dims, offset, bytes, here); }));
    }
    if (end != layout_.blob_bytes)
      fail_at(path,
              fmt::format("the blob has {} bytes, the tensors end at {}", layout_.blob_bytes, end));
  }

  void check_zeros(int64_t begin, int64_t end, const std::string& path) const {
    const std::byte* blob = file_->data() + layout_.blob_start;
    if (std::any_of(blob + begin, blob + end, [](std::byte b) { return b != std::byte{0}; }))
      fail_at(path, "the padding before the tensor is not zero");
  }

  Tensor tensor(DType dtype, const Dims& dims, int64_t offset, int64_t bytes,
                const std::string& path) const {
    const int64_t count = element_count(dims);
    if (dtype == DType::kString) return strings(dims, count, offset, bytes, path);
    checked_mul(count, element_size(dtype));
    if (packed_bytes(dtype, count) != bytes)
      fail_at(path, fmt::format("{}{} needs {} bytes, the table says {}", name(dtype),
                                to_text(dims), packed_bytes(dtype, count), bytes));
    return tensor_from_packed(dtype, dims, file_, layout_.blob_start + offset);
  }

  Tensor strings(const Dims& dims, int64_t count, int64_t offset, int64_t bytes,
                 const std::string& path) const {
    const auto* data = reinterpret_cast<const char*>(file_->data()) + layout_.blob_start + offset;
    if (count > bytes / 8) fail_at(path, "the strings end before their lengths");
    Tensor out(DType::kString, dims);
    int64_t at_byte = count * 8;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t length = 0;
      std::memcpy(&length, data + i * 8, sizeof(length));
      if (length > static_cast<uint64_t>(bytes - at_byte))
        fail_at(path, fmt::format("string {} ends outside of the tensor", i));
      out.as<std::string>()[i].assign(data + at_byte, static_cast<size_t>(length));
      at_byte += static_cast<int64_t>(length);
    }
    if (at_byte != bytes) fail_at(path, "bytes are left after the strings");
    return out;
  }

  const Tensor& tensor_at(const Json& json, const std::string& path) const {
    return tensors_[static_cast<size_t>(
        integer(json, path, 0, static_cast<int64_t>(tensors_.size()) - 1))];
  }

  // ---- types ------------------------------------------------------------------------------------

  DType dtype(const Json& json, const std::string& path) const {
    const auto out = dtype_from_name(text(json, path));
    if (!out) fail_at(path, "unknown element type");
    return *out;
  }

  Type type(const Json& json, const std::string& path, int depth = 0) const {
    if (depth > kMaxTypeDepth) throw Error(Status::kLimit, "the type is nested too deep", path);
    Object object(json, path);
    Type out;
    const auto container = [&](const char* key, Type::Kind kind) {
      const Json* element = object.optional(key);
      if (!element) return false;
      out.kind = kind;
      out.element = std::make_shared<const Type>(type(*element, object.path(key), depth + 1));
      return true;
    };
    if (container("map", Type::Kind::kMap)) {
      out.dtype = dtype(object.required("key"), object.path("key"));
    } else if (!container("sequence", Type::Kind::kSequence) &&
               !container("optional", Type::Kind::kOptional)) {
      if (const Json* d = object.optional("dtype")) out.dtype = dtype(*d, object.path("dtype"));
      if (const Json* d = object.optional("dims")) out.dims = dims(*d, object.path("dims"));
    }
    object.done();
    return out;
  }

  SymDims dims(const Json& json, const std::string& path) const {
    if (array(json, path).size() > static_cast<size_t>(limits_.rank))
      throw Error(Status::kLimit, fmt::format("more than {} dimensions", limits_.rank), path);
    SymDims out;
    for (const Json& d : json) {
      if (d.is_string()) {
        const std::string& expression = short_text(d, path, limits_);
        try {
          out.push_back(Dim::parse(expression));
        } catch (const Error& error) {
          fail_at(path, fmt::format("'{}' is no size: {}", printable(expression), error.message()));
        }
      } else {
        out.emplace_back(integer(d, path, 0, kMaxInt));
      }
    }
    return out;
  }

  // ---- graphs -----------------------------------------------------------------------------------

  void read_graph(const Json& json, const std::string& path, Graph& graph, int depth) {
    if (depth > limits_.subgraph_depth)
      throw Error(Status::kLimit,
                  fmt::format("subgraphs are nested deeper than {}", limits_.subgraph_depth), path);
    Object object(json, path);
    graph.name = short_text(object.required("name"), object.path("name"), limits_);
    const Json& inputs = array(object.required("inputs"), object.path("inputs"));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Object input(inputs[i], at(object.path("inputs"), i));
      const std::string& name = value_name(input.required("name"), input.path("name"));
      Type t = type(input.required("type"), input.path("type"));
      input.done();
      define(graph, name, input.path(), [&] { graph.add_input(name, std::move(t)); });
    }
    if (const Json* constants = object.optional("constants")) {
      array(*constants, object.path("constants"));
      for (size_t i = 0; i < constants->size(); ++i) {
        Object constant((*constants)[i], at(object.path("constants"), i));
        const std::string& name = value_name(constant.required("name"), constant.path("name"));
        const Tensor& t = tensor_at(constant.required("tensor"), constant.path("tensor"));
        constant.done();
        define(graph, name, constant.path(), [&] { graph.add_constant(name, t); });
      }
    }
    const Json* types = object.optional("types");
    if (types && !types->is_object()) fail_at(object.path("types"), "expected an object");
    const Json& nodes = array(object.required("nodes"), object.path("nodes"));
    for (size_t i = 0; i < nodes.size(); ++i)
      read_node(nodes[i], at(object.path("nodes"), i), graph, types, object.path("types"), depth);
    if (types)
      for (const auto& [name, t] : types->items()) {
        const auto id = graph.find_value(name);
        if (!id || graph.value(*id).producer == kNone)
          fail_at(object.path("types"), fmt::format("no node defines '{}'", printable(name)));
      }
    graph.outputs = values(object.required("outputs"), object.path("outputs"), graph, false);
    object.done();
  }

  const std::string& value_name(const Json& json, const std::string& path) const {
    const std::string& out = short_text(json, path, limits_);
    if (out.empty()) fail_at(path, "a value has no name");
    return out;
  }

  template <class Add>
  static void define(const Graph& graph, const std::string& name, const std::string& path,
                     Add&& add) {
    if (graph.find_value(name))
      throw Error(Status::kInvalidModel,
                  fmt::format("value '{}' is defined twice", printable(name)), path);
    add();
  }

  std::vector<ValueId> values(const Json& json, const std::string& path, const Graph& graph,
                              bool may_be_absent) const {
    std::vector<ValueId> out;
    array(json, path);
    for (size_t i = 0; i < json.size(); ++i) {
      if (may_be_absent && json[i].is_null()) {
        out.push_back(kNone);
        continue;
      }
      const std::string& name = value_name(json[i], path);
      const auto id = graph.find_value(name);
      if (!id)
        throw Error(Status::kInvalidModel,
                    fmt::format("value '{}' is not defined", printable(name)), at(path, i));
      out.push_back(*id);
    }
    return out;
  }

  void read_node(const Json& json, const std::string& path, Graph& graph, const Json* types,
                 const std::string& types_path, int depth) {
    if (++nodes_ > limits_.nodes)
      fail(Status::kLimit, "the model has more than {} nodes", limits_.nodes);
    Object object(json, path);
    const std::string& op = short_text(object.required("op"), object.path("op"), limits_);
    const Json* domain = object.optional("domain");
    Node node;
    const std::string_view in =
        domain ? std::string_view(short_text(*domain, object.path("domain"), limits_))
               : std::string_view();
    node.op = find_op(op, in, operators_);
    if (!node.op) fail_unknown_op(printable(op), printable(in), path);
    if (const Json* n = object.optional("name"))
      node.name = short_text(*n, object.path("name"), limits_);
    if (const Json* n = object.optional("made_by"))
      node.made_by = short_text(*n, object.path("made_by"), limits_);
    node.inputs = values(object.required("inputs"), object.path("inputs"), graph, true);
    const Json& outputs = array(object.required("outputs"), object.path("outputs"));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].is_null()) {
        node.outputs.push_back(kNone);
        continue;
      }
      const std::string& name = value_name(outputs[i], object.path("outputs"));
      Type declared;
      if (types)
        if (const auto it = types->find(name); it != types->end())
          declared = type(*it, types_path + "." + printable(name));
      define(graph, name, object.path("outputs"),
             [&] { node.outputs.push_back(graph.add_value(name, std::move(declared))); });
    }
    if (const Json* attrs = object.optional("attrs")) {
      if (!attrs->is_object()) fail_at(object.path("attrs"), "expected an object");
      for (const auto& [key, value] : attrs->items()) {
        const std::string here = object.path("attrs") + "." + printable(key);
        if (static_cast<int64_t>(key.size()) > limits_.name_bytes)
          fail_at(here, "the name is too long");
        node.attrs.set(key, attribute(value, here));
      }
    }
    const int64_t captures = object.optional("captures")
                                 ? integer(*object.optional("captures"), object.path("captures"), 0,
                                           static_cast<int64_t>(node.inputs.size()))
                                 : 0;
    node.capture_count = static_cast<uint32_t>(captures);
    if (const Json* subgraphs = object.optional("subgraphs")) {
      array(*subgraphs, object.path("subgraphs"));
      for (size_t i = 0; i < subgraphs->size(); ++i) {
        auto sub = std::make_shared<Graph>();
        read_graph((*subgraphs)[i], at(object.path("subgraphs"), i), *sub, depth + 1);
        node.subgraphs.push_back(std::move(sub));
      }
    }
    object.done();
    located(path, [&] {
      check_node(node);
      graph.add_node(std::move(node));
    });
  }

  Attr attribute(const Json& json, const std::string& path) const {
    if (!json.is_object() || json.size() != 1)
      fail_at(path, "expected an object with one key, the kind");
    const std::string& kind = json.begin().key();
    const Json& value = json.begin().value();
    const auto list = [&](auto&& element) {
      if (static_cast<int64_t>(array(value, path).size()) > limits_.attribute_elements)
        throw Error(Status::kLimit,
                    fmt::format("more than {} elements", limits_.attribute_elements), path);
      std::vector<std::decay_t<decltype(element(value))>> out;
      for (const Json& v : value) out.push_back(element(v));
      return out;
    };
    const auto as_int = [&](const Json& v) { return integer(v, path, INT64_MIN, kMaxInt); };
    const auto as_real = [&](const Json& v) { return real(v, path); };
    const auto as_text = [&](const Json& v) { return text(v, path); };
    const auto as_hex = [&](const Json& v) { return unhex(text(v, path), path); };
    if (kind == "int") return as_int(value);
    if (kind == "float") return as_real(value);
    if (kind == "string") return as_text(value);
    if (kind == "string_hex") return as_hex(value);
    if (kind == "ints") return list(as_int);
    if (kind == "floats") return list(as_real);
    if (kind == "strings") return list(as_text);
    if (kind == "strings_hex") return list(as_hex);
    if (kind == "tensor") return tensor_at(value, path);
    fail_at(path, fmt::format("attribute kind '{}' is not known", printable(kind)));
  }

  const std::shared_ptr<Buffer>& file_;
  const Layout layout_;
  const Limits& limits_;
  const OpLibrary* operators_;  // of the host; may be null
  std::vector<Tensor> tensors_;
  int64_t nodes_ = 0;
};

}  // namespace

Graph read(const std::shared_ptr<Buffer>& file, const LoadOptions& options) {
  return Reader(file, read_layout(*file), options).run();
}

}  // namespace xc::xcg
