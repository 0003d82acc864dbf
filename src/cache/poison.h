#pragma once
// Code that a process did not survive is not run again at once.
//
// Before the first run of a kernel a mark, a small file, is made and locked; after it the mark is
// removed. A mark that can be locked by somebody else has lost its process in between: the kernel
// is then poisoned, for a day after the first time, twice as long after every further one, at most
// 64 days. (A process that was killed from outside at that moment looks the same as one that
// crashed, so nothing is banned for good.) A normal exit() takes its marks away; the lock goes with
// the process however it ends. A child made by fork() lets go of its parent's marks.
//
// Thread-safe.

#include <memory>
#include <string>

#include "cache/directory.h"

namespace xc::cache {

/// A kernel is being tried; the mark is removed with the object.
class TrialMark {
 public:
  TrialMark(std::shared_ptr<const Directory> directory, std::string name, int descriptor);
  ~TrialMark();
  TrialMark(const TrialMark&) = delete;
  TrialMark& operator=(const TrialMark&) = delete;

 private:
  friend struct MarkRegistry;
  std::shared_ptr<const Directory> directory_;
  std::string name_;
  int descriptor_;
};

struct Permission {
  /// Why the kernel must not be run; empty = it may.
  std::string refusal;
  /// Held while it is run for the first time. Null when another process is at it, or when the
  /// directory cannot be written: then it is tried without.
  std::unique_ptr<TrialMark> mark;
};
/// `key`: of the object; `subject`: for people.
Permission begin_trial(const std::shared_ptr<const Directory>& directory, const std::string& key,
                       const std::string& subject);

/// Whether begin_trial() would refuse; changes nothing, and costs a look at two files.
bool is_refused(const Directory& directory, const std::string& key);

/// Code that was found wrong: poisoned for the longest time there is.
void condemn(const std::shared_ptr<const Directory>& directory, const std::string& key,
             const std::string& subject);

/// Seconds a kernel is not tried after `deaths` processes did not survive it; negative: wrong.
int64_t poison_seconds(int deaths);

}  // namespace xc::cache
