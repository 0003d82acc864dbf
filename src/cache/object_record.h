#pragma once
// Payload of an object entry: the machine code of a region, an image per phase, and how it is
// called in words of who keeps it. Images are position independent and refer to nothing outside
// themselves (codegen/linker.h), so there is nothing to relocate: they run wherever they are
// placed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xc::cache {

struct ObjectRecord {
  struct Image {
    std::string code;
    uint64_t entry = 0;      ///< offset of the function
    uint64_t alignment = 1;  ///< of the code when it is placed, a power of two <= 4096
  };
  std::string calls;  ///< how they are called
  std::vector<Image> images;
};

std::string encode(const ObjectRecord& record);
/// nullopt for anything but what encode() writes.
std::optional<ObjectRecord> decode_object(std::string_view payload);

}  // namespace xc::cache
