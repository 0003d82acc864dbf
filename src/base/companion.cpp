#include "base/companion.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <vector>

#include "xc/version.h"

namespace xc {

namespace {

/// The name of the file: that of the build and of the package have the number of the ABI alone in
/// common (xc/version.h), as the libraries' sonames.
std::string versioned(const char* library) {
  return XC_VERSION_MAJOR == 0
             ? fmt::format("{}.{}.{}", library, XC_VERSION_MAJOR, XC_VERSION_MINOR)
             : fmt::format("{}.{}", library, XC_VERSION_MAJOR);
}

/// Where a companion of ours may lie, in the order of the search.
std::vector<std::string> beside_us(const std::string& file) {
  Dl_info self{};
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<const void*>(&open_companion), &self,
               reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ||
      !self.dli_fname)
    return {};
  const std::string mine = self.dli_fname;
  const size_t slash = mine.rfind('/');
  std::string folder = slash == std::string::npos ? "." : mine.substr(0, slash);
  // A library opened by a relative path, in a folder that the host may have left since.
  std::array<char, PATH_MAX> origin{};
  if (map && *map->l_name && mine[0] != '/' && dlinfo(map, RTLD_DI_ORIGIN, origin.data()) == 0)
    folder = origin.data();
  // An executable that contains the runtime (tests) lies in bin/, the library in lib/.
  return {folder + "/" + file, folder + "/../lib/" + file};
}

}  // namespace

void* open_companion(const char* library, const char* symbol, std::string& reason) {
  const std::string file = versioned(library);
  std::vector<std::string> paths = beside_us(file);
  paths.push_back(file);
  for (const std::string& path : paths)
    if (void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (void* address = dlsym(opened, symbol)) return address;
      dlclose(opened);
    }
  const char* error = dlerror();
  reason = error ? error : file;
  return nullptr;
}

std::string find_companion(const char* library) {
  for (const std::string& path : beside_us(versioned(library)))
    if (access(path.c_str(), R_OK) == 0) return path;
  return {};
}

}  // namespace xc
