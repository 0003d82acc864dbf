#include "tier/code_room.h"

#include <thread>

#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

constexpr int64_t kTypicalBytes = 16 << 10;  ///< of code, where it was never made
constexpr int kTries = 8;                    ///< until other programs have let go
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr int kPauses = 200;  ///< until runs have left code that was let go

}  // namespace

CodeRoom::Made CodeRoom::make_for(Program& program, ProgramState& state, Group& group) {
  double wanted = 0;
  int64_t wanted_bytes = kTypicalBytes;
  {
    std::lock_guard data(state.data);
    wanted = group.loss.per_s(steady_s());
    if (group.code.bytes > 0) wanted_bytes = group.code.bytes;
  }
  const std::map<const Kernel*, Code> codes = code_in_use();
  const Code* least = nullptr;
  for (const auto& [kernel, code] : codes) {
    if (code.stays || !policy::makes_room(code.saved_per_s, code.bytes, wanted, wanted_bytes))
      continue;
    if (!least || code.saved_per_s * static_cast<double>(least->bytes) <
                      least->saved_per_s * static_cast<double>(code.bytes))
      least = &code;
  }
  if (!least) return Made::kNone;
  const std::string why = fmt::format("its code saves {:.3f} ms per second, {} would save {:.3f}",
                                      least->saved_per_s * 1e3, group.name, wanted * 1e3);
  const int64_t before = core_.compiler->code_bytes();
  bool others = false;
  for (const auto& [s, g] : least->users) {
    if (s.get() == &state) {
      evict(program, state, *g, why);
      continue;
    }
    others = true;
    core_.queue.post(
        s, [this, raw = g, why](Program& p, ProgramState& theirs) { evict(p, theirs, *raw, why); });
  }
  if (others) return group.queued.room_tries++ < kTries ? Made::kComing : Made::kNone;
  for (int k = 0; k < kPauses && core_.compiler->code_bytes() >= before; ++k) {
    std::this_thread::sleep_for(kPause);
    program.epochs().reclaim();
  }
  return core_.compiler->code_bytes() < before ? Made::kNow : Made::kNone;
}

void CodeRoom::evict(Program& program, ProgramState& state, Group& group, const std::string& why) {
  std::shared_ptr<Kernel> code;
  Event event;
  {
    std::lock_guard data(state.data);
    if (!group.code.kernel || state.frozen || !evictable(group)) return;
    // From here on no signature is given a plan with it.
    code = std::exchange(group.code.kernel, nullptr);
    if (!group.wrong) {
      group.state = RegionState::kCandidate;
      group.policy.evicted();
    }
    drop_variants(state, group, false);
    event = event_of(EventKind::kEvicted, group);
    event.bytes = group.code.bytes;
  }
  publishing_.everywhere(program, state, SIZE_MAX);
  code.reset();
  program.epochs().reclaim();
  event.detail = "code makes room: " + why;
  core_.emit(state, program, std::move(event));
}

std::map<const Kernel*, CodeRoom::Code> CodeRoom::code_in_use() {
  std::map<const Kernel*, Code> out;
  for (const StatePtr& s : core_.queue.states()) {
    std::lock_guard data(s->data);
    for (const auto& g : s->groups) {
      if (!g->code.kernel || g->code.bytes <= 0) continue;
      Code& code = out[g->code.kernel.get()];
      code.bytes = g->code.bytes;
      code.users.emplace_back(s, g.get());
      code.stays = code.stays || s->frozen || !evictable(*g);
      if (!g->wrong) code.saved_per_s += g->saved.per_s(steady_s());
    }
  }
  return out;
}

}  // namespace xc::tier
