// Linked into the shared libraries alone. Exit handlers run while other threads of the host, or our
// own, may be inside the library: its static objects are never destroyed. The compiler registers
// their destructors with this function; here it finds one that forgets them.

extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*,
                                                                  void*) noexcept {
  return 0;
}
