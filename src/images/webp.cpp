#include <webp/decode.h>

#include "images/codecs.h"

namespace xc::images {

bool decode_webp(Encoded in, Canvas& out) {
  if (!starts_with(in, "RIFF") || !starts_with(in, "WEBP", 8)) return false;
  int width = 0, height = 0;
  if (!WebPGetInfo(in.data(), in.size(), &width, &height)) return false;
  uint8_t* rgb = out.start(height, width);
  if (!rgb) return false;
  const size_t stride = static_cast<size_t>(width) * 3;
  if (stride > INT32_MAX) return false;
  return WebPDecodeRGBInto(in.data(), in.size(), rgb, stride * static_cast<size_t>(height),
                           static_cast<int>(stride)) != nullptr;
}

}  // namespace xc::images
