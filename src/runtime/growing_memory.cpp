#include "runtime/growing_memory.h"

#include <algorithm>

#include "base/checked.h"
#include "runtime/engine.h"

namespace xc {

GrowingMemory::GrowingMemory(GrowingMemory&& other) noexcept
    : engine_(other.engine_), data_(other.data_), bytes_(other.bytes_), asked_(other.asked_) {
  other.data_ = nullptr;
  other.bytes_ = 0;
}

GrowingMemory::~GrowingMemory() {
  drop();
}

bool GrowingMemory::reserve(int64_t bytes) {
  constexpr int kMemory = 10;  // one large use in 2^kMemory or more keeps it
  asked_ = std::max(bytes, asked_ - (asked_ >> kMemory));
  if (bytes <= bytes_) return false;
  // Room to grow once it has grown: a stream of rising sizes settles after a few allocations and
  // leaves no trail of outgrown blocks in the heap.
  if (bytes_ > 0) bytes = room_to_grow(bytes);
  drop();
  data_ = static_cast<std::byte*>(engine_->allocate(bytes));
  bytes_ = bytes;
  return true;
}

bool GrowingMemory::trim() {
  constexpr int64_t kSmall = 1 << 16;
  if (bytes_ <= kSmall || bytes_ / 8 <= asked_) return false;
  drop();
  return true;
}

void GrowingMemory::drop() {
  if (data_) engine_->release(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace xc
