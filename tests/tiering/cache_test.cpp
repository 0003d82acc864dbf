// What one engine learnt is there for the next: fused from the first calls, nothing compiled,
// verified or tried again; and whatever is wrong with the cache, runs go on.
// Labels: tsan
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/host_record.h"
#include "cache/object_record.h"
#include "cache/profile_record.h"
#include "cache/store.h"
#include "support.h"
#include "support/scratch.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr auto kLong = std::chrono::milliseconds(20000);

Config with_cache(const std::string& directory) {
  Config config;
  config.cache_dir = directory;
  return config;
}

/// Without the JIT the interpreter stands in: right, and slow.
struct Cached : Fixture {
  Cached(const char* text, const Config& config, TierFaults faults = {})
      : Fixture(text, config, std::move(faults),
                XC_HAVE_JIT ? nullptr : create_interpreting_compiler()) {}
};

/// How an interpreted or compiled region's trial ends.
constexpr EventKind kDecided = XC_HAVE_JIT ? EventKind::kAccepted : EventKind::kRejected;
constexpr int64_t kRows = XC_HAVE_JIT ? 256 : 8;

const std::vector<Tensor>& inputs() {
  static const std::vector<Tensor> kInputs{ramp({kRows, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  return kInputs;
}

void run_right(Fixture& fixture) {
  int64_t where = 0;
  const bool right = gelu_right(inputs(), fixture.run(inputs())[0], where);
  REQUIRE_MESSAGE(right, "element ", where);
}

/// Runs until `kind` was seen, at most 20,000 times.
void run_until(Fixture& fixture, EventKind kind) {
  for (int k = 0; k < 20000 && fixture.log.count(kind) == 0; ++k) {
    run_right(fixture);
    if (k % 16 == 0) fixture.session->wait_idle(kLong);
  }
  fixture.session->wait_idle(kLong);
}

/// Changes the one profile in the cache.
template <class Edit>
void edit_profile(const ScratchDirectory& scratch, Edit edit) {
  const std::string name = scratch.files("profile-").at(0);
  auto decoded = cache::decode(scratch.read(name));
  REQUIRE(decoded.entry);
  auto record = cache::decode_profile(decoded.entry->payload);
  REQUIRE(record);
  edit(*record);
  decoded.entry->payload = cache::encode(*record);
  scratch.write(name, cache::encode(*decoded.entry));
}

/// Fills the cache; the regions accepted.
size_t fill(const ScratchDirectory& scratch) {
  Cached fixture(kGelu, with_cache(scratch.path));
  if (XC_HAVE_JIT) {
    run_until(fixture, EventKind::kAccepted);
    return fixture.log.count(EventKind::kAccepted);
  }
  // The interpreter is never faster: its verdict is changed afterwards, and the times with it, so
  // that nobody finds it slow.
  run_until(fixture, EventKind::kRejected);
  edit_profile(scratch, [](cache::ProfileRecord& record) {
    for (cache::RegionRecord& region : record.regions) {
      region.verdict = cache::Verdict::kAccepted;
      region.base_s = region.fused_s = 0;
      region.refusals = 0;
      region.banned_until_s = 0;
    }
  });
  return fixture.log.count(EventKind::kRejected);
}

}  // namespace

// First in its file: once per process.
TEST_CASE(
    "tiering/cache: the machine is measured with care after a first verdict, and that is kept") {
  if (calibrated_host_speed()) return;
  const ScratchDirectory scratch;
  fill(scratch);
  REQUIRE(calibrated_host_speed());
  REQUIRE(scratch.files("host-").size() == 1);
  const auto decoded = cache::decode(scratch.read(scratch.files("host-").at(0)));
  REQUIRE(decoded.entry);
  CHECK(decoded.entry->kind == cache::Kind::kHost);
  const auto record = cache::decode_host(decoded.entry->payload);
  REQUIRE(record);
  CHECK(record->figures.at("l3_bandwidth") == host_speed().l3_bandwidth);
  CHECK(record->figures.at("product_rate") == host_speed().product_rate);
}

TEST_CASE("tiering/cache: the next engine is fused from its first runs and compiles nothing") {
  const ScratchDirectory scratch;
  const size_t accepted = fill(scratch);
  REQUIRE(accepted >= 1);
  CHECK(scratch.files("object-").size() >= accepted);
  CHECK(scratch.files("profile-").size() == 1);
  CHECK(scratch.files("trying-").empty());

  const auto kept = cache::decode(scratch.read(scratch.files("profile-")[0]));
  REQUIRE(kept.entry);
  const auto record = cache::decode_profile(kept.entry->payload);
  REQUIRE(record);
  REQUIRE(record->shapes.size() == 1);
  CHECK(record->shapes[0].key == std::vector<int64_t>{2, kRows, 96, 1, 96});  // rank, dims
  CHECK(record->shapes[0].runs > 0);
  CHECK(record->regions.at(0).decided_on == record->shapes[0].key);

  Cached next(kGelu, with_cache(scratch.path));
  run_right(next);
  next.session->wait_idle(kLong);  // a slow build restores in the background
  for (int k = 0; k < 3; ++k) run_right(next);
  CHECK(live_regions(*next.session) == static_cast<int64_t>(accepted));
  CHECK(next.log.count(EventKind::kLoaded) == accepted);
  for (int k = 0; k < 500; ++k) run_right(next);
  next.session->wait_idle(kLong);
  CHECK(next.log.count(EventKind::kCompiled) == 0);
  CHECK(next.log.count(EventKind::kTrial) == 0);
  CHECK(next.log.count(EventKind::kCache) == 0);
  CHECK(next.session->profile().compiled_regions == 0);
  const std::string plan = next.session->explain({{kRows, 96}, {96}}, false);
  CHECK_MESSAGE(plan.find("fused") != std::string::npos, plan);
}

TEST_CASE("tiering/cache: mode freeze uses what the cache holds and adds nothing") {
  const ScratchDirectory scratch;
  const size_t accepted = fill(scratch);
  const auto before = scratch.files();
  Config config = with_cache(scratch.path);
  config.set_jit(JitMode::kFreeze);
  Cached frozen(kGelu, config);
  for (int k = 0; k < 50; ++k) run_right(frozen);
  CHECK(live_regions(*frozen.session) == static_cast<int64_t>(accepted));
  CHECK(frozen.log.count(EventKind::kCompiled) == 0);
  CHECK(scratch.files() == before);
}

TEST_CASE("tiering/cache: mode sync takes code from the cache and verifies it") {
  const ScratchDirectory scratch;
  Config config = with_cache(scratch.path);
  config.set_jit(JitMode::kSync);
  Cached first(kGelu, config);
  run_right(first);
  const size_t compiled = first.log.count(EventKind::kCompiled);
  REQUIRE(compiled >= 1);
  Cached second(kGelu, config);
  run_right(second);
  CHECK(second.log.count(EventKind::kCompiled) == 0);
  CHECK(second.log.count(EventKind::kLoaded) == compiled);
  CHECK(live_regions(*second.session) == live_regions(*first.session));
}

TEST_CASE("tiering/cache: a region rejected earlier is not tried again before its back-off ends") {
  const ScratchDirectory scratch;
  struct Slow final : Kernel {
    std::shared_ptr<Kernel> inner;
    std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
      struct Bound final : BoundKernel {
        std::shared_ptr<const BoundKernel> inner;
        void run(const StepArgs& args, int64_t begin, int64_t end) const override {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          inner->run(args, begin, end);
        }
      };
      auto bound = std::make_shared<Bound>();
      bound->inner = inner->bind(context);
      bound->tasks = bound->inner->tasks;
      bound->scratch_bytes = bound->inner->scratch_bytes;
      return bound;
    }
  };
  TierFaults faults;
  faults.wrap = [](const Region&, std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    auto slow = std::make_shared<Slow>();
    slow->inner = std::move(kernel);
    return slow;
  };
  Cached first(kGelu, with_cache(scratch.path), faults);
  run_until(first, EventKind::kRejected);
  REQUIRE(first.log.count(EventKind::kRejected) == 1);

  // Its back-off is a second or two: what the record says is made an hour, which the rule then
  // caps.
  edit_profile(scratch, [](cache::ProfileRecord& record) {
    REQUIRE(record.regions.size() == 1);
    CHECK(record.regions[0].verdict == cache::Verdict::kRejected);
    CHECK(record.regions[0].refusals == 1);
    record.regions[0].refusals = 6;
    record.regions[0].banned_until_s = std::time(nullptr) + 3600;
  });

  Cached next(kGelu, with_cache(scratch.path));
  for (int k = 0; k < 500; ++k) {
    run_right(next);
    if (k % 16 == 0) next.session->wait_idle(kLong);
  }
  const auto regions = next.session->profile().regions;
  REQUIRE(regions.size() >= 1);  // behind it its halves, which nothing is known of
  for (const Event& event : next.log.events)
    if (event.subject == regions[0].name)
      CHECK((event.kind != EventKind::kCompiled && event.kind != EventKind::kTrial));
  CHECK(regions[0].state == "banned");
  CHECK(regions[0].reason.find("earlier process") != std::string::npos);
}

TEST_CASE("tiering/cache: a process that dies in a kernel's first run leaves it poisoned") {
  const ScratchDirectory scratch;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct Deadly final : Kernel {
      std::shared_ptr<const BoundKernel> bind(const BindContext&) const override {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        return nullptr;
      }
    };
    TierFaults faults;
    faults.wrap = [](const Region&, std::shared_ptr<Kernel>) -> std::shared_ptr<Kernel> {
      return std::make_shared<Deadly>();
    };
    Config config = with_cache(scratch.path);
    config.set_jit(JitMode::kSync);
    Cached dies(kGelu, config, faults);
    dies.run(inputs());
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));

  Cached next(kGelu, with_cache(scratch.path));
  run_until(next, EventKind::kRefused);
  for (int k = 0; k < 200; ++k) run_right(next);
  CHECK(next.log.count(EventKind::kRefused) == 1);
  CHECK(next.log.last(EventKind::kRefused).find("ended while this code ran") != std::string::npos);
  CHECK(next.log.count(EventKind::kCompiled) == 0);
  CHECK(scratch.files("poison-").size() == 1);
}

