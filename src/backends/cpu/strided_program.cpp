#include "backends/cpu/strided_program.h"

#include <algorithm>

#include "base/checked.h"

namespace xc::cpu {
namespace {

/// Elements of one cheap function a task should have: some 5 us of work.
constexpr int64_t kGrain = 32768;

}  // namespace

void run_over(const ChunkProgram& program, const StridedSpace& space, std::byte* const* pointers,
              void* scratch) {
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space.rank(), count = program.operand_count();
  const int64_t blocks_total = element_count(space.dims().first(rank - 2));
  for (int64_t block = 0; block < blocks_total; ++block) {
    for (size_t k = 0; k < count; ++k) {
      const auto strides = space.strides(k);
      int64_t offset = 0, outer = block;
      for (size_t axis = rank - 2; axis-- > 0;) {
        offset += outer % space.dims()[axis] * strides[axis];
        outer /= space.dims()[axis];
      }
      blocks[k] = {pointers[k] + offset * program.operand_bytes(k), strides[rank - 2],
                   strides[rank - 1]};
    }
    program.run(space.dims()[rank - 2], space.dims()[rank - 1], blocks, scratch);
  }
}

StridedProgram::StridedProgram(std::shared_ptr<const ChunkProgram> program, StridedSpace space,
                               std::vector<uint32_t> buffer_of)
    : program_(std::move(program)), space_(std::move(space)), buffer_of_(std::move(buffer_of)) {
  XC_CHECK(space_.rank() >= 2 && space_.operands() == program_->operand_count());
  cols_ = space_.dims().back();
  rows_ = element_count(space_.dims().first(space_.rank() - 1));
  bytes_.reserve(program_->operand_count());
  for (size_t k = 0; k < program_->operand_count(); ++k)
    bytes_.push_back(static_cast<uint8_t>(program_->operand_bytes(k)));
  const int64_t work =
      checked_mul(checked_mul(rows_, cols_),
                  std::max<int64_t>(1, static_cast<int64_t>(program_->instruction_count())));
  const int64_t wanted = std::clamp<int64_t>(work / kGrain, 1, 256);
  if (rows_ >= wanted) {
    tasks = wanted;
  } else {
    split_columns_ = true;
    tasks = std::min(wanted, std::max<int64_t>(1, cols_ / 64));
  }
  scratch_bytes = program_->scratch_bytes();
  if (program_->writes_last())
    for (const uint32_t buffer : buffer_of_)
      if (buffer < 32) in_place |= uint32_t{1} << buffer;
  held_bytes = 256 + space_.bytes();
}

void StridedProgram::run(const StepArgs& args, int64_t begin, int64_t end) const {
  if (split_columns_) {
    // Boundaries at multiples of 64 elements keep tasks off each other's cache lines.
    const auto boundary = [&](int64_t task) {
      return task == tasks ? cols_ : cols_ / 64 * task / tasks * 64;
    };
    run_columns(args, boundary(begin), boundary(end));
  } else {
    run_rows(args, rows_ * begin / tasks, rows_ * end / tasks);
  }
}

void StridedProgram::run_columns(const StepArgs& args, int64_t first, int64_t last) const {
  if (first >= last) return;
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space_.rank(), count = bytes_.size();
  const int64_t inner_rows = space_.dims()[rank - 2];
  Dims at(rank - 2, 0);
  for (int64_t row = 0; row < rows_; row += inner_rows) {
    for (size_t k = 0; k < count; ++k) {
      const auto strides = space_.strides(k);
      int64_t offset = first * strides[rank - 1];
      for (size_t axis = 0; axis + 2 < rank; ++axis) offset += at[axis] * strides[axis];
      blocks[k] = {static_cast<std::byte*>(args.buffers[buffer_of_[k]]) + offset * bytes_[k],
                   strides[rank - 2], strides[rank - 1]};
    }
    program_->run(inner_rows, last - first, blocks, args.scratch);
    for (size_t axis = rank - 2; axis-- > 0;) {
      if (++at[axis] < space_.dims()[axis]) break;
      at[axis] = 0;
    }
  }
}

void StridedProgram::run_rows(const StepArgs& args, int64_t first, int64_t last) const {
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space_.rank(), count = bytes_.size();
  const int64_t inner_rows = space_.dims()[rank - 2];
  for (int64_t row = first; row < last;) {
    const int64_t in_block = row % inner_rows;
    const int64_t rows = std::min(last - row, inner_rows - in_block);
    for (size_t k = 0; k < count; ++k) {
      const auto strides = space_.strides(k);
      int64_t offset = in_block * strides[rank - 2];
      int64_t outer = row / inner_rows;
      for (size_t axis = rank - 2; axis-- > 0;) {
        offset += outer % space_.dims()[axis] * strides[axis];
        outer /= space_.dims()[axis];
      }
      blocks[k] = {static_cast<std::byte*>(args.buffers[buffer_of_[k]]) + offset * bytes_[k],
                   strides[rank - 2], strides[rank - 1]};
    }
    program_->run(rows, cols_, blocks, args.scratch);
    row += rows;
  }
}

}  // namespace xc::cpu
