// The job queue by itself: its order, its budget, what it looks at until it is done.
// Labels: tsan
#include "tier/queue.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <new>
#include <string>

#include "base/clock.h"
#include "ir/text.h"

using namespace xc;
using namespace xc::tier;
using namespace std::chrono_literals;

namespace {

constexpr auto kLong = 30s;

struct Fixture {
  std::vector<std::string> done;  ///< by the queue's thread
  TierFaults faults;
  JobQueue::Job take_out = [](Program&, ProgramState&) {};
  std::shared_ptr<Engine> engine = std::make_shared<Engine>(Config{}, HostHooks{}, nullptr);
  std::shared_ptr<Program> program = Program::create(
      engine,
      std::make_shared<Graph>(parse_graph("graph g(%x: f32[n]) -> (%y) {\n  %y = Relu(%x)\n}\n")),
      Config{}, "g");
  StatePtr state = std::make_shared<ProgramState>();
  std::promise<void> go;
  JobQueue queue{2, faults, [this](Program& p, ProgramState& s) { take_out(p, s); }};

  Fixture() {
    state->program = program;
    state->added_ns = steady_ns();
    queue.add(*program, state);
  }
  ~Fixture() { queue.stop(); }

  JobQueue::Job job(const std::string& name) {
    return [this, name](Program&, ProgramState&) { done.push_back(name); };
  }
  /// What is posted from here on waits for go.set_value().
  void hold() {
    queue.post(state, [ready = go.get_future().share()](Program&, ProgramState&) { ready.wait(); });
  }
};

Urgency& lose(Urgency& urgency, double per_s) {
  urgency.loss_per_s = per_s;
  urgency.at_ns = steady_ns();
  return urgency;
}

}  // namespace

TEST_CASE("tier/queue: compiles come last, what waiting loses most for first") {
  Fixture f;
  Urgency least, most, middle;
  f.hold();
  f.queue.post_compile(f.state, f.job("least"), lose(least, 1));
  f.queue.post_compile(f.state, f.job("most"), lose(most, 3));
  f.queue.post_compile(f.state, f.job("middle"), lose(middle, 2));
  f.queue.post(f.state, f.job("first"));
  f.queue.post(f.state, f.job("second"));
  f.go.set_value();
  REQUIRE(f.queue.wait_idle(f.state, kLong));
  CHECK(f.done == std::vector<std::string>{"first", "second", "most", "middle", "least"});
}

TEST_CASE("tier/queue: a program that is frozen compiles nothing, one that goes does nothing") {
  Fixture f;
  Urgency urgency;
  f.hold();
  f.queue.post_compile(f.state, f.job("compile"), lose(urgency, 1));
  f.queue.post(f.state, f.job("other"));
  f.queue.drop_compiles(f.state);
  f.go.set_value();
  REQUIRE(f.queue.wait_idle(f.state, kLong));
  CHECK(f.done == std::vector<std::string>{"other"});
  f.queue.remove(*f.program);
  CHECK(f.queue.state_of(*f.program) == nullptr);
  f.queue.post(f.state, f.job("late"));
  CHECK(f.queue.size() == 0);
}

TEST_CASE("tier/queue: over the budget jobs wait, but for those that end a trial and for a host") {
  Fixture f;
  f.faults.starved = true;
  f.queue.post(f.state, f.job("waits"));
  std::promise<void> soon;
  f.queue.post(f.state, [&](Program&, ProgramState&) { soon.set_value(); }, Charge::kSoon);
  CHECK(soon.get_future().wait_for(kLong) == std::future_status::ready);
  CHECK(f.queue.size() == 1);
  REQUIRE(f.queue.wait_idle(f.state, kLong));
  CHECK(f.done == std::vector<std::string>{"waits"});
}

TEST_CASE("tier/queue: condemned code is looked for before other jobs, again where that fails") {
  Fixture f;
  f.take_out = [&](Program&, ProgramState&) {
    f.done.push_back("look");
    if (f.done.size() == 1) throw std::bad_alloc();
  };
  f.hold();
  f.queue.post(f.state, f.job("job"));
  f.queue.look_for_condemned();
  f.go.set_value();
  REQUIRE(f.queue.wait_idle(f.state, kLong));
  REQUIRE(f.done.size() == 3);
  CHECK(f.done.front() == "look");
  CHECK(std::count(f.done.begin(), f.done.end(), "look") == 2);
}

TEST_CASE("tier/queue: where the system refuses the thread, nothing is done and one is told") {
  Fixture f;
  f.faults.no_thread = true;
  CHECK(!f.queue.refused());
  f.queue.post(f.state, f.job("never"));
  CHECK(f.queue.size() == 0);
  CHECK(f.queue.refused());
  CHECK(f.queue.take_refusal());
  CHECK(!f.queue.take_refusal());
  CHECK(f.queue.wait_idle(f.state, kLong));
  CHECK(f.done.empty());
}

TEST_CASE("tier/queue: a child made by fork() asks for no lock that may be held in it") {
  // Compiles are dropped with the lock held, and with them what they hold.
  Fixture f;
  pid_t child = -1;
  f.hold();
  {
    const std::shared_ptr<int> forks(new int, [&](const int* held) {
      delete held;
      child = fork();
      if (child != 0) return;
      alarm(10);  // a deadlock ends the child, and is seen
      f.queue.post(f.state, [](Program&, ProgramState&) {});
      f.queue.reclaim(*f.program);
      _exit(0);
    });
    Urgency urgency;
    f.queue.post_compile(f.state, [forks](Program&, ProgramState&) {}, urgency);
  }
  f.queue.drop_compiles(f.state);
  f.go.set_value();
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
}

TEST_CASE("tier/queue: a thread that waits to freeze a program comes before its next job") {
  Fixture f;
  std::atomic<int> jobs{0};
  std::atomic<bool> stop{false};
  // Each posts the next, like parts of packing.
  std::function<void(Program&, ProgramState&)> part = [&](Program&, ProgramState&) {
    ++jobs;
    const int64_t end = steady_ns() + 1'000'000;
    while (steady_ns() < end) {
    }
    if (!stop) f.queue.post(f.state, part);
  };
  f.queue.post(f.state, part);
  for (int k = 0; k < 20; ++k) {
    const int seen = jobs;
    while (jobs == seen) std::this_thread::yield();
    ++f.state->freezing;
    const int before = jobs;
    f.state->work.lock();
    const int after = jobs;
    --f.state->freezing;
    f.state->freezing.notify_all();
    f.state->work.unlock();
    CHECK(after - before <= 1);
  }
  stop = true;
  CHECK(f.queue.wait_idle(f.state, kLong));
}
