#pragma once
// Is this still the process in which something was made, or a child made by fork()? Asked on the
// way into and out of runs, so without a system call: after a run through much memory the kernel's
// code is far away, and getpid() takes as long as binding a small step.

#include <atomic>

namespace xc {

class ProcessMark {
 public:
  /// Marks the calling process.
  ProcessMark();
  ~ProcessMark();
  ProcessMark(const ProcessMark&) = delete;
  ProcessMark& operator=(const ProcessMark&) = delete;
  /// Whether the caller is not in that process. Any thread.
  bool left() const;

 private:
  /// A page that the kernel hands to children empty (madvise(2), MADV_WIPEONFORK); null where it
  /// does not.
  std::atomic<int>* page_ = nullptr;
  int process_;
};

}  // namespace xc
