#pragma once
// Libraries of ours that are opened when they are first needed: what they wrap is large, or wanted
// by few models.

#include <string>

namespace xc {

/// The address of `symbol` in the shared library `library` ("libxcrt-jit.so", of this version's
/// ABI), looked for beside the one that contains this function, then wherever the loader looks;
/// null with the reason. It stays open, its names stay its own.
void* open_companion(const char* library, const char* symbol, std::string& reason);

/// The file that open_companion() would open among those beside us; empty when it lies elsewhere.
std::string find_companion(const char* library);

}  // namespace xc
