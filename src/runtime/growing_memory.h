#pragma once
// Memory of runs that is used again.

#include <cstddef>
#include <cstdint>

namespace xc {

class Engine;

/// Memory from the engine's allocator that only grows.
class GrowingMemory {
 public:
  explicit GrowingMemory(const Engine& engine) : engine_(&engine) {}
  GrowingMemory(GrowingMemory&& other) noexcept;
  ~GrowingMemory();
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  /// At least `bytes`, contents lost when it grows. True when the address changed.
  bool reserve(int64_t bytes);
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const Engine* engine_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace xc
