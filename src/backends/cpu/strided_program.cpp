#include "backends/cpu/strided_program.h"

#include <algorithm>

#include "base/checked.h"

namespace xc::cpu {
namespace {

/// Elements of one cheap function a task should have: some 5 us of work.
constexpr int64_t kGrain = 32768;
/// Columns of a part of a row, at least: what is done once per row costs little beside them.
constexpr int64_t kLeastColumns = 512;

ChunkProgram::Block block_at(void* data, int64_t bytes, std::span<const int64_t> strides,
                             int64_t offset) {
  const auto inner = strides.last(3);
  return {static_cast<std::byte*>(data) + offset * bytes, inner[0], inner[1], inner[2]};
}

/// ChunkProgram reads tiles of rows and columns: where an operand's neighbours lie along another
/// axis than the columns, that becomes the rows.
StridedSpace with_neighbours_in_rows(StridedSpace space) {
  const size_t last = space.rank() - 1;
  for (size_t k = 0; k < space.operands(); ++k) {
    const auto strides = space.strides(k);
    if (strides[last] <= 1) continue;
    for (size_t axis = 0; axis < last; ++axis)
      if (strides[axis] == 1 && space.dims()[axis] > 1) {
        space.move_before_last(axis);
        return space;
      }
  }
  return space;
}

}  // namespace

void run_over(const ChunkProgram& program, const StridedSpace& space, std::byte* const* pointers,
              void* scratch) {
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space.rank(), count = program.operand_count();
  const auto dims = space.dims();
  const int64_t blocks_total = element_count(dims.first(rank - 3));
  for (int64_t block = 0; block < blocks_total; ++block) {
    for (size_t k = 0; k < count; ++k) {
      const auto strides = space.strides(k);
      blocks[k] = block_at(pointers[k], program.operand_bytes(k), strides,
                           offset_at(block, dims.first(rank - 3), strides));
    }
    program.run(dims[rank - 3], dims[rank - 2], dims[rank - 1], blocks, scratch);
  }
}

StridedProgram::StridedProgram(std::shared_ptr<const ChunkProgram> program, StridedSpace space,
                               std::vector<uint32_t> buffer_of)
    : program_(std::move(program)),
      space_(with_neighbours_in_rows(std::move(space))),
      buffer_of_(std::move(buffer_of)) {
  XC_CHECK(space_.rank() >= 3 && space_.operands() == program_->operand_count());
  cols_ = space_.dims().back();
  rows_ = element_count(space_.dims().first(space_.rank() - 1));
  bytes_.reserve(program_->operand_count());
  for (size_t k = 0; k < program_->operand_count(); ++k)
    bytes_.push_back(static_cast<uint8_t>(program_->operand_bytes(k)));
  const int64_t work =
      checked_mul(checked_mul(rows_, cols_),
                  std::max<int64_t>(1, static_cast<int64_t>(program_->instruction_count())));
  const int64_t wanted = std::clamp<int64_t>(work / kGrain, 1, 256);
  tasks = wanted;
  if (rows_ < wanted) {
    const int64_t rows = std::max<int64_t>(1, rows_);
    parts_ =
        std::clamp<int64_t>(ceil_div(wanted, rows), 1, std::max<int64_t>(1, cols_ / kLeastColumns));
    tasks = rows * parts_;
  }
  scratch_bytes = program_->scratch_bytes();
  if (program_->writes_last())
    for (const uint32_t buffer : buffer_of_)
      if (buffer < 32) in_place |= uint32_t{1} << buffer;
  held_bytes = 256 + space_.bytes();
}

void StridedProgram::run(const StepArgs& args, int64_t begin, int64_t end) const {
  if (parts_ == 1) return run_rows(args, rows_ * begin / tasks, rows_ * end / tasks);
  if (rows_ == 0) return;
  int64_t row = begin / parts_;
  const int64_t last = end / parts_, first_part = begin % parts_, end_part = end % parts_;
  if (row == last) return run_columns(args, row, first_part, end_part);
  if (first_part > 0) run_columns(args, row++, first_part, parts_);
  run_rows(args, row, last);
  run_columns(args, last, 0, end_part);
}

void StridedProgram::run_columns(const StepArgs& args, int64_t row, int64_t first,
                                 int64_t last) const {
  if (first >= last) return;
  // Boundaries at multiples of 64 elements keep tasks off each other's cache lines.
  const auto boundary = [&](int64_t part) {
    return part == parts_ ? cols_ : cols_ / 64 * part / parts_ * 64;
  };
  const int64_t column = boundary(first);
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space_.rank(), count = bytes_.size();
  const auto dims = space_.dims();
  for (size_t k = 0; k < count; ++k) {
    const auto strides = space_.strides(k);
    blocks[k] =
        block_at(args.buffers[buffer_of_[k]], bytes_[k], strides,
                 offset_at(row, dims.first(rank - 1), strides) + column * strides[rank - 1]);
  }
  program_->run(1, 1, boundary(last) - column, blocks, args.scratch);
}

void StridedProgram::run_rows(const StepArgs& args, int64_t first, int64_t last) const {
  ChunkProgram::Block blocks[ChunkProgram::kMaxOperands];
  const size_t rank = space_.rank(), count = bytes_.size();
  const auto dims = space_.dims();
  const int64_t in_plane = dims[rank - 2], in_outer = dims[rank - 3];
  for (int64_t row = first; row < last;) {
    // Whole planes together; what of the first and the last belongs to other tasks stays out.
    const int64_t at_row = row % in_plane, plane = row / in_plane, at_plane = plane % in_outer;
    const bool whole = at_row == 0 && last - row >= in_plane;
    const int64_t planes = whole ? std::min((last - row) / in_plane, in_outer - at_plane) : 1;
    const int64_t rows = whole ? in_plane : std::min(last - row, in_plane - at_row);
    for (size_t k = 0; k < count; ++k) {
      const auto strides = space_.strides(k);
      blocks[k] = block_at(args.buffers[buffer_of_[k]], bytes_[k], strides,
                           offset_at(plane / in_outer, dims.first(rank - 3), strides) +
                               at_plane * strides[rank - 3] + at_row * strides[rank - 2]);
    }
    program_->run(planes, rows, cols_, blocks, args.scratch);
    row += planes * rows;
  }
}

}  // namespace xc::cpu
