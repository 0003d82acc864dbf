#include "tier/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace xc::tier {

namespace {

std::atomic<int> g_fail_after{-1}, g_fail_with{EACCES};  // tests only

// The process-wide answer of the operating system.
std::mutex g_refusal_mutex;
std::string g_refusal;

bool injected() {
  int left = g_fail_after.load(std::memory_order_relaxed);
  while (left >= 0)
    if (g_fail_after.compare_exchange_weak(left, left - 1)) {
      if (left > 0) return false;
      errno = g_fail_with;
      return true;
    }
  return false;
}

/// What a policy refuses it refuses always; for want of memory or of mappings (vm.max_map_count) a
/// call may fail that goes through another time.
bool may_pass_later(int error) {
  return error == ENOMEM || error == EAGAIN;
}

std::string refuse(const char* what) {
  const int error = errno;
  const std::string reason =
      fmt::format("executable memory refused: {}: {}", what, std::strerror(error));
  if (may_pass_later(error)) return reason;
  const std::lock_guard lock(g_refusal_mutex);
  if (g_refusal.empty()) g_refusal = reason;
  return reason;
}

size_t system_page_size() {
  return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string CodeMemory::refusal() {
  const std::lock_guard lock(g_refusal_mutex);
  return g_refusal;
}

void CodeMemory::inject_refusal(int n, int error) {
  g_fail_with.store(error == 0 ? EACCES : error);
  g_fail_after.store(n);
}

void CodeMemory::forget_refusal() {
  const std::lock_guard lock(g_refusal_mutex);
  g_refusal.clear();
}

CodeMemory::CodeMemory(int64_t cap)
    : page_size_(system_page_size()),
      page_limit_(static_cast<size_t>(std::max<int64_t>(cap, 0)) / page_size_) {}

CodeMemory::~CodeMemory() {
  if (base_) ::munmap(base_, (page_limit_ + 2) * page_size_);
}

int64_t CodeMemory::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(used_pages_ * page_size_);
}

int64_t CodeMemory::cap() const {
  return static_cast<int64_t>(page_limit_ * page_size_);
}

bool CodeMemory::reserve(std::string& reason) {
  if (base_) return true;
  const size_t bytes = (page_limit_ + 2) * page_size_;
  void* at = injected() ? MAP_FAILED
                        : ::mmap(nullptr, bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    reason = refuse("reserving address space");
    return false;
  }
  base_ = static_cast<uint8_t*>(at);
  free_ = {{1, page_limit_}};
  return true;
}

std::optional<size_t> CodeMemory::take(size_t pages) {
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->pages < pages) continue;
    const size_t first = run->first;
    run->first += pages;
    run->pages -= pages;
    if (run->pages == 0) free_.erase(run);
    return first;
  }
  return std::nullopt;
}

void CodeMemory::give_back(size_t first, size_t pages) {
  auto next = std::lower_bound(free_.begin(), free_.end(), first,
                               [](const Run& run, size_t at) { return run.first < at; });
  next = free_.insert(next, {first, pages});
  if (const auto after = next + 1;
      after != free_.end() && next->first + next->pages == after->first) {
    next->pages += after->pages;
    free_.erase(after);
  }
  if (next != free_.begin()) {
    const auto before = next - 1;
    if (before->first + before->pages == next->first) {
      before->pages += next->pages;
      free_.erase(next);
    }
  }
}

bool CodeMemory::protect(size_t first, size_t pages, int protection, const char* what,
                         std::string& reason) {
  if (!injected() && ::mprotect(page(first), pages * page_size_, protection) == 0) return true;
  reason = refuse(what);
  return false;
}

CodeMemory::Published CodeMemory::publish(std::span<const uint8_t> code, size_t entry,
                                          size_t alignment) {
  XC_CHECK(entry < code.size() && alignment <= page_size_);
  if (std::string known = refusal(); !known.empty())
    return {std::nullopt, false, false, std::move(known)};
  const size_t pages = (code.size() + page_size_ - 1) / page_size_;
  const std::lock_guard lock(mutex_);
  if (page_limit_ == 0 || pages > page_limit_)
    return {std::nullopt, false, false,
            fmt::format("code memory is full: {} bytes wanted, cap {}", code.size(),
                        page_limit_ * page_size_)};
  std::string reason;
  const auto refused = [&] { return Published{std::nullopt, false, refusal().empty(), reason}; };
  if (!reserve(reason)) return refused();
  const std::optional<size_t> first = take(pages);
  if (!first)
    return {std::nullopt, true, false,
            fmt::format("code memory is full: {} bytes wanted, {} of {} in use", code.size(),
                        used_pages_ * page_size_, page_limit_ * page_size_)};
  if (!protect(*first, pages, PROT_READ | PROT_WRITE, "making pages writable", reason)) {
    give_back(*first, pages);
    return refused();
  }
  std::memcpy(page(*first), code.data(), code.size());
  if (!protect(*first, pages, PROT_READ | PROT_EXEC, "making pages executable", reason)) {
    // Back to nothing; a system that refuses this too leaves data pages, which nobody runs.
    ::madvise(page(*first), pages * page_size_, MADV_DONTNEED);
    ::mprotect(page(*first), pages * page_size_, PROT_NONE);
    give_back(*first, pages);
    return refused();
  }
  __builtin___clear_cache(reinterpret_cast<char*>(page(*first)),
                          reinterpret_cast<char*>(page(*first)) + code.size());
  used_pages_ += pages;
  Block block{nullptr, *first, pages};
  const uint8_t* at = page(*first) + entry;
  std::memcpy(&block.entry, &at, sizeof(at));
  return {block, false, false, {}};
}

void CodeMemory::retire(const Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  XC_CHECK(base_ && block.pages > 0 && used_pages_ >= block.pages);
  used_pages_ -= block.pages;
  ::madvise(page(block.first_page), block.pages * page_size_, MADV_DONTNEED);
  try {
    std::string reason;
    if (protect(block.first_page, block.pages, PROT_NONE, "closing retired pages", reason))
      give_back(block.first_page, block.pages);
  } catch (const std::bad_alloc&) {
    // Pages that cannot be closed, or noted, are not used again.
  }
}

}  // namespace xc::tier
