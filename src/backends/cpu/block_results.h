#pragma once
// What becomes of the blocks of a convolution's result: by way of scratch where the result does not
// lie channels-last or is stored in halves, and through the epilogue.

#include "backends/cpu/block_copies.h"
#include "backends/cpu/image_blocks.h"

namespace xc::cpu {

class BlockResults {
 public:
  BlockResults() = default;
  /// `epilogue` outlives this. `y`: where the result lies; `axes` of it.
  BlockResults(const Epilogue& epilogue, const BindContext& context, const ImageStrides& y,
               const ImageAxes& axes)
      : epilogue_(&epilogue),
        dims_(context.outputs[0].dims.begin(), context.outputs[0].dims.end()),
        y_(y),
        axes_(axes),
        scatters_(y.channel != 1 && !epilogue.staged()) {
    if (!epilogue.empty()) tiles_ = Epilogue::Tiles(epilogue, context);
  }
  /// The next block.
  void add(const ImageBlock& b) {
    const Dims dims = b.dims();
    if (staged()) tile_bytes_ = std::max(tile_bytes_, align_up(element_count(dims) * 4, 64));
    if (scatters_)
      stores_.add(dims, channels_last_strides(dims), {y_.image, y_.channel, y_.row, y_.col});
    if (epilogue_->empty()) return;
    const ImageStrides at = b.staged();
    add_block(tiles_, dims_, axes_, b, epilogue_->staged() ? &at : nullptr);
  }

  /// Whether blocks are computed in scratch.
  bool staged() const { return scatters_ || epilogue_->staged(); }
  /// Where a block's elements are computed: in scratch it lies alone.
  ImageStrides strides(const ImageBlock& b) const { return staged() ? b.staged() : y_; }
  /// Its first one there.
  float* first(const ImageBlock& b, float* tile, float* result) const {
    return staged() ? tile : result + b.first(y_);
  }
  /// Of a block in scratch, and behind it what finish() wants.
  int64_t tile_bytes() const { return tile_bytes_; }
  int64_t scratch_bytes() const { return tile_bytes_ + epilogue_->scratch_bytes(); }
  int64_t held_bytes() const { return tiles_.bytes() + stores_.bytes(); }

  /// Block `i` has been computed. `buffers` as in StepArgs.
  void finish(int64_t i, const ImageBlock& b, void* const* buffers, float* tile,
              float* result) const {
    if (scatters_) stores_.of(i).run(tile, result + b.first(y_));
    if (!epilogue_->empty())
      epilogue_->run(tiles_, static_cast<size_t>(i), buffers,
                     reinterpret_cast<std::byte*>(tile) + tile_bytes_, tile);
  }

 private:
  const Epilogue* epilogue_ = nullptr;
  Dims dims_;
  ImageStrides y_;
  ImageAxes axes_;
  bool scatters_ = false;
  BlockCopies stores_;
  Epilogue::Tiles tiles_;
  int64_t tile_bytes_ = 0;
};

}  // namespace xc::cpu
