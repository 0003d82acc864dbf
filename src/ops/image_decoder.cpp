// ImageDecoder: encoded bytes to [height, width, channels]. The codecs are in src/images, a library
// that is opened at the first image.

#include "base/companion.h"
#include "images/images.h"
#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

namespace {

/// 384 MB of pixels: above any photograph, far below what a few forged bytes could ask for.
constexpr int64_t kMaxPixels = int64_t{1} << 27;

xc_image_decode_fn decoder() {
  struct Opened {
    std::string reason;
    void* symbol = open_companion("libxcrt-image.so", "xc_image_decode", reason);
  };
  static const Opened opened;
  if (!opened.symbol)
    fail(Status::kUnsupported, "the image decoders cannot be opened: {}", opened.reason);
  return reinterpret_cast<xc_image_decode_fn>(opened.symbol);
}

int64_t channels_of(const Attrs& attrs) {
  return attrs.get_string("pixel_format", "RGB") == "Grayscale" ? 1 : 3;
}

void infer(InferContext& c) {
  check_dtype(c, 0, type_set({DType::kU8}));
  require_rank(c, 0, 1);
  c.set(0, DType::kU8, {c.fresh("height"), c.fresh("width"), channels_of(c.attrs())});
}

/// ITU-R 601 luma in 16-bit fixed point, rounded.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

uint8_t* allocate(void* pixels, int64_t height, int64_t width) {
  if (height > kMaxPixels / width) return nullptr;
  try {
    auto& out = *static_cast<Tensor*>(pixels);
    out = Tensor(DType::kU8, {height, width, 3});
    return out.as<uint8_t>();
  } catch (const std::exception&) {
    return nullptr;
  }
}

std::vector<Tensor> evaluate(const Node& node, const std::vector<Tensor>& inputs) {
  const Tensor encoded = inputs[0].to_contiguous();
  const std::string format = node.attrs.get_string("pixel_format", "RGB");
  Tensor rgb;
  xc_image image{};
  const int32_t failed = decoder()(encoded.as<const uint8_t>(),
                                   static_cast<size_t>(encoded.count()), allocate, &rgb, &image);
  if (failed != 0) return {Tensor(DType::kU8, {0, 0, channels_of(node.attrs)})};
  uint8_t* pixels = rgb.as<uint8_t>();
  const int64_t count = image.height * image.width;
  if (format == "BGR")
    for (int64_t i = 0; i < count; ++i) std::swap(pixels[3 * i], pixels[3 * i + 2]);
  if (format != "Grayscale") return {rgb};
  Tensor grey(DType::kU8, {image.height, image.width, 1});
  for (int64_t i = 0; i < count; ++i) grey.as<uint8_t>()[i] = luma(pixels + 3 * i);
  return {grey};
}

}  // namespace

void register_image_decoder(OpList& ops) {
  AttrSpec format{"pixel_format", AttrKind::kString};
  format.choices = "RGB|BGR|Grayscale";
  ops.push_back({.name = "ImageDecoder", .attrs = {format}, .infer = infer, .evaluate = evaluate});
}

}  // namespace xc
