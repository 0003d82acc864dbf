// Making room among what is bound: over the cap the entries used least lately leave their tables, a
// few at a time, for a run that binds pays for it. Of a large table only those that were put in
// longest ago are looked at; one used since then has another round.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/program.h"

namespace xc {

namespace {

/// Entries that one look goes over, and of those the ones that leave at most.
constexpr size_t kWindow = 256, kBatch = 64;
/// Of every table so many stay. A large model may fill the cap with one, and runs that alternate
/// would bind every time.
constexpr size_t kNewest = 4;
/// Of the cap: what is left when room was made.
constexpr double kLeft = 7.0 / 8;
/// What a run destroys at most: one that comes behind a long one does not pay for all.
constexpr size_t kReclaimed = 256;

}  // namespace

std::vector<std::shared_ptr<SignatureEntry>> by_last_use(
    const std::vector<std::shared_ptr<SignatureEntry>>& entries) {
  // Each time is read once: an order that changes while it sorts leads std::sort out of its range.
  std::vector<std::pair<int64_t, std::shared_ptr<SignatureEntry>>> timed;
  for (const auto& entry : entries)
    timed.emplace_back(entry->last_use.load(std::memory_order_relaxed), entry);
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<SignatureEntry>> out;
  for (auto& [time, entry] : timed) out.push_back(std::move(entry));
  return out;
}

std::shared_ptr<SignatureEntry> Program::take_out(const SignatureEntry& entry, bool evicted) {
  const auto it = table_.find(entry.key);
  if (it == table_.end() || it->second.get() != &entry) return nullptr;
  std::shared_ptr<SignatureEntry> out = std::move(it->second);
  table_.erase(it);
  order_.erase(out->place);
  out->held.out_of_table(evicted);
  return out;
}

std::optional<int64_t> Program::oldest_use() const {
  std::shared_lock lock(table_mutex_);
  if (order_.size() <= kNewest) return std::nullopt;
  return order_.front()->last_use.load(std::memory_order_relaxed);
}

size_t Program::evict_some() {
  struct Candidate {
    int64_t last_use;
    SignatureEntry* entry;
  };
  std::array<Candidate, kWindow> seen;
  std::vector<std::shared_ptr<SignatureEntry>> victims;
  victims.reserve(kBatch);  // what is no longer in the table must reach retire()
  {
    std::unique_lock lock(table_mutex_);
    const bool whole = order_.size() <= kWindow;
    size_t count = 0;
    auto next = order_.begin();
    for (size_t looks = std::min(order_.size(), kWindow); looks > 0; --looks) {
      SignatureEntry* const entry = *next++;
      // What somebody holds stays (shared_entry_for()): its memory would not become free.
      entry->held.set_held(entry->weak_from_this().use_count() > 1);
      if (entry->held.is_held())
        order_.splice(order_.end(), order_, entry->place);
      else
        seen[count++] = {entry->last_use.load(std::memory_order_relaxed), entry};
    }
    // Beside much of what is held others have a quarter of the cap still, or runs would bind every
    // time.
    if (bound_->evictable() <= bound_->cap() / 4) return 0;
    // The newest quarter always stays: it holds what runs are about to use.
    const size_t stay = whole ? std::max(kNewest, count - count * 3 / 4) : count / 4;
    size_t most = count > stay ? std::min(kBatch, count - stay) : 0;
    std::sort(seen.begin(), seen.begin() + static_cast<ptrdiff_t>(count),
              [](const Candidate& a, const Candidate& b) { return a.last_use < b.last_use; });
    size_t taken = 0;
    while (taken < most && bound_->is_over(kLeft) && bound_->evictable() > bound_->cap() / 8)
      victims.push_back(take_out(*seen[taken++].entry, true));
    for (size_t k = taken; k < count; ++k)
      if (seen[k].last_use > seen[k].entry->placed) {
        seen[k].entry->placed = seen[k].last_use;
        order_.splice(order_.end(), order_, seen[k].entry->place);
      }
    if (victims.empty()) return 0;
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  const size_t evicted = victims.size();
  for (auto& victim : victims) epochs_.retire(std::move(victim));
  // A run that is in here, as the one that binds may be, holds them back until it ends.
  evicted_.store(true, std::memory_order_release);
  return evicted;
}

void Program::make_room() {
  if (!bound_->is_over()) return;
  const int64_t before = bound_->bytes() - bound_->retired();
  int64_t shapes = 0;
  std::vector<std::shared_ptr<Program>> programs = bound_->programs();
  while (bound_->is_over()) {
    auto oldest = programs.end();
    int64_t least = INT64_MAX;
    for (auto it = programs.begin(); it != programs.end(); ++it)
      if (const auto use = (*it)->oldest_use(); use && *use < least) {
        least = *use;
        oldest = it;
      }
    if (oldest == programs.end()) break;
    const size_t evicted = (*oldest)->evict_some();
    shapes += static_cast<int64_t>(evicted);
    if (evicted == 0)
      programs.erase(oldest);
    else if (oldest->get() != this)
      (*oldest)->reclaim_evicted();  // no run of its own may come for long
  }
  if (shapes > 0) tell_evicted(shapes, before - (bound_->bytes() - bound_->retired()));
}

void Program::tell_evicted(int64_t shapes, int64_t bytes) {
  const auto evicted = bound_->to_tell(shapes, bytes);
  if (!evicted) return;
  Event event;
  event.kind = EventKind::kEvicted;
  event.shapes = evicted->shapes;
  event.bytes = evicted->bytes;
  event.detail = fmt::format("plans bound to {} shapes, cap {} bytes", event.shapes, bound_->cap());
  if (TierHooks* tier = engine_->tier())
    tier->record(*this, std::move(event));
  else
    engine_->emit(event);
}

bool Program::is_held_up() {
  const auto much = [&] {
    return bound_->bytes() > bound_->cap() && bound_->retired() > bound_->cap() / 4;
  };
  if (!much()) return false;
  // In whichever Program it was left behind: of that one no run may come any more.
  for (const auto& program : bound_->programs()) program->epochs_.reclaim(kReclaimed);
  return much();
}

void Program::forget(const SignatureEntry& entry) {
  std::shared_ptr<SignatureEntry> gone;
  {
    std::unique_lock lock(table_mutex_);
    gone = take_out(entry, false);
    if (!gone) return;
    gone->forgotten.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  epochs_.retire(std::move(gone));
  epochs_.reclaim();
}

void Program::reclaim_evicted() {
  if (evicted_.load(std::memory_order_relaxed) && evicted_.exchange(false) &&
      !epochs_.reclaim(kReclaimed))
    evicted_.store(true, std::memory_order_relaxed);
}

}  // namespace xc
