#pragma once
// Payload of a profile entry: what one program taught a process, for the next one.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace xc::cache {

enum class Verdict : uint8_t {
  kNone = 0,
  kAccepted = 1,    ///< verified, measured faster and live when it was last seen
  kRejected = 2,    ///< measured not faster
  kRolledBack = 3,  ///< accepted, then measured slower
  kWrong = 4        ///< did not agree with what it replaces: never tried again by this build
};
std::string_view name(Verdict verdict);

/// What a kernel takes for granted of a size of its program.
struct SizeRecord {
  std::string symbol;
  int64_t value = -1;   ///< -1 = any
  int64_t divisor = 1;  ///< of it, where it may be any
  friend bool operator==(const SizeRecord&, const SizeRecord&) = default;
};

/// What is known of a region at one class of sizes.
struct RegionRecord {
  Hash128 identity;
  Hash128 special_of;             ///< the region whose nodes it has, where it has `facts`
  std::vector<SizeRecord> facts;  ///< of a kernel for some sizes only
  int size = 0;                   ///< policy::size_class
  std::string name;
  Verdict verdict = Verdict::kNone;
  std::string reason;
  double base_s = 0, fused_s = 0;  ///< measured per run, on the signature `decided_on`
  double predicted_s = 0;
  double compile_s = 0;             ///< CPU of the compile that the cache saves
  int refusals = 0;                 ///< in a row: the next back-off is 2^refusals seconds
  int64_t banned_until_s = 0;       ///< seconds since 1970; 0 = not banned
  std::vector<int64_t> decided_on;  ///< input dims (SignatureEntry::key)
};

struct ShapeRecord {
  std::vector<int64_t> key;  ///< SignatureEntry::key
  int64_t runs = 0;
};

struct ProfileRecord {
  double restore_s = 0;  ///< CPU that putting it to use takes: search, loading
  std::vector<RegionRecord> regions;
  std::vector<ShapeRecord> shapes;  ///< the most used first
};

/// Leaves out what decode_profile() would not read: more than 4096 regions or 32 shapes, a region
/// or shape with a key of more than 4096 numbers.
std::string encode(const ProfileRecord& record);
/// nullopt for anything that is no profile of this version. Numbers are in range: times finite and
/// not negative.
std::optional<ProfileRecord> decode_profile(std::string_view payload);

/// "2 regions live, 1 rejected; 3 shapes"
std::string describe(const ProfileRecord& record);

/// `newer`, and of `older` what it says nothing about: two processes learn of different regions.
ProfileRecord merge(const ProfileRecord& older, ProfileRecord newer);

}  // namespace xc::cache
