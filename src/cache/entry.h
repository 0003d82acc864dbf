#pragma once
// The bytes of one entry of the persistent cache. A file holds one entry: a fixed header, the full
// key, a line about it, the payload, and a checksum over all of that.
//
// The checksum finds damage (a torn write, a flipped bit, a file cut short); it is no signature.
// Whoever can write the directory can run code in the process: see directory.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xc::cache {

enum class Kind : uint32_t {
  kObject = 1,   ///< machine code of a region: object_record.h
  kProfile = 2,  ///< what was learnt of a program: profile_record.h
  kPoison = 3,   ///< a region whose first run a process did not survive: poison.h
  kHost = 4      ///< figures measured of the machine: host_record.h
};
std::string_view name(Kind kind);  ///< "object", "profile", "poison", "host"

struct Entry {
  Kind kind = Kind::kObject;
  std::string key;      ///< everything the payload depends on; compared in full
  std::string subject;  ///< what it is about, for people
  double worth_s = 0;   ///< CPU seconds that finding it saves
  std::string payload;
};

/// Raised when the layout of any kind of entry changes: older ones are then ignored.
inline constexpr uint32_t kFormatVersion = 4;
/// Larger entries are neither written nor read.
inline constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;

std::string encode(const Entry& entry);

struct Decoded {
  std::optional<Entry> entry;
  std::string problem;  ///< why there is none: "cut short", "damaged: the checksum differs", ...
};
/// Any bytes at all are allowed: what is not exactly an entry of this format has a problem.
Decoded decode(std::string_view bytes);

/// worth_s of the entry that starts with these bytes, unchecked; 0 when it is none. For eviction,
/// which looks at many files.
double peek_worth(std::string_view first_bytes);
inline constexpr size_t kPeekBytes = 48;

}  // namespace xc::cache
