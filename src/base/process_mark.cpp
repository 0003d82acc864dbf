#include "base/process_mark.h"

#include <sys/mman.h>
#include <unistd.h>
#include <new>

namespace xc {
namespace {

size_t page_bytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ProcessMark::ProcessMark() : process_(getpid()) {
#ifdef MADV_WIPEONFORK
  void* const page =
      mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, page_bytes(), MADV_WIPEONFORK) == 0)
    page_ = new (page) std::atomic<int>(1);
  else
    (void)munmap(page, page_bytes());
#endif
}

ProcessMark::~ProcessMark() {
  if (page_) (void)munmap(page_, page_bytes());
}

bool ProcessMark::left() const {
  return page_ ? page_->load(std::memory_order_relaxed) == 0 : getpid() != process_;
}

}  // namespace xc
