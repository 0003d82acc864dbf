#include "cache/prune.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "cache/names.h"

namespace xc::cache {

double keep_score(double worth_s, int64_t bytes, int64_t age_s) {
  constexpr double kHalfLife = 7.0 * 24 * 3600;
  return worth_s / static_cast<double>(std::max<int64_t>(bytes, 1)) *
         std::exp2(-static_cast<double>(std::max<int64_t>(age_s, 0)) / kHalfLife);
}

Pruned prune(const Directory& directory, int64_t max_bytes) {
  constexpr int64_t kHalfWrittenAge = 3600;
  Pruned out;
  struct Candidate {
    Directory::File file;
    double score;
  };
  std::vector<Candidate> entries;
  const int64_t now = std::time(nullptr);
  const auto remove = [&](const Directory::File& file) {
    if (!directory.remove(file.name)) return false;
    ++out.removed;
    return true;
  };
  for (Directory::File& file : directory.list()) {
    const int64_t age = now - file.last_use_s;
    if (is_entry_name(file.name)) {
      out.left_bytes += file.bytes;
      const double worth = peek_worth(directory.peek(file.name, kPeekBytes));
      entries.push_back({std::move(file), keep_score(worth, file.bytes, age)});
    } else if (file.name.starts_with(kTemporaryPrefix)) {
      if (max_bytes == 0 || age > kHalfWrittenAge) remove(file);
    } else if (max_bytes == 0 && is_mark_name(file.name)) {
      remove(file);
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  for (const Candidate& entry : entries) {
    if (out.left_bytes <= max_bytes && max_bytes > 0) break;
    if (remove(entry.file)) out.left_bytes -= entry.file.bytes;
  }
  return out;
}

void for_each(const Directory& directory, const std::function<void(const Listed&)>& visit) {
  std::vector<Directory::File> files = directory.list();
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const Directory::File& file : files) {
    if (!is_entry_name(file.name)) continue;
    Listed listed{file.name, file.bytes, file.last_use_s, {}, {}};
    const auto bytes = directory.read(file.name, false, listed.problem);
    if (!bytes && listed.problem.empty()) continue;  // gone meanwhile
    if (bytes) {
      Decoded decoded = decode(*bytes);
      listed.problem = std::move(decoded.problem);
      if (decoded.entry) listed.entry = std::move(*decoded.entry);
      if (decoded.entry && entry_name(listed.entry.kind, listed.entry.key) != file.name)
        listed.problem = "not the entry that its name says";
    }
    visit(listed);
  }
}

}  // namespace xc::cache