TEST_CASE("tiering/cache: code that another process found wrong is not loaded") {
  const ScratchDirectory scratch;
  fill(scratch);
  REQUIRE(!scratch.files("object-").empty());
  for (const std::string& name : scratch.files("object-")) {
    const std::string bytes = scratch.read(name);
    const auto decoded = cache::decode(bytes);
    REQUIRE(decoded.entry);
    cache::Store(scratch.path, 1 << 30).condemn(decoded.entry->key, decoded.entry->subject);
    REQUIRE(scratch.files("poison-").size() >= 1);
    scratch.write(name, bytes);  // as one that wrote it at the same time may have
  }
  // The profile says that it is in use.
  Cached next(kGelu, with_cache(scratch.path));
  run_until(next, EventKind::kRefused);
  CHECK(next.log.count(EventKind::kLoaded) == 0);
  CHECK(next.log.count(EventKind::kCompiled) == 0);
  CHECK(next.log.last(EventKind::kRefused).find("found wrong") != std::string::npos);
  CHECK(live_regions(*next.session) == 0);
}

TEST_CASE("tiering/cache: a back-off that ended longer ago than numbers reach has ended") {
  const ScratchDirectory scratch;
  fill(scratch);
  edit_profile(scratch, [](cache::ProfileRecord& record) {
    for (cache::RegionRecord& region : record.regions) {
      region.verdict = cache::Verdict::kRejected;
      region.base_s = 1;
      region.fused_s = 2;
      region.refusals = 12;
      region.banned_until_s = INT64_MIN;
    }
  });
  TierFaults faults;
  faults.eager = true;
  Cached next(kGelu, with_cache(scratch.path), faults);
  run_until(next, EventKind::kTrial);
  CHECK(next.log.count(EventKind::kTrial) > 0);
}

