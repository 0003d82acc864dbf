#include "runtime/engine.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked.h"
#include "base/large_memory.h"

namespace xc {

Engine::Engine(Config config, HostHooks hooks, std::unique_ptr<TierHooks> tier)
    : config_(std::move(config)), hooks_(std::move(hooks)), tier_(std::move(tier)) {
  const auto threads = static_cast<int>(effective(config_, &Config::threads));
  if (hooks_.tasks)
    tasks_ = hooks_.tasks;
  else if (threads <= 1)
    tasks_ = std::make_shared<InlineRunner>();
  else
    tasks_ = std::make_shared<ThreadPool>(threads);
  if (tier_) tier_->attach(*this);
}

Engine::~Engine() {
  tier_.reset();
}

void Engine::log(LogLevel level, const std::string& message) const {
  if (hooks_.log) hooks_.log(level, message);
}

void Engine::emit(const Event& event) const {
  if (hooks_.event) hooks_.event(event);
}

void* Engine::allocate(int64_t bytes) const {
  XC_CHECK(bytes >= 0);
  const auto size = static_cast<size_t>(align_up(std::max<int64_t>(bytes, 1), 64));
  void* memory =
      hooks_.allocate ? hooks_.allocate(size, 64) : allocate_large(static_cast<int64_t>(size));
  if (!memory) fail(Status::kOutOfMemory, "cannot allocate {} bytes", size);
  working_bytes_.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  return memory;
}

void Engine::release(void* memory, int64_t bytes) const noexcept {
  const int64_t size = (std::max<int64_t>(bytes, 1) + 63) & ~int64_t{63};
  if (memory) working_bytes_.fetch_sub(size, std::memory_order_relaxed);
  if (hooks_.allocate)
    hooks_.release(memory, static_cast<size_t>(size));
  else
    std::free(memory);
}

Tensor Engine::tensor(DType dtype, Dims dims) const {
  if (!hooks_.allocate || holds_objects(dtype)) return {dtype, std::move(dims)};
  const int64_t bytes = checked_mul(element_count(dims), element_size(dtype));
  void* const data = allocate(bytes);
  auto buffer = Buffer::wrap(
      data, bytes, [engine = shared_from_this(), data, bytes] { engine->release(data, bytes); });
  return {std::move(buffer), 0, dtype, std::move(dims)};
}

Tensor Engine::row_major(const Tensor& tensor, MemoryBudget* budget) const {
  if (tensor.contiguous()) return tensor;
  if (budget) budget->charge(tensor.byte_size());
  Tensor out = this->tensor(tensor.dtype(), tensor.dims());
  copy_elements(tensor.view(), out.view());
  return out;
}

}  // namespace xc
