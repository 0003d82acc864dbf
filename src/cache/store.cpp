#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cache/names.h"
#include "cache/prune.h"

namespace xc::cache {

Store::Store(std::string path, int64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}

std::shared_ptr<const Directory> Store::directory() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(opened_, true)) {
    std::string reason;
    directory_ = Directory::open(path_, true, reason);
    if (!directory_) problems_.push_back("no persistent cache: " + reason);
  }
  return directory_;
}

void Store::report(const std::string& about, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (reported_.insert(about).second) problems_.push_back(about + ": " + problem);
}

std::optional<Entry> Store::find(Kind kind, const std::string& key) {
  const auto directory = this->directory();
  if (!directory) return std::nullopt;
  const std::string name = entry_name(kind, key);
  std::string problem;
  const auto bytes = directory->read(name, true, problem);
  if (!problem.empty()) report(name, "ignored: " + problem);
  if (!bytes) return std::nullopt;
  Decoded decoded = decode(*bytes);
  if (!decoded.entry) {
    report(name, "ignored: " + decoded.problem);
    return std::nullopt;
  }
  if (decoded.entry->kind != kind || decoded.entry->key != key) {
    report(name, "ignored: it is another entry than its name says");
    return std::nullopt;
  }
  return std::move(decoded.entry);
}

void Store::put(const Entry& entry) {
  const auto directory = this->directory();
  if (!directory) return;
  {
    const std::lock_guard lock(mutex_);
    if (!writable_) return;
  }
  const std::string bytes = encode(entry);
  if (static_cast<int64_t>(bytes.size()) > std::min(max_bytes_, kMaxEntryBytes)) return;
  std::string reason;
  const bool written = directory->write(entry_name(entry.kind, entry.key), bytes, reason);
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    if (!written) {
      if (std::exchange(writable_, false))
        problems_.push_back(
            fmt::format("{} cannot be written ({}): nothing more is kept", path_, reason));
      return;
    }
    if (bytes_ >= 0) bytes_ += static_cast<int64_t>(bytes.size());
    full = bytes_ < 0 || bytes_ > max_bytes_;
  }
  if (!full) return;
  // The first write of a process looks what is there. Where something had to go, some room is made
  // at once, so that not every write looks again.
  Pruned pruned = prune(*directory, max_bytes_);
  if (pruned.removed > 0) pruned = prune(*directory, std::max<int64_t>(1, max_bytes_ / 10 * 9));
  const std::lock_guard lock(mutex_);
  bytes_ = pruned.left_bytes;
}

void Store::remove(Kind kind, const std::string& key) {
  if (const auto directory = this->directory()) directory->remove(entry_name(kind, key));
}

Permission Store::begin_trial(const std::string& key, const std::string& subject) {
  const auto directory = this->directory();
  return directory ? cache::begin_trial(directory, key, subject) : Permission{};
}

bool Store::is_refused(const std::string& key) {
  const auto directory = this->directory();
  return directory && cache::is_refused(*directory, key);
}

void Store::condemn(const std::string& key, const std::string& subject) {
  const auto directory = this->directory();
  if (!directory) return;
  directory->remove(entry_name(Kind::kObject, key));
  cache::condemn(directory, key, subject);
}

void Store::complain(Kind kind, const std::string& key, const std::string& problem) {
  report(entry_name(kind, key), "ignored: " + problem);
}

std::vector<std::string> Store::take_problems() {
  const std::lock_guard lock(mutex_);
  return std::exchange(problems_, {});
}

}  // namespace xc::cache
