#pragma once
// Which processor a thread runs on.

namespace xc {

/// Of the calling thread; -1 where the system does not tell.
int current_processor();
/// Moves the calling thread to another one than `processor` if it may run on any. Where it may run
/// stays as it was.
void leave_processor(int processor);

}  // namespace xc
