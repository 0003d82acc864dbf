#pragma once
// Which entries of a full cache go first, and what a directory holds.

#include <cstdint>
#include <functional>
#include <string>

#include "cache/directory.h"
#include "cache/entry.h"

namespace xc::cache {

/// How much an entry is worth keeping: the CPU seconds that finding it saves, per byte, halved for
/// every week it was not used.
double keep_score(double worth_s, int64_t bytes, int64_t age_s);

struct Pruned {
  int64_t removed = 0;     ///< files
  int64_t left_bytes = 0;  ///< of entries
};
/// Removes entries, those with the lowest score first, until at most `max_bytes` are left; and
/// files that a process left half written more than an hour ago. 0 removes everything of the
/// cache's, marks and poison included. Files of other names are not touched.
Pruned prune(const Directory& directory, int64_t max_bytes);

/// One file of the cache as people see it.
struct Listed {
  std::string name;
  int64_t bytes = 0;
  int64_t last_use_s = 0;  ///< seconds since 1970
  std::string problem;     ///< why it would be ignored; empty = sound
  Entry entry;             ///< of a sound one
};
/// Reads and checks every entry, in the order of names.
void for_each(const Directory& directory, const std::function<void(const Listed&)>& visit);

}  // namespace xc::cache
