#include "cache/object_record.h"

#include <array>
#include <bit>
#include <cstring>

namespace xc::cache {
namespace {

constexpr uint64_t kMaxImages = 64, kMaxAlignment = 4096;
using ImageHeader = std::array<uint64_t, 3>;  // size, entry, alignment

}  // namespace

std::string encode(const ObjectRecord& record) {
  std::string out;
  const uint64_t calls_size = record.calls.size();
  out.append(reinterpret_cast<const char*>(&calls_size), sizeof calls_size);
  out += record.calls;
  for (const ObjectRecord::Image& image : record.images) {
    const ImageHeader header{image.code.size(), image.entry, image.alignment};
    out.append(reinterpret_cast<const char*>(header.data()), sizeof header);
    out += image.code;
  }
  return out;
}

std::optional<ObjectRecord> decode_object(std::string_view payload) {
  ObjectRecord out;
  uint64_t calls_size = 0;
  if (payload.size() < sizeof calls_size) return std::nullopt;
  std::memcpy(&calls_size, payload.data(), sizeof calls_size);
  payload.remove_prefix(sizeof calls_size);
  if (calls_size > payload.size()) return std::nullopt;
  out.calls = payload.substr(0, calls_size);
  payload.remove_prefix(calls_size);
  while (!payload.empty()) {
    ImageHeader header;
    if (payload.size() < sizeof header || out.images.size() == kMaxImages) return std::nullopt;
    std::memcpy(header.data(), payload.data(), sizeof header);
    payload.remove_prefix(sizeof header);
    const auto [size, entry, alignment] = header;
    if (size > payload.size() || entry >= size || alignment > kMaxAlignment ||
        !std::has_single_bit(alignment))
      return std::nullopt;
    out.images.push_back({std::string(payload.substr(0, size)), entry, alignment});
    payload.remove_prefix(size);
  }
  if (out.images.empty()) return std::nullopt;
  return out;
}

}  // namespace xc::cache
