#include "base/companion.h"

#include <dlfcn.h>

#include <vector>

namespace xc {

void* open_companion(const char* library, const char* symbol, std::string& reason) {
  std::vector<std::string> paths;
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&open_companion), &self) && self.dli_fname) {
    const std::string mine = self.dli_fname;
    const size_t slash = mine.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : mine.substr(0, slash);
    // An executable that contains the runtime (tests) lies in bin/, the library in lib/.
    paths = {folder + "/" + library, folder + "/../lib/" + library};
  }
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

}  // namespace xc
