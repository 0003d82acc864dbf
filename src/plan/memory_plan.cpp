#include "plan/memory_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/checked.h"

namespace xc {
namespace {

constexpr int64_t kAlignment = 64;
/// Requests up to which all that is placed is walked for each: that takes less than finding out
/// what is alive.
constexpr size_t kFew = 512;

/// What has a place, found by the steps at which it is alive. Steps count as the distinct first
/// steps of all requests: between two of them nothing begins.
class Placements {
 public:
  explicit Placements(const std::vector<ArenaRequest>& requests) : few_(requests.size() <= kFew) {
    placed_.reserve(requests.size());
    if (few_) by_offset_.reserve(requests.size());
    if (few_) return;
    for (const ArenaRequest& request : requests) starts_.push_back(request.first_step);
    std::sort(starts_.begin(), starts_.end());
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    leaves_ = std::bit_ceil(starts_.size());
    covering_.resize(2 * leaves_);
    starting_.resize(starts_.size());
  }

  /// The lowest offset with so much room at all steps of the request.
  int64_t first_fit(const ArenaRequest& request, int64_t bytes) {
    int64_t offset = 0;
    for (const Placed& other : !few_ && list_alive(request) ? alive_ : all_by_offset()) {
      if (other.last < request.first_step || other.first > request.last_step) continue;
      if (other.offset - offset >= bytes) break;
      offset = std::max(offset, other.end);
    }
    return offset;
  }

  void add(const ArenaRequest& request, int64_t offset, int64_t end) {
    const auto index = static_cast<uint32_t>(placed_.size());
    placed_.push_back({offset, end, request.first_step, request.last_step});
    if (few_) return;
    const auto [first, behind] = starts_of(request);
    starting_[first].push_back(index);
    for (size_t low = leaves_ + first, high = leaves_ + behind; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) covering_[low++].push_back(index);
      if (high % 2 == 1) covering_[--high].push_back(index);
    }
  }

 private:
  struct Placed {
    int64_t offset, end;
    uint32_t first, last;
  };

  static bool lower(const Placed& a, const Placed& b) { return a.offset < b.offset; }

  /// Indices in starts_, without the second one.
  std::pair<size_t, size_t> starts_of(const ArenaRequest& request) const {
    const auto first = std::lower_bound(starts_.begin(), starts_.end(), request.first_step);
    const auto behind = std::upper_bound(first, starts_.end(), request.last_step);
    return {first - starts_.begin(), behind - starts_.begin()};
  }

  /// Lists in alive_ what is alive at some step of the request: what covers its first step, and
  /// what starts later. False where that is so much that passing over the others is cheaper than
  /// sorting it.
  bool list_alive(const ArenaRequest& request) {
    const size_t most = 32 + placed_.size() / 16;
    alive_.clear();
    const auto list = [&](const std::vector<uint32_t>& more) {
      if (alive_.size() + more.size() > most) return false;
      for (const uint32_t k : more) alive_.push_back(placed_[k]);
      return true;
    };
    const auto [first, behind] = starts_of(request);
    for (size_t node = leaves_ + first; node > 0; node /= 2)
      if (!list(covering_[node])) return false;
    for (size_t k = first + 1; k < behind; ++k)
      if (!list(starting_[k])) return false;
    std::sort(alive_.begin(), alive_.end(), lower);
    return true;
  }

  const std::vector<Placed>& all_by_offset() {
    const size_t sorted = by_offset_.size(), more = placed_.size() - sorted;
    if (more == 1) {
      const Placed& last = placed_.back();
      by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), last, lower), last);
    } else if (more > 1) {
      by_offset_.insert(by_offset_.end(), placed_.end() - static_cast<ptrdiff_t>(more),
                        placed_.end());
      const auto added = by_offset_.begin() + static_cast<ptrdiff_t>(sorted);
      std::sort(added, by_offset_.end(), lower);
      std::inplace_merge(by_offset_.begin(), added, by_offset_.end(), lower);
    }
    return by_offset_;
  }

  const bool few_;
  std::vector<uint32_t> starts_;
  std::vector<Placed> placed_;
  // Indices in placed_:
  std::vector<std::vector<uint32_t>> starting_;  ///< by start
  std::vector<std::vector<uint32_t>> covering_;  ///< segment tree over starts; node 1 is its root
  size_t leaves_ = 1;
  std::vector<Placed> by_offset_;  ///< those that all_by_offset() has met
  std::vector<Placed> alive_;
};

}  // namespace

int64_t plan_memory(const std::vector<ArenaRequest>& requests, std::vector<ArenaSlot>& out) {
  std::vector<uint32_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return requests[a].bytes > requests[b].bytes; });
  Placements placements(requests);
  out.reserve(out.size() + requests.size());
  int64_t total = 0;
  for (const uint32_t index : by_size) {
    const ArenaRequest& request = requests[index];
    const int64_t bytes = align_up(std::max<int64_t>(request.bytes, 1), kAlignment);
    const int64_t offset = placements.first_fit(request, bytes);
    const int64_t end = checked_add(offset, bytes);
    placements.add(request, offset, end);
    total = std::max(total, end);
    out.push_back({request.buffer, offset, request.bytes});
  }
  return total;
}

}  // namespace xc
