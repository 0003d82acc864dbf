#pragma once
// Memory in which a kernel that is not trusted yet runs: what it writes outside shows.
//
// In production the memory lies between fences, bytes that are compared after the run. In tests it
// can lie between pages that nobody may touch, which also finds reads outside. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>

namespace xc {

class FencedMemory {
 public:
  /// Where the memory begins: at a multiple of 64 bytes, one element behind such a place, or so
  /// that it ends where the last page does (the same as kOffset without guard pages).
  enum class Place : uint8_t { kAligned, kOffset, kAtEnd };
  /// Bytes of a fence, and of what is to be written: read as floats they are NaN, and so is what
  /// becomes of them. Outputs' fences differ, or such a NaN written there would not show.
  static constexpr uint8_t kNanByte = 0xff, kMarkByte = 0xa5;
  static constexpr int64_t kFence = 256;  ///< bytes on each side, at least

  /// `element`: bytes, a power of two up to 64; kAtEnd keeps the start at a multiple of it. Fails
  /// with kOutOfMemory.
  FencedMemory(int64_t bytes, int64_t element, Place place, uint8_t fence, bool guard_pages);
  ~FencedMemory();
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// "byte 4 behind its end" when a fence was written to; empty = it was not.
  std::string damage() const;

 private:
  std::byte* block_ = nullptr;  ///< what may be touched: fences and memory
  std::byte* data_ = nullptr;
  int64_t block_bytes_ = 0, bytes_;
  uint8_t fence_;
  void* mapped_ = nullptr;  ///< with guard pages: including them
  int64_t mapped_bytes_ = 0;
};

}  // namespace xc
