#pragma once
// Files as shared read-only buffers, and the contained open for files that a model names.

#include <memory>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace xc {

/// The whole file as a Buffer, mapped read-only (or read into memory with `copy`). Regular files
/// only: a pipe or device never blocks the caller. Fails with kNotFound, kIo, kLimit.
std::shared_ptr<Buffer> map_file(const std::string& path, int64_t max_bytes, bool copy = false);

/// Maps the file `location` (a relative path written in a model) below the directory `base_dir`.
/// Refuses, with kInvalidModel, whatever could leave the directory: absolute paths, "..", symbolic
/// links in any component, and anything but a regular file. The check and the open are one step, so
/// a file swapped in between changes nothing.
std::shared_ptr<Buffer> map_file_below(const std::string& base_dir, std::string_view location,
                                       int64_t max_bytes, bool copy = false);

/// Writes a file completely or not at all: a temporary file beside it, then a rename. It has the
/// permissions of the file it replaces, else those that new files get.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace xc
