#include "tier/weight_packing.h"

#include <algorithm>

#include "base/clock.h"
#include "tier/failures.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

/// The first part is of use soon; those behind it, twice as long each, bind what runs less often.
/// Nobody who closes or freezes a session waits much longer than for the longest.
constexpr int64_t kFirstPartNs = 20'000'000, kLongPartNs = 80'000'000;
/// A part takes so many times what the binding behind the last did, at least, but not more than
/// this.
constexpr int64_t kPartOfBinding = 4, kLongestPartNs = 320'000'000;

/// Memory that nobody needs any longer once this is gone.
struct ForgottenAtEnd {
  Tensor constant;
  explicit ForgottenAtEnd(Tensor c) : constant(std::move(c)) {}
  ForgottenAtEnd(const ForgottenAtEnd&) = delete;
  ForgottenAtEnd& operator=(const ForgottenAtEnd&) = delete;
  ~ForgottenAtEnd() { constant.forget(); }
};

}  // namespace

void WeightPacking::post(const Program& program, const StatePtr& state) {
  if (program.config().jit_mode() != JitMode::kAuto) return;
  for (const auto& step : program.base_plan()->steps)
    if (step->kernel && step->kernel->wants_prepare()) return post_part(state, begin());
}

WeightPacking::Progress WeightPacking::begin() const {
  return {.begin_ns = steady_ns(), .part_ns = core_.faults.pack_slowly ? 0 : kFirstPartNs};
}

void WeightPacking::post_part(const StatePtr& state, Progress progress) {
  core_.queue.post(
      state,
      [this, progress](Program& p, ProgramState& s) mutable {
        if (pack_part(p, s, progress)) post_part(shared_state(p), progress);
      },
      Charge::kNone);
}

void WeightPacking::pack(Program& program, ProgramState& state) {
  Progress progress = begin();
  while (!core_.queue.is_going(state) && pack_part(program, state, progress)) {
  }
}

bool WeightPacking::pack_part(Program& program, ProgramState& state, Progress& progress) {
  const bool all = program.pack_weights(progress.part_ns);
  const std::vector<const Step*> packed = program.take_packed();
  if (!packed.empty()) {
    progress.packed += packed.size();
    const int64_t bind_begin = steady_ns();
    bind_again(program, state);
    if (!core_.faults.pack_slowly)
      progress.part_ns =
          std::max(std::min(2 * progress.part_ns, kLongPartNs),
                   std::min(kPartOfBinding * (steady_ns() - bind_begin), kLongestPartNs));
    // Runs have read the weights where they lie, while they were packed too, and some still do.
    for (const Step* step : packed)
      for (const Operand& operand : step->spec.inputs)
        if (operand.constant)
          program.epochs().retire(std::make_shared<const ForgottenAtEnd>(operand.constant));
    core_.queue.reclaim(program);
  }
  if (!all) return true;
  if (progress.packed == 0) return false;
  Event event;
  event.kind = EventKind::kPrepared;
  event.detail = "weights packed";
  event.wall_ms = ms_since(progress.begin_ns);
  core_.emit(state, program, std::move(event));
  restore_.add_zeros_to_come(program, state);
  return false;
}

void WeightPacking::bind_again(Program& program, ProgramState& state) {
  auto entries = by_last_use(program.entries());
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (core_.queue.is_going(state)) return;
    try {
      program.settle(**entry);
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      // Over a limit: its runs go on with what they have.
      deliver_failure(state, program, error.what());
    }
  }
}

}  // namespace xc::tier
