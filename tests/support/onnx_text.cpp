#include "support/onnx_text.h"

#include <cstdint>
#include <cstring>
#include <protozero/varint.hpp>

#include "base/error.h"
#include "formats/onnx/types.h"
#include "tensor/dtype.h"

namespace xc::test {
namespace {

struct Field {
  const char* message;
  const char* name;
  uint32_t number;
  char kind;  ///< i varint, f float, d double, s bytes, m message
  const char* type = "";
};

constexpr Field kFields[] = {
    {"Model", "ir_version", 1, 'i'},
    {"Model", "producer_name", 2, 's'},
    {"Model", "graph", 7, 'm', "Graph"},
    {"Model", "opset_import", 8, 'm', "Opset"},
    {"Model", "functions", 25, 'm', "Function"},
    {"Opset", "domain", 1, 's'},
    {"Opset", "version", 2, 'i'},
    {"Graph", "node", 1, 'm', "Node"},
    {"Graph", "name", 2, 's'},
    {"Graph", "initializer", 5, 'm', "Tensor"},
    {"Graph", "input", 11, 'm', "ValueInfo"},
    {"Graph", "output", 12, 'm', "ValueInfo"},
    {"Graph", "value_info", 13, 'm', "ValueInfo"},
    {"Graph", "sparse_initializer", 15, 'm', "Sparse"},
    {"Node", "input", 1, 's'},
    {"Node", "output", 2, 's'},
    {"Node", "name", 3, 's'},
    {"Node", "op_type", 4, 's'},
    {"Node", "attribute", 5, 'm', "Attribute"},
    {"Node", "domain", 7, 's'},
    {"Node", "overload", 8, 's'},
    {"Attribute", "name", 1, 's'},
    {"Attribute", "f", 2, 'f'},
    {"Attribute", "i", 3, 'i'},
    {"Attribute", "s", 4, 's'},
    {"Attribute", "t", 5, 'm', "Tensor"},
    {"Attribute", "g", 6, 'm', "Graph"},
    {"Attribute", "floats", 7, 'f'},
    {"Attribute", "ints", 8, 'i'},
    {"Attribute", "strings", 9, 's'},
    {"Attribute", "tp", 14, 'm', "Type"},
    {"Attribute", "type", 20, 'i'},
    {"Attribute", "ref_attr_name", 21, 's'},
    {"Attribute", "sparse_tensor", 22, 'm', "Sparse"},
    {"Tensor", "dims", 1, 'i'},
    {"Tensor", "data_type", 2, 'i'},
    {"Tensor", "segment", 3, 'm', "Raw"},
    {"Tensor", "float_data", 4, 'f'},
    {"Tensor", "int32_data", 5, 'i'},
    {"Tensor", "string_data", 6, 's'},
    {"Tensor", "int64_data", 7, 'i'},
    {"Tensor", "name", 8, 's'},
    {"Tensor", "raw_data", 9, 's'},
    {"Tensor", "double_data", 10, 'd'},
    {"Tensor", "uint64_data", 11, 'i'},
    {"Tensor", "external_data", 13, 'm', "Entry"},
    {"Tensor", "data_location", 14, 'i'},
    {"Sparse", "values", 1, 'm', "Tensor"},
    {"Sparse", "indices", 2, 'm', "Tensor"},
    {"Sparse", "dims", 3, 'i'},
    {"Entry", "key", 1, 's'},
    {"Entry", "value", 2, 's'},
    {"ValueInfo", "name", 1, 's'},
    {"ValueInfo", "type", 2, 'm', "Type"},
    {"Type", "tensor_type", 1, 'm', "TensorType"},
    {"Type", "sequence_type", 4, 'm', "Container"},
    {"Type", "map_type", 5, 'm', "Map"},
    {"Type", "opaque_type", 7, 'm', "Raw"},
    {"Type", "sparse_tensor_type", 8, 'm', "TensorType"},
    {"Type", "optional_type", 9, 'm', "Container"},
    {"Container", "elem_type", 1, 'm', "Type"},
    {"Map", "key_type", 1, 'i'},
    {"Map", "value_type", 2, 'm', "Type"},
    {"TensorType", "elem_type", 1, 'i'},
    {"TensorType", "shape", 2, 'm', "Shape"},
    {"Shape", "dim", 1, 'm', "Dimension"},
    {"Dimension", "dim_value", 1, 'i'},
    {"Dimension", "dim_param", 2, 's'},
    {"Function", "name", 1, 's'},
    {"Function", "input", 4, 's'},
    {"Function", "output", 5, 's'},
    {"Function", "attribute", 6, 's'},
    {"Function", "node", 7, 'm', "Node"},
    {"Function", "opset_import", 9, 'm', "Opset"},
    {"Function", "domain", 10, 's'},
    {"Function", "attribute_proto", 11, 'm', "Attribute"},
    {"Function", "overload", 13, 's'},
};

void put_varint(std::string& out, uint64_t value) {
  protozero::write_varint(std::back_inserter(out), value);
}
void put_tag(std::string& out, uint32_t field, uint32_t wire_type) {
  put_varint(out, (uint64_t{field} << 3) | wire_type);
}
void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, 2);
  put_varint(out, bytes.size());
  out += bytes;
}
template <class T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::string message(std::string_view type, bool top) {
    std::string out;
    for (;;) {
      skip();
      if (top && at_ == text_.size()) return out;
      if (!top && eat('}')) return out;
      field(type, out);
    }
  }

 private:
  [[noreturn]] void error(std::string_view what) const {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    fail(Status::kFormat, "protobuf text, line {}: {}", line, what);
  }

  void skip() {
    for (;;) {
      while (at_ < text_.size() &&
             std::string_view(" \t\r\n,;").find(text_[at_]) != std::string_view::npos)
        ++at_;
      if (at_ >= text_.size() || text_[at_] != '#') return;
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
  }
  bool eat(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  std::strchr("_.+-/", text_[at_])))
      ++at_;
    if (at_ == start) error("expected a word");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    if (!eat('"')) error("expected a string");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (c == 'x') {
          c = static_cast<char>(std::stoi(std::string(text_.substr(at_, 2)), nullptr, 16));
          at_ += 2;
        }
      }
      out += c;
    }
    if (!eat('"')) error("a string does not end");
    return out;
  }

  void number(std::string& out, uint32_t field, char kind, const std::string& text, bool tag) {
    if (kind == 'f') {
      if (tag) put_tag(out, field, 5);
      put_raw(out, std::stof(text));
    } else if (kind == 'd') {
      if (tag) put_tag(out, field, 1);
      put_raw(out, std::stod(text));
    } else {
      if (tag) put_tag(out, field, 0);
      put_varint(out, text[0] == '-' ? static_cast<uint64_t>(std::stoll(text)) : std::stoull(text));
    }
  }

  /// `x: f32[2, n, ?]` as a ValueInfo.
  std::string short_value_info(const std::string& name) {
    const std::string type = word();
    std::string shape, tensor, encoded, out;
    const auto dtype = dtype_from_name(type);
    if (!dtype) error("unknown element type " + type);
    put_tag(tensor, 1, 0);
    put_varint(tensor, static_cast<uint64_t>(onnx_number(*dtype)));
    if (eat('[')) {
      while (!eat(']')) {
        std::string dim;
        if (eat('?')) {
        } else if (const std::string d = word();
                   std::isdigit(static_cast<unsigned char>(d[0])) || d[0] == '-') {
          number(dim, 1, 'i', d, true);
        } else {
          put_bytes(dim, 2, d);
        }
        put_bytes(shape, 1, dim);
      }
      put_bytes(tensor, 2, shape);
    }
    put_bytes(encoded, 1, tensor);
    put_bytes(out, 1, name);
    put_bytes(out, 2, encoded);
    return out;
  }

  void field(std::string_view type, std::string& out) {
    const std::string name = word();
    if (name == "hex") {
      if (!eat(':')) error("expected ':'");
      const std::string digits = quoted();
      for (size_t i = 0; i + 1 < digits.size(); i += 2)
        out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
      return;
    }
    Field found{"", "", 0, '?', "Raw"};
    if (std::isdigit(static_cast<unsigned char>(name[0]))) {
      found.number = static_cast<uint32_t>(std::stoul(name));
    } else {
      for (const Field& f : kFields)
        if (type == f.message && name == f.name) found = f;
      if (found.number == 0) error(std::string(type) + " has no field " + name);
    }
    if (eat('{')) {
      skip();
      // A short value info starts with a string: `input { "x": f32[2] }`.
      if (at_ < text_.size() && text_[at_] == '"' && std::string_view(found.type) == "ValueInfo") {
        const std::string value = quoted();
        if (!eat(':')) error("expected ':'");
        put_bytes(out, found.number, short_value_info(value));
        if (!eat('}')) error("expected '}'");
        return;
      }
      put_bytes(out, found.number, message(found.type, false));
      return;
    }
    if (!eat(':')) error("expected ':' or '{' after " + name);
    skip();
    if (eat('[')) {
      std::string packed;
      const bool strings = found.kind == 's';
      while (!eat(']')) {
        if (strings)
          put_bytes(out, found.number, quoted());
        else
          number(packed, found.number, found.kind, word(), false);
      }
      if (!strings) put_bytes(out, found.number, packed);
    } else if (at_ < text_.size() && text_[at_] == '"') {
      put_bytes(out, found.number, quoted());
    } else {
      number(out, found.number, found.kind, word(), true);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string onnx_from_text(std::string_view text) {
  return Parser(text).message("Model", true);
}

}  // namespace xc::test
