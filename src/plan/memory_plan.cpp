#include "plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace xc {

int64_t plan_memory(const std::vector<ArenaRequest>& requests, std::vector<ArenaSlot>& out) {
  constexpr int64_t kAlignment = 64;
  std::vector<uint32_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return requests[a].bytes > requests[b].bytes; });
  struct Placed {
    int64_t offset, bytes;
    uint32_t first, last;
  };
  std::vector<Placed> placed;  // sorted by offset
  int64_t total = 0;
  for (uint32_t index : by_size) {
    const ArenaRequest& request = requests[index];
    const int64_t bytes = align_up(std::max<int64_t>(request.bytes, 1), kAlignment);
    int64_t offset = 0;
    size_t position = 0;
    for (size_t k = 0; k < placed.size(); ++k) {
      const Placed& other = placed[k];
      if (other.last < request.first_step || other.first > request.last_step) continue;
      if (other.offset - offset >= bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    while (position < placed.size() && placed[position].offset <= offset) ++position;
    placed.insert(placed.begin() + static_cast<int64_t>(position),
                  {offset, bytes, request.first_step, request.last_step});
    total = std::max(total, checked_add(offset, bytes));
    out.push_back({request.buffer, offset, request.bytes});
  }
  return total;
}

}  // namespace xc
