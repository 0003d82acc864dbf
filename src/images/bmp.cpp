// Windows bitmaps: 24 and 32 bits per pixel, or 8 with a palette; not compressed.
#include <cstdlib>

#include "images/codecs.h"

namespace xc::images {

namespace {

int64_t little_endian(Encoded in, size_t at, size_t bytes) {
  uint64_t out = 0;
  for (size_t k = bytes; k-- > 0;) out = out << 8 | in[at + k];
  return bytes == 4 ? static_cast<int32_t>(out) : static_cast<int64_t>(out);
}

}  // namespace

bool decode_bmp(Encoded in, Canvas& out) {
  constexpr size_t kFileHeader = 14, kInfoHeader = 40;
  if (!starts_with(in, "BM") || in.size() < kFileHeader + kInfoHeader) return false;
  const int64_t pixels = little_endian(in, 10, 4), header = little_endian(in, 14, 4);
  const int64_t width = little_endian(in, 18, 4), rows = little_endian(in, 22, 4);
  const int64_t bits = little_endian(in, 28, 2), compression = little_endian(in, 30, 4);
  int64_t colors = little_endian(in, 46, 4);
  if (header < static_cast<int64_t>(kInfoHeader) || compression != 0 || width <= 0 || rows == 0 ||
      (bits != 8 && bits != 24 && bits != 32))
    return false;
  // Rows stand bottom up, unless their number is negative.
  const int64_t height = std::abs(rows), stride = (width * bits + 31) / 32 * 4;
  const auto size = static_cast<int64_t>(in.size());
  if (pixels < 0 || pixels > size || stride > (size - pixels) / height) return false;
  const int64_t palette = static_cast<int64_t>(kFileHeader) + header;
  if (colors <= 0 || colors > 256) colors = 256;
  if (bits == 8 && palette + colors * 4 > size) return false;
  uint8_t* rgb = out.start(height, width);
  if (!rgb) return false;
  for (int64_t y = 0; y < height; ++y) {
    const int64_t row = pixels + (rows > 0 ? height - 1 - y : y) * stride;
    for (int64_t x = 0; x < width; ++x) {
      int64_t at = row + x * bits / 8;
      if (bits == 8) {
        const int64_t index = in[static_cast<size_t>(at)];
        if (index >= colors) return false;
        at = palette + index * 4;
      }
      for (int64_t k = 2; k >= 0; --k) *rgb++ = in[static_cast<size_t>(at + k)];  // blue first
    }
  }
  return true;
}

}  // namespace xc::images
