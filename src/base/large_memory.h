#pragma once
// Memory of any size, of huge pages where it is large: packed weights, results, working memory.

#include <cstdint>

namespace xc {

/// At least `bytes`, aligned to 64, for std::free(); null where there is none. From one huge page
/// on it asks for those: a core that streams through memory then has twice as many bytes on their
/// way (4 KiB pages end the hardware's prefetches, and in a virtual machine each costs two walks of
/// tables), and touching them first costs fewer faults. What follows the last whole one stays
/// small where it is less than half of one.
void* allocate_large(int64_t bytes);

}  // namespace xc
