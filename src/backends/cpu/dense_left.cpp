#include "backends/cpu/dense_left.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"

namespace xc::cpu {

DenseLeft::DenseLeft(const BoundOperand& left, int64_t element_bytes, size_t operands,
                     std::shared_ptr<const BoundKernel> inner, std::optional<Place> place)
    : operands_(operands),
      offset_(place ? place->offset * element_bytes : 0),
      has_zeros_(place && place->elements != element_count(left.dims)),
      copy_(left.dims, left.strides,
            place ? place->strides : contiguous_strides(Dims(left.dims.begin(), left.dims.end())),
            element_bytes),
      inner_(std::move(inner)) {
  XC_CHECK(operands_ <= kMostOperands);
  inner_at_ =
      align_up(checked_mul(place ? place->elements : element_count(left.dims), element_bytes), 64);
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
  auto* const copy = static_cast<std::byte*>(args.shared);
  if (has_zeros_) std::memset(copy, 0, static_cast<size_t>(inner_at_));
  copy_.run(args.buffers[0], copy + offset_);
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
