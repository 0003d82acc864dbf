#pragma once
// Reclamation of what runs may still be reading: epochs held by run contexts.
//
// A run stores the current epoch in its context before it loads anything published, and clears it
// when done. What is retired carries the epoch at that time; it is destroyed once every context is
// idle or entered later. Host threads hold no state, so idle threads owe nothing.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace xc {

struct RunContext;

class Epochs {
 public:
  Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;
  /// Called by the run itself; sequentially consistent so that the store is seen before the loads
  /// that follow.
  uint64_t current() const { return epoch_.load(std::memory_order_seq_cst); }

  void add(RunContext* context);
  /// Keeps `object` until no run can see it any more. The pointers to it must be gone already.
  /// There is room to remember kRoom of them; where more wait and there is no memory, it is kept
  /// for ever.
  void retire(std::shared_ptr<const void> object) noexcept;
  /// Destroys what no run can see, so many objects at most. Cheap when nothing is retired. Whether
  /// none of those is left.
  bool reclaim(size_t most = SIZE_MAX) noexcept;
  size_t retired() const;
  /// Whether a run that entered then was the one for which reclaim() left the rest.
  bool waits_for(uint64_t epoch) const {
    return waits_for_.load(std::memory_order_relaxed) == epoch;
  }

 private:
  static constexpr size_t kRoom = 16;
  std::atomic<uint64_t> epoch_{1};
  mutable std::mutex mutex_;
  std::vector<RunContext*> contexts_;
  struct Retired {
    uint64_t epoch;
    std::shared_ptr<const void> object;
  };
  uint64_t oldest_run() const noexcept;
  std::vector<Retired> retired_;  ///< by rising epochs
  size_t first_ = 0;              ///< in `retired_`: what was before is destroyed
  std::atomic<uint64_t> waits_for_{0};
  alignas(std::shared_ptr<const void>) std::byte
      never_destroyed_[sizeof(std::shared_ptr<const void>)];
};

}  // namespace xc
