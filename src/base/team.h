#pragma once
// Workers that go through the phases of one computation together (the steps of a recurrent layer).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>

#include "base/pause.h"

namespace xc {

/// In every phase each of some parts is worked on once, and no phase begins before the one before
/// it is complete. A worker keeps to a part of its own, whose data stay in its core's cache. Nobody
/// is waited for who is not there: parts whose worker has not come, or is late, are done by those
/// who are; so it makes progress on any number of threads, and one alone does everything.
///
/// It lies in memory that the tasks of a step share (StepArgs::shared), made before they run.
class Team {
 public:
  static constexpr int kPatience = 4000;  ///< looks, some 50 us, before others do a late part

  static int64_t bytes(int64_t parts) { return parts * static_cast<int64_t>(sizeof(Part)); }
  /// Of bytes(parts), at a multiple of 64.
  static void create(std::byte* memory, int64_t parts) {
    for (int64_t part = 0; part < parts; ++part) new (memory + bytes(part)) Part;
  }
  /// Made by create() there.
  static Team at(std::byte* memory, int64_t parts) {
    return {std::launder(reinterpret_cast<Part*>(memory)), parts};
  }

  /// Takes part, as the worker whose own part is `seat`, until all phases are complete; each seat
  /// once. work(phase, part) must not throw.
  template <class Work>
  void run(int64_t seat, int64_t phases, const Work& work) noexcept {
    Part& own = part_[seat];
    own.taken.store(true, std::memory_order_relaxed);
    // Others may have begun one on this part already: it is complete before this worker goes on.
    int64_t phase = own.next.load(std::memory_order_acquire);
    for (phase -= phase > 0 ? 1 : 0; phase < phases; ++phase) {
      do_part(own, seat, phase, work);
      for (int64_t part = 0; part < parts_; ++part) await(part, phase, work);
    }
  }

 private:
  /// On lines of their own: the first is the worker's, the second all look at, the third hardly
  /// changes.
  struct Part {
    alignas(64) std::atomic<int64_t> next{0};  ///< phase that nobody has begun on this part
    alignas(64) std::atomic<int64_t> done{0};  ///< phases complete
    alignas(64) std::atomic<bool> taken{false};
  };

  Team(Part* part, int64_t parts) : part_(part), parts_(parts) {}

  template <class Work>
  void do_part(Part& part, int64_t index, int64_t phase, const Work& work) {
    int64_t expected = phase;
    // Whoever stands in has seen what the phases before have written.
    if (!part.next.compare_exchange_strong(expected, phase + 1, std::memory_order_acq_rel,
                                           std::memory_order_relaxed))
      return;
    work(phase, index);
    part.done.store(phase + 1, std::memory_order_release);
  }

  /// Until a phase is complete on a part.
  template <class Work>
  void await(int64_t index, int64_t phase, const Work& work) {
    Part& part = part_[index];
    for (int looks = 0; part.done.load(std::memory_order_acquire) <= phase; ++looks) {
      if (looks >= kPatience || !part.taken.load(std::memory_order_relaxed))
        do_part(part, index, phase, work);
      looks < 2 * kPatience ? pause_cpu() : std::this_thread::yield();
    }
  }

  Part* part_;
  int64_t parts_;
};

}  // namespace xc
