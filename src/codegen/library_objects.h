// The library's functions as object files, one per function and target that has a library. A source
// file that the build writes (write_library.cpp) defines them.
#pragma once

#include <span>
#include <string_view>

namespace xc::codegen {

struct LibraryObject {
  std::string_view target, name;
  std::span<const unsigned char> file;  // ELF
};

std::span<const LibraryObject> library_objects();

}  // namespace xc::codegen
