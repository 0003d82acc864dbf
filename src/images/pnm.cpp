// Portable anymaps, P1 to P6: bits, greys and colours, as text and as bytes.
#include <optional>

#include "images/codecs.h"

namespace xc::images {

namespace {

class Reader {
 public:
  explicit Reader(Encoded in) : in_(in), at_(2) {}

  /// The next number of the text, after white space and comments; nullopt when there is none.
  std::optional<int64_t> number(bool one_digit = false) {
    while (at_ < in_.size() && (is_space(in_[at_]) || in_[at_] == '#')) {
      if (in_[at_] == '#')
        while (at_ < in_.size() && in_[at_] != '\n') ++at_;
      else
        ++at_;
    }
    std::optional<int64_t> out;
    while (at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '9') {
      out = out.value_or(0) * 10 + (in_[at_++] - '0');
      if (*out > INT32_MAX) return std::nullopt;
      if (one_digit) break;
    }
    return out;
  }
  /// The one white space between the header and bytes.
  bool end_of_header() { return at_ < in_.size() && is_space(in_[at_++]); }
  std::optional<int64_t> bytes(int64_t count) {
    int64_t out = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (at_ >= in_.size()) return std::nullopt;
      out = out << 8 | in_[at_++];
    }
    return out;
  }

 private:
  static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  Encoded in_;
  size_t at_;
};

}  // namespace

bool decode_pnm(Encoded in, Canvas& out) {
  if (in.size() < 3 || in[0] != 'P' || in[1] < '1' || in[1] > '6') return false;
  const int kind = in[1] - '0';
  const bool bits = kind == 1 || kind == 4, colours = kind == 3 || kind == 6, text = kind <= 3;
  Reader reader(in);
  const auto width = reader.number(), height = reader.number();
  const auto top = bits ? std::optional<int64_t>(1) : reader.number();
  if (!width || !height || !top || *top < 1 || *top > 65535) return false;
  if (!text && !reader.end_of_header()) return false;
  // Every pixel takes room in the file: no header asks for more than eight pixels a byte.
  if (*width > 0 && *height > static_cast<int64_t>(in.size()) * 8 / *width) return false;
  uint8_t* rgb = out.start(*height, *width);
  if (!rgb) return false;
  for (int64_t y = 0; y < *height; ++y) {
    int64_t byte = 0;
    for (int64_t x = 0; x < *width; ++x, rgb += 3)
      for (int k = 0; k < (colours ? 3 : 1); ++k) {
        std::optional<int64_t> sample;
        if (text) {
          sample = reader.number(bits);
        } else if (bits) {
          if (x % 8 == 0) {
            const auto next = reader.bytes(1);
            if (!next) return false;
            byte = *next;
          }
          sample = byte >> (7 - x % 8) & 1;
        } else {
          sample = reader.bytes(*top > 255 ? 2 : 1);
        }
        if (!sample || *sample > *top) return false;
        // In a bitmap 1 is black.
        const auto value = static_cast<uint8_t>(bits ? (*sample ? 0 : 255) : *sample * 255 / *top);
        rgb[k] = value;
        if (!colours) rgb[1] = rgb[2] = value;
      }
  }
  return true;
}

}  // namespace xc::images
