#pragma once
// Reclamation of what runs may still be reading: epochs held by run contexts.
//
// A run stores the current epoch in its context before it loads anything published, and clears it
// when done. What is retired carries the epoch at that time; it is destroyed once every context is
// idle or entered later. Host threads hold no state, so idle threads owe nothing.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace xc {

struct RunContext;

class Epochs {
 public:
  /// Called by the run itself; sequentially consistent so that the store is seen before the loads
  /// that follow.
  uint64_t current() const { return epoch_.load(std::memory_order_seq_cst); }

  void add(RunContext* context);
  void remove(RunContext* context);
  /// Keeps `object` until no run can see it any more. The pointers to it must be gone already.
  void retire(std::shared_ptr<const void> object);
  /// Destroys what no run can see. Cheap when nothing is retired.
  void reclaim();
  size_t retired() const;

 private:
  std::atomic<uint64_t> epoch_{1};
  mutable std::mutex mutex_;
  std::vector<RunContext*> contexts_;
  struct Retired {
    uint64_t epoch;
    std::shared_ptr<const void> object;
  };
  std::vector<Retired> retired_;
};

}  // namespace xc
