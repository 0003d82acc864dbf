// Executable memory is capped by bytes: where it is full, the code that saves least per second and
// byte makes room for a region that would save more. Plans change first; the memory is free when
// the last run inside has left. A region that lost its code collects regret anew and may come back.

#include <algorithm>

#include "base/clock.h"
#include "tier/tier.h"

namespace xc {
namespace {

constexpr int64_t kTypicalBytes = 16 << 10;  ///< of code, where it was never made
constexpr int kTries = 8;                    ///< until other programs have let go
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr int kPauses = 200;  ///< until runs have left code that was let go

double now_s() {
  return static_cast<double>(steady_ns()) * 1e-9;
}

}  // namespace

Tier::Room Tier::make_room(Program& program, ProgramState& state, Group& group) {
  double wanted = 0;
  int64_t wanted_bytes = kTypicalBytes;
  {
    std::lock_guard data(state.data);
    wanted = group.loss.per_s(now_s());
    if (group.code_bytes > 0) wanted_bytes = group.code_bytes;
  }
  struct Victim {
    double saved_per_s = 0;
    int64_t bytes = 0;
    bool stays = false;
    std::vector<std::pair<StatePtr, Group*>> users;  ///< programs share code
  };
  std::map<const Kernel*, Victim> victims;
  std::vector<StatePtr> states;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [known, s] : states_) states.push_back(s);
  }
  for (const StatePtr& s : states) {
    std::lock_guard data(s->data);
    for (const auto& g : s->groups) {
      if (!g->kernel || g->code_bytes <= 0) continue;
      Victim& victim = victims[g->kernel.get()];
      victim.bytes = g->code_bytes;
      victim.users.emplace_back(s, g.get());
      victim.stays = victim.stays || s->frozen || !evictable(*g);
      if (!g->wrong) victim.saved_per_s += g->saved.per_s(now_s());
    }
  }
  const Victim* least = nullptr;
  for (const auto& [kernel, victim] : victims) {
    if (victim.stays || !policy::makes_room(victim.saved_per_s, victim.bytes, wanted, wanted_bytes))
      continue;
    if (!least || victim.saved_per_s * static_cast<double>(least->bytes) <
                      least->saved_per_s * static_cast<double>(victim.bytes))
      least = &victim;
  }
  if (!least) return Room::kNone;
  const std::string why = fmt::format("its code saves {:.3f} ms per second, {} would save {:.3f}",
                                      least->saved_per_s * 1e3, group.name, wanted * 1e3);
  const int64_t before = compiler_->code_bytes();
  bool others = false;
  for (const auto& [s, g] : least->users) {
    if (s.get() == &state) {
      evict(program, state, *g, why);
      continue;
    }
    others = true;
    post(s,
         [this, raw = g, why](Program& p, ProgramState& theirs) { evict(p, theirs, *raw, why); });
  }
  if (others) return group.room_tries++ < kTries ? Room::kComing : Room::kNone;
  for (int k = 0; k < kPauses && compiler_->code_bytes() >= before; ++k) {
    std::this_thread::sleep_for(kPause);
    program.epochs().reclaim();
  }
  return compiler_->code_bytes() < before ? Room::kMade : Room::kNone;
}

bool Tier::evictable(const Group& group) {
  return group.wrong || group.state == RegionState::kReady || group.state == RegionState::kBanned ||
         (group.state == RegionState::kLive && !group.policy.is_always());
}

void Tier::evict(Program& program, ProgramState& state, Group& group, const std::string& why) {
  std::shared_ptr<Kernel> code;
  Event event;
  {
    std::lock_guard data(state.data);
    if (!group.kernel || state.frozen || !evictable(group)) return;
    code = std::exchange(group.kernel, nullptr);  // no signature is given a plan with it any more
    if (!group.wrong) {
      group.state = RegionState::kCandidate;
      group.policy.evicted();
    }
    drop_variants(state, group, false);
    event = event_of(EventKind::kEvicted, group);
    event.bytes = group.code_bytes;
  }
  publish_everywhere(program, state, SIZE_MAX);
  code.reset();
  program.epochs().reclaim();
  event.detail = "code makes room: " + why;
  emit(state, program, std::move(event));
}

void Tier::drop_variants(ProgramState& state, const Group& group, bool wrong) {
  for (Variant& variant : state.variants) {
    if (std::find(variant.groups.begin(), variant.groups.end(), &group) == variant.groups.end())
      continue;
    variant.plan.reset();
    variant.outdated = true;
    variant.wrong = variant.wrong || wrong;
    if (wrong) state.any_wrong = true;
  }
}

}  // namespace xc
