#include "refused_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace xc::testing {
namespace {

std::atomic<long> first_{0}, last_{0};  ///< numbers of the requests that fail; 0 = none
std::atomic<long> asked_{0}, refused_{0};
thread_local bool spared = false;

bool refuses() {
  const long last = last_.load(std::memory_order_relaxed);
  if (last == 0 || spared) return false;
  const long number = asked_.fetch_add(1) + 1;
  if (number < first_ || number > last) return false;
  refused_.fetch_add(1);
  return true;
}

}  // namespace

RefusedMemory::RefusedMemory() {
  spared = true;
}
RefusedMemory::~RefusedMemory() {
  stop();
  spared = false;
}
void RefusedMemory::refuse(long first, long count) {
  asked_ = refused_ = 0;
  first_ = first;
  last_ = first + count - 1;
}
long RefusedMemory::stop() {
  last_ = 0;
  return refused_;
}

}  // namespace xc::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

void* memory_of(std::size_t size, std::size_t alignment) noexcept {
  if (xc::testing::refuses()) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* memory_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = memory_of(size, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return memory_or_throw(size, 0);
}
void* operator new[](std::size_t size) {
  return memory_or_throw(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return memory_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return memory_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return memory_of(size, 0);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return memory_of(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memory_of(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return memory_of(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#endif
