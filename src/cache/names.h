#pragma once
// File names in a cache directory: "object-", "profile-", "poison-" or "host-" and the hash of the
// key for entries, "trying-" and the same hash for marks (poison.h).

#include <string>
#include <string_view>

#include "cache/entry.h"

namespace xc::cache {

std::string entry_name(Kind kind, std::string_view key);
std::string mark_name(std::string_view key);
bool is_entry_name(std::string_view name);
bool is_mark_name(std::string_view name);

}  // namespace xc::cache
