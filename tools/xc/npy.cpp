// The .npy format (numpy.lib.format, versions 1 to 3): magic, header length, a Python dict literal
// with descr, fortran_order and shape, then the elements.

#include <fmt/ranges.h>
#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "array.h"
#include "common.h"

namespace tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
static_assert(std::endian::native == std::endian::little,
              "big-endian hosts need byte swaps on output");

struct Descr {
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
  int64_t bytes = 0;
  bool swap = false;
  char kind = 0;  ///< as numpy: f i u b c U S V
};

/// Finds the value after 'key': in the dict literal.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  const std::string quoted = "'" + std::string(key) + "':";
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos) fail(XC_FORMAT, "{}: the .npy header has no '{}'", name, key);
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

Descr parse_descr(std::string_view value, const std::string& name) {
  if (value.size() < 2 || (value[0] != '\'' && value[0] != '"'))
    fail(XC_UNSUPPORTED, "{}: structured .npy arrays are not supported", name);
  const std::string_view text = value.substr(1, value.find(value[0], 1) - 1);
  if (text.ends_with('O'))
    fail(XC_UNSUPPORTED, "{}: Python objects ('{}') are not supported: save numbers or texts", name,
         text);
  if (text.size() < 3) fail(XC_FORMAT, "{}: bad descr '{}'", name, text);
  Descr out;
  out.swap = text[0] == '>';
  out.kind = text[1];
  const std::string digits(text.substr(2));
  if (digits.find_first_not_of("0123456789") != std::string::npos || digits.size() > 9)
    fail(XC_UNSUPPORTED, "{}: descr '{}' is not supported", name, text);
  out.bytes = std::stoll(digits);
  struct Row {
    char kind;
    int64_t bytes;
    xc_dtype dtype;
  };
  static constexpr Row kRows[] = {
      {'f', 4, XC_DTYPE_F32}, {'f', 8, XC_DTYPE_F64},  {'f', 2, XC_DTYPE_F16},
      {'i', 1, XC_DTYPE_I8},  {'i', 2, XC_DTYPE_I16},  {'i', 4, XC_DTYPE_I32},
      {'i', 8, XC_DTYPE_I64}, {'u', 1, XC_DTYPE_U8},   {'u', 2, XC_DTYPE_U16},
      {'u', 4, XC_DTYPE_U32}, {'u', 8, XC_DTYPE_U64},  {'b', 1, XC_DTYPE_BOOL},
      {'c', 8, XC_DTYPE_C64}, {'c', 16, XC_DTYPE_C128}};
  for (const Row& row : kRows)
    if (row.kind == out.kind && row.bytes == out.bytes) out.dtype = row.dtype;
  if (out.kind == 'U' || out.kind == 'S') out.dtype = XC_DTYPE_STRING;
  if (out.kind == 'U') out.bytes *= 4;
  const bool raw = out.kind == 'V' && out.bytes >= 1 && out.bytes <= 8;
  if (out.dtype == XC_DTYPE_UNDEFINED && !raw)
    fail(XC_UNSUPPORTED, "{}: element type '{}' is not supported", name, text);
  return out;
}

std::vector<int64_t> parse_shape(std::string_view value, const std::string& name) {
  std::vector<int64_t> dims;
  const size_t end = value.find(')');
  if (value.empty() || value[0] != '(' || end == std::string_view::npos)
    fail(XC_FORMAT, "{}: bad shape in the .npy header", name);
  std::string digits;
  for (const char c : value.substr(1, end - 1)) {
    if (c >= '0' && c <= '9')
      digits += c;
    else if (c == ',') {
      if (digits.empty() || digits.size() > 18) fail(XC_FORMAT, "{}: bad shape", name);
      dims.push_back(std::stoll(digits));
      digits.clear();
    } else if (c != ' ' && c != 'L') {
      fail(XC_FORMAT, "{}: bad shape in the .npy header", name);
    }
  }
  if (digits.size() > 18) fail(XC_FORMAT, "{}: bad shape", name);
  if (!digits.empty()) dims.push_back(std::stoll(digits));
  return dims;
}

/// UTF-8 to UCS-4; bytes that are none become U+FFFD.
std::vector<uint32_t> from_utf8(std::string_view text) {
  std::vector<uint32_t> out;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(at, end - at, &code);
    out.push_back(length > 0 ? static_cast<uint32_t>(code) : 0xfffd);
    at += std::max<utf8proc_ssize_t>(length, 1);
  }
  return out;
}

std::string read_string(const char* at, const Descr& descr, const std::string& name) {
  std::string out;
  if (descr.kind == 'S') {
    out.assign(at, static_cast<size_t>(descr.bytes));
    out.erase(out.find_last_not_of('\0') + 1);
    return out;
  }
  std::vector<uint32_t> units(static_cast<size_t>(descr.bytes / 4));
  std::memcpy(units.data(), at, static_cast<size_t>(descr.bytes));
  while (!units.empty() && units.back() == 0) units.pop_back();
  for (uint32_t unit : units) {
    const uint32_t code = descr.swap ? __builtin_bswap32(unit) : unit;
    if (code > 0x10ffff) fail(XC_FORMAT, "{}: {:#x} is no character", name, code);
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t length =
        utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
  return out;
}

/// Row-major position -> column-major position.
int64_t fortran_index(const std::vector<int64_t>& dims, int64_t flat) {
  const std::vector<int64_t> position = coordinates(dims, flat);
  int64_t index = 0, step = 1;
  for (size_t axis = 0; axis < dims.size(); step *= dims[axis++]) index += position[axis] * step;
  return index;
}

}  // namespace

