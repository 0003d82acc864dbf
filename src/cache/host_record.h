#pragma once
// Payload of a host entry: figures measured of this machine, by name.

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace xc::cache {

struct HostRecord {
  std::map<std::string, double> figures;  ///< finite and above 0; rates in units per second
};

std::string encode(const HostRecord& record);
/// nullopt for anything but what encode() writes.
std::optional<HostRecord> decode_host(std::string_view payload);

}  // namespace xc::cache
