// Lays the code and constants of one ELF object into one position-independent image.
//
// Only relocations relative to the place are applied (they hold wherever the image lies, so the
// image needs no fixing up when it is published or loaded from a cache). An external symbol,
// writable data or another kind of relocation is an error: a kernel refers to nothing outside
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace xc::codegen {

struct Image {
  std::vector<uint8_t> bytes;
  size_t entry = 0;
  size_t alignment = 16;
};

// Throws xc::Error. `object` is an ELF64 little-endian relocatable for x86-64 or AArch64.
Image link_object(std::span<const char> object, std::string_view entry);

}  // namespace xc::codegen
