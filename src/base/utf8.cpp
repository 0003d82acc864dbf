#include "base/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace xc {

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return tail(1) ? 2 : 0;
  if (first < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (first == 0xED && byte(1) >= 0xA0) return 0;  // surrogate
    return 3;
  }
  if (first > 0xF4 || !tail(1) || !tail(2) || !tail(3)) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) >= 0x90) return 0;
  return 4;
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string printable(std::string_view text, size_t max) {
  std::string out;
  size_t shown = 0;
  while (!text.empty()) {
    if (shown++ == max) return out + "...";
    const size_t n = utf8_length(text);
    const auto first = static_cast<uint8_t>(text[0]);
    // C0 and C1 controls, and the marks that reorder what follows (U+202A-202E, U+2066-2069).
    const bool control = n == 1 ? first < 0x20 || first == 0x7F
                         : n == 2
                             ? first == 0xC2 && static_cast<uint8_t>(text[1]) < 0xA0
                             : n == 3 && first == 0xE2 &&
                                   ((text[1] == '\x80' && text[2] >= '\xAA' && text[2] <= '\xAE') ||
                                    (text[1] == '\x81' && text[2] >= '\xA6' && text[2] <= '\xA9'));
    const size_t length = n == 0 ? 1 : n;
    if (n == 0 || control)
      for (size_t i = 0; i < length; ++i)
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
    else
      out += text.substr(0, n);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace xc
