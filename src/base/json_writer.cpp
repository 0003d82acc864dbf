#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/utf8.h"

namespace xc {
namespace {

/// The letter behind the backslash of a short escape; 0: there is none.
char short_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

}  // namespace

JsonWriter& JsonWriter::key(std::string_view name) {
  begin_element();
  quote(name);
  out_ += indent_ < 0 ? ":" : ": ";
  after_key_ = true;
  return *this;
}

void JsonWriter::open(char bracket) {
  begin_element();
  out_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) break_line();
  out_ += bracket;
  first_ = false;
}

void JsonWriter::literal(std::string_view text) {
  begin_element();
  out_ += text;
}

void JsonWriter::real(double value) {
  if (!std::isfinite(value)) return literal("null");
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  literal(text);
}

void JsonWriter::text(std::string_view value) {
  begin_element();
  quote(value);
}

void JsonWriter::begin_element() {
  if (!after_key_ && depth_ > 0) {
    if (!first_) out_ += ',';
    break_line();
  }
  after_key_ = first_ = false;
}

void JsonWriter::quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0)
      out_ += "\xEF\xBF\xBD";
    else if (const char letter = short_escape(c))
      (out_ += '\\') += letter;
    else if (length == 1 && c < ' ')
      out_ += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out_ += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out_ += '"';
}

void JsonWriter::break_line() {
  if (indent_ < 0) return;
  out_ += '\n';
  out_.append(depth_ * static_cast<size_t>(indent_), ' ');
}

}  // namespace xc
