#include <png.h>

#include <vector>

#include "images/codecs.h"

namespace xc::images {

bool decode_png(Encoded in, Canvas& out) {
  if (!starts_with(in, "\x89PNG\r\n\x1a\n")) return false;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  struct Free {
    png_image* image;
    ~Free() { png_image_free(image); }
  } free{&image};
  if (!png_image_begin_read_from_memory(&image, in.data(), in.size())) return false;
  // What deflate makes of a byte at most, in pixels of one bit.
  constexpr uint64_t kPixelsPerByte = 1032 * 8;
  if (uint64_t{image.height} * image.width > in.size() * kPixelsPerByte) return false;
  image.format = PNG_FORMAT_RGBA;  // read, then dropped: no background is mixed in
  uint8_t* rgb = out.start(image.height, image.width);
  if (!rgb) return false;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, rgba.data(), 0, nullptr)) return false;
  for (size_t i = 0; i < rgba.size(); i += 4)
    for (size_t k = 0; k < 3; ++k) *rgb++ = rgba[i + k];
  return true;
}

}  // namespace xc::images
