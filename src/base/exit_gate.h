#pragma once
// For libraries whose static objects the process destroys when it exits, while other threads may be
// inside them.

#include <shared_mutex>

namespace xc {

/// Held while inside such a library. Fails with kCancelled once the process is exiting.
class InsideLibrary {
 public:
  InsideLibrary();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

/// Exit handlers that were registered before this call find nobody inside, and nobody enters any
/// more. To be called behind each use that may have been the first of its kind; of many calls the
/// first ones count, then ever fewer. A child made by fork() has no threads to wait for.
void keep_out_at_exit();

}  // namespace xc
