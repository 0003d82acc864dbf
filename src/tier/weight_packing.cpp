#include "tier/weight_packing.h"

#include <algorithm>

#include "base/clock.h"
#include "tier/failures.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

/// The first part is of use soon; those behind it, twice as long each, bind what runs less often.
/// Nobody who closes a session waits much longer than for the longest.
constexpr int64_t kFirstPartNs = 20'000'000, kLongestPartNs = 320'000'000;
/// A part takes so many times what the binding behind the last did, at least.
constexpr int64_t kPartOfBinding = 4;

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
    if (step->kernel && step->kernel->wants_prepare())
      return core_.queue.post(
          state, [this](Program& p, ProgramState& s) { pack(p, s); }, Charge::kNone);
}

void WeightPacking::pack(Program& program, ProgramState& state) {
  const int64_t begin = steady_ns();
  int64_t part_ns = core_.faults.pack_slowly ? 0 : kFirstPartNs;
  size_t count = 0;
  for (bool all = false; !all;) {
    if (core_.queue.is_going(state)) return;
    all = program.pack_weights(part_ns);
    const std::vector<const Step*> packed = program.take_packed();
    if (packed.empty()) continue;
    count += packed.size();
    const int64_t bind_begin = steady_ns();
    bind_again(program, state);
    part_ns = core_.faults.pack_slowly
                  ? 0
                  : std::min(std::max(2 * part_ns, kPartOfBinding * (steady_ns() - bind_begin)),
                             kLongestPartNs);
    // Runs have read the weights where they lie, while they were packed too, and some still do.
    for (const Step* step : packed)
      for (const Operand& operand : step->spec.inputs)
        if (operand.constant)
          program.epochs().retire(std::make_shared<const ForgottenAtEnd>(operand.constant));
    core_.queue.reclaim(program);
  }
  if (count == 0) return;
  Event event;
  event.kind = EventKind::kPrepared;
  event.detail = "weights packed";
  event.wall_ms = ms_since(begin);
  core_.emit(state, program, std::move(event));
  restore_.add_zeros_to_come(program, state);
}

void WeightPacking::bind_again(Program& program, ProgramState& state) {
  auto entries = by_last_use(program.entries());
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
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
