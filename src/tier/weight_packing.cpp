#include "tier/weight_packing.h"

#include "base/clock.h"
#include "tier/failures.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

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
  if (program.config().jit != static_cast<int64_t>(JitMode::kAuto)) return;
  for (const auto& step : program.base_plan()->steps)
    if (step->kernel && step->kernel->wants_prepare())
      return core_.queue.post(
          state, [this](Program& p, ProgramState& s) { pack(p, s); }, Charge::kNone);
}

void WeightPacking::pack(Program& program, ProgramState& state) {
  const int64_t begin = steady_ns();
  program.pack_weights();
  const std::vector<const Step*> packed = program.take_packed();
  if (packed.empty()) return;
  for (const auto& entry : program.entries()) {
    if (!program.base_of(*entry)) continue;
    try {
      program.set_base(*entry, std::make_shared<Version>(program.bind(*entry, program.base_plan(),
                                                                      {.background = true})));
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      // Over a limit: its runs go on with what they have.
      deliver_failure(state, program, error.what());
    }
  }
  // Runs have read the weights where they lie, while they were packed too, and some still do.
  for (const Step* step : packed)
    for (const Operand& operand : step->spec.inputs)
      if (operand.constant)
        program.epochs().retire(std::make_shared<const ForgottenAtEnd>(operand.constant));
  core_.queue.reclaim(program);
  Event event;
  event.kind = EventKind::kPrepared;
  event.detail = "weights packed";
  event.wall_ms = ms_since(begin);
  core_.emit(state, program, std::move(event));
  restore_.add_zeros_to_come(program, state);
}

}  // namespace xc::tier
