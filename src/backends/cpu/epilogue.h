#pragma once
// What a vendor kernel leaves to us after its result: bias, activations, residuals. One program
// over the tile a task has just written, while it is in cache. The tile is the result itself, or
// f32 in scratch where the result is stored in halves: sums are rounded once, behind the last
// post-op.

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/chunk_program.h"
#include "backends/cpu/strided_space.h"
#include "backends/step.h"

namespace xc::cpu {

/// What kernels with sums in registers keep them within.
struct Bounds {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};
/// Those of a function that only bounds its argument, by constants: Relu, Clip. NaN stays NaN.
std::optional<Bounds> bounds_of(const PostOp& post);

class Epilogue {
 public:
  /// An extra operand added to the result before the post-ops: factor * input (Gemm's C, a bias).
  struct Addend {
    uint32_t input = 0;
    double factor = 1;
  };
  /// The post-ops of a step whose result has the type of output 0; empty() when there is nothing to
  /// do. nullopt with `reason` when some post-op has no inner loop. With `staged` they may end in a
  /// Cast (StepSpec::narrows()); then tiles are f32 in scratch.
  static std::optional<Epilogue> build(const StepSpec& spec, std::span<const Addend> addends,
                                       std::string& reason, bool staged = false);
  bool empty() const { return !program_; }
  bool staged() const { return staged_; }
  /// Whether it reads operands of the step beside the tile.
  bool has_operands() const { return !inputs_.empty(); }
  int64_t scratch_bytes() const { return program_ ? program_->scratch_bytes() : 0; }

  /// The parts of output 0 that a bound step's tasks write, one behind the other.
  class Tiles {
   public:
    Tiles() = default;
    /// Without parts yet; operands as `context` has them.
    Tiles(const Epilogue& epilogue, const BindContext& context);
    /// A part: a range per axis of output 0. `staged`: the strides of the tile in scratch, alike
    /// for parts of one size; none for tiles that are the result itself. All parts in one way.
    void add(std::span<const int64_t> begin, std::span<const int64_t> end,
             std::span<const int64_t> staged = {});
    int64_t bytes() const;

   private:
    friend class Epilogue;
    StridedSpace whole_;                ///< the operands over all of output 0
    std::vector<int64_t> extents_;      ///< the sizes of parts there are, behind each other
    std::vector<StridedSpace> spaces_;  ///< for each of them
    std::vector<uint32_t> space_of_;    ///< of each part
    std::vector<int64_t> offsets_;      ///< of each part's operands' first elements
    bool staged_ = false;               ///< tiles lie in scratch
  };
  /// `buffers` as in StepArgs; `staged`: the tile, where tiles lie in scratch.
  void run(const Tiles& tiles, size_t part, void* const* buffers, void* scratch,
           void* staged = nullptr) const;

 private:
  std::shared_ptr<const ChunkProgram> program_;
  std::vector<uint32_t> inputs_;  ///< operands after the tile itself: indices of step inputs
  uint32_t output_index_ = 0;
  bool staged_ = false;
  std::vector<uint8_t> bytes_;
};

/// What a kernel with sums in registers does behind them: bounds there, the rest on a tile.
struct BoundedEpilogue {
  /// Of a step for which Epilogue::build() with `staged` gives one.
  explicit BoundedEpilogue(const StepSpec& spec);
  Bounds bounds;
  Epilogue epilogue;
};

}  // namespace xc::cpu
