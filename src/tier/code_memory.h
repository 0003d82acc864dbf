// Executable memory of one engine: one address range, reserved once, handed out in whole pages.
//
// A block's pages are written once, then made readable and executable (never writable and
// executable at the same time), and stay so until the block is retired; then they become
// inaccessible and may be used again. The first and the last page of the range are never
// accessible. The range is reserved at the first publish; nothing is mapped in an engine that never
// compiles.
//
// Where the system refuses executable memory (SELinux, seccomp, a hardened kernel), the first
// refusal is remembered for the process with its reason: every later publish of any engine returns
// it at once.
//
// Thread-safe. The caller sees to it that no thread runs in a block it retires, nor in any when the
// object is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "xc/kernel_abi.h"

namespace xc::tier {

class CodeMemory {
 public:
  /// At most `cap` bytes of code (rounded down to pages) at any time.
  explicit CodeMemory(int64_t cap);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  struct Block {
    xc_kernel_fn entry = nullptr;
    size_t first_page = 0, pages = 0;
  };
  struct Published {
    std::optional<Block> block;
    bool full = false;   // retiring other blocks would help
    bool later = false;  // the system is short of memory or mappings, and may not be for ever
    std::string reason;  // why not: "executable memory refused: ...", "code memory is full: ..."
  };
  /// Copies a position-independent image and makes it executable. `alignment` is a power of two up
  /// to the page size.
  Published publish(std::span<const uint8_t> code, size_t entry, size_t alignment);
  void retire(const Block& block) noexcept;

  int64_t bytes_in_use() const;  // whole pages of published blocks
  int64_t cap() const;

  /// The reason why the process has no executable memory; empty while it has.
  static std::string refusal();

  /// For tests: the n-th system call from now fails with `error`, EACCES unless given (0: the next;
  /// -1: none).
  static void inject_refusal(int n, int error = 0);
  /// For tests: forgets the refusal.
  static void forget_refusal();

 private:
  struct Run {  // free pages
    size_t first, pages;
  };
  bool reserve(std::string& reason);
  std::optional<size_t> take(size_t pages);
  void give_back(size_t first, size_t pages);
  bool protect(size_t first, size_t pages, int protection, const char* what, std::string& reason);
  uint8_t* page(size_t index) const { return base_ + index * page_size_; }

  const size_t page_size_;
  const size_t page_limit_;  // usable pages, without the guards
  mutable std::mutex mutex_;
  uint8_t* base_ = nullptr;
  std::vector<Run> free_;  // sorted, not adjacent
  size_t used_pages_ = 0;
};

}  // namespace xc::tier
