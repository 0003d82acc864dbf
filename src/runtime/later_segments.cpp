// Segments behind sizes that a run finds out. Their entries lie in the table of signatures: bound
// at first use, found again by the sizes and by the plan that ran until then, adapted, published
// and evicted like signatures.

#include <unordered_set>

#include "base/no_cancellation.h"
#include "plan/continues.h"
#include "runtime/input_sizes.h"
#include "runtime/program.h"

namespace xc {

std::shared_ptr<const Bound> Program::bind(const SignatureEntry& entry,
                                           const std::shared_ptr<const Plan>& plan,
                                           const BindOptions& options) const {
  const bool fits = entry.segment == 0 || continues(*entry.begun, *plan, entry.segment);
  BindOptions all = options;
  all.bands = static_cast<Bands>(config_.bands);
  all.max_bytes = config_.max_memory_bytes;
  all.workers = engine_->tasks().workers();
  return bind_segment(fits ? plan : entry.begun, entry.segment, entry.symbols, all);
}

void Program::later_key(const Plan& begun, uint32_t segment, const std::vector<int64_t>& symbols,
                        std::vector<int64_t>& key) {
  key.clear();
  key.push_back(-1 - static_cast<int64_t>(segment));  // a signature begins with a rank, or -1
  key.push_back(static_cast<int64_t>(begun.serial));
  key.insert(key.end(), symbols.begin(), symbols.end());
}

SignatureEntry& Program::later_entry(const std::shared_ptr<const Plan>& begun, uint32_t segment,
                                     const std::vector<int64_t>& symbols, RunContext& context) {
  while (context.segments.size() <= segment) context.segments.emplace_back(*engine_);
  RunContext::SegmentState& state = context.segments[segment];
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  if (state.last_entry && state.last_generation == generation && state.last_entry->begun == begun &&
      state.last_entry->symbols == symbols)
    return *state.last_entry;
  later_key(*begun, segment, symbols, context.key);
  SignatureEntry* entry = nullptr;
  {
    std::shared_lock lock(table_mutex_);
    if (const auto it = table_.find(context.key); it != table_.end()) entry = it->second.get();
  }
  if (entry) {
    state.passed.reset();
  } else {
    const NoCancellation whole;
    auto made = std::make_shared<SignatureEntry>();
    made->key = context.key;
    made->symbols = symbols;
    made->segment = segment;
    made->begun = begun;
    made->passes = !joins_table(Joins::kWhereThereIsRoom);
    const auto like =
        state.passed ? state.passed : ran_last(state.last_entry, state.last_generation);
    const auto seat = at_input_sizes([&] { return bind_first(*made, like.get()); });
    entry = &insert(std::move(made), seat, context);
    if (entry->passes) {
      state.passed = published(*entry)->active->bound;
      state.last_entry = nullptr;  // gone when the run ends
      return *entry;
    }
    state.passed.reset();
  }
  state.last_entry = entry;
  state.last_generation = generation;
  return *entry;
}

std::vector<std::shared_ptr<SignatureEntry>> Program::latest_entries() {
  std::vector<std::shared_ptr<SignatureEntry>> out(base_plan_->segments.size());
  for (const auto& entry : entries()) {
    auto& latest = out[entry->segment];
    if (!latest || entry->last_use > latest->last_use) latest = entry;
  }
  return out;
}

void Program::drop_stale_segments() {
  if (base_plan_->segments.size() == 1) return;
  const auto all = entries();
  std::vector<std::shared_ptr<SignatureEntry>> stale;
  std::unordered_set<const Plan*> running;  // up to the segment at hand
  for (uint32_t s = 0; s < base_plan_->segments.size(); ++s) {
    std::unordered_set<const Plan*> next;
    for (const auto& entry : all) {
      if (entry->segment != s) continue;
      if (s > 0 && !running.count(entry->begun.get())) {
        stale.push_back(entry);
        continue;
      }
      const auto now = published(*entry);
      next.insert(now->active->bound->plan.get());
      if (now->challenger) next.insert(now->challenger->bound->plan.get());
    }
    running = std::move(next);
  }
  {
    std::unique_lock lock(table_mutex_);
    // What is there under its key by now may be another one, which a run is in.
    std::erase_if(stale, [&](const auto& entry) { return !take_out(*entry, true); });
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  for (auto& entry : stale) epochs_.retire(std::move(entry));
  epochs_.reclaim();
}

}  // namespace xc
