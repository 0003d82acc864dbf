#include "base/companion.h"

#include <dlfcn.h>
#include <unistd.h>

#include <vector>

namespace xc {

namespace {

/// Where a companion of ours may lie, in the order of the search.
std::vector<std::string> beside_us(const char* library) {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<const void*>(&open_companion), &self) || !self.dli_fname) return {};
  const std::string mine = self.dli_fname;
  const size_t slash = mine.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : mine.substr(0, slash);
  // An executable that contains the runtime (tests) lies in bin/, the library in lib/.
  return {folder + "/" + library, folder + "/../lib/" + library};
}

}  // namespace

void* open_companion(const char* library, const char* symbol, std::string& reason) {
  std::vector<std::string> paths = beside_us(library);
  paths.emplace_back(library);
  for (const std::string& path : paths)
    if (void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (void* address = dlsym(opened, symbol)) return address;
      dlclose(opened);
    }
  const char* error = dlerror();
  reason = error ? error : library;
  return nullptr;
}

std::string find_companion(const char* library) {
  for (const std::string& path : beside_us(library))
    if (access(path.c_str(), R_OK) == 0) return path;
  return {};
}

}  // namespace xc
