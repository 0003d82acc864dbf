#pragma once
// .xcg, the native format: a JSON header and one aligned blob (README.md beside this file).

#include <memory>
#include <string>
#include <string_view>

#include "formats/format.h"

namespace xc::xcg {

/// The first eight bytes: not text, and damaged by every text-mode transfer.
inline constexpr std::string_view kMagic{"\x89XCG\r\n\x1a\n", 8};
inline constexpr int64_t kSchema = 1;
/// Of the blob and of every tensor in it, in bytes.
inline constexpr int64_t kAlignment = 64;

/// Reads a file strictly: what the README does not allow is refused with its JSON path or offset.
/// Tensors point into `file`.
Graph read(const std::shared_ptr<Buffer>& file, const LoadOptions& options);

/// The bytes of a file.
std::string write(const Graph& graph, const SaveOptions& options);

}  // namespace xc::xcg
