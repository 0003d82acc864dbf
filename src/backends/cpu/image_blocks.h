#pragma once
// The blocks of a result that own convolution kernels take one by one: positions, where operands'
// elements lie, and what an epilogue is told of them.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/cpu/epilogue.h"

namespace xc::cpu {

/// Positions [begin, end) of an axis; none where the end is not behind the begin.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};
inline Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// `all` in as many parts as steps of at most `most` need, of sizes as even as can be: the largest.
inline int64_t even_step(int64_t all, int64_t most) {
  return ceil_div(all, ceil_div(all, std::clamp<int64_t>(most, 1, all)));
}

/// Of `all` in steps of `step`, the one that `index` counts innermost; `index` then counts the
/// rest.
inline Range next_range(int64_t& index, int64_t all, int64_t step) {
  const int64_t steps = ceil_div(all, step), begin = index % steps * step;
  index /= steps;
  return {begin, std::min(all, begin + step)};
}

/// The rows of a result in blocks: evenly, or, where the result is wanted in parts
/// (BindContext::rows), those of one part after the other.
class RowBlocks {
 public:
  RowBlocks() = default;
  /// Of at most `most` rows, a multiple of `together`, as those of all blocks but the last of a
  /// part then are.
  RowBlocks(int64_t rows, int64_t most, std::span<const RowRange> parts, int64_t together = 1) {
    const RowRange all{0, rows};
    for (const RowRange& part : parts.empty() ? std::span(&all, 1) : parts) {
      const int64_t step = align_up(even_step(part.size(), most), together);
      tallest_ = std::max(tallest_, step);
      firsts_.push_back(count());
      for (int64_t row = part.begin; row < part.end; row += step)
        blocks_.push_back({row, std::min(row + step, part.end)});
    }
    firsts_.push_back(count());
  }
  int64_t count() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t tallest() const { return tallest_; }
  int64_t parts() const { return static_cast<int64_t>(firsts_.size()) - 1; }
  /// The first block of a part, or the end of the one before.
  int64_t first(int64_t part) const { return firsts_[static_cast<size_t>(part)]; }
  /// The block that `index` counts innermost; `index` then counts the rest.
  Range next(int64_t& index) const {
    const int64_t i = index % count();
    index /= count();
    return blocks_[static_cast<size_t>(i)];
  }
  int64_t bytes() const { return count() * 16 + parts() * 8; }

 private:
  std::vector<Range> blocks_;
  std::vector<int64_t> firsts_;
  int64_t tallest_ = 0;
};

/// Strides of an operand (N, C, one to three spatial axes), in elements. The last axis are columns,
/// the one before it rows, then depths; what it lacks has one position.
struct ImageStrides {
  int64_t image = 0, channel = 0, depth = 0, row = 0, col = 0;
  ImageStrides() = default;
  explicit ImageStrides(std::span<const int64_t> strides)
      : image(strides[0]),
        channel(strides[1]),
        depth(strides.size() > 4 ? strides[2] : 0),
        row(strides.size() > 3 ? strides[strides.size() - 2] : 0),
        col(strides.back()) {}
  int64_t at(int64_t n, int64_t c, int64_t r, int64_t s, int64_t d = 0) const {
    return n * image + c * channel + d * depth + r * row + s * col;
  }
};

/// A block of a result.
struct ImageBlock {
  Range images, channels, rows, cols, depths{0, 1};
  /// Where it lies alone in scratch, channels-last; one depth.
  ImageStrides staged() const {
    ImageStrides at;
    at.channel = 1;
    at.col = channels.size();
    at.row = cols.size() * at.col;
    at.image = rows.size() * at.row;
    return at;
  }
  /// Its first element.
  int64_t first(const ImageStrides& at) const {
    return at.at(images.begin, channels.begin, rows.begin, cols.begin, depths.begin);
  }
  Dims dims() const { return {images.size(), channels.size(), rows.size(), cols.size()}; }
};

/// Axes of the result that are depths, rows and columns; 0: there is none.
struct ImageAxes {
  size_t depth = 0, row = 0, col = 0;
  /// Of a result of that rank.
  static ImageAxes of_rank(size_t rank) {
    return {rank > 4 ? rank - 3 : 0, rank > 3 ? rank - 2 : 0, rank - 1};
  }
  /// Of one to three spatial axes among others of one position (SqueezedConv::kept).
  static ImageAxes of_kept(std::span<const size_t> kept) {
    return {kept.size() > 2 ? 2 + kept.front() : 0, kept.size() > 1 ? 2 + *(kept.end() - 2) : 0,
            2 + kept.back()};
  }
};

/// The next part of an epilogue over a result of these dims; `staged`: where the block lies in
/// scratch, for epilogues that want it there.
inline void add_block(Epilogue::Tiles& tiles, std::span<const int64_t> result,
                      const ImageAxes& axes, const ImageBlock& block, const ImageStrides* staged) {
  Dims begin(result.size(), 0), end(result.begin(), result.end()),
      strides(staged ? result.size() : 0, 0);
  const auto set = [&](size_t axis, Range range, int64_t ImageStrides::* stride) {
    begin[axis] = range.begin;
    end[axis] = range.end;
    if (staged) strides[axis] = staged->*stride;
  };
  set(0, block.images, &ImageStrides::image);
  set(1, block.channels, &ImageStrides::channel);
  if (axes.depth) set(axes.depth, block.depths, &ImageStrides::depth);
  if (axes.row) set(axes.row, block.rows, &ImageStrides::row);
  set(axes.col, block.cols, &ImageStrides::col);
  tiles.add(begin, end, strides);
}

}  // namespace xc::cpu
