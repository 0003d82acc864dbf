#pragma once
// The pictures of images.pgm: read, made into batches, shown in the terminal.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>
#include <xc/xc.hpp>

namespace demo {

constexpr int64_t kSide = 28, kClasses = 10;

/// Held-out pictures, one below the other in a PGM file whose comment holds their labels.
struct Digits {
  std::vector<float> pixels;  // (count, kSide, kSide), 0 to 1
  std::vector<int64_t> labels;

  explicit Digits(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string magic, comment, size, top;
    std::getline(file, magic), std::getline(file, comment), std::getline(file, size),
        std::getline(file, top);
    std::istringstream words(comment);
    words >> magic >> magic;  // "# labels"
    for (int64_t label; words >> label;) labels.push_back(label);
    std::vector<unsigned char> bytes(labels.size() * kSide * kSide);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file || labels.empty() ||
        size != std::to_string(kSide) + " " + std::to_string(kSide * labels.size()))
      throw std::runtime_error(path + ": not the pictures that train.py writes");
    for (unsigned char byte : bytes) pixels.push_back(static_cast<float>(byte) / 255.0f);
  }
  int64_t label(int64_t i) const { return labels[static_cast<size_t>(i) % labels.size()]; }
  /// The first `count` pictures, from the start again after the last.
  xcrt::Tensor batch(int64_t count) const {
    auto out = xcrt::Tensor::of<float>({count, 1, kSide, kSide});
    const std::span<float> to = out.values<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = pixels[i % pixels.size()];
    return out;
  }
};

inline int64_t best_class(std::span<const float> probabilities, int64_t row) {
  const auto first = probabilities.begin() + row * kClasses;
  return std::max_element(first, first + kClasses) - first;
}

/// A picture in characters (two rows of pixels in one of text), its probabilities beside it.
inline void show(const Digits& digits, int64_t index, std::span<const float> probabilities) {
  const std::string_view shades = " .:-=+*#%@";
  const float* pixel = digits.pixels.data() + index * kSide * kSide;
  for (int64_t y = 0; y < kSide; y += 2) {
    std::string row = "  |";
    for (int64_t x = 0; x < kSide; ++x) {
      const float ink = (pixel[y * kSide + x] + pixel[(y + 1) * kSide + x]) / 2;
      row += shades[static_cast<size_t>(ink * 9.0f + 0.5f)];
    }
    std::printf("%s|", row.c_str());
    if (const int64_t c = y / 2 - 2; c >= 0 && c < kClasses) {
      const float p = probabilities[static_cast<size_t>(index * kClasses + c)];
      std::printf("   %d %5.1f %% %s", static_cast<int>(c), 100.0 * static_cast<double>(p),
                  std::string(static_cast<size_t>(p * 30.0f + 0.5f), '#').c_str());
    }
    std::printf("\n");
  }
  const int64_t c = best_class(probabilities, index);
  std::printf("  This is a %d (%.2f %% sure; drawn as a %d).\n\n", static_cast<int>(c),
              100.0 * static_cast<double>(probabilities[static_cast<size_t>(index * kClasses + c)]),
              static_cast<int>(digits.label(index)));
}

}  // namespace demo
