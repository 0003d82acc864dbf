#include "tier/fenced_memory.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/error.h"

namespace xc {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

FencedMemory::FencedMemory(int64_t bytes, int64_t element, Place place, uint8_t fence,
                           bool guard_pages)
    : bytes_(bytes), fence_(fence) {
  const int64_t shift = place == Place::kAligned ? 0 : element % kAlignment;
  if (guard_pages) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    block_bytes_ = std::max(page, align_up(checked_add(bytes, kAlignment), page));
    mapped_bytes_ = checked_add(block_bytes_, 2 * page);
    void* at = ::mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail(Status::kOutOfMemory, "no memory to verify a kernel in");
    mapped_ = at;
    block_ = static_cast<std::byte*>(at) + page;
    if (::mprotect(block_, static_cast<size_t>(block_bytes_), PROT_READ | PROT_WRITE) != 0) {
      ::munmap(mapped_, static_cast<size_t>(mapped_bytes_));
      fail(Status::kOutOfMemory, "no memory to verify a kernel in");
    }
    data_ = place == Place::kAtEnd ? block_ + (block_bytes_ - bytes) / element * element
                                   : block_ + shift;
  } else {
    block_bytes_ = checked_add(bytes, 2 * kFence + kAlignment);
    block_ = static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(block_bytes_), std::align_val_t{kAlignment}));
    data_ = block_ + kFence + shift;
  }
  std::memset(block_, fence_, static_cast<size_t>(block_bytes_));
}

FencedMemory::~FencedMemory() {
  if (mapped_)
    ::munmap(mapped_, static_cast<size_t>(mapped_bytes_));
  else
    ::operator delete(block_, std::align_val_t{kAlignment});
}

std::string FencedMemory::damage() const {
  const auto whole = [&](std::byte b) { return b == std::byte{fence_}; };
  const std::byte* const end = data_ + bytes_;
  const std::byte* const last = block_ + block_bytes_;
  const std::byte* const behind = std::find_if_not(end, last, whole);
  if (behind != last) return fmt::format("byte {} behind its end", behind - end);
  const std::byte* before = data_;
  while (before != block_ && whole(before[-1])) --before;
  return before == block_ ? std::string()
                          : fmt::format("byte {} before its start", data_ - before + 1);
}

}  // namespace xc
