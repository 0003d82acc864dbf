#pragma once
// Memory of runs that is used again.

#include <cstddef>
#include <cstdint>

namespace xc {

class Engine;

/// Memory from the engine's allocator that grows while it is used, and is given back between uses
/// where they hardly need it any more.
class GrowingMemory {
 public:
  explicit GrowingMemory(const Engine& engine) : engine_(&engine) {}
  GrowingMemory(GrowingMemory&& other) noexcept;
  ~GrowingMemory();
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  /// At least `bytes`, contents lost when it grows. True when the address changed.
  bool reserve(int64_t bytes);
  /// Gives it back where it is many times larger than about the most that was asked for lately.
  /// True when it did: then the next use takes it anew.
  bool trim();
  void drop();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const Engine* engine_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t asked_ = 0;  ///< about the most that was asked for lately
};

}  // namespace xc
