#include "base/large_memory.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace xc {

void* allocate_large(int64_t bytes) {
  constexpr int64_t kHugePage = 2 << 20;
  const int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  if (bytes > INT64_MAX - alignment) return nullptr;
  void* const data =
      std::aligned_alloc(static_cast<size_t>(alignment),
                         static_cast<size_t>(align_up(std::max<int64_t>(bytes, 1), alignment)));
#ifdef MADV_HUGEPAGE
  // Advice only: a kernel without them says no, and nothing changes.
  if (data && bytes >= kHugePage)
    (void)madvise(data, static_cast<size_t>((bytes + kHugePage / 2) / kHugePage * kHugePage),
                  MADV_HUGEPAGE);
#endif
  return data;
}

}  // namespace xc
