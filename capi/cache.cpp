// xc/cache.h.

#include "xc/cache.h"

#include <unistd.h>

#include "cache/prune.h"
#include "capi/handles.h"

namespace xc::capi {
namespace {

std::unique_ptr<cache::Directory> open_directory(const char* path) {
  need(path, "directory");
  if (access(path, F_OK) != 0 && errno == ENOENT)
    fail(Status::kNotFound, "no cache directory {}", path);
  std::string reason;
  auto directory = cache::Directory::open(path, false, reason);
  if (!directory) fail(Status::kIo, "cache directory {}", reason);
  return directory;
}

xc_cache_entry to_c(const cache::Listed& listed) {
  xc_cache_entry out{};
  out.struct_size = sizeof out;
  out.name = to_view(listed.name);
  out.problem = to_view(listed.problem);
  out.bytes = listed.bytes;
  out.last_use = listed.last_use_s;
  out.kind_name = out.subject = to_view(std::string_view());
  if (!listed.problem.empty()) return out;
  out.kind = static_cast<int32_t>(listed.entry.kind);
  out.kind_name = to_view(cache::name(listed.entry.kind));
  out.subject = to_view(listed.entry.subject);
  out.worth_s = listed.entry.worth_s;
  return out;
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_cache_visit(const char* directory,
                         void (*visit)(void* user_data, const xc_cache_entry* entry),
                         void* user_data, xc_error** out_error) {
  return guard(out_error, [&] {
    need(visit, "visit");
    cache::for_each(*open_directory(directory), [&](const cache::Listed& listed) {
      const xc_cache_entry entry = to_c(listed);
      visit(user_data, &entry);
    });
  });
}

xc_status xc_cache_prune(const char* directory, int64_t max_bytes, int64_t* out_removed,
                         int64_t* out_left_bytes, xc_error** out_error) {
  return guard(out_error, [&] {
    if (max_bytes < 0) fail(Status::kInvalidArgument, "max_bytes is {}: give 0 or more", max_bytes);
    const cache::Pruned pruned = cache::prune(*open_directory(directory), max_bytes);
    if (out_removed) *out_removed = pruned.removed;
    if (out_left_bytes) *out_left_bytes = pruned.left_bytes;
  });
}