std::vector<int64_t> coordinates(const std::vector<int64_t>& dims, int64_t flat) {
  std::vector<int64_t> out(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; flat /= dims[axis]) out[axis] = flat % dims[axis];
  return out;
}

int64_t Array::count() const {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (__builtin_mul_overflow(count, dim, &count))
      fail(XC_LIMIT, "array of {} elements", dims_text(dims));
  return count;
}

Array parse_npy(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 10 || bytes.substr(0, kMagic.size()) != kMagic)
    fail(XC_FORMAT, "{}: not a .npy array", name);
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  const bool long_header = byte(6) >= 2;
  if (long_header && bytes.size() < 12) fail(XC_FORMAT, "{}: truncated", name);
  const size_t length =
      byte(8) | byte(9) << 8 | (long_header ? byte(10) << 16 | byte(11) << 24 : size_t{0});
  const size_t begin = long_header ? 12 : 10;
  if (bytes.size() - begin < length) fail(XC_FORMAT, "{}: truncated header", name);
  const std::string_view header = bytes.substr(begin, length);
  const std::string_view body = bytes.substr(begin + length);

  const Descr descr = parse_descr(value_of(header, "descr", name), name);
  const bool fortran = value_of(header, "fortran_order", name).substr(0, 4) == "True";
  Array out;
  out.dims = parse_shape(value_of(header, "shape", name), name);
  out.dtype = descr.dtype;
  out.element_bytes = descr.bytes;
  const int64_t count = out.count();
  if (descr.bytes == 0 && count > static_cast<int64_t>(body.size()) + 1)
    fail(XC_UNSUPPORTED, "{}: {} texts of no length", name, count);
  int64_t size = 0;
  if (__builtin_mul_overflow(count, descr.bytes, &size) ||
      static_cast<uint64_t>(size) > body.size())
    fail(XC_FORMAT, "{}: truncated: {} elements of {} bytes do not fit in {} bytes", name, count,
         descr.bytes, body.size());

  const auto source = [&](int64_t i) {
    return body.data() + (fortran ? fortran_index(out.dims, i) : i) * descr.bytes;
  };
  if (descr.dtype == XC_DTYPE_STRING) {
    for (int64_t i = 0; i < count; ++i) out.strings.push_back(read_string(source(i), descr, name));
    return out;
  }
  out.data.resize(static_cast<size_t>(size));
  if (!fortran) {
    std::memcpy(out.data.data(), body.data(), out.data.size());
  } else {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out.data.data() + i * descr.bytes, source(i), static_cast<size_t>(descr.bytes));
  }
  if (descr.dtype == XC_DTYPE_BOOL)  // 0 or 1, as a model wants them and numpy reads any byte
    for (std::byte& value : out.data) value = std::byte{value != std::byte{0}};
  if (descr.swap) {
    const int64_t unit = descr.kind == 'c' ? descr.bytes / 2 : descr.bytes;
    for (auto at = out.data.begin(); at != out.data.end(); at += unit) std::reverse(at, at + unit);
  }
  return out;
}

std::string format_npy(const Array& array) {
  std::string descr, body;
  if (array.dtype == XC_DTYPE_STRING) {
    std::vector<std::vector<uint32_t>> texts;
    size_t longest = 1;
    for (const std::string& text : array.strings) {
      texts.push_back(from_utf8(text));
      longest = std::max(longest, texts.back().size());
    }
    descr = fmt::format("<U{}", longest);
    for (std::vector<uint32_t>& text : texts) {
      text.resize(longest);
      body.append(reinterpret_cast<const char*>(text.data()), longest * 4);
    }
  } else {
    static const std::map<xc_dtype, const char*> kDescr = {
        {XC_DTYPE_F32, "<f4"}, {XC_DTYPE_F64, "<f8"},  {XC_DTYPE_F16, "<f2"},
        {XC_DTYPE_I8, "|i1"},  {XC_DTYPE_I16, "<i2"},  {XC_DTYPE_I32, "<i4"},
        {XC_DTYPE_I64, "<i8"}, {XC_DTYPE_U8, "|u1"},   {XC_DTYPE_U16, "<u2"},
        {XC_DTYPE_U32, "<u4"}, {XC_DTYPE_U64, "<u8"},  {XC_DTYPE_BOOL, "|b1"},
        {XC_DTYPE_C64, "<c8"}, {XC_DTYPE_C128, "<c16"}};
    const auto row = kDescr.find(array.dtype);
    descr = row != kDescr.end() ? row->second : fmt::format("|V{}", array.element_bytes);
    body.assign(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  }
  std::string shape = fmt::format("{}", fmt::join(array.dims, ", "));
  if (array.dims.size() == 1) shape += ',';  // a Python tuple
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // The elements start at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header + body;
}

Array read_npy(const std::string& path) {
  return parse_npy(read_file(path), path);
}

}  // namespace tool
