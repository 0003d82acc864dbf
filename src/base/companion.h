#pragma once
// Libraries of ours that are opened when they are first needed: what they wrap is large, or wanted
// by few models.

#include <string>

namespace xc {

/// The address of `symbol` in the shared library `library` ("libxcrt-jit.so"), looked for beside
/// the one that contains this function, then wherever the loader looks; null with the reason. It
/// stays open, its names stay its own.
void* open_companion(const char* library, const char* symbol, std::string& reason);

}  // namespace xc
