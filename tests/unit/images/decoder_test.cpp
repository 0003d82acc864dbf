// ImageDecoder beyond the standard's tests: what other encodings of one small picture give. The
// picture is drawn by formula, so that lossless files have one right answer.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ops/registry.h"
#include "support/paths.h"

namespace xc::test {

namespace {

constexpr int64_t kHeight = 6, kWidth = 9;

/// The colour of a pixel of the picture in tests/fuzz/corpus/images.
int64_t colour(int64_t y, int64_t x, int64_t channel) {
  return channel == 0 ? x * 28 : channel == 1 ? y * 50 : x * y * 5 % 256;
}

Tensor decode(const std::string& bytes, const std::string& format = "RGB") {
  Node node;
  node.op = &get_op("ImageDecoder");
  node.attrs.set("pixel_format", format);
  return node.op->evaluate(node, {Tensor::of(std::vector<uint8_t>(bytes.begin(), bytes.end()))})[0];
}

std::string sample(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/fuzz/corpus/images/" + name, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t largest_error(const Tensor& image) {
  REQUIRE(image.dims() == Dims{kHeight, kWidth, 3});
  int64_t out = 0, i = 0;
  for (int64_t y = 0; y < kHeight; ++y)
    for (int64_t x = 0; x < kWidth; ++x)
      for (int64_t k = 0; k < 3; ++k)
        out = std::max(out, std::abs(image.as<uint8_t>()[i++] - colour(y, x, k)));
  return out;
}

}  // namespace

TEST_CASE("images/decoder: lossless files give every pixel, alpha dropped") {
  for (const char* name : {"plain.png", "alpha.png", "lossless.webp", "raw.tiff", "lzw.tiff",
                           "plain.jp2", "plain.bmp", "plain.ppm"}) {
    CAPTURE(name);
    CHECK(largest_error(decode(sample(name))) == 0);
  }
}

TEST_CASE("images/decoder: a file that claims to be huge takes no memory for it") {
  // Progressive: the library would take memory for all of the picture's coefficients at once.
  std::string bytes = sample("progressive.jpg");
  const size_t frame = bytes.find("\xff\xc2");
  REQUIRE(frame != std::string::npos);
  for (const size_t at : {frame + 5, frame + 7}) bytes.replace(at, 2, "\xff\xdc");  // 65500
  CHECK(decode(bytes).count() == 0);
}

TEST_CASE("images/decoder: lossy files give what Pillow makes of them") {
  for (const std::string name : {"plain.jpg", "progressive.jpg", "lossy.webp"}) {
    CAPTURE(name);
    const auto got = decode(sample(name)).to_int64s(),
               want = decode(sample(name + ".ppm")).to_int64s();
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - want[i]) <= 1);
  }
  const Tensor a = decode(sample("palette.png")), b = decode(sample("palette.bmp"));
  CHECK(a.to_int64s() == b.to_int64s());
}

TEST_CASE("images/decoder: greys, bits and text") {
  for (const char* name : {"grey.pgm", "grey.jp2"}) {
    const Tensor rgb = decode(sample(name)), grey = decode(sample(name), "Grayscale");
    CHECK(grey.dims() == Dims{kHeight, kWidth, 1});
    for (int64_t i = 0; i < grey.count(); ++i)
      for (int64_t k = 0; k < 3; ++k)
        REQUIRE(rgb.as<uint8_t>()[3 * i + k] == grey.as<uint8_t>()[i]);
  }
  for (const int64_t value : decode(sample("bits.pbm")).to_int64s())
    REQUIRE((value == 0 || value == 255));
  const Tensor text = decode(sample("text.ppm"), "BGR");
  CHECK(text.dims() == Dims{2, 3, 3});
  CHECK(text.as<uint8_t>()[0] == 255);  // 100 of 100
  CHECK(text.as<uint8_t>()[1] == 127);
  CHECK(text.as<uint8_t>()[2] == 0);
}

TEST_CASE("images/decoder: what is no image gives an empty one") {
  CHECK(decode("").dims() == Dims{0, 0, 3});
  CHECK(decode("no picture", "Grayscale").dims() == Dims{0, 0, 1});
  const std::string png = sample("plain.png");
  CHECK(decode(png.substr(0, png.size() / 2)).dims() == Dims{0, 0, 3});
  CHECK(decode("P6 100000 100000 255 ").dims() == Dims{0, 0, 3});
}

}  // namespace xc::test