TEST_CASE("tiering/cache: damaged entries are ignored with an event each, and replaced") {
  const ScratchDirectory scratch;
  const size_t accepted = fill(scratch);
  for (const bool cut : {true, false}) {
    for (const std::string& name : scratch.files()) {
      std::string bytes = scratch.read(name);
      if (cut)
        bytes.resize(bytes.size() / 2);
      else
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      scratch.write(name, bytes);
    }
    Cached next(kGelu, with_cache(scratch.path));
    run_until(next, kDecided);
    CHECK(next.log.count(EventKind::kCompiled) >= accepted);
    CHECK(next.log.count(EventKind::kCache) == 1 + next.log.count(EventKind::kCompiled));
    CHECK(next.log.last(EventKind::kCache).find("ignored: ") != std::string::npos);
    Config sync = with_cache(scratch.path);
    sync.set_jit(JitMode::kSync);
    Cached after(kGelu, sync);
    run_right(after);
    CHECK(after.log.count(EventKind::kLoaded) >= 1);
    CHECK(after.log.count(EventKind::kCache) == 0);
  }
}

TEST_CASE("tiering/cache: another build's or processor's entries are not found") {
  const ScratchDirectory scratch;
  fill(scratch);
  // As if a library had been rebuilt: the same payload under a key that differs in its build.
  std::string build;
  SUBCASE("the runtime") {
    build = "runtime ";
  }
  SUBCASE("the code generator") {
    build = "\ngenerator ";
  }
  for (const std::string& name : scratch.files("object-")) {
    auto decoded = cache::decode(scratch.read(name));
    REQUIRE(decoded.entry);
    const size_t at = decoded.entry->key.find(build);
    REQUIRE(at != std::string::npos);
    char& digit = decoded.entry->key[at + build.size()];
    digit = digit == '0' ? '1' : '0';
    scratch.write(name, cache::encode(*decoded.entry));  // sound, but not what its name says
  }
  Cached next(kGelu, with_cache(scratch.path));
  run_until(next, kDecided);
  CHECK(next.log.count(EventKind::kLoaded) == 0);
  CHECK(next.log.count(EventKind::kCompiled) >= 1);
  CHECK(next.log.count(EventKind::kCache) >= 1);
}

