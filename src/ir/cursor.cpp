#include "ir/cursor.h"

#include <algorithm>
#include <charconv>

#include "base/real_text.h"

namespace xc {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_char(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}

}  // namespace

std::string TextCursor::place(size_t position) const {
  position = std::min(position, text_.size());
  size_t line = 1, start = 0;
  for (size_t i = 0; i < position; ++i)
    if (text_[i] == '\n') {
      ++line;
      start = i + 1;
    }
  return fmt::format("line {}, column {}", line, position - start + 1);
}

void TextCursor::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#' || text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool TextCursor::at_end() {
  skip_space();
  return at_ == text_.size();
}

char TextCursor::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::eat(std::string_view symbol) {
  skip_space();
  if (text_.substr(at_, symbol.size()) != symbol) return false;
  const size_t end = at_ + symbol.size();
  if (is_letter(symbol[0]) && end < text_.size() && is_name_char(text_[end])) return false;
  at_ = end;
  return true;
}

void TextCursor::expect(std::string_view symbol) {
  if (!eat(symbol)) error("expected '{}'", symbol);
}

std::string_view TextCursor::peek_word() {
  skip_space();
  size_t end = at_;
  if (end < text_.size() && is_letter(text_[end]))
    while (end < text_.size() && is_name_char(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

std::string_view TextCursor::word(const char* what) {
  const std::string_view out = peek_word();
  if (out.empty()) error("expected {}", what);
  at_ += out.size();
  return out;
}

std::string TextCursor::name(const char* what) {
  if (peek() == '"') return quoted();
  const size_t start = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  if (at_ == start) error("expected {}", what);
  return std::string(text_.substr(start, at_ - start));
}

TextCursor::OperatorName TextCursor::operator_name() {
  const bool quoted = peek() == '"';
  OperatorName out{quoted ? this->quoted() : std::string(word("an operator")), {}};
  if (!quoted && !eat("::")) return out;
  if (quoted) expect("::");
  out.domain = std::move(out.name);
  out.name = word("an operator");
  return out;
}

std::string TextCursor::quoted() {
  expect("\"");
  std::string out;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (at_ == text_.size()) break;
    switch (const char escape = text_[at_++]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '\\':
        out += '\\';
        break;
      case '"':
        out += '"';
        break;
      case 'x': {
        unsigned value = 0;
        const char* first = text_.data() + at_;
        const size_t size = std::min<size_t>(2, text_.size() - at_);
        if (size != 2 || std::from_chars(first, first + 2, value, 16).ptr != first + 2)
          error("\\x needs two hexadecimal digits");
        out += static_cast<char>(value);
        at_ += 2;
        break;
      }
      default:
        error("unknown escape \\{}", escape);
    }
  }
  error("unterminated string");
}

bool TextCursor::at_number() {
  const char c = peek();
  if (is_digit(c) || c == '-' || c == '+') return true;
  const std::string_view word = peek_word();
  return word == "nan" || word == "inf";
}

TextCursor::Number TextCursor::number() {
  skip_space();
  const size_t start = at_;
  if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
  const std::string_view rest = text_.substr(at_);
  Number out;
  if (rest.starts_with("nan") || rest.starts_with("inf")) {
    at_ += 3;
  } else {
    const size_t digits = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    out.integral = at_ > digits;
    if (at_ < text_.size() && text_[at_] == '.') {
      out.integral = false;
      ++at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    }
    if (at_ > digits && at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      out.integral = false;
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    }
    if (at_ == digits) {
      at_ = start;
      error("expected a number");
    }
  }
  out.text = text_.substr(start, at_ - start);
  if (out.text[0] == '+') out.text.remove_prefix(1);
  return out;
}

int64_t TextCursor::integer() {
  skip_space();
  const size_t start = at_;
  const Number digits = number();
  int64_t out = 0;
  const char* end = digits.text.data() + digits.text.size();
  const auto [ptr, code] = std::from_chars(digits.text.data(), end, out);
  if (!digits.integral || code != std::errc{} || ptr != end) {
    at_ = start;
    error("expected an integer of 64 bits");
  }
  return out;
}

double TextCursor::real() {
  skip_space();
  const size_t start = at_;
  const Number digits = number();
  double out = 0;
  const char* end = digits.text.data() + digits.text.size();
  const auto [ptr, code] = std::from_chars(digits.text.data(), end, out);
  // Beyond the range of double: the nearest of what it has.
  if (code == std::errc::result_out_of_range && ptr == end)
    return real_from_text(std::string(digits.text).c_str(), nullptr);
  if (code != std::errc{} || ptr != end) {
    at_ = start;
    error("malformed number");
  }
  return out;
}

std::string_view TextCursor::until(std::string_view stops) {
  skip_space();
  const size_t start = at_;
  int depth = 0;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth < 0) break;
  }
  std::string_view out = text_.substr(start, at_ - start);
  while (!out.empty() && out.back() == ' ') out.remove_suffix(1);
  return out;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
}

std::string spell_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + '"';
}

std::string spell_name(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : spell_quoted(name);
}

}  // namespace xc
