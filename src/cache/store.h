#pragma once
// The persistent cache of one engine: entries by key in one directory. It never fails its caller:
// what cannot be read or written is a miss, and a problem that take_problems() hands out once.
//
// Nothing is opened before the first use. Thread-safe; meant for background threads, as every
// function may wait for the disk.

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/entry.h"
#include "cache/poison.h"

namespace xc::cache {

class Store {
 public:
  /// `max_bytes`: of all entries; over it the least valuable are removed (prune.h).
  Store(std::string path, int64_t max_bytes);

  /// The entry of that kind and exactly that key.
  std::optional<Entry> find(Kind kind, const std::string& key);
  /// Keeps an entry, in place of one with the same key. After a failure nothing more is written.
  void put(const Entry& entry);
  void remove(Kind kind, const std::string& key);
  /// To run code for the first time: see poison.h. Without a usable directory everything may.
  Permission begin_trial(const std::string& key, const std::string& subject);
  /// Whether that would be refused.
  bool is_refused(const std::string& key);

  /// Code found wrong: it is removed, and poisoned (poison.h).
  void condemn(const std::string& key, const std::string& subject);

  /// Notes that a sound entry is of no use to its reader; said once.
  void complain(Kind kind, const std::string& key, const std::string& problem);
  /// What went wrong since the last call, each once: "object-...: damaged: the checksum differs".
  std::vector<std::string> take_problems();
  const std::string& path() const { return path_; }

 private:
  std::shared_ptr<const Directory> directory();
  void report(const std::string& about, const std::string& problem);

  const std::string path_;
  const int64_t max_bytes_;
  std::mutex mutex_;  // guards what follows
  bool opened_ = false;
  bool writable_ = true;
  std::shared_ptr<const Directory> directory_;
  int64_t bytes_ = -1;  ///< of all entries, as far as this process knows; -1 = not looked yet
  std::set<std::string> reported_;
  std::vector<std::string> problems_;
};

}  // namespace xc::cache
