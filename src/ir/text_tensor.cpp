#include "ir/text_tensor.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"
#include "tensor/half.h"

namespace xc {
namespace {

constexpr int kMaxTypeDepth = 16;
constexpr size_t kMaxRank = 64;

/// True when the dim reads back from between ',' and ']' as itself.
bool prints_plainly(const Dim& dim, const std::string& text) {
  if (text.size() > kMaxDimText || text.find('\n') != std::string::npos) return false;
  try {
    const std::string closed = text + "]";
    TextCursor cursor(closed);
    return cursor.until(",]") == text && Dim::parse(text) == dim;
  } catch (const Error&) {
    return false;
  }
}

std::string print_dim(const Dim& dim) {
  std::string text = dim.text();
  if (dim.is_constant() || prints_plainly(dim, text)) return text;
  return spell_quoted(text);
}

Dim parse_dim(TextCursor& in) {
  if (in.peek() == '"') return Dim::symbol(in.quoted());
  const size_t start = in.position();
  const std::string_view text = in.until(",]");
  if (text.size() > kMaxDimText) in.error("dim expression of more than {} characters", kMaxDimText);
  try {
    return Dim::parse(text);
  } catch (const Error& error) {
    throw Error(error.status(), error.message(), in.place(start));
  }
}

template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  return fmt::format("{}", value);
}

/// One element as text.
std::string print_element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return shortest(static_cast<const float*>(data)[i]);
    case DType::kF64:
      return shortest(static_cast<const double*>(data)[i]);
    case DType::kF16:
      return shortest(f16_to_float(static_cast<const uint16_t*>(data)[i]));
    case DType::kBF16:
      return shortest(bf16_to_float(static_cast<const uint16_t*>(data)[i]));
    case DType::kU64:
      return fmt::format("{}", static_cast<const uint64_t*>(data)[i]);
    case DType::kBool:
      return static_cast<const uint8_t*>(data)[i] ? "true" : "false";
    case DType::kString:
      return spell_quoted(static_cast<const std::string*>(data)[i]);
    case DType::kC64:
      return "(" + shortest(static_cast<const float*>(data)[2 * i]) + ", " +
             shortest(static_cast<const float*>(data)[2 * i + 1]) + ")";
    case DType::kC128:
      return "(" + shortest(static_cast<const double*>(data)[2 * i]) + ", " +
             shortest(static_cast<const double*>(data)[2 * i + 1]) + ")";
    default:
      // Storage floats print as their bits: one byte each.
      if (is_float(dtype)) return fmt::format("{}", static_cast<const uint8_t*>(data)[i]);
      return fmt::format("{}", load_int64(data, dtype, i));
  }
}

float parse_float(TextCursor& in) {
  const TextCursor::Number digits = in.number();
  float out = 0;
  const char* end = digits.text.data() + digits.text.size();
  const auto [ptr, code] = std::from_chars(digits.text.data(), end, out);
  if (code == std::errc::result_out_of_range && ptr == end)
    return std::strtof(std::string(digits.text).c_str(), nullptr);
  if (code != std::errc{} || ptr != end) in.error("malformed number '{}'", digits.text);
  return out;
}

uint64_t parse_unsigned(TextCursor& in) {
  const TextCursor::Number digits = in.number();
  uint64_t out = 0;
  const char* end = digits.text.data() + digits.text.size();
  const auto [ptr, code] = std::from_chars(digits.text.data(), end, out);
  if (!digits.integral || code != std::errc{} || ptr != end)
    in.error("'{}' is no u64", digits.text);
  return out;
}

/// Range of an integer or storage type.
std::pair<int64_t, int64_t> range_of(DType dtype) {
  const int bits = info(dtype).bits;
  if (is_signed(dtype)) {
    if (bits == 64) return {INT64_MIN, INT64_MAX};
    return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  }
  return {0, (int64_t{1} << bits) - 1};
}

void parse_element(TextCursor& in, void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = parse_float(in);
      return;
    case DType::kF64:
      static_cast<double*>(data)[i] = in.real();
      return;
    case DType::kF16:
      static_cast<uint16_t*>(data)[i] = float_to_f16(parse_float(in));
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(data)[i] = float_to_bf16(parse_float(in));
      return;
    case DType::kU64:
      static_cast<uint64_t*>(data)[i] = parse_unsigned(in);
      return;
    case DType::kString:
      static_cast<std::string*>(data)[i] = in.quoted();
      return;
    case DType::kBool: {
      const bool value = in.eat("true");
      if (!value && !in.eat("false")) in.error("expected true or false");
      static_cast<uint8_t*>(data)[i] = value;
      return;
    }
    case DType::kC64:
    case DType::kC128:
      in.expect("(");
      parse_element(in, data, dtype == DType::kC64 ? DType::kF32 : DType::kF64, 2 * i);
      in.expect(",");
      parse_element(in, data, dtype == DType::kC64 ? DType::kF32 : DType::kF64, 2 * i + 1);
      in.expect(")");
      return;
    default: {
      const int64_t value = in.integer();
      const auto [low, high] = range_of(dtype);
      if (value < low || value > high) in.error("{} is out of range of {}", value, name(dtype));
      if (is_float(dtype))
        static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      else
        store_int64(data, dtype, i, value);
    }
  }
}

bool elements_equal(const Tensor& t, int64_t i, int64_t j) {
  if (t.dtype() == DType::kString) return t.as<std::string>()[i] == t.as<std::string>()[j];
  const auto size = static_cast<size_t>(element_size(t.dtype()));
  const auto* bytes = static_cast<const char*>(t.data());
  return std::memcmp(bytes + static_cast<size_t>(i) * size, bytes + static_cast<size_t>(j) * size,
                     size) == 0;
}

