#include <algorithm>

#include "base/utf8.h"
#include "formats/onnx/proto.h"
#include "ir/place.h"

namespace xc::onnx {

void Message::check_name(Bytes text) const {
  if (static_cast<int64_t>(text.size()) > source_->limits.name_bytes)
    fail(Status::kLimit, "a name has {} bytes, the limit is {}", text.size(),
         source_->limits.name_bytes);
  if (!valid_utf8(text) || text.find('\0') != Bytes::npos)
    damaged(fmt::format("a name is not UTF-8 text: '{}'", printable(text)));
}

std::string_view Message::problem(const protozero::exception& error) {
  if (dynamic_cast<const protozero::end_of_buffer_exception*>(&error))
    return "a field goes on after the end of what holds it";
  if (dynamic_cast<const protozero::unknown_pbf_wire_type_exception*>(&error))
    return "a field has a wire type that does not exist";
  if (dynamic_cast<const protozero::varint_too_long_exception*>(&error))
    return "a number has more than 64 bits";
  if (dynamic_cast<const protozero::invalid_tag_exception*>(&error))
    return "a field has a number that does not exist";
  if (dynamic_cast<const protozero::invalid_length_exception*>(&error))
    return "a packed list ends inside a number";
  return error.what();
}

bool begins_model(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto first = static_cast<uint8_t>(bytes[0]);
  const uint32_t type = first & 7u;
  uint32_t field = (first & 127u) >> 3;
  if (first & 128) {  // a number that needs a second byte
    if (bytes.size() < 2 || (bytes[1] & 128)) return false;
    field |= static_cast<uint32_t>(bytes[1]) << 4;
  }
  constexpr uint32_t kInteger = 0, kOfLength = 2;
  constexpr uint32_t kIntegers[] = {1, 5};  // of ModelProto; all others have a length
  constexpr uint32_t kOthers[] = {2, 3, 4, 6, 7, 8, 14, 20, 25, 26};
  return (type == kInteger && std::ranges::count(kIntegers, field) != 0) ||
         (type == kOfLength && std::ranges::count(kOthers, field) != 0);
}

std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

std::string place(const NodeProto& node) {
  const Bytes shown = !node.name.empty()      ? node.name
                      : !node.outputs.empty() ? node.outputs.front()
                                              : Bytes();
  return node_place(shown, node.op);
}

namespace {

GraphProto decode_graph(const Source& source, Bytes body, int depth);

AttributeProto decode_attribute(const Source& source, Bytes body, int depth) {
  AttributeProto out;
  out.body = body;
  Bytes graph;
  bool has_graph = false;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        out.name = m.name();
        break;
      case 20:
        out.type = static_cast<AttributeType>(m.integer());
        break;
      case 21:
        out.reference = m.name();
        break;
      case 6:
        graph = m.bytes();
        has_graph = true;
        break;
      default:
        m.skip();
    }
  if (out.name.empty()) Message(source, body).damaged("an attribute has no name");
  if (has_graph) {
    if (depth >= source.limits.subgraph_depth)
      fail(Status::kLimit, "subgraphs are nested deeper than {}", source.limits.subgraph_depth);
    out.graph = std::make_shared<const GraphProto>(decode_graph(source, graph, depth + 1));
  }
  return out;
}

NodeProto decode_node(const Source& source, Bytes body, int depth) {
  source.count_node();
  NodeProto out;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        out.inputs.push_back(m.name());
        break;
      case 2:
        out.outputs.push_back(m.name());
        break;
      case 3:
        out.name = m.name();
        break;
      case 4:
        out.op = m.name();
        break;
      case 5:
        source.count_value();
        // Name and operator stand in front of the attributes in every file that is seen.
        out.attributes.push_back(
            located([&] { return place(out); },
                    [&] { return decode_attribute(source, m.bytes(), depth); }));
        break;
      case 7:
        out.domain = canonical_domain(m.name());
        break;
      case 8:
        out.overload = m.name();
        break;
      default:
        m.skip();
    }
  if (out.op.empty()) Message(source, body).damaged("a node has no operator");
  return out;
}

ValueInfoProto decode_value_info(const Source& source, Bytes body) {
  ValueInfoProto out;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        out.name = m.name();
        break;
      case 2:
        out.type = m.bytes();
        break;
      default:
        m.skip();
    }
  if (out.name.empty()) Message(source, body).damaged("an input or output has no name");
  return out;
}

