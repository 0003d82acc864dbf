#include "cache/entry.h"

#include <cmath>
#include <cstring>

#include "base/hash.h"

namespace xc::cache {
namespace {

constexpr char kMagic[8] = {'x', 'c', 'c', 'a', 'c', 'h', 'e', '\n'};

/// In the machine's own byte order: code and timings are of no use to another kind of machine,
/// which sees an unknown version.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t kind;
  double worth_s;
  uint64_t key_size, subject_size, payload_size;
};
static_assert(sizeof(Header) == kPeekBytes);

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kObject:
      return "object";
    case Kind::kProfile:
      return "profile";
    case Kind::kHost:
      return "host";
    case Kind::kPoison:
      return "poison";
  }
  return "unknown";
}

std::string encode(const Entry& entry) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kFormatVersion;
  header.kind = static_cast<uint32_t>(entry.kind);
  header.worth_s = entry.worth_s;
  header.key_size = entry.key.size();
  header.subject_size = entry.subject.size();
  header.payload_size = entry.payload.size();
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out += entry.key;
  out += entry.subject;
  out += entry.payload;
  const Hash128 sum = hash_bytes(out.data(), out.size());
  out.append(reinterpret_cast<const char*>(&sum.low), 8);
  out.append(reinterpret_cast<const char*>(&sum.high), 8);
  return out;
}

Decoded decode(std::string_view bytes) {
  Header header;
  Hash128 sum;
  constexpr size_t kLeast = sizeof header + 16;
  if (bytes.size() < kLeast) return {std::nullopt, "cut short"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return {std::nullopt, "no entry of a cache"};
  if (header.version != kFormatVersion) return {std::nullopt, "of another format version"};
  const std::string_view body = bytes.substr(0, bytes.size() - 16);
  std::memcpy(&sum.low, body.data() + body.size(), 8);
  std::memcpy(&sum.high, body.data() + body.size() + 8, 8);
  if (sum != hash_bytes(body.data(), body.size()))
    return {std::nullopt, "damaged: the checksum differs"};
  // Sizes one by one: their sum may overflow in a file made to fit its checksum.
  std::string_view rest = body.substr(sizeof header);
  for (const uint64_t size : {header.key_size, header.subject_size, header.payload_size}) {
    if (size > rest.size()) return {std::nullopt, "damaged: its sizes do not fit"};
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return {std::nullopt, "damaged: its sizes do not fit"};
  if (header.kind < 1 || header.kind > static_cast<uint32_t>(Kind::kHost))
    return {std::nullopt, "of an unknown kind"};
  if (!std::isfinite(header.worth_s) || header.worth_s < 0)
    return {std::nullopt, "damaged: its worth is no number"};
  Entry entry;
  entry.kind = static_cast<Kind>(header.kind);
  entry.worth_s = header.worth_s;
  rest = body.substr(sizeof header);
  entry.key = rest.substr(0, header.key_size);
  entry.subject = rest.substr(header.key_size, header.subject_size);
  entry.payload = rest.substr(header.key_size + header.subject_size);
  return {std::move(entry), {}};
}

double peek_worth(std::string_view first_bytes) {
  Header header;
  if (first_bytes.size() < sizeof header) return 0;
  std::memcpy(&header, first_bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kFormatVersion)
    return 0;
  return std::isfinite(header.worth_s) && header.worth_s > 0 ? header.worth_s : 0;
}

}  // namespace xc::cache
