#include "cache/record_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace xc::cache {
namespace {

constexpr std::pair<char, char> kEscapes[] = {{' ', 's'}, {'\n', 'n'}, {'\\', '\\'}};

template <class Number, class... Base>
Number number_of(std::string_view text, Base... base) {
  Number out{};
  const char* const last = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), last, out, base...);
  if (error != std::errc{} || at != last) throw Unreadable{};
  return out;
}

}  // namespace

void RecordWriter::add(std::string_view text) {
  text_ += ' ';
  for (const char c : text) {
    char escaped = 0;
    for (const auto& [plain, letter] : kEscapes)
      if (c == plain) escaped = letter;
    if (escaped) text_ += '\\';
    text_ += escaped ? escaped : c;
  }
}

bool RecordReader::next_is(std::string_view name) const {
  return rest_.substr(0, name.size()) == name && rest_.size() > name.size() &&
         (rest_[name.size()] == ' ' || rest_[name.size()] == '\n');
}

void RecordReader::line(std::string_view name) {
  const size_t end = rest_.find('\n');
  if (more() || !next_is(name) || end == std::string_view::npos) throw Unreadable{};
  values_ = rest_.substr(name.size(), end - name.size());
  rest_.remove_prefix(end + 1);
}

void RecordReader::done() const {
  if (more() || !rest_.empty()) throw Unreadable{};
}

std::string_view RecordReader::value() {
  if (!more()) throw Unreadable{};
  values_.remove_prefix(1);  // the space in front of it
  const std::string_view out = values_.substr(0, values_.find(' '));
  values_.remove_prefix(out.size());
  return out;
}

int64_t RecordReader::integer(int64_t least, int64_t most) {
  const auto out = number_of<int64_t>(value());
  if (out < least || out > most) throw Unreadable{};
  return out;
}

double RecordReader::real() {
  const auto out = number_of<double>(value());
  if (!std::isfinite(out)) throw Unreadable{};
  return out;
}

std::string RecordReader::text() {
  const std::string_view from = value();
  std::string out;
  for (size_t k = 0; k < from.size(); ++k) {
    if (from[k] != '\\') {
      out += from[k];
      continue;
    }
    const char letter = ++k < from.size() ? from[k] : '\0';
    const auto* const escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                            [&](const auto& e) { return e.second == letter; });
    if (escape == std::end(kEscapes)) throw Unreadable{};
    out += escape->first;
  }
  return out;
}

Hash128 RecordReader::hash() {
  const std::string_view digits = value();
  if (digits.size() != 32) throw Unreadable{};
  return {.low = number_of<uint64_t>(digits.substr(16), 16),
          .high = number_of<uint64_t>(digits.substr(0, 16), 16)};
}

}  // namespace xc::cache
