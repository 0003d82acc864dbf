// Lays the code and constants of one ELF object into one position-independent image.
//
// Only relocations relative to the place are applied (they hold wherever the image lies, so the
// image needs no fixing up when it is published or loaded from a cache). A symbol that is nowhere,
// writable data or another kind of relocation is an error: a kernel refers to nothing outside
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace xc::codegen {

struct Image {
  std::vector<uint8_t> bytes;
  size_t entry = 0;
  size_t alignment = 16;
};

// The object file of a function that another one calls; empty when there is none. It is read until
// the link is done.
using Resolve = std::function<std::span<const char>(std::string_view name)>;

// Throws xc::Error. `object` is an ELF64 little-endian relocatable for x86-64 or AArch64.
Image link_object(std::span<const char> object, std::string_view entry,
                  const Resolve& resolve = nullptr);

}  // namespace xc::codegen
