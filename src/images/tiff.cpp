#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "images/codecs.h"

namespace xc::images {

namespace {

/// The encoded bytes as the file libtiff reads.
struct File {
  Encoded bytes;
  uint64_t at = 0;
};

tmsize_t read(thandle_t handle, void* to, tmsize_t size) {
  auto& file = *static_cast<File*>(handle);
  const uint64_t left = file.at < file.bytes.size() ? file.bytes.size() - file.at : 0;
  const uint64_t n = std::min<uint64_t>(left, static_cast<uint64_t>(std::max<tmsize_t>(size, 0)));
  if (n > 0) std::memcpy(to, file.bytes.data() + file.at, n);
  file.at += n;
  return static_cast<tmsize_t>(n);
}
tmsize_t write(thandle_t, void*, tmsize_t) {
  return 0;
}
toff_t seek(thandle_t handle, toff_t offset, int whence) {
  auto& file = *static_cast<File*>(handle);
  file.at = whence == SEEK_CUR   ? file.at + offset
            : whence == SEEK_END ? file.bytes.size() + offset
                                 : offset;
  return file.at;
}
int close(thandle_t) {
  return 0;
}
toff_t size(thandle_t handle) {
  return static_cast<File*>(handle)->bytes.size();
}
int say_nothing(TIFF*, void*, const char*, const char*, va_list) {
  return 1;
}

}  // namespace

bool decode_tiff(Encoded in, Canvas& out) {
  if (!starts_with(in, std::string_view("II*\0", 4)) &&
      !starts_with(in, std::string_view("MM\0*", 4)))
    return false;
  File file{in};
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (!options) return false;
  TIFFOpenOptionsSetErrorHandlerExtR(options, say_nothing, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options, say_nothing, nullptr);
  // "m": not mapped, read through the functions above.
  TIFF* tiff = TIFFClientOpenExt("image", "rm", &file, read, write, seek, close, size, nullptr,
                                 nullptr, options);
  TIFFOpenOptionsFree(options);
  if (!tiff) return false;
  struct Close {
    TIFF* tiff;
    ~Close() { TIFFClose(tiff); }
  } closer{tiff};
  uint32_t width = 0, height = 0;
  if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) ||
      !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height))
    return false;
  uint8_t* rgb = out.start(height, width);
  if (!rgb) return false;
  std::vector<uint32_t> raster(size_t{width} * height);
  if (!TIFFReadRGBAImageOriented(tiff, width, height, raster.data(), ORIENTATION_TOPLEFT, 1))
    return false;
  for (const uint32_t pixel : raster) {
    *rgb++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *rgb++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *rgb++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
  return true;
}

}  // namespace xc::images
