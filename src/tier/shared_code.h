#pragma once
// Compiled kernels that the programs of an engine share, and what was found wrong of them.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backends/step.h"
#include "base/hash.h"

namespace xc::tier {

/// By region identity. Thread-safe.
class SharedCode {
 public:
  /// The kernel that some program has; null = none. Fails with kUnsupported where the region's code
  /// was found wrong.
  std::shared_ptr<Kernel> find(const Hash128& identity) const;
  /// Other programs with the region take the kernel for as long as one has it.
  void share(const Hash128& identity, const std::shared_ptr<Kernel>& kernel);

  /// The region's code is wrong: no program gets it any more. The entry made for a region's first
  /// `reason` is all that asks for memory; without it nothing has changed.
  void condemn(const Hash128& identity, const std::string& reason);
  bool is_condemned(const Hash128& identity) const;
  /// How it is wrong; nullopt: it is not known to be.
  std::optional<std::string> condemned(const Hash128& identity) const;

 private:
  mutable std::mutex mutex_;
  std::map<Hash128, std::weak_ptr<Kernel>> kernels_;
  std::map<Hash128, std::string> condemned_;
};

}  // namespace xc::tier
