#include "runtime/output_pool.h"

#include <algorithm>
#include <utility>

#include "base/at_end.h"
#include "base/checked.h"
#include "runtime/growing_memory.h"

namespace xc {

void TensorHandle::release() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  auto* self = static_cast<xc_tensor*>(this);
  if (pool) {
    const std::shared_ptr<OutputPool> home = std::move(pool);  // the pool may die with this handle
    home->give_back(self);
  } else {
    delete self;
  }
}

void OutputPool::Shelf::ask(int64_t bytes) {
  constexpr int kMemory = 6;  // one large result in 2^kMemory or more keeps its memory
  asked = std::max(bytes, asked - (asked >> kMemory));
}

bool OutputPool::Shelf::too_large(const xc_tensor* handle) const {
  constexpr int64_t kSmall = 1 << 16;
  const int64_t bytes = handle->tensor.buffer()->bytes();
  return bytes > kSmall && bytes / 8 > asked;
}

OutputPool::OutputPool(std::shared_ptr<Engine> engine, size_t outputs)
    : engine_(std::move(engine)), shelves_(outputs) {
  for (Shelf& shelf : shelves_) shelf.free.reserve(kKeep);
}

OutputPool::~OutputPool() {
  for (const Shelf& shelf : shelves_)
    for (xc_tensor* handle : shelf.free) delete handle;
}

xc_tensor* OutputPool::acquire(uint32_t output, DType dtype, std::span<const int64_t> dims) {
  const int64_t bytes = checked_mul(element_count(dims), element_size(dtype));
  xc_tensor* handle = nullptr;
  if (dtype != DType::kString) {
    std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_[output];
    shelf.ask(bytes);
    if (!shelf.free.empty()) {
      handle = shelf.free.back();
      shelf.free.pop_back();
    }
  }
  const bool fits =
      handle && handle->tensor.buffer()->bytes() >= bytes && handle->tensor.dtype() == dtype;
  if (!handle) handle = new xc_tensor;
  try {
    if (fits) {
      handle->tensor.set_dims(dims);
    } else if (dtype == DType::kString) {
      handle->tensor = Tensor(dtype, Dims(dims.begin(), dims.end()));
    } else {
      // Room to grow: a stream of sizes settles after a few allocations.
      const int64_t room = room_to_grow(bytes);
      auto memory = std::make_shared<GrowingMemory>(*engine_);
      memory->reserve(room);
      void* const data = memory->data();
      auto buffer =
          Buffer::wrap(data, room, [engine = engine_, memory = std::move(memory)]() mutable {
            memory.reset();  // while there is the engine
          });
      handle->tensor = Tensor(std::move(buffer), 0, dtype, Dims(dims.begin(), dims.end()));
    }
  } catch (...) {
    delete handle;
    throw;
  }
  return handed_out(handle, output);
}

xc_tensor* OutputPool::handed_out(xc_tensor* handle, uint32_t output) {
  handle->references.store(1, std::memory_order_relaxed);
  handle->pool = shared_from_this();
  handle->pool_index = output;
  return handle;
}

xc_tensor* OutputPool::acquire_ready(uint32_t output, DType dtype, std::span<const int64_t> dims) {
  const int64_t bytes = checked_mul(element_count(dims), element_size(dtype));
  xc_tensor* handle = nullptr;
  {
    std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_[output];
    const auto next = std::find_if(shelf.free.rbegin(), shelf.free.rend(), [&](xc_tensor* free) {
      const Tensor& tensor = free->tensor;  // of another rank, where the model leaves that open
      return tensor.dtype() == dtype && tensor.buffer()->bytes() >= bytes &&
             std::min(tensor.dims().capacity(), tensor.strides().capacity()) >= dims.size();
    });
    if (next == shelf.free.rend()) return nullptr;
    handle = *next;
    shelf.free.erase(std::next(next).base());
  }
  handle->tensor.set_dims(dims);
  return handed_out(handle, output);
}

void OutputPool::keep_memory() {
  std::lock_guard lock(mutex_);
  keeps_ = true;
}

void OutputPool::give_back(xc_tensor* handle) noexcept {
  xc_tensor* oldest = nullptr;
  if (handle->tensor.dtype() != DType::kString) {
    std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_[handle->pool_index];
    const auto goes = [&](const xc_tensor* free) { return !keeps_ && shelf.too_large(free); };
    if (shelf.free.size() < kKeep && !goes(handle))
      shelf.free.push_back(std::exchange(handle, nullptr));
    // Those below are handed out only where several are in use at once.
    if (!shelf.free.empty() && goes(shelf.free.front())) {
      oldest = shelf.free.front();
      shelf.free.erase(shelf.free.begin());
    }
  }
  delete handle;
  delete oldest;
}

Tensor take_tensor(xc_tensor* handle) {
  const Tensor& tensor = handle->tensor;
  if (!tensor || holds_objects(tensor.dtype())) {
    const AtEnd release([&] { handle->release(); });
    return tensor;
  }
  auto buffer = Buffer::wrap(tensor.buffer()->data(), tensor.buffer()->bytes(),
                             [handle] { handle->release(); });
  return Tensor(std::move(buffer), tensor.byte_offset(), tensor.dtype(), tensor.dims());
}

}  // namespace xc
