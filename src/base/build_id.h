#pragma once
// Which build of a library this is: the build id that the linker wrote into it. Whatever changes
// its code changes the id, so what an earlier build computed is never taken for this one's.

#include <string>

namespace xc {

/// Of the library (or program) that contains this function; empty when it carries none.
std::string own_build_id();

/// Of an ELF file, read without loading it; empty when there is none, or the file cannot be read.
std::string build_id_of_file(const std::string& path);

}  // namespace xc
