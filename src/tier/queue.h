#pragma once
// The queue of background work and its thread: what is done first, what is done no more, and when
// the budget of compile CPU lets it. One per engine; knows the engine's programs, and of regions
// only how urgent their compiles are.
//
// The thread starts with the first job. A child made by fork() has none: lost() says so there, and
// nothing that asks for a lock may be called any more, for the thread that is not there may hold
// it; state_of() knows of no program then.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/background_thread.h"
#include "tier/faults.h"
#include "tier/policy.h"
#include "tier/program_state.h"

namespace xc::tier {

/// Whose CPU the budget limits: what adaptation costs, not what mode off does as well.
enum class Charge : uint8_t {
  kBudget,
  kSoon,  ///< counted, never kept waiting: what ends a trial, in which the slower side runs, and
          ///< what begins one about a region that became slow
  kNone
};

/// Thread-safe. Its lock guards its own data and ProgramState::in_queue, and is a leaf: whoever
/// holds it asks for no other.
class JobQueue {
 public:
  /// Is called under a Work of the program's. What it throws ends it and is told.
  using Job = std::function<void(Program&, ProgramState&)>;
  /// `take_out_condemned`: what look_for_condemned() asks for; where it throws, it is called again.
  JobQueue(double cpu_percent, const TierFaults& faults, Job take_out_condemned);
  ~JobQueue() { stop(); }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;
  /// Nothing is begun any more; what is under way has ended. To be called before anything goes that
  /// jobs refer to.
  void stop();

  // ---- programs
  void add(const Program& program, const StatePtr& state);
  /// Its jobs are dropped; one in progress has ended.
  void remove(const Program& program);
  /// Null for one that was removed, and in a child made by fork().
  StatePtr state_of(const Program& program) const;
  std::vector<StatePtr> states() const;

  // ---- jobs
  /// Does nothing for a program that goes, or without a thread, lost or refused.
  void post(const StatePtr& state, Job job, Charge charge = Charge::kBudget);
  /// The same unless such a job is posted: `posted`, of the program's state and under its `data`,
  /// which the caller holds, is set until it ends.
  void post_once(const StatePtr& state, bool& posted, Job job, Charge charge = Charge::kBudget);
  /// A compile: in the order of urgency, after everything else. `urgency` outlives the job.
  void post_compile(const StatePtr& state, Job job, const Urgency& urgency);
  /// The program compiles nothing any more.
  void drop_compiles(const StatePtr& state);
  /// Whether its owner is letting go of the program, and waits for the job under way to end.
  bool is_going(const ProgramState& state) const;
  /// Until the program has no jobs, which need no budget meanwhile; false after `timeout`.
  bool wait_idle(const StatePtr& state, std::chrono::milliseconds timeout);
  /// Whether a host thread is in wait_idle().
  bool is_awaited(const ProgramState& state) const;
  /// Seconds that waiting loses per second, by now.
  double lost_per_s(const Urgency& urgency) const;
  int64_t size() const;

  // ---- what the thread looks at again and again, until it is done; asks for no memory
  /// Lets go of what no run of the program can see any longer, at once or as soon as the last of
  /// those has ended. Not in a forked child.
  void reclaim(Program& program);
  /// Some kernel was found wrong: every program is asked to take it out, before any other job.
  void look_for_condemned();

  // ---- what it knows of the host
  policy::Prices prices() const;
  /// A region's compile took `seconds` of CPU / the last one took those on top.
  void compiled_in(double seconds);
  void compile_took_more(double seconds);
  /// Jobs and budget, into an event.
  void put_load(Event& event) const;

  // ---- its thread
  bool lost() const { return thread_.lost(); }
  /// The system refused it: nothing is done in the background.
  bool refused() const { return refused_; }
  /// True once, where it was refused.
  bool take_refusal() { return refused_ && !refusal_taken_.exchange(true); }

 private:
  struct Waiting {
    StatePtr state;
    Job run;
    const Urgency* urgency = nullptr;  ///< of a compile
    Charge charge = Charge::kBudget;
  };
  void post(Waiting job);
  // All below under mutex_.
  /// False when the system refuses it.
  bool start_thread();
  void thread_main();
  bool may_start(const Waiting& job, double cpu_s);
  std::deque<Waiting>::iterator next_job();
  void run(std::unique_lock<std::mutex>& lock, Waiting job);
  template <class F>
  void busy_with(std::unique_lock<std::mutex>& lock, const StatePtr& state, F&& work);
  StatePtr next_left_behind() const;
  void look_at_left_behind(std::unique_lock<std::mutex>& lock);
  void tell_postponed(std::unique_lock<std::mutex>& lock);
  double half_life_s() const {
    return faults_.half_life_s > 0 ? faults_.half_life_s : policy::Rate::kHalfLifeS;
  }

  const TierFaults& faults_;
  const Job take_out_condemned_;
  mutable std::mutex mutex_;  // guards what follows
  policy::Budget budget_;
  policy::Prices prices_;
  std::unordered_map<const Program*, StatePtr> states_;
  std::deque<Waiting> jobs_;
  uint64_t calls_ = 0;  // jobs posted and waits begun: what may be done now that could not before
  StatePtr busy_;
  // Some program has InQueue::left_behind or condemning set; `hurry_`: it was not looked at.
  bool left_behind_ = false, hurry_ = false;
  uint64_t looks_ = 0;
  int64_t looked_ns_ = 0;
  bool stopping_ = false;
  /// Apart, for destroying one on which a thread waited when fork() was called never ends.
  struct Signals {
    std::condition_variable wake, idle;
  };
  std::unique_ptr<Signals> signals_ = std::make_unique<Signals>();
  std::condition_variable &wake_ = signals_->wake, &idle_ = signals_->idle;
  BackgroundThread thread_{"xc-compile"};
  std::atomic<bool> refused_{false}, refusal_taken_{false};
};

}  // namespace xc::tier
