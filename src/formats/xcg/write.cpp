#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/utf8.h"
#include "formats/packed.h"
#include "formats/xcg/xcg.h"
#include "ir/op_ref.h"
#include "ops/op.h"

namespace xc::xcg {
namespace {

/// Keys in the order written, for readers of the text.
using OrderedJson = nlohmann::ordered_json;

/// Strings as a table of 64-bit lengths followed by the bytes.
std::string pack_strings(const Tensor& tensor) {
  const Tensor t = tensor.to_contiguous();
  std::string lengths, bytes;
  for (int64_t i = 0; i < t.count(); ++i) {
    const std::string& s = t.as<std::string>()[i];
    const uint64_t length = s.size();
    lengths.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += s;
  }
  return lengths + bytes;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

OrderedJson real_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson dims_json(const SymDims& dims) {
  OrderedJson out = OrderedJson::array();
  for (const Dim& d : dims) {
    if (d.is_constant())
      out.push_back(d.value());
    else
      out.push_back(d.text());
  }
  return out;
}

OrderedJson type_json(const Type& type) {
  OrderedJson out = OrderedJson::object();
  const auto element = [&] {
    return type.element ? type_json(*type.element) : OrderedJson::object();
  };
  switch (type.kind) {
    case Type::Kind::kTensor:
      if (type.dtype != DType::kUndefined) out["dtype"] = name(type.dtype);
      if (type.dims) out["dims"] = dims_json(*type.dims);
      return out;
    case Type::Kind::kSequence:
      out["sequence"] = element();
      return out;
    case Type::Kind::kOptional:
      out["optional"] = element();
      return out;
    case Type::Kind::kMap:
      out["key"] = name(type.dtype);
      out["map"] = element();
      return out;
  }
  return out;
}

class Writer {
 public:
  OrderedJson graph(const Graph& g) {
    OrderedJson out = OrderedJson::object();
    out["name"] = g.name;
    out["inputs"] = OrderedJson::array();
    for (const ValueId id : g.inputs)
      out["inputs"].push_back({{"name", g.value(id).name}, {"type", type_json(g.value(id).type)}});
    OrderedJson constants = OrderedJson::array(), types = OrderedJson::object();
    for (ValueId id = 0; id < g.value_count(); ++id) {
      const Value& v = g.value(id);
      if (v.is_constant()) constants.push_back({{"name", v.name}, {"tensor", tensor(v.constant)}});
    }
    for (const NodeId n : g.order())
      for (const ValueId id : g.node(n).outputs)
        if (id != kNone && !(g.value(id).type == Type{}))
          types[g.value(id).name] = type_json(g.value(id).type);
    if (!constants.empty()) out["constants"] = std::move(constants);
    out["nodes"] = OrderedJson::array();
    for (const NodeId id : g.order()) out["nodes"].push_back(node(g, g.node(id)));
    out["outputs"] = names(g, g.outputs);
    if (!types.empty()) out["types"] = std::move(types);
    return out;
  }

  OrderedJson tensors = OrderedJson::array();
  std::string blob;

 private:
  static OrderedJson names(const Graph& g, const std::vector<ValueId>& ids) {
    OrderedJson out = OrderedJson::array();
    for (const ValueId id : ids) {
      if (id == kNone)
        out.push_back(nullptr);
      else
        out.push_back(g.value(id).name);
    }
    return out;
  }

  OrderedJson node(const Graph& g, const Node& n) {
    OrderedJson out = OrderedJson::object();
    out["op"] = op_name(*n.op);
    if (!n.op->domain.empty()) out["domain"] = n.op->domain;
    if (!n.name.empty()) out["name"] = n.name;
    out["inputs"] = names(g, n.inputs);
    out["outputs"] = names(g, n.outputs);
    if (!n.attrs.entries().empty()) {
      OrderedJson attrs = OrderedJson::object();
      for (const auto& [key, value] : n.attrs.entries()) attrs[key] = attribute(value);
      out["attrs"] = std::move(attrs);
    }
    if (!n.subgraphs.empty()) {
      out["subgraphs"] = OrderedJson::array();
      for (const auto& sub : n.subgraphs) out["subgraphs"].push_back(graph(*sub));
      out["captures"] = n.capture_count;
    }
    if (!n.made_by.empty()) out["made_by"] = n.made_by;
    return out;
  }

  OrderedJson attribute(const Attr& attr) {
    switch (kind_of(attr)) {
      case AttrKind::kInt:
        return {{"int", std::get<int64_t>(attr)}};
      case AttrKind::kFloat:
        return {{"float", real_json(std::get<double>(attr))}};
      case AttrKind::kString: {
        const auto& s = std::get<std::string>(attr);
        if (valid_utf8(s)) return {{"string", s}};
        return {{"string_hex", hex(s)}};
      }
      case AttrKind::kInts:
        return {{"ints", std::get<std::vector<int64_t>>(attr)}};
      case AttrKind::kFloats: {
        OrderedJson list = OrderedJson::array();
        for (const double v : std::get<std::vector<double>>(attr)) list.push_back(real_json(v));
        return {{"floats", std::move(list)}};
      }
      case AttrKind::kStrings: {
        const auto& list = std::get<std::vector<std::string>>(attr);
        if (std::all_of(list.begin(), list.end(), valid_utf8)) return {{"strings", list}};
        OrderedJson encoded = OrderedJson::array();
        for (const std::string& s : list) encoded.push_back(hex(s));
        return {{"strings_hex", std::move(encoded)}};
      }
      case AttrKind::kTensor:
        return {{"tensor", tensor(std::get<Tensor>(attr))}};
    }
    fail(Status::kInternal, "unknown attribute kind");
  }

  /// The index of a tensor in the table; the same memory is written once.
  size_t tensor(const Tensor& t) {
    const auto key =
        std::make_tuple(static_cast<const void*>(t.data()), t.dtype(), t.dims(), t.strides());
    if (t.count() > 0)
      if (const auto it = written_.find(key); it != written_.end()) return it->second;
    const std::string bytes = t.dtype() == DType::kString ? pack_strings(t) : pack_tensor(t);
    blob.resize(static_cast<size_t>(align_up(static_cast<int64_t>(blob.size()), kAlignment)), '\0');
    OrderedJson row = OrderedJson::object();
    row["dtype"] = name(t.dtype());
    row["dims"] = t.dims();
    row["offset"] = blob.size();
    row["bytes"] = bytes.size();
    blob += bytes;
    tensors.push_back(std::move(row));
    if (t.count() > 0) written_.emplace(key, tensors.size() - 1);
    return tensors.size() - 1;
  }

  std::map<std::tuple<const void*, DType, Dims, Dims>, size_t> written_;
};

}  // namespace

std::string write(const Graph& graph, const SaveOptions& options) {
  Writer writer;
  OrderedJson header = OrderedJson::object();
  header["schema"] = kSchema;
  header["producer"] = "xc";
  OrderedJson body = writer.graph(graph);
  header["tensors"] = std::move(writer.tensors);
  header["blob_bytes"] = writer.blob.size();
  if (options.checksum)
    header["blob_xxh3_128"] = hash_bytes(writer.blob.data(), writer.blob.size()).text();
  header["graph"] = std::move(body);

  std::string text;
  try {
    text = header.dump();
  } catch (const OrderedJson::type_error&) {
    fail(Status::kUnsupported, "a name of the graph is not UTF-8, which .xcg cannot hold");
  }
  const auto start = static_cast<int64_t>(kMagic.size() + sizeof(uint64_t));
  const int64_t blob_start = align_up(start + static_cast<int64_t>(text.size()), kAlignment);
  text.resize(static_cast<size_t>(blob_start - start), ' ');
  const uint64_t length = text.size();
  std::string out(kMagic);
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + text + writer.blob;
}

}  // namespace xc::xcg
