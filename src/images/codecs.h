#pragma once
// One function per format. Each gives true when `in` is an image of its format and was decoded.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "images/images.h"

namespace xc::images {

/// Where pixels go: asked for once their number is known.
class Canvas {
 public:
  Canvas(xc_image_allocate allocate, void* user_data, xc_image& image)
      : allocate_(allocate), user_data_(user_data), image_(image) {}
  /// Memory for height * width RGB pixels; null for sizes that are none or refused.
  uint8_t* start(int64_t height, int64_t width) {
    if (height <= 0 || width <= 0) return nullptr;
    image_ = {height, width, allocate_(user_data_, height, width)};
    return image_.rgb;
  }

 private:
  xc_image_allocate allocate_;
  void* user_data_;
  xc_image& image_;
};

using Encoded = std::span<const uint8_t>;

inline bool starts_with(Encoded in, std::string_view magic, size_t at = 0) {
  if (in.size() < at + magic.size()) return false;
  for (size_t i = 0; i < magic.size(); ++i)
    if (in[at + i] != static_cast<uint8_t>(magic[i])) return false;
  return true;
}

bool decode_bmp(Encoded in, Canvas& out);
bool decode_jpeg(Encoded in, Canvas& out);
bool decode_jpeg2000(Encoded in, Canvas& out);
bool decode_png(Encoded in, Canvas& out);
bool decode_pnm(Encoded in, Canvas& out);
bool decode_tiff(Encoded in, Canvas& out);
bool decode_webp(Encoded in, Canvas& out);

}  // namespace xc::images
