// How a run takes an entry, and what it tells of it: the side of a trial, whether the run is timed
// and for how many others it stands (sampling.h says how rarely), the times themselves, and the
// word to the tier.

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/no_cancellation.h"
#include "runtime/program.h"
#include "runtime/sampling.h"

namespace xc {

double BoundTimes::step_ns(size_t step) const {
  const uint64_t n = samples();
  return n == 0 || step - first_ >= steps_.size()
             ? 0
             : ticks_to_ns(steps_[step - first_].ticks.load(std::memory_order_relaxed)) /
                   static_cast<double>(n);
}

double BoundTimes::run_ns() const {
  const uint64_t n = samples();
  return n == 0 ? 0 : ticks_to_ns(total_.load(std::memory_order_relaxed)) / static_cast<double>(n);
}

std::vector<float> BoundTimes::recent() const {
  const auto n = ring_ ? std::min<uint64_t>(samples(), kRing) : 0;
  std::vector<float> out;
  for (uint64_t k = 0; k < n; ++k) out.push_back((*ring_)[k].load(std::memory_order_relaxed));
  return out;
}

Turn Program::take_turn(SignatureEntry& entry, uint64_t run, const Turn* first) {
  const Published& published = *entry.current.load(std::memory_order_seq_cst);
  Turn turn;
  const bool trial = published.challenger != nullptr && judged();
  if (trial)
    turn.side = trial_side(published.active->times->attempts(),
                           published.challenger->times->attempts(), run);
  turn.version = turn.side ? published.challenger.get() : published.active.get();
  if (trial) turn.version->times->attempt();
  turn.trial = trial || published.timed;
  const uint32_t attention = attention_.load(std::memory_order_relaxed);
  const bool called = entry.attention.load(std::memory_order_relaxed) != attention;
  if (called) entry.attention.store(attention, std::memory_order_relaxed);
  if (trial || published.timed || called || run < 5) {
    turn.timed = true;
  } else if (first) {  // a run is looked at as a whole
    turn.timed = first->timed;
    turn.stands_for = first->stands_for;
  } else {
    const int bits = entry.sample_bits.load(std::memory_order_relaxed);
    const int known =
        bits < 0 ? std::min(kUnknownBits, latest_bits_.load(std::memory_order_relaxed)) : bits;
    turn.timed = is_sampled(run, known);
    turn.stands_for = uint32_t{1} << known;
    if (bits < 0) [[unlikely]] {
      if (bits == kRanOnce && !turn.timed) {
        turn.timed = true;
        turn.stands_for = 0;
      }
      entry.sample_bits.store(bits + 1, std::memory_order_relaxed);
    }
  }
  if (turn.timed && run > 0 &&
      (config_.jit_mode() != JitMode::kOff ||
       turn.version->bound->provisional))  // settle_by_itself() asks
    turn.times = turn.version->times.get();
  if (turn.times) turn.look = first ? first->look : known_tier() ? value_facts_.due() : 0;
  return turn;
}

void Program::observe(SignatureEntry& entry, const Turn& turn, uint64_t run,
                      const RunOptions& options) {
  if (!turn.timed) return;
  const NoCancellation whole;
  const bool settling = turn.version->bound->provisional && settle_by_itself(entry, turn, run);
  if (config_.jit_mode() == JitMode::kOff) {
    entry.last_use.store(steady_ns(), std::memory_order_relaxed);
    entry.sample_bits.store(settling ? kEveryRun : kSampleBits, std::memory_order_relaxed);
    return;
  }
  if (settling) {
    entry.sample_bits.store(kEveryRun, std::memory_order_relaxed);
  } else if (turn.times) {
    const int bits = sample_bits(*turn.times);
    entry.sample_bits.store(bits, std::memory_order_relaxed);
    if (entry.segment == 0) latest_bits_.store(bits, std::memory_order_relaxed);
  }
  if (turn.stands_for == 0) return;
  const uint64_t begin = ticks();
  if (entry.segment == 0) runs_.fetch_add(1, std::memory_order_relaxed);
  entry.last_use.store(steady_ns(), std::memory_order_relaxed);
  if (TierHooks* tier = known_tier())
    tier->sampled(*this, entry, turn.stands_for, !options.no_compile);
  looked(ticks() - begin);
}

bool Program::settle_by_itself(SignatureEntry& entry, const Turn& turn, uint64_t run) {
  // The second run of a shape, looked at for its time alone, does not show that more will come.
  const bool second = turn.stands_for == 0;
  const double seconds =
      settling_seconds(second ? 2 : run, turn.times ? turn.times->run_ns() * 1e-9 : 0,
                       entry.settling.load(std::memory_order_relaxed));
  const bool first = entry.sample_bits.load(std::memory_order_relaxed) == kRanOnce;
  if (seconds <= 0 || first || adapts() ||
      entry.rebinding.exchange(true, std::memory_order_relaxed))
    return false;
  entry.settling.store(true, std::memory_order_relaxed);
  try {
    if (settle_some(entry, seconds)) return false;
  } catch (const Error& error) {
    // What is over a limit is not tried again: the shape keeps what it has.
    entry.rebinding.store(error.status() != Status::kOutOfMemory, std::memory_order_relaxed);
    throw;
  } catch (const std::bad_alloc&) {
    entry.rebinding.store(false, std::memory_order_relaxed);
    throw;
  }
  entry.rebinding.store(false, std::memory_order_relaxed);
  return true;
}

bool Program::adapts() const {
  return config_.jit_mode() == JitMode::kAuto && config_.fuses() && judged();
}

TierHooks* Program::known_tier() const {
  const bool told = tier_knows_.load(std::memory_order_acquire);
  return told && !frozen_.load(std::memory_order_relaxed) ? engine_->tier() : nullptr;
}

bool Program::judged() const {
  const TierHooks* tier = known_tier();
  return tier && tier->judges();
}

void Program::looked(uint64_t spent) {
  // An interruption is no part of the cost: down at once, up slowly.
  const uint64_t before = look_ticks_.load(std::memory_order_relaxed);
  look_ticks_.store(before == 0 || spent < before ? spent : before + (spent - before) / 8,
                    std::memory_order_relaxed);
}

int Program::sample_bits(const BoundTimes& times) const {
  constexpr uint64_t kClock = 64;  // ticks: reading the clock around a step, and adding up
  return xc::sample_bits(runs(), static_cast<double>(times.last_run()),
                         static_cast<double>(look_ticks_.load(std::memory_order_relaxed) +
                                             kClock * times.step_count()));
}

}  // namespace xc