TensorProto decode_tensor_name(const Source& source, Bytes body, bool sparse) {
  TensorProto out{{}, body};
  for (Message m(source, body); m.next();) {
    if (sparse && m.field() == 1) {
      out.name = decode_tensor_name(source, m.bytes(), false).name;
    } else if (!sparse && m.field() == 8) {
      out.name = m.name();
    } else {
      m.skip();
    }
  }
  if (out.name.empty()) Message(source, body).damaged("an initializer has no name");
  return out;
}

GraphProto decode_graph(const Source& source, Bytes body, int depth) {
  GraphProto out;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        out.nodes.push_back(decode_node(source, m.bytes(), depth));
        break;
      case 2:
        out.name = m.name();
        break;
      case 5:
        out.initializers.push_back(decode_tensor_name(source, m.bytes(), false));
        break;
      case 11:
        out.inputs.push_back(decode_value_info(source, m.bytes()));
        break;
      case 12:
        out.outputs.push_back(decode_value_info(source, m.bytes()));
        break;
      case 13:
        out.value_infos.push_back(decode_value_info(source, m.bytes()));
        break;
      case 15:
        out.sparse_initializers.push_back(decode_tensor_name(source, m.bytes(), true));
        break;
      default:
        m.skip();
    }
  return out;
}

void decode_opset(const Source& source, Bytes body, Opsets& opsets) {
  Bytes domain;
  int64_t version = 0;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        domain = canonical_domain(m.name());
        break;
      case 2:
        version = m.integer();
        break;
      default:
        m.skip();
    }
  if (version < 1)
    fail(Status::kInvalidModel, "opset version {} of domain '{}' is not positive", version,
         printable(domain));
  source.count_value();
  const auto [known, added] = opsets.emplace(domain, version);  // some converters say one again
  if (!added && known->second != version)
    fail(Status::kInvalidModel, "the model imports domain '{}' in versions {} and {}",
         printable(domain), known->second, version);
}

FunctionProto decode_function(const Source& source, Bytes body) {
  FunctionProto out;
  for (Message m(source, body); m.next();) switch (m.field()) {
      case 1:
        out.name = m.name();
        break;
      case 4:
        out.inputs.push_back(m.name());
        break;
      case 5:
        out.outputs.push_back(m.name());
        break;
      case 6:
        out.attributes.push_back(m.name());
        break;
      case 7:
        out.nodes.push_back(decode_node(source, m.bytes(), 0));
        break;
      case 9:
        decode_opset(source, m.bytes(), out.opsets);
        break;
      case 10:
        out.domain = canonical_domain(m.name());
        break;
      case 11:
        source.count_value();
        out.defaults.push_back(decode_attribute(source, m.bytes(), 0));
        break;
      case 13:
        out.overload = m.name();
        break;
      default:
        m.skip();
    }
  if (out.name.empty()) Message(source, body).damaged("a function has no name");
  return out;
}

}  // namespace

ModelProto decode_model(const Source& source) {
  // protobuf messages are limited to 2 GiB by the implementations that write them.
  if (source.file.size() > INT32_MAX)
    fail(Status::kLimit,
         "an ONNX file has at most {} bytes, this one has {}: store its weights as "
         "external data",
         INT32_MAX, source.file.size());
  ModelProto out;
  Bytes graph;
  bool has_graph = false;
  for (Message m(source, source.file); m.next();) switch (m.field()) {
      case 1:
        out.ir_version = m.integer();
        break;
      case 7:
        if (has_graph) m.damaged("the model has two graphs");
        graph = m.bytes();
        has_graph = true;
        break;
      case 8:
        decode_opset(source, m.bytes(), out.opsets);
        break;
      case 25:
        if (static_cast<int>(out.functions.size()) >= source.limits.functions)
          fail(Status::kLimit, "the model has more than {} functions", source.limits.functions);
        out.functions.push_back(decode_function(source, m.bytes()));
        break;
      default:
        m.skip();
    }
  if (!has_graph) fail(Status::kInvalidModel, "the file holds no graph");
  if (out.ir_version < 1)
    fail(Status::kInvalidModel, "IR version {} is not one of ONNX", out.ir_version);
  // Version 2 and older files could leave the opset out, which meant the first one.
  if (out.opsets.empty()) {
    if (out.ir_version >= 3) fail(Status::kInvalidModel, "the model imports no opset");
    out.opsets.emplace("", 1);
  }
  out.graph = decode_graph(source, graph, 0);
  return out;
}

}  // namespace xc::onnx
