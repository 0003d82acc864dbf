#include "tier/shared_code.h"

#include "base/error.h"

namespace xc::tier {

std::shared_ptr<Kernel> SharedCode::find(const Hash128& identity) const {
  std::lock_guard lock(mutex_);
  if (condemned_.count(identity))
    fail(Status::kUnsupported, "this region's code was found wrong in another session");
  const auto it = kernels_.find(identity);
  return it == kernels_.end() ? nullptr : it->second.lock();
}

void SharedCode::share(const Hash128& identity, const std::shared_ptr<Kernel>& kernel) {
  std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& known) { return known.second.expired(); });
  kernels_[identity] = kernel;
}

void SharedCode::condemn(const Hash128& identity, const std::string& reason) {
  std::lock_guard lock(mutex_);
  condemned_.try_emplace(identity, reason);
  kernels_.erase(identity);
}

bool SharedCode::is_condemned(const Hash128& identity) const {
  std::lock_guard lock(mutex_);
  return condemned_.count(identity) > 0;
}

std::optional<std::string> SharedCode::condemned(const Hash128& identity) const {
  std::lock_guard lock(mutex_);
  const auto it = condemned_.find(identity);
  return it == condemned_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace xc::tier
