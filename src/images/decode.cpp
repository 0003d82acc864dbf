#include "images/codecs.h"

using namespace xc::images;

extern "C" __attribute__((visibility("default"))) int32_t
xc_image_decode(const uint8_t* data, size_t size, xc_image_allocate allocate, void* user_data,
                xc_image* image) {
  constexpr bool (*kCodecs[])(Encoded, Canvas&) = {
      decode_png, decode_jpeg, decode_webp, decode_tiff, decode_jpeg2000, decode_bmp, decode_pnm};
  try {
    *image = {};
    Canvas canvas(allocate, user_data, *image);
    // Each codec first looks at the magic of its format; they exclude each other.
    for (const auto decode : kCodecs)
      if (decode({data, size}, canvas)) return 0;
  } catch (...) {
    // Memory for a codec's own work was refused.
  }
  *image = {};
  return 1;
}
