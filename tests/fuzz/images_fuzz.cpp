// Every image codec: pixels or nothing, whatever the bytes are.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/companion.h"
#include "images/images.h"

namespace {

/// More than any seed has, little enough to be made thousands of times.
constexpr std::int64_t kMaxPixels = 1 << 16;

std::uint8_t* allocate(void* pixels, std::int64_t height, std::int64_t width) {
  if (height > kMaxPixels / width) return nullptr;
  auto& out = *static_cast<std::vector<std::uint8_t>*>(pixels);
  out.resize(static_cast<std::size_t>(height * width * 3));
  return out.data();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::string reason;
  static const auto decode = reinterpret_cast<xc_image_decode_fn>(
      xc::open_companion("libxcrt-image.so", "xc_image_decode", reason));
  if (!decode) std::abort();
  std::vector<std::uint8_t> pixels;
  xc_image image{};
  if (decode(data, size, allocate, &pixels, &image) != 0) return 0;
  if (image.height < 1 || image.width < 1 || image.rgb != pixels.data() ||
      static_cast<std::size_t>(image.height * image.width * 3) != pixels.size())
    std::abort();
  return 0;
}
