// A program of the build: compiles the functions of the code generator's library
// (src/codegen/library.h) for every target that has one, and writes them as a C++ source of object
// files. Run by the build.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "base/error.h"
#include "codegen/library.h"
#include "codegen/library_objects.h"
#include "codegen/object.h"
#include "codegen/target.h"

namespace xc::codegen {

// This program is there to make them.
std::span<const LibraryObject> library_objects() {
  return {};
}

namespace {

std::string source_of_objects() {
  std::string arrays, table;
  int count = 0;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = target_from_name(name);
    if (!has_library(target)) fail(Status::kInternal, "{} has no library", name);
    Backend backend(target, Backend::Effort::kFull);
    for (const std::string_view function : library_names(target)) {
      arrays += fmt::format("constexpr unsigned char kFile{}[] = {{", count);
      int column = 0;
      for (const char byte : compile_library_function(function, target, backend))
        arrays += fmt::format("{}{},", column++ % 24 == 0 ? "\n" : "",
                              static_cast<unsigned>(static_cast<unsigned char>(byte)));
      arrays += "\n};\n\n";
      table += fmt::format("    {{\"{}\", \"{}\", kFile{}}},\n", name, function, count++);
    }
  }
  return fmt::format(
      "// Written by src/codegen/write_library.cpp.\n\n#include \"codegen/library_objects.h\"\n\n"
      "namespace xc::codegen {{\n\nnamespace {{\n\n{}"
      "constexpr LibraryObject kObjects[] = {{\n{}}};\n\n}}  // namespace\n\n"
      "std::span<const LibraryObject> library_objects() {{\n  return kObjects;\n}}\n\n"
      "}}  // namespace xc::codegen\n",
      arrays, table);
}

}  // namespace

}  // namespace xc::codegen

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUT.cpp\n", argv[0]);
    return 2;
  }
  try {
    std::ofstream out(argv[1]);
    out << xc::codegen::source_of_objects();
    out.close();
    if (out) return 0;
    std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
