#include "runtime/run_context.h"

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
  if (data_) engine_->release(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  data_ = static_cast<std::byte*>(engine_->allocate(bytes));
  bytes_ = bytes;
  return true;
}

}  // namespace xc
