#pragma once
// A straight-line program of elementwise functions, run over a 3-D block of strided operands in
// chunks that stay in the first-level cache. Elementwise steps are such programs, and so are the
// post-ops that a vendor kernel leaves to us. Bound by nothing: dims and strides come with each
// run.

#include <array>
#include <vector>

#include "backends/cpu/vector/elementwise_fn.h"
#include "tensor/tensor.h"

namespace xc::cpu {

class ChunkProgram {
 public:
  using Reg = uint16_t;
  static constexpr int64_t kChunk = 1024;  ///< elements per chunk where buffers are needed
  static constexpr size_t kMaxOperands = 32;

  // --- building. Operands are numbered in the order of these calls. ---
  Reg input(DType dtype);
  Reg constant(DType dtype, double value);
  Reg constant_bits(DType dtype, uint64_t bits);
  /// A new value fn(args...).
  Reg emit(ElementwiseFn fn, DType result, std::initializer_list<Reg> args,
           std::array<float, 2> params = {});
  /// Declares the next operand as an output that receives `value`.
  void output(Reg value);
  /// Call once, when complete.
  void finish();

  DType dtype(Reg reg) const { return registers_[reg].dtype; }
  size_t operand_count() const { return operands_.size(); }
  int64_t operand_bytes(size_t operand) const { return operands_[operand].bytes; }
  size_t instruction_count() const { return code_.size(); }
  int64_t scratch_bytes() const;
  /// Whether of every chunk the inputs have been read when its (only) output is written.
  bool writes_last() const;

  // --- running ---
  struct Block {
    void* data = nullptr;
    int64_t plane = 0, row = 0, col = 0;  ///< strides in elements
  };
  /// What one chunk covers.
  struct Tile {
    int64_t planes = 1, rows = 1, cols = 1;
    int64_t first_plane = 0, first_row = 0, first_col = 0;
  };
  /// Operands in order. Where the output is written last, it may coincide with an input element for
  /// element. `scratch` has
  /// scratch_bytes(), 64-byte aligned.
  void run(int64_t planes, int64_t rows, int64_t cols, const Block* operands, void* scratch) const;

 private:
  enum class Kind : uint8_t { kInput, kTemp, kConstant };
  struct Register {
    Kind kind;
    DType dtype;
    uint64_t bits = 0;    ///< kConstant
    uint16_t slot = 0;    ///< kInput: operand; kTemp: buffer
    int16_t output = -1;  ///< kTemp: operand it is written to directly
  };
  struct Instruction {
    ElementwiseFn fn;
    Reg out;
    uint8_t arity;
    std::array<Reg, 3> args;
    std::array<float, 2> params;
  };
  struct OperandInfo {
    bool is_output;
    Reg reg;
    uint8_t bytes;
  };
  void run_plane(int64_t rows, int64_t cols, const Block* operands, void* scratch) const;
  void run_chunk(const Tile& tile, const Block* operands, const bool* staged,
                 std::byte* scratch) const;

  /// One function straight from operands to the output, row after row.
  void run_rows(int64_t rows, int64_t cols, const Block* operands) const;

  std::vector<Register> registers_;
  std::vector<Instruction> code_;
  std::vector<OperandInfo> operands_;
  uint16_t buffers_ = 0;  ///< temporaries, after liveness
};

}  // namespace xc::cpu
