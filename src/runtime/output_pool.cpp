#include "runtime/output_pool.h"

#include "base/checked.h"

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

OutputPool::OutputPool(std::shared_ptr<Engine> engine, size_t outputs)
    : engine_(std::move(engine)), free_(outputs) {
  for (auto& list : free_) list.reserve(kKeep);
}

OutputPool::~OutputPool() {
  for (auto& list : free_)
    for (xc_tensor* handle : list) delete handle;
}

xc_tensor* OutputPool::acquire(uint32_t output, DType dtype, std::span<const int64_t> dims) {
  const int64_t bytes = checked_mul(element_count(dims), element_size(dtype));
  xc_tensor* handle = nullptr;
  if (dtype != DType::kString) {
    std::lock_guard lock(mutex_);
    auto& list = free_[output];
    if (!list.empty()) {
      handle = list.back();
      list.pop_back();
    }
  }
  if (handle && handle->tensor.buffer()->bytes() >= bytes && handle->tensor.dtype() == dtype) {
    handle->tensor.set_dims(dims);
  } else {
    if (!handle) handle = new xc_tensor;
    try {
      if (dtype == DType::kString) {
        handle->tensor = Tensor(dtype, Dims(dims.begin(), dims.end()));
      } else {
        // Room to grow: a stream of sizes settles after a few allocations.
        const int64_t room = align_up(std::max<int64_t>(bytes + bytes / 4, 64), 64);
        void* memory = engine_->allocate(room);
        auto buffer = Buffer::wrap(
            memory, room, [engine = engine_, memory, room] { engine->release(memory, room); });
        handle->tensor = Tensor(std::move(buffer), 0, dtype, Dims(dims.begin(), dims.end()));
      }
    } catch (...) {
      delete handle;
      throw;
    }
  }
  handle->references.store(1, std::memory_order_relaxed);
  handle->pool = shared_from_this();
  handle->pool_index = output;
  return handle;
}

bool OutputPool::ready(uint32_t output, DType dtype, std::span<const int64_t> dims) {
  const int64_t bytes = checked_mul(element_count(dims), element_size(dtype));
  std::lock_guard lock(mutex_);
  const auto& list = free_[output];
  return !list.empty() && list.back()->tensor.dtype() == dtype &&
         list.back()->tensor.buffer()->bytes() >= bytes;
}

void OutputPool::give_back(xc_tensor* handle) noexcept {
  if (handle->tensor.dtype() != DType::kString) {
    std::lock_guard lock(mutex_);
    auto& list = free_[handle->pool_index];
    if (list.size() < kKeep) {
      list.push_back(handle);
      return;
    }
  }
  delete handle;
}

Tensor take_tensor(xc_tensor* handle) {
  const Tensor tensor = handle->tensor;
  if (!tensor || holds_objects(tensor.dtype())) {
    handle->release();
    return tensor;
  }
  auto buffer = Buffer::wrap(tensor.buffer()->data(), tensor.buffer()->bytes(),
                             [handle] { handle->release(); });
  return Tensor(std::move(buffer), tensor.byte_offset(), tensor.dtype(), tensor.dims());
}

}  // namespace xc
