#include "backends/cpu/dense_left.h"

#include <algorithm>
#include <array>

#include "base/checked.h"

namespace xc::cpu {

DenseLeft::DenseLeft(const BoundOperand& left, int64_t element_bytes, size_t operands,
                     std::shared_ptr<const BoundKernel> inner)
    : operands_(operands),
      copy_(left.dims, left.strides, contiguous_strides(Dims(left.dims.begin(), left.dims.end())),
            element_bytes),
      inner_(std::move(inner)) {
  XC_CHECK(operands_ <= kMostOperands);
  inner_at_ = align_up(checked_mul(element_count(left.dims), element_bytes), 64);
  tasks = inner_->tasks;
  scratch_bytes = inner_->scratch_bytes;
  shared_bytes = checked_add(inner_at_, inner_->shared_bytes);
  unread = inner_->unread;
  any_address = inner_->any_address;
  allocates = inner_->allocates;
  provisional = inner_->provisional;
  held_bytes = 512 + inner_->held_bytes;
}

template <class F>
void DenseLeft::with_dense(const StepArgs& args, F&& f) const {
  std::array<void*, kMostOperands> buffers;
  std::copy_n(args.buffers, operands_, buffers.begin());
  buffers[0] = args.shared;
  f({buffers.data(), args.scratch, static_cast<std::byte*>(args.shared) + inner_at_});
}

void DenseLeft::start(const StepArgs& args) const {
  copy_.run(args.buffers[0], args.shared);
  if (inner_->shared_bytes > 0)
    with_dense(args, [&](const StepArgs& dense) { inner_->start(dense); });
}

void DenseLeft::run(const StepArgs& args, int64_t begin, int64_t end) const {
  with_dense(args, [&](const StepArgs& dense) { inner_->run(dense, begin, end); });
}

void DenseLeft::finish(const StepArgs& args) const {
  if (inner_->shared_bytes > 0)
    with_dense(args, [&](const StepArgs& dense) { inner_->finish(dense); });
}

}  // namespace xc::cpu
