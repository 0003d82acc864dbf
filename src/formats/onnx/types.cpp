#include "formats/onnx/types.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/utf8.h"

namespace xc::onnx {
namespace {

constexpr int kMaxTypeDepth = 8;

/// Exporters write "?", "-1" or "None" for any size, on axes whose sizes differ.
bool names_a_size(std::string_view parameter) {
  const auto of_a_name = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           static_cast<unsigned char>(c) >= 128;
  };
  return parameter != "-1" && parameter != "None" &&
         std::any_of(parameter.begin(), parameter.end(), of_a_name);
}

struct TypeDecoder {
  const Source& source;
  const std::string& value_name;

  std::string place() const { return fmt::format("value '{}'", printable(value_name)); }

  DType element_type(int64_t data_type) const {
    return located([&] { return place(); }, [&] { return dtype_from_onnx(data_type); });
  }

  SymDims shape(Bytes body) const {
    SymDims dims;
    for (Message m(source, body); m.next();) {
      if (m.field() != 1) {
        m.skip();
        continue;
      }
      if (static_cast<int>(dims.size()) >= source.limits.rank)
        fail(Status::kLimit, "'{}' has more than {} dimensions", printable(value_name),
             source.limits.rank);
      std::optional<int64_t> number;
      Bytes parameter;
      for (Message d(source, m.bytes()); d.next();) switch (d.field()) {
          case 1:
            number = d.integer();
            break;
          case 2:
            parameter = d.name();
            break;
          default:
            d.skip();
        }
      // Exporters write unknown dims as -1 or 0 with a name; a plain 0 is an empty tensor.
      if (number && *number >= 0 && parameter.empty()) {
        dims.emplace_back(*number);
        continue;
      }
      if (number && *number < -1)
        fail(Status::kInvalidModel, "'{}' has dimension {}", printable(value_name), *number);
      const std::string axis_name = value_name + "_d" + std::to_string(dims.size());
      dims.push_back(Dim::symbol(symbol_name(
          names_a_size(parameter) ? std::string_view(parameter) : std::string_view(axis_name))));
    }
    return dims;
  }

  Type tensor(Bytes body) const {
    Type out;
    for (Message m(source, body); m.next();) switch (m.field()) {
        case 1:
          out.dtype = element_type(m.integer());
          break;
        case 2:
          out.dims = shape(m.bytes());
          break;
        default:
          m.skip();
      }
    return out;
  }

  Type container(Bytes body, Type::Kind kind, int depth) const {
    Type out;
    out.kind = kind;
    const uint32_t element_field = kind == Type::Kind::kMap ? 2 : 1;
    for (Message m(source, body); m.next();) {
      if (m.field() == element_field)
        out.element = std::make_shared<const Type>(any(m.bytes(), depth + 1));
      else if (m.field() == 1)
        out.dtype = element_type(m.integer());
      else
        m.skip();
    }
    if (!out.element) out.element = std::make_shared<const Type>();
    return out;
  }

  Type any(Bytes body, int depth) const {
    if (depth > kMaxTypeDepth)
      fail(Status::kLimit, "the type of '{}' is nested deeper than {}", printable(value_name),
           kMaxTypeDepth);
    Type out;
    for (Message m(source, body); m.next();) switch (m.field()) {
        case 1:
          out = tensor(m.bytes());
          break;
        case 4:
          out = container(m.bytes(), Type::Kind::kSequence, depth);
          break;
        case 5:
          out = container(m.bytes(), Type::Kind::kMap, depth);
          break;
        case 9:
          out = container(m.bytes(), Type::Kind::kOptional, depth);
          break;
        case 7:
        case 8:
          fail(Status::kUnsupported,
               "'{}' has an opaque or sparse type; only tensors, sequences, "
               "optionals and maps are supported",
               printable(value_name));
        default:
          m.skip();
      }
    return out;
  }
};

}  // namespace

DType dtype_from_onnx(int64_t data_type) {
  const auto type = dtype_from_onnx_number(data_type);
  if (!type) fail(Status::kInvalidModel, "element type {} is not one of ONNX", data_type);
  return *type;
}

Type decode_type(const Source& source, Bytes body, const std::string& value_name) {
  return TypeDecoder{source, value_name}.any(body, 0);
}

std::string encode_type(const Type& type) {
  // Messages are made as strings: a nested writer leaves out an empty one, and the empty shape is
  // that of a scalar.
  using Writer = protozero::pbf_writer;
  std::string inner, out;
  Writer body(inner), writer(out);
  if (type.kind != Type::Kind::kTensor) {
    const bool map = type.kind == Type::Kind::kMap;
    if (map) body.add_int64(1, onnx_number(type.dtype));
    body.add_message(map ? 2 : 1, type.element ? encode_type(*type.element) : std::string());
    writer.add_message(map ? 5 : type.kind == Type::Kind::kSequence ? 4 : 9, inner);
    return out;
  }
  body.add_int64(1, onnx_number(type.dtype));
  if (type.dims) {
    std::string shape;
    for (const Dim& d : *type.dims) {
      std::string dim;
      if (d.is_constant())
        Writer(dim).add_int64(1, d.value());
      else
        Writer(dim).add_string(2, d.text());
      Writer(shape).add_message(1, dim);
    }
    body.add_message(2, shape);
  }
  writer.add_message(1, inner);
  return out;
}

}  // namespace xc::onnx
