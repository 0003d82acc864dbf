// The persistent cache; see xc.hpp, and cache.h for what its functions may do.
#pragma once

#include <xc/cache.h>
#include <xc/error.hpp>

#include <exception>
#include <string>

namespace xcrt {

/// Entries of a persistent cache: `visit(const xc_cache_entry&)` for each, in the order of names.
/// What it throws comes out as it is; no entry is visited after that.
template <class Visit>
void visit_cache(const std::string& directory, Visit visit) {
  struct Visitor {
    Visit& visit;
    std::exception_ptr thrown;
  } visitor{visit, nullptr};
  detail::call(
      &xc_cache_visit, directory.c_str(),
      [](void* user_data, const xc_cache_entry* entry) {
        Visitor& self = *static_cast<Visitor*>(user_data);
        if (self.thrown) return;
        try {
          self.visit(*entry);
        } catch (...) {
          self.thrown = std::current_exception();
        }
      },
      static_cast<void*>(&visitor));
  if (visitor.thrown) std::rethrow_exception(visitor.thrown);
}

struct PrunedCache {
  int64_t removed = 0;     ///< files
  int64_t left_bytes = 0;  ///< of entries
};
/// Makes room in a persistent cache; 0 removes everything.
inline PrunedCache prune_cache(const std::string& directory, int64_t max_bytes) {
  PrunedCache out;
  detail::call(&xc_cache_prune, directory.c_str(), max_bytes, &out.removed, &out.left_bytes);
  return out;
}

}  // namespace xcrt
