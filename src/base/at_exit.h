#pragma once
// What is done when the process exits normally. Not std::atexit(): in the shared libraries it
// registers with the function that immortal.cpp stands in for, and nothing is ever called.

#include <stdlib.h>

namespace xc {

/// `handler` stays where it is until the process ends; other threads may be inside the library when
/// it is called. Without memory to remember it nothing is done.
inline void at_exit(void (*handler)()) {
#if defined(__GLIBC__)
  on_exit([](int, void* what) { reinterpret_cast<void (*)()>(what)(); },
          reinterpret_cast<void*>(handler));
#else
  atexit(handler);
#endif
}

}  // namespace xc