void copy_element(Tensor& t, int64_t from, int64_t to) {
  if (t.dtype() == DType::kString) {
    t.as<std::string>()[to] = t.as<std::string>()[from];
    return;
  }
  const auto size = static_cast<size_t>(element_size(t.dtype()));
  auto* bytes = static_cast<char*>(t.data());
  std::memcpy(bytes + static_cast<size_t>(to) * size, bytes + static_cast<size_t>(from) * size,
              size);
}

std::string content_hash(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString)
    return hash_bytes(tensor.data(), static_cast<size_t>(tensor.byte_size())).text();
  std::string joined;
  for (int64_t i = 0; i < tensor.count(); ++i) joined += spell_quoted(tensor.as<std::string>()[i]);
  return hash_text(joined).text();
}

}  // namespace

std::string print_real(double value) {
  std::string out = shortest(value);
  const bool integral = out.find_first_not_of("-0123456789") == std::string::npos;
  return integral ? out + ".0" : out;
}

std::string print_type(const Type& type) {
  const auto element = [&] { return type.element ? print_type(*type.element) : "?[*]"; };
  const std::string dtype(type.dtype == DType::kUndefined ? "?" : name(type.dtype));
  switch (type.kind) {
    case Type::Kind::kSequence:
      return "seq(" + element() + ")";
    case Type::Kind::kOptional:
      return "opt(" + element() + ")";
    case Type::Kind::kMap:
      return "map(" + dtype + ", " + element() + ")";
    case Type::Kind::kTensor:
      break;
  }
  if (!type.dims) return dtype + "[*]";
  std::string out = dtype + "[";
  for (size_t i = 0; i < type.dims->size(); ++i) {
    if (i) out += ", ";
    out += print_dim((*type.dims)[i]);
  }
  return out + "]";
}

Type parse_type(TextCursor& in, int depth) {
  if (depth > kMaxTypeDepth) in.error("types are nested more than {} deep", kMaxTypeDepth);
  const auto element_dtype = [&] {
    if (in.eat("?")) return DType::kUndefined;
    const size_t start = in.position();
    const std::string_view text = in.word("an element type");
    const std::optional<DType> dtype = dtype_from_name(text);
    if (!dtype) {
      in.rewind(start);
      in.error("'{}' is no element type", text);
    }
    return *dtype;
  };
  const auto element = [&] { return std::make_shared<const Type>(parse_type(in, depth + 1)); };
  Type out;
  const auto container = [&](Type::Kind kind) {
    out.kind = kind;
    in.expect("(");
    if (kind == Type::Kind::kMap) {
      out.dtype = element_dtype();
      in.expect(",");
    }
    out.element = element();
    in.expect(")");
    return out;
  };
  if (in.eat("seq")) return container(Type::Kind::kSequence);
  if (in.eat("opt")) return container(Type::Kind::kOptional);
  if (in.eat("map")) return container(Type::Kind::kMap);
  out.dtype = element_dtype();
  in.expect("[");
  if (in.eat("*")) {
    in.expect("]");
    return out;
  }
  out.dims.emplace();
  if (in.eat("]")) return out;
  do {
    if (out.dims->size() == kMaxRank) in.error("more than {} dims", kMaxRank);
    out.dims->push_back(parse_dim(in));
  } while (in.eat(","));
  in.expect("]");
  return out;
}

std::string print_elements(const Tensor& tensor, int64_t max_elements) {
  const Tensor t = tensor.to_contiguous();
  const int64_t count = t.count();
  if (t.rank() == 0) return print_element(t.data(), t.dtype(), 0);
  if (count > max_elements) {
    int64_t same = 1;
    while (same < count && elements_equal(t, same, 0)) ++same;
    if (count > 0 && same == count) return "splat " + print_element(t.data(), t.dtype(), 0);
    return "<elided xxh3 " + content_hash(t) + ">";
  }
  std::string out = "[";
  for (int64_t i = 0; i < count; ++i) {
    if (i) out += ", ";
    out += print_element(t.data(), t.dtype(), i);
  }
  return out + "]";
}

Tensor parse_elements(TextCursor& in, DType dtype, const Dims& dims, int64_t& budget) {
  if (dtype == DType::kUndefined) in.error("a tensor needs an element type");
  if (in.peek() == '<') in.error("elided elements cannot be read back");
  const size_t start = in.position();
  const auto [count, bytes] =
      located([&] { return in.place(start); },
              [&] {
                const int64_t elements = element_count(dims);
                return std::pair(elements, checked_mul(elements, element_size(dtype)));
              });
  if (bytes > budget) in.error("tensors of more than {} bytes in one text", kMaxParsedBytes);
  budget -= bytes;
  if (dims.empty()) {
    Tensor out(dtype, dims);
    parse_element(in, out.data(), dtype, 0);
    return out;
  }
  if (in.eat("splat")) {
    Tensor out(dtype, dims);
    if (count == 0) in.error("splat of no elements");
    parse_element(in, out.data(), dtype, 0);
    for (int64_t i = 1; i < count; ++i) copy_element(out, 0, i);
    return out;
  }
  in.expect("[");
  Tensor out(dtype, dims);
  int64_t i = 0;
  if (!in.eat("]")) {
    do {
      if (i == count) in.error("more than {} elements", count);
      parse_element(in, out.data(), dtype, i++);
    } while (in.eat(","));
    in.expect("]");
  }
  if (i != count) {
    in.rewind(start);
    in.error("{} elements for {} places", i, count);
  }
  return out;
}

}  // namespace xc
