#pragma once
// What a run tells a tier, and what a tier may do to a program. src/tier implements it.

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "profile/summary.h"

namespace xc {

class Program;
class Engine;
struct Plan;
struct SignatureEntry;  // program.h

class TierHooks {
 public:
  virtual ~TierHooks() = default;
  /// Before any program is created; the engine outlives the hooks.
  virtual void attach(Engine& engine) = 0;
  /// A program exists now / is about to go. After removed() returns, no thread of the tier touches
  /// it.
  virtual void added(const std::shared_ptr<Program>& program) = 0;
  virtual void removed(Program& program) = 0;
  /// A signature was bound for the first time, on the calling thread, before its first run. In mode
  /// sync everything selected is compiled, verified and published here.
  virtual void first_bound(Program& program, SignatureEntry& entry) = 0;
  /// What a signature runs from its first run on.
  struct Seat {
    std::shared_ptr<const Plan> plan;  ///< null = the base plan
    std::vector<uint8_t> focus;        ///< Version::focus
    bool timed = false;                ///< Published::timed
    int64_t trial = 0;                 ///< which one it is timed for
  };
  /// For a signature that comes for the first time: a plan out of those there are. Must be quick.
  virtual Seat seat_for(Program& program, SignatureEntry& entry) = 0;
  /// The signature is published and known now, with a seat that is timed.
  virtual void seated(Program& program, SignatureEntry& entry, int64_t trial) = 0;
  /// A sampled run ended (sampling.h, and every run of a trial); it stands for `runs` of them. For
  /// the run's signature, then for each later segment. `compiles`: false where the run is to start
  /// no compilation; a trial that it took part in is judged all the same. Must be quick.
  virtual void sampled(Program& program, SignatureEntry& entry, double runs, bool compiles) = 0;
  /// Whether there is anyone to end a trial, and to do what is left to a background thread; else
  /// runs take no side that nobody judges.
  virtual bool judges() const = 0;
  /// A run that took part in a trial ended with an error: it has no time to compare. `ended`: by
  /// the host, with a deadline or a cancellation. Must be quick; throws nothing.
  virtual void failed(const Program& program, bool ended) noexcept = 0;
  /// The host ended several runs in a row, the last one of this signature. As failed().
  virtual void ended(const Program& program, SignatureEntry& entry) noexcept = 0;
  /// Keeps an event of the runtime's own with the program's, and delivers it.
  virtual void record(Program& program, Event event) = 0;
  /// Adds what the tier knows (regions, compile cost, savings) to a summary; `details`: regions and
  /// events, not only counters.
  virtual void summarise(const Program& program, ProfileSummary& summary, bool details) const = 0;
  virtual void freeze(Program& program) = 0;
  virtual bool wait_idle(Program& program, std::chrono::milliseconds timeout) = 0;
  /// While it is on, what gains anything is compiled at once, not when waiting has cost its price.
  virtual void warm_up(Program& program, bool on) = 0;
  /// Whether nothing is left to be compiled or measured for runs of this signature.
  virtual bool settled(Program& program, SignatureEntry& entry) = 0;
};

}  // namespace xc
