#include "runtime/growing_memory.h"

#include "base/checked.h"
#include "runtime/engine.h"

namespace xc {

GrowingMemory::GrowingMemory(GrowingMemory&& other) noexcept
    : engine_(other.engine_), data_(other.data_), bytes_(other.bytes_) {
  other.data_ = nullptr;
  other.bytes_ = 0;
}

GrowingMemory::~GrowingMemory() {
  if (data_) engine_->release(data_, bytes_);
}

bool GrowingMemory::reserve(int64_t bytes) {
  if (bytes <= bytes_) return false;
  // Room to grow once it has grown: a stream of rising sizes settles after a few allocations and
  // leaves no trail of outgrown blocks in the heap.
  if (bytes_ > 0) bytes = room_to_grow(bytes);
  if (data_) engine_->release(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  data_ = static_cast<std::byte*>(engine_->allocate(bytes));
  bytes_ = bytes;
  return true;
}

}  // namespace xc
