/* The one door to image libraries: a C function exported by libxcrt-image.so, which is opened when
 * a model first decodes an image. No C++ type, exception or name of those libraries crosses.
 */
#ifndef XC_IMAGES_H
#define XC_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xc_image {
  int64_t height, width;
  uint8_t* rgb; /* height * width * 3 bytes, row-major, from `allocate` */
} xc_image;

/* Gives memory for the pixels; NULL refuses the size. */
typedef uint8_t* (*xc_image_allocate)(void* user_data, int64_t height, int64_t width);

/* Decodes an encoded image of whatever format its content shows. 0, or 1 when it is none that can
 * be decoded. Any thread, any number at once. */
int32_t xc_image_decode(const uint8_t* data, size_t size, xc_image_allocate allocate,
                        void* user_data, xc_image* image);
typedef int32_t (*xc_image_decode_fn)(const uint8_t*, size_t, xc_image_allocate, void*, xc_image*);

#ifdef __cplusplus
}
#endif
#endif /* XC_IMAGES_H */
