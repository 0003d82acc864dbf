#include "cache/poison.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <mutex>
#include <unordered_set>

#include "base/at_exit.h"
#include "cache/entry.h"
#include "cache/names.h"

namespace xc::cache {

/// The marks of this process, for its normal exit and for children. Never destroyed: threads may
/// still hold marks while the process exits.
struct MarkRegistry {
  std::mutex mutex;
  std::unordered_set<TrialMark*> marks;
  bool exiting = false;  ///< the process ends of its own accord, whatever other threads still try

  static MarkRegistry& instance() {
    static auto* registry = [] {
      auto* made = new MarkRegistry;
      at_exit([] {
        MarkRegistry& r = instance();
        const std::lock_guard lock(r.mutex);
        for (const TrialMark* mark : r.marks) mark->directory_->remove(mark->name_);
        r.marks.clear();
        r.exiting = true;
      });
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                     [] {
                       // The lock belongs to the open file, which the child shares: it would
                       // outlive the parent with it.
                       for (const TrialMark* mark : instance().marks) close(mark->descriptor_);
                       instance().marks.clear();
                       instance().mutex.unlock();
                     });
      return made;
    }();
    return *registry;
  }
};

TrialMark::TrialMark(std::shared_ptr<const Directory> directory, std::string name, int descriptor)
    : directory_(std::move(directory)), name_(std::move(name)), descriptor_(descriptor) {
  MarkRegistry& registry = MarkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  if (registry.exiting) {
    directory_->remove(name_);
    return;
  }
  try {
    registry.marks.insert(this);
  } catch (...) {  // a mark that stays says that the process died with it
    directory_->remove(name_);
    close(descriptor_);
    throw;
  }
}

TrialMark::~TrialMark() {
  MarkRegistry& registry = MarkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  if (registry.marks.erase(this) == 0) return;  // the process exits, or this is a child
  // One that cannot be removed says nothing when it is empty.
  if (!directory_->remove(name_)) (void)!ftruncate(descriptor_, 0);
  close(descriptor_);
}

int64_t poison_seconds(int deaths) {
  if (deaths < 0) deaths = 7;
  return int64_t{24 * 3600} << std::clamp(deaths - 1, 0, 6);
}

namespace {

/// Payload of a poison entry: "DEATHS UNTIL", UNTIL in seconds since 1970.
struct Poison {
  int deaths = 0;
  int64_t until_s = 0;
  /// A clock that was put back must not ban for longer than the rule says.
  bool holds(int64_t now) const { return until_s > now && until_s - now <= poison_seconds(deaths); }
};

Poison read_poison(const Directory& directory, const std::string& key) {
  std::string problem;
  const auto bytes = directory.read(entry_name(Kind::kPoison, key), false, problem);
  if (!bytes) return {};
  const Decoded decoded = decode(*bytes);
  if (!decoded.entry || decoded.entry->kind != Kind::kPoison || decoded.entry->key != key)
    return {};
  const std::string& text = decoded.entry->payload;
  const char* const end = text.data() + text.size();
  Poison out;
  const auto first = std::from_chars(text.data(), end, out.deaths);
  if (first.ec != std::errc() || first.ptr == end) return {};
  const auto second = std::from_chars(first.ptr + 1, end, out.until_s);
  return second.ec == std::errc() && second.ptr == end ? out : Poison{};
}

void write_poison(const Directory& directory, const std::string& key, const std::string& subject,
                  const Poison& poison) {
  Entry entry;
  entry.kind = Kind::kPoison;
  entry.key = key;
  entry.subject = subject;
  entry.worth_s = 1;  // a crash costs more than any compile
  entry.payload = fmt::format("{} {}", poison.deaths, poison.until_s);
  std::string reason;  // a directory that cannot be written has had its event
  directory.write(entry_name(Kind::kPoison, key), encode(entry), reason);
}

constexpr int kWrong = -1;  ///< in place of a number of deaths

std::string refusal(int deaths, int64_t until_s, int64_t now) {
  if (deaths < 0)
    return fmt::format("this code was found wrong: not tried for {:.0f} days",
                       static_cast<double>(until_s - now) / (24 * 3600));
  return fmt::format(
      "{} process{} ended while this code ran for the first time: not tried for {:.1f} hours",
      deaths, deaths == 1 ? "" : "es", static_cast<double>(until_s - now) / 3600);
}

}  // namespace

void condemn(const std::shared_ptr<const Directory>& directory, const std::string& key,
             const std::string& subject) {
  write_poison(*directory, key, subject, {kWrong, std::time(nullptr) + poison_seconds(kWrong)});
}

bool is_refused(const Directory& directory, const std::string& key) {
  return read_poison(directory, key).holds(std::time(nullptr)) ||
         directory.has_abandoned_mark(mark_name(key));
}

Permission begin_trial(const std::shared_ptr<const Directory>& directory, const std::string& key,
                       const std::string& subject) {
  const std::string name = mark_name(key);
  const int64_t now = std::time(nullptr);
  Poison poison = read_poison(*directory, key);
  if (poison.holds(now)) return {refusal(poison.deaths, poison.until_s, now), nullptr};
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::string reason;
    const int fd = directory->open_mark(name, reason);
    if (fd < 0) return {};
    struct stat info{};
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &info) != 0) {
      close(fd);
      return {};  // another process is trying it now
    }
    if (info.st_nlink == 0) {  // removed between our open and our lock
      close(fd);
      continue;
    }
    if (info.st_size > 0) {  // somebody marked it, and is gone
      poison.deaths = std::max(0, poison.deaths) + 1;
      poison.until_s = now + poison_seconds(poison.deaths);
      write_poison(*directory, key, subject, poison);
      directory->remove(name);
      close(fd);
      return {refusal(poison.deaths, poison.until_s, now), nullptr};
    }
    const std::string owner = fmt::format("{}\n", getpid());
    if (write(fd, owner.data(), owner.size()) != static_cast<ssize_t>(owner.size())) {
      directory->remove(name);
      close(fd);
      return {};
    }
    return {{}, std::make_unique<TrialMark>(directory, name, fd)};
  }
  return {};
}

}  // namespace xc::cache
