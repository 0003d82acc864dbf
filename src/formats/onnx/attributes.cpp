#include "formats/onnx/attributes.h"

#include <bit>

#include "base/utf8.h"
#include "formats/onnx/op_versions.h"
#include "formats/onnx/types.h"

namespace xc::onnx {
namespace {

struct PayloadField {
  uint32_t field;
  AttributeType type;
};
constexpr PayloadField kPayloads[] = {
    {2, AttributeType::kFloat},         {3, AttributeType::kInt},
    {4, AttributeType::kString},        {5, AttributeType::kTensor},
    {6, AttributeType::kGraph},         {7, AttributeType::kFloats},
    {8, AttributeType::kInts},          {9, AttributeType::kStrings},
    {10, AttributeType::kTensors},      {11, AttributeType::kGraphs},
    {14, AttributeType::kTypeProto},    {15, AttributeType::kTypeProtos},
    {22, AttributeType::kSparseTensor}, {23, AttributeType::kSparseTensors}};

std::optional<AttributeType> payload_type(uint32_t field) {
  for (const PayloadField& row : kPayloads)
    if (row.field == field) return row.type;
  return std::nullopt;
}

}  // namespace

std::optional<AttributeProto> resolve(const AttributeProto& attribute,
                                      const AttributeEnvironment* environment) {
  if (attribute.reference.empty()) return attribute;
  if (!environment)
    fail(Status::kInvalidModel, "attribute '{}' refers to '{}' outside of a function",
         printable(attribute.name), printable(attribute.reference));
  const auto it = environment->find(attribute.reference);
  if (it == environment->end()) return std::nullopt;
  if (it->second.graph)
    fail(Status::kUnsupported, "attribute '{}' passes a graph to a function",
         printable(attribute.name));
  AttributeProto out = it->second;
  out.name = attribute.name;
  return out;
}

AttributeType type_of(const Source& source, const AttributeProto& attribute) {
  if (attribute.type != AttributeType::kUndefined) return attribute.type;
  std::optional<AttributeType> found;
  for (Message m(source, attribute.body); m.next(); m.skip())
    if (const auto type = payload_type(m.field())) {
      if (found && *found != *type)
        m.damaged(
            fmt::format("attribute '{}' has no type and values of two", printable(attribute.name)));
      found = type;
    }
  if (!found)
    Message(source, attribute.body)
        .damaged(
            fmt::format("attribute '{}' has neither type nor value", printable(attribute.name)));
  return *found;
}

namespace {

/// What the fields of an attribute hold; those of its type are set.
struct Payload {
  double real = 0;
  int64_t integer = 0;
  std::optional<Bytes> text, message;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<std::string> strings;
};

/// Some writers fill in the zeros of the other kinds.
void expect_zero(Message& m, const AttributeProto& attribute, AttributeType type,
                 AttributeType found) {
  const bool zero = (m.field() == 2 && std::bit_cast<uint32_t>(m.real()) == 0) ||
                    (m.field() == 3 && m.integer() == 0) || (m.field() == 4 && m.bytes().empty());
  if (!zero)
    m.damaged(fmt::format("attribute '{}' of type {} has a value of type {}",
                          printable(attribute.name), name(type), name(found)));
}

Payload read_payload(const Source& source, const AttributeProto& attribute, AttributeType type) {
  Payload out;
  int64_t entries = 0;
  const auto count = [&] {
    if (++entries > source.limits.attribute_elements)
      fail(Status::kLimit, "attribute '{}' has more than {} elements", printable(attribute.name),
           source.limits.attribute_elements);
  };
  const auto string = [&](Message& m) {
    const Bytes bytes = m.bytes();
    if (static_cast<int64_t>(bytes.size()) > source.limits.string_bytes)
      fail(Status::kLimit, "attribute '{}' has a string of {} bytes", printable(attribute.name),
           bytes.size());
    return bytes;
  };
  for (Message m(source, attribute.body); m.next();) {
    if (const auto found = payload_type(m.field()); found && *found != type) {
      expect_zero(m, attribute, type, *found);
      continue;
    }
    switch (m.field()) {
      case 2:
        out.real = m.real();
        break;
      case 3:
        out.integer = m.integer();
        break;
      case 4:
        out.text = string(m);
        break;
      case 5:
      case 14:
      case 22:
        out.message = m.bytes();
        break;
      case 7:
        m.each_fixed<float>([&](float v) {
          count();
          out.reals.push_back(v);
        });
        break;
      case 8:
        m.each_integer([&](int64_t v) {
          count();
          out.integers.push_back(v);
        });
        break;
      case 9:
        count();
        out.strings.emplace_back(string(m));
        break;
      default:
        m.skip();
    }
  }
  return out;
}

}  // namespace

Attr decode_payload(const Source& source, const AttributeProto& attribute, TensorReader& tensors) {
  const AttributeType type = type_of(source, attribute);
  Payload payload = read_payload(source, attribute, type);
  const auto message = [&]() -> Bytes {
    if (!payload.message)
      Message(source, attribute.body)
          .damaged(fmt::format("attribute '{}' has no value", printable(attribute.name)));
    return *payload.message;
  };
  switch (type) {
    case AttributeType::kFloat:
      return payload.real;
    case AttributeType::kInt:
      return payload.integer;
    case AttributeType::kString:
      return std::string(payload.text.value_or(Bytes()));
    case AttributeType::kFloats:
      return std::move(payload.reals);
    case AttributeType::kInts:
      return std::move(payload.integers);
    case AttributeType::kStrings:
      return std::move(payload.strings);
    case AttributeType::kTensor:
      return tensors.dense(message());
    case AttributeType::kSparseTensor:
      return tensors.sparse(message());
    case AttributeType::kTypeProto:
      return decode_type(source, message(), std::string(attribute.name)).text();
    default:
      fail(Status::kUnsupported, "attribute '{}' of type {} is not supported",
           printable(attribute.name), name(type));
  }
}

}  // namespace xc::onnx
