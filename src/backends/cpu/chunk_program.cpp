#include "backends/cpu/chunk_program.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/copy.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/short_runs.h"

namespace xc::cpu {
namespace {

constexpr int64_t kBufferBytes = ChunkProgram::kChunk * 8;
/// Rows shorter than this are gathered into chunks of several; up to the second length where that
/// takes no more than one row that repeats (a value per channel, channels last) or, where several
/// functions share the chunk, a value per row.
constexpr int64_t kShortRow = 64, kShortRepeatedRow = 256;
/// Rows of a tile where an operand runs along the rows: of what it reads whole lines of the cache
/// are used, and not more pages than the processor knows the addresses of.
constexpr int64_t kTileRows = 32;
/// Rows from which on that pays, and rows that are transposed at a time.
constexpr int64_t kLeastTileRows = 4, kRowsTogether = 16;

bool runs_along_rows(const ChunkProgram::Block& block) {
  return block.row == 1 && block.col > 1;
}

// Between a tile, from its first element on, and a dense buffer.

template <class T>
void gather_as(T* to, const T* from, const ChunkProgram::Tile& tile,
               const ChunkProgram::Block& strides) {
  const auto row_at = [&](int64_t p, int64_t r) {
    return from + p * strides.plane + r * strides.row;
  };
  const size_t bytes = static_cast<size_t>(tile.cols) * sizeof(T);
  const auto runs = [&](auto&& write) {
    auto* run = reinterpret_cast<std::byte*>(to);
    for (int64_t p = 0; p < tile.planes; ++p)
      for (int64_t r = 0; r < tile.rows; ++r, run += bytes) write(run, row_at(p, r));
  };
  if ((strides.col == 0 || strides.col == 1) && with_short_run(bytes, [&](auto unit) {
        constexpr size_t kUnit = unit;
        if (strides.col == 1)
          return runs([&](std::byte* run, const T* row) {
            copy_run<kUnit>(run, reinterpret_cast<const std::byte*>(row), bytes);
          });
        runs([&](std::byte* run, const T* row) {
          T values[std::max<size_t>(1, kUnit / sizeof(T))];
          std::fill_n(values, std::size(values), *row);
          std::memcpy(run, values, kUnit);
          std::memcpy(run + (bytes - kUnit), values, kUnit);
        });
      }))
    return;
  for (int64_t p = 0; p < tile.planes; ++p, to += tile.rows * tile.cols)
    copy_matrix({tile.rows, tile.cols, strides.row, strides.col, tile.cols, 1, int64_t{sizeof(T)}},
                row_at(p, 0), to);
}

void scatter(std::byte* to, const std::byte* from, const ChunkProgram::Tile& tile,
             const ChunkProgram::Block& strides, int64_t bytes) {
  for (int64_t p = 0; p < tile.planes; ++p) {
    copy_matrix({tile.rows, tile.cols, tile.cols, 1, strides.row, strides.col, bytes}, from, to);
    from += tile.rows * tile.cols * bytes;
    to += strides.plane * bytes;
  }
}

/// A copy moves bits: any type of the element size will do.
ElementwiseFn copy_fn(int64_t bytes) {
  const DType as = bytes == 1   ? DType::kU8
                   : bytes == 2 ? DType::kU16
                   : bytes == 4 ? DType::kI32
                                : DType::kI64;
  return elementwise_fn(Fn::kCopy, as, cpu_info().isa);
}

/// A value per row, each `cols` times.
void repeat_values(std::byte* to, const std::byte* from, const ChunkProgram::Tile& tile,
                   const ChunkProgram::Block& strides, int64_t bytes) {
  const ElementwiseFn copy = copy_fn(bytes);
  ElementwiseArgs args{};
  args.n = tile.cols;
  for (int64_t p = 0; p < tile.planes; ++p)
    for (int64_t r = 0; r < tile.rows; ++r, to += tile.cols * bytes) {
      args.in[0] = from + (p * strides.plane + r * strides.row) * bytes;
      args.out = to;
      copy(args);
    }
}

}  // namespace

ChunkProgram::Reg ChunkProgram::input(DType dtype) {
  XC_CHECK(operands_.size() < kMaxOperands);
  const auto reg = static_cast<Reg>(registers_.size());
  registers_.push_back({Kind::kInput, dtype, 0, static_cast<uint16_t>(operands_.size()), -1});
  operands_.push_back({false, reg, static_cast<uint8_t>(element_size(dtype))});
  return reg;
}

ChunkProgram::Reg ChunkProgram::constant_bits(DType dtype, uint64_t bits) {
  registers_.push_back({Kind::kConstant, dtype, bits, 0, -1});
  return static_cast<Reg>(registers_.size() - 1);
}

ChunkProgram::Reg ChunkProgram::constant(DType dtype, double value) {
  uint64_t bits = 0;
  store_double(&bits, dtype, 0, value);
  return constant_bits(dtype, bits);
}

ChunkProgram::Reg ChunkProgram::emit(ElementwiseFn fn, DType result,
                                     std::initializer_list<Reg> args, std::array<float, 2> params) {
  XC_CHECK(fn && args.size() <= 3);
  const auto out = static_cast<Reg>(registers_.size());
  registers_.push_back({Kind::kTemp, result, 0, 0, -1});
  Instruction instruction{fn, out, static_cast<uint8_t>(args.size()), {}, params};
  std::copy(args.begin(), args.end(), instruction.args.begin());
  code_.push_back(instruction);
  return out;
}

void ChunkProgram::output(Reg value) {
  XC_CHECK(operands_.size() < kMaxOperands);
  if (registers_[value].kind != Kind::kTemp || registers_[value].output >= 0) {
    const DType type = registers_[value].dtype;
    value = emit(copy_fn(element_size(type)), type, {value});
  }
  registers_[value].output = static_cast<int16_t>(operands_.size());
  operands_.push_back({true, value, static_cast<uint8_t>(element_size(registers_[value].dtype))});
}

void ChunkProgram::finish() {
  // Linear scan: a temporary's buffer is free again after its last use.
  std::vector<size_t> last_use(registers_.size(), 0);
  for (size_t i = 0; i < code_.size(); ++i)
    for (size_t k = 0; k < code_[i].arity; ++k) last_use[code_[i].args[k]] = i;
  std::vector<uint16_t> free;
  for (size_t i = 0; i < code_.size(); ++i) {
    Register& out = registers_[code_[i].out];
    if (out.output < 0) {
      if (free.empty()) {
        out.slot = buffers_++;
      } else {
        out.slot = free.back();
        free.pop_back();
      }
    }
    for (size_t k = 0; k < code_[i].arity; ++k) {
      const Reg arg = code_[i].args[k];
      const bool repeated = std::find(code_[i].args.begin(), code_[i].args.begin() + k, arg) !=
                            code_[i].args.begin() + k;
      if (!repeated && registers_[arg].kind == Kind::kTemp && registers_[arg].output < 0 &&
          last_use[arg] == i)
        free.push_back(registers_[arg].slot);
    }
  }
}

int64_t ChunkProgram::scratch_bytes() const {
  return (static_cast<int64_t>(operands_.size()) + buffers_) * kBufferBytes;
}

bool ChunkProgram::writes_last() const {
  const auto outputs = std::count_if(operands_.begin(), operands_.end(),
                                     [](const OperandInfo& info) { return info.is_output; });
  return outputs == 1 && !code_.empty() && registers_[code_.back().out].output >= 0;
}

void ChunkProgram::run_chunk(const Tile& tile, const Block* operands, const bool* staged,
                             std::byte* scratch) const {
  const int64_t rows = tile.planes * tile.rows, n = rows * tile.cols;
  struct Value {
    void* data;
    int64_t step;
  };
  Value operand_values[kMaxOperands];
  const auto first_of = [&](size_t k) {
    const Block& block = operands[k];
    return static_cast<std::byte*>(block.data) +
           (tile.first_plane * block.plane + tile.first_row * block.row +
            tile.first_col * block.col) *
               operands_[k].bytes;
  };
  for (size_t k = 0; k < operands_.size(); ++k) {
    const Block& block = operands[k];
    const OperandInfo& info = operands_[k];
    std::byte* at = first_of(k);
    if (!staged[k]) {
      const bool one = (tile.planes == 1 || block.plane == 0) && block.row == 0 && block.col == 0;
      operand_values[k] = {at, !info.is_output && one         ? 0
                               : !info.is_output && rows == 1 ? block.col
                                                              : 1};
      continue;
    }
    std::byte* buffer = scratch + (static_cast<int64_t>(k) + buffers_) * kBufferBytes;
    operand_values[k] = {buffer, 1};
    // From the chunk before.
    const bool known = tile.planes > 1 ? tile.first_plane > 0 && block.plane == 0
                                       : rows > 1 && tile.first_row > 0 && block.row == 0;
    if (info.is_output || known) continue;
    if (block.col == 0 && static_cast<size_t>(tile.cols * info.bytes) > kShortRun)
      repeat_values(buffer, at, tile, block, info.bytes);
    else
      with_element_bytes(info.bytes, [&](auto element) {
        using T = decltype(element);
        gather_as(reinterpret_cast<T*>(buffer), reinterpret_cast<const T*>(at), tile, block);
      });
  }
  int64_t buffer_steps[64];  // 0 where every argument was one value
  const auto value_of = [&](Reg reg) -> Value {
    const Register& r = registers_[reg];
    if (r.kind == Kind::kConstant) return {const_cast<uint64_t*>(&r.bits), 0};
    if (r.kind == Kind::kInput) return operand_values[r.slot];
    if (r.output >= 0) return operand_values[r.output];
    return {scratch + r.slot * kBufferBytes, buffer_steps[r.slot % 64]};
  };
  for (const Instruction& instruction : code_) {
    ElementwiseArgs args{};
    args.params = instruction.params.data();
    args.n = n;
    bool uniform = registers_[instruction.out].output < 0 && buffers_ <= 64;
    for (size_t k = 0; k < instruction.arity; ++k) {
      const Value v = value_of(instruction.args[k]);
      args.in[k] = v.data;
      args.step[k] = v.step;
      uniform &= v.step == 0;
    }
    const Register& out = registers_[instruction.out];
    if (uniform) args.n = 1;
    if (out.output < 0) buffer_steps[out.slot % 64] = uniform ? 0 : 1;
    args.out =
        out.output >= 0 ? operand_values[out.output].data : scratch + out.slot * kBufferBytes;
    instruction.fn(args);
  }
  for (size_t k = 0; k < operands_.size(); ++k) {
    if (operands_[k].is_output && staged[k])
      scatter(first_of(k), static_cast<const std::byte*>(operand_values[k].data), tile, operands[k],
              operands_[k].bytes);
  }
}

void ChunkProgram::run_rows(int64_t rows, int64_t cols, const Block* operands) const {
  const Instruction& instruction = code_.front();
  ElementwiseArgs args{};
  args.params = instruction.params.data();
  args.n = cols;
  std::array<int64_t, 3> advance{};  // bytes from row to row
  for (size_t k = 0; k < instruction.arity; ++k) {
    const Register& r = registers_[instruction.args[k]];
    if (r.kind == Kind::kConstant) {
      args.in[k] = &r.bits;
      continue;
    }
    args.in[k] = operands[r.slot].data;
    args.step[k] = operands[r.slot].col;
    advance[k] = operands[r.slot].row * operands_[r.slot].bytes;
  }
  const auto out = static_cast<size_t>(registers_[instruction.out].output);
  auto* to = static_cast<std::byte*>(operands[out].data);
  for (int64_t row = 0; row < rows; ++row) {
    args.out = to;
    instruction.fn(args);
    for (size_t k = 0; k < instruction.arity; ++k)
      args.in[k] = static_cast<const std::byte*>(args.in[k]) + advance[k];
    to += operands[out].row * operands_[out].bytes;
  }
}

void ChunkProgram::run(int64_t planes, int64_t rows, int64_t cols, const Block* operands,
                       void* scratch) const {
  if (planes <= 0 || rows <= 0 || cols <= 0) return;
  const size_t count = operands_.size();
  // Planes so small that a chunk holds several; a value throughout needs no buffer.
  const int64_t plane = rows * cols;
  if (planes > 1 && cols < kShortRow && plane <= kChunk / 2) {
    bool staged[kMaxOperands];
    for (size_t k = 0; k < count; ++k) {
      const Block& block = operands[k];
      const bool dense = block.col == 1 && block.row == cols && block.plane == plane;
      const bool one =
          !operands_[k].is_output && block.col == 0 && block.row == 0 && block.plane == 0;
      staged[k] = !dense && !one;
    }
    const int64_t group = kChunk / plane;
    for (int64_t p = 0; p < planes; p += group)
      run_chunk(
          {.planes = std::min(group, planes - p), .rows = rows, .cols = cols, .first_plane = p},
          operands, staged, static_cast<std::byte*>(scratch));
    return;
  }
  if (planes == 1) return run_plane(rows, cols, operands, scratch);
  Block blocks[kMaxOperands];
  std::copy_n(operands, count, blocks);
  for (int64_t p = 0; p < planes; ++p) {
    run_plane(rows, cols, blocks, scratch);
    for (size_t k = 0; k < count; ++k)
      blocks[k].data =
          static_cast<std::byte*>(blocks[k].data) + blocks[k].plane * operands_[k].bytes;
  }
}

void ChunkProgram::run_plane(int64_t rows, int64_t cols, const Block* operands,
                             void* scratch) const {
  const size_t count = operands_.size();
  const auto flat = [&](size_t k) { return operands[k].row == cols * operands[k].col; };
  bool all_flat = rows > 1;
  for (size_t k = 0; k < count && all_flat; ++k) all_flat = flat(k);
  if (all_flat) {
    cols *= rows;
    rows = 1;
  }
  // What a row of an operand needs: nothing, or a dense buffer.
  bool staged[kMaxOperands];
  bool buffered = buffers_ > 0;
  // Dense throughout, or one row or value over and over, or a value per row.
  const auto costs_no_gather = [&](size_t k) {
    if (operands[k].row == 0 && !operands_[k].is_output)
      return operands[k].col == 0 || operands[k].col == 1;
    if (operands[k].col == 0 && !operands_[k].is_output) return code_.size() > 1;
    return operands[k].col == 1 && flat(k);
  };
  bool grouped = rows > 1 && cols <= kShortRepeatedRow;
  for (size_t k = 0; k < count && cols >= kShortRow; ++k) grouped = grouped && costs_no_gather(k);
  for (size_t k = 0; k < count; ++k) {
    const Block& block = operands[k];
    const bool dense =
        operands_[k].is_output ? block.col == 1 || cols == 1 : block.col == 0 || block.col == 1;
    if (grouped) {
      const bool one = !operands_[k].is_output && block.row == 0 && block.col == 0;
      staged[k] = !one && !(block.col == 1 && flat(k));
    } else {
      staged[k] = !dense;
    }
    buffered |= staged[k];
  }
  auto* bytes = static_cast<std::byte*>(scratch);
  const bool along_rows = std::any_of(operands, operands + count, runs_along_rows);
  if (along_rows && rows >= kLeastTileRows && !grouped) {
    for (size_t k = 0; k < count; ++k)
      staged[k] = operands_[k].is_output || operands[k].row != 0 || operands[k].col != 0;
    const int64_t tile_rows = std::min(rows, kTileRows), tile_cols = kChunk / tile_rows;
    for (int64_t c = 0; c < cols; c += tile_cols)
      for (int64_t r = 0; r < rows; r += tile_rows)
        run_chunk({.rows = std::min(tile_rows, rows - r),
                   .cols = std::min(tile_cols, cols - c),
                   .first_row = r,
                   .first_col = c},
                  operands, staged, bytes);
    return;
  }
  if (grouped) {
    int64_t group = kChunk / cols;
    if (along_rows && group > kRowsTogether) group -= group % kRowsTogether;
    for (int64_t r = 0; r < rows; r += group)
      run_chunk({.rows = std::min(group, rows - r), .cols = cols, .first_row = r}, operands, staged,
                bytes);
    return;
  }
  if (code_.size() == 1 && !buffered && registers_[code_.front().out].output >= 0)
    return run_rows(rows, cols, operands);
  const int64_t chunk = buffered ? kChunk : cols;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += chunk)
      run_chunk({.cols = std::min(chunk, cols - c), .first_row = r, .first_col = c}, operands,
                staged, bytes);
}

}  // namespace xc::cpu
