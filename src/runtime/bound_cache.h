#pragma once
// What is kept for the sizes that a session met: the plans bound to them. One count for its
// Program, those of its bodies and its variants. Over the cap the entries used least lately leave
// their tables, in whichever Program they are (eviction.cpp).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace xc {

class Program;

class BoundCache {
 public:
  explicit BoundCache(int64_t cap) : cap_(cap) {}
  BoundCache(const BoundCache&) = delete;
  BoundCache& operator=(const BoundCache&) = delete;

  int64_t cap() const { return cap_; }
  /// Of all entries that there are: in tables, held by somebody, or left to runs that may be in
  /// them.
  int64_t bytes() const { return alive_.load(std::memory_order_relaxed); }
  /// Of those that were evicted and are not gone yet, for a run may be in them.
  int64_t retired() const { return retired_.load(std::memory_order_relaxed); }
  /// Of those in tables that nobody else holds, as far as eviction has looked.
  int64_t evictable() const {
    return in_tables_.load(std::memory_order_relaxed) - held_.load(std::memory_order_relaxed);
  }
  /// What is left over the cap, or over `share` of it, when all that was evicted is gone.
  bool is_over(double share = 1) const {
    return static_cast<double>(bytes() - retired()) > share * static_cast<double>(cap_);
  }

  struct Evicted {
    int64_t shapes = 0, bytes = 0;
  };
  /// So much more was evicted. What to tell of, of the first time and whenever it adds up to half
  /// of the cap: a stream of new sizes evicts all the time.
  std::optional<Evicted> to_tell(int64_t shapes, int64_t bytes);

  /// Runs that may not allocate are asked for: contexts of all its Programs keep the memory that
  /// they have.
  void keep_memory() { keeps_memory_.store(true, std::memory_order_relaxed); }
  bool keeps_memory() const { return keeps_memory_.load(std::memory_order_relaxed); }

  /// A Program whose entries count here.
  void add(const std::shared_ptr<Program>& program);
  void remove() noexcept { gone_.fetch_add(1, std::memory_order_relaxed); }
  /// Those that there are.
  std::vector<std::shared_ptr<Program>> programs();

 private:
  friend class HeldBytes;
  const int64_t cap_;
  std::atomic<int64_t> alive_{0}, in_tables_{0}, held_{0}, retired_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<Program>> programs_;
  std::atomic<size_t> gone_{0};  ///< of `programs_`, about
  Evicted untold_;
  bool told_ = false;
  std::atomic<bool> keeps_memory_{false};
};

/// What an entry holds, counted while it lives. Changes its place under the lock of the table.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes();
  /// Once.
  void count(std::shared_ptr<BoundCache> cache, int64_t bytes);
  int64_t bytes() const { return bytes_; }
  void into_table();
  /// Somebody beside the table holds the entry, or nobody does any more.
  void set_held(bool held);
  bool is_held() const { return held_; }
  /// Out of the table. `evicted`: it counts as retired until it is gone.
  void out_of_table(bool evicted);

 private:
  std::shared_ptr<BoundCache> cache_;
  int64_t bytes_ = 0;
  bool in_table_ = false, held_ = false, retired_ = false;
};

}  // namespace xc