TEST_CASE("tiering/cache: a directory that is refused or cannot be written costs one event") {
  const ScratchDirectory scratch;
  SUBCASE("others can write it") {
    REQUIRE(chmod(scratch.path.c_str(), 0777) == 0);
  }
  SUBCASE("it is a file") {
    std::filesystem::remove_all(scratch.path);
    std::ofstream(scratch.path) << "x";
  }
  SUBCASE("the disk is full") {
    // The calls of opening the directory go through; every one that makes a file fails.
    cache::inject_failure(3, ENOSPC, true);
  }
  Cached fixture(kGelu, with_cache(scratch.path));
  run_until(fixture, kDecided);
  cache::inject_failure(-1, 0, false);
  for (int k = 0; k < 100; ++k) run_right(fixture);
  CHECK(fixture.log.count(kDecided) >= 1);
  CHECK(fixture.log.count(EventKind::kCache) >= 1);
  CHECK(fixture.log.count(EventKind::kCache) <= 3);
}

TEST_CASE("tiering/cache: whichever system call fails, results stay right") {
  for (int n = 0; n < 40; ++n) {
    const ScratchDirectory scratch;
    cache::inject_failure(n, EIO, false);
    Config config = with_cache(scratch.path + "/made");
    config.set_jit(JitMode::kSync);
    {
      Cached fixture(kGelu, config);
      run_right(fixture);
      CHECK(live_regions(*fixture.session) >= 1);
    }
    cache::inject_failure(-1, 0, false);
    Cached next(kGelu, config);
    run_right(next);
    CHECK(live_regions(*next.session) >= 1);
  }
}

TEST_CASE("tiering/cache: engines of several processes at once, and one destroyed at work") {
  const ScratchDirectory scratch;
  std::vector<pid_t> children;
  for (int k = 0; k < 3; ++k) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Cached fixture(kGelu, with_cache(scratch.path));
      // The others go on until there is something to load.
      const int64_t end = steady_ns() + 60'000'000'000;
      const auto more = [&] {
        return k != 0 && fixture.log.count(EventKind::kCompiled) == 0 && steady_ns() < end;
      };
      for (int run = 0; run < 400 || more(); ++run) {
        int64_t where = 0;
        if (!gelu_right(inputs(), fixture.run(inputs())[0], where)) _exit(1);
        if (run % 16 == 0 && k != 0) fixture.session->wait_idle(kLong);
      }
      if (k != 0) fixture.session->wait_idle(kLong);
      // Process 0 lets go of everything in the middle of whatever is going on.
      fixture.session.reset();
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const std::string& name : scratch.files())
    if (!name.starts_with("trying-") && !name.starts_with("tmp-"))
      CHECK_MESSAGE(cache::decode(scratch.read(name)).entry, name);
  Config sync = with_cache(scratch.path);
  sync.set_jit(JitMode::kSync);
  Cached next(kGelu, sync);
  run_right(next);
  CHECK(next.log.count(EventKind::kLoaded) >= 1);
}

TEST_CASE("tiering/cache: a model of the same structure with other weights has right results") {
  const ScratchDirectory scratch;
  const auto text = [](const char* weight) {
    return fmt::format(R"(graph scaled(%x: f32[n, 4]) -> (%y) {{
  const %w: f32[4] = [{}]
  %a = Mul(%x, %w)
  %b = Tanh(%a)
  %c = Mul(%b, %a)
  %y = Add(%c, %x)
}})",
                       weight);
  };
  Config config = with_cache(scratch.path);
  config.set_jit(JitMode::kSync);
  const std::vector<Tensor> x{ramp({64, 4}, 2, 0.3)};
  for (const auto& [weights, list] :
       {std::pair<const char*, std::array<double, 4>>{"0.5, 1, 2, 3", {0.5, 1, 2, 3}},
        std::pair<const char*, std::array<double, 4>>{"-1, 0, 4, 0.25", {-1, 0, 4, 0.25}}}) {
    Cached fixture(text(weights).c_str(), config);
    const Tensor y = fixture.run(x)[0];
    for (int64_t i = 0; i < y.count(); ++i) {
      const double v = x[0].as<float>()[i], a = v * list[static_cast<size_t>(i % 4)];
      CHECK(y.as<float>()[i] == doctest::Approx(std::tanh(a) * a + v).epsilon(1e-5));
    }
  }
}
