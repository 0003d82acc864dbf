// Labels: tsan
// A wrong kernel of each kind, planted behind the compiler, is found before a caller sees what it
// makes: one that writes outside, that is wrong at some sizes, alignments or values, or inaccurate.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "support.h"
#include "support/scratch.h"
#include "support/worst.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr const char* kChain = R"(graph chain(%x: f32[n, m], %b: f32[m]) -> (%y) {
  %t = Add(%x, %b)
  %u = Mul(%t, %x)
  %y = Tanh(%u)
})";

/// What a kernel that is being run looks like to what spoils it.
struct Seen {
  float* x;
  float* y;
  int64_t rows, count;  ///< of x and y
};
using Spoil = std::function<void(const Seen&)>;

/// Runs another kernel, then spoils what it made, or what it was given.
class Spoiled final : public Kernel {
 public:
  Spoiled(std::shared_ptr<Kernel> inner, size_t inputs, Spoil spoil)
      : inner_(std::move(inner)), inputs_(inputs), spoil_(std::move(spoil)) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    struct Bound final : BoundKernel {
      std::shared_ptr<const BoundKernel> inner;
      size_t x = 0, y = 0;
      int64_t rows = 0, count = 0;
      Spoil spoil;
      void run(const StepArgs& args, int64_t begin, int64_t end) const override {
        inner->run(args, begin, end);
        spoil({static_cast<float*>(args.buffers[x]), static_cast<float*>(args.buffers[y]), rows,
               count});
      }
    };
    auto bound = std::make_shared<Bound>();
    bound->inner = inner_->bind(context);
    bound->tasks = bound->inner->tasks;
    bound->scratch_bytes = bound->inner->scratch_bytes;
    bound->shared_bytes = bound->inner->shared_bytes;
    bound->spoil = spoil_;
    bound->y = inputs_;
    const auto& dims = context.outputs[0].dims;
    bound->rows = dims[0];
    bound->count = element_count(dims);
    for (size_t k = 0; k < context.inputs.size(); ++k)
      if (context.inputs[k].dims.size() == 2) bound->x = k;
    return bound;
  }

 private:
  std::shared_ptr<Kernel> inner_;
  size_t inputs_;
  Spoil spoil_;
};

TierFaults planted(Spoil spoil) {
  TierFaults faults;
  faults.wrap = [spoil = std::move(spoil)](
                    const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Spoiled>(std::move(kernel), region.inputs.size(), spoil);
  };
  return faults;
}

/// A kernel that is wrong in runs of so many rows, and is tried at once.
TierFaults wrong_at(const std::atomic<int64_t>& rows) {
  TierFaults faults = planted([&rows](const Seen& s) {
    if (s.rows == rows) s.y[0] += 0.25f;
  });
  faults.eager = true;
  return faults;
}

std::vector<Tensor> inputs_of(int64_t n, int64_t m) {
  return {ramp({n, m}, 3, 0.1), ramp({m}, 1, 0.7)};
}

/// Runs at a size in mode sync, where a kernel that passes verification is used at once.
void run_right(Fixture& fixture, int64_t n, int64_t m) {
  const std::vector<Tensor> in = inputs_of(n, m);
  const Tensor y = fixture.run(in)[0];
  int64_t wrong = 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    const double x = in[0].as<float>()[i];
    const double want = std::tanh((x + in[1].as<float>()[i % m]) * x);
    wrong += !(std::fabs(y.as<float>()[i] - want) <= 1e-5);
  }
  REQUIRE(wrong == 0);
}

Config in_sync() {
  Config config;
  config.set_jit(JitMode::kSync);
  return config;
}

/// The mismatch that is reported for a planted fault, after runs with right results.
std::string found(Spoil spoil) {
  Fixture fixture(kChain, in_sync(), planted(std::move(spoil)), create_interpreting_compiler());
  for (const int64_t n : {5, 1, 16}) run_right(fixture, n, 7);
  CHECK(fixture.log.count(EventKind::kMismatch) == 1);
  CHECK(fixture.session->profile().swapped == 0);
  return fixture.log.last(EventKind::kMismatch);
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tiering/verification: a right kernel passes, between fences and between guard pages") {
  for (const bool guard_pages : {false, true}) {
    TierFaults faults;
    faults.guard_pages = guard_pages;
    Fixture fixture(kChain, in_sync(), faults, create_interpreting_compiler());
    for (const int64_t n : {5, 1, 16}) run_right(fixture, n, 7);
    CHECK(fixture.log.count(EventKind::kMismatch) == 0);
    CHECK(fixture.session->profile().swapped == 1);
    const auto regions = fixture.session->profile().regions;
    REQUIRE(regions.size() == 1);
    CHECK(regions[0].worst_error > 0);
    CHECK(regions[0].worst_error < 0.1);
  }
}

TEST_CASE("tiering/verification: a kernel that writes outside of its operands") {
  const std::string behind = found([](const Seen& s) { s.y[s.count] = 1; });
  CHECK_MESSAGE(says(behind, "writes outside of output 0, byte 0 behind its end"), behind);
  const std::string before = found([](const Seen& s) { s.y[-2] = 1; });
  CHECK_MESSAGE(says(before, "writes outside of output 0, byte 5 before its start"), before);
  const std::string input = found([](const Seen& s) { s.x[s.count + 3] = 1; });
  CHECK_MESSAGE(says(input, "writes outside of input"), input);
  const std::string changed = found([](const Seen& s) { s.x[s.count / 2] += 1; });
  CHECK_MESSAGE(says(changed, "changes input"), changed);
}

TEST_CASE("tiering/verification: a kernel that is wrong only at the tail of a vector") {
  const std::string tail = found([](const Seen& s) {
    if (s.count % 16 == 1) s.y[s.count - 1] += 0.25f;
  });
  CHECK_MESSAGE(says(tail, "at element"), tail);
  const std::string unwritten = found([](const Seen& s) {
    if (s.rows == 33) s.y[s.count - 1] = std::numeric_limits<float>::quiet_NaN();
  });
  CHECK_MESSAGE(says(unwritten, "nan instead of"), unwritten);
}

TEST_CASE("tiering/verification: a kernel that is wrong only where operands are not aligned") {
  const std::string odd = found([](const Seen& s) {
    if (reinterpret_cast<uintptr_t>(s.y) % 64 != 0) s.y[0] += 0.25f;
  });
  CHECK_MESSAGE(says(odd, "not at multiples of 64 bytes"), odd);
  const std::string even = found([](const Seen& s) {
    if (reinterpret_cast<uintptr_t>(s.y) % 64 == 0) s.y[0] += 0.25f;
  });
  CHECK_MESSAGE(!says(even, "not at multiples of 64 bytes"), even);
}

TEST_CASE("tiering/verification: a kernel that loses NaN") {
  const std::string lost = found([](const Seen& s) {
    for (int64_t i = 0; i < s.count; ++i)
      if (std::isnan(s.y[i])) s.y[i] = 0;
  });
  CHECK_MESSAGE(says(lost, "0 instead of"), lost);
  // Infinity arrives as 1 here: a kernel that takes it for NaN.
  const std::string made = found([](const Seen& s) {
    for (int64_t i = 0; i < s.count; ++i)
      if (std::isinf(s.x[i])) s.y[i] = std::numeric_limits<float>::quiet_NaN();
  });
  CHECK_MESSAGE(says(made, "nan instead of"), made);
}

TEST_CASE("tiering/verification: a kernel for sizes of which a part is compared") {
  constexpr int64_t kRows = 5300, kColumns = 200;
  constexpr const char* kFixed = R"(graph chain(%x: f32[5300, 200], %b: f32[200]) -> (%y) {
  %t = Add(%x, %b)
  %u = Mul(%t, %x)
  %y = Tanh(%u)
})";
  const auto mismatch = [&](Spoil spoil) {
    Fixture fixture(kFixed, in_sync(), planted(std::move(spoil)), create_interpreting_compiler());
    run_right(fixture, kRows, kColumns);
    CHECK(fixture.log.count(EventKind::kMismatch) <= 1);
    CHECK(fixture.session->profile().swapped == 1 - fixture.log.count(EventKind::kMismatch));
    return fixture.log.last(EventKind::kMismatch);
  };
  CHECK(mismatch([](const Seen&) {}).empty());
  const auto at = [](const Seen& s, int64_t row) -> float& { return s.y[row * kColumns + 3]; };
  const std::string last = mismatch([&](const Seen& s) { at(s, kRows - 1) += 0.25f; });
  CHECK_MESSAGE(says(last, "at element"), last);
  // Any row of a tile, and what is left as it was anywhere.
  const std::string lane = mismatch([&](const Seen& s) {
    for (int64_t row = 21; row < kRows; row += 32) at(s, row) += 0.25f;
  });
  CHECK_MESSAGE(says(lane, "at element"), lane);
  const std::string unwritten =
      mismatch([&](const Seen& s) { std::memset(&at(s, 1200), 0xff, sizeof(float)); });
  CHECK_MESSAGE(says(unwritten, "does not write element 240003 of output 0"), unwritten);
}

TEST_CASE("tiering/verification: a kernel that loses infinity") {
  constexpr const char* kSquares = R"(graph squares(%x: f32[n, m], %b: f32[m]) -> (%y) {
  %t = Add(%x, %b)
  %u = Mul(%t, %t)
  %y = Mul(%u, %x)
})";
  Fixture fixture(kSquares, in_sync(), planted([](const Seen& s) {
                    for (int64_t i = 0; i < s.count; ++i)
                      if (std::isinf(s.y[i])) s.y[i] = std::copysign(1e30f, s.y[i]);
                  }),
                  create_interpreting_compiler());
  fixture.run(inputs_of(3, 5));
  CHECK(fixture.log.count(EventKind::kMismatch) == 1);
  CHECK_MESSAGE(says(fixture.log.last(EventKind::kMismatch), "inf"),
                fixture.log.last(EventKind::kMismatch));
}

TEST_CASE("tiering/verification: a kernel whose every element is a little off") {
  // Each within the bound of a single element.
  const std::string off = found([](const Seen& s) {
    for (int64_t i = 0; i < s.count; ++i) s.y[i] *= 1 + 4e-5f;
  });
  CHECK_MESSAGE(says(off, "times that of the operators it replaces"), off);
}

TEST_CASE("tiering/verification: rows whose sums cancel ban nothing right and hide nothing wrong") {
  const auto find = [](const char* op, const char* dims, const Dims& size, const Spoil& spoil) {
    const std::string text = fmt::format(R"(graph g(%x: f32[{}]) -> (%y) {{
  const %axis: i64[1] = [-1]
  %s = {}(%x, %axis)
  %y = Div(%x, %s)
}})",
                                         dims, op);
    Fixture fixture(text, in_sync(), spoil ? planted(spoil) : TierFaults{},
                    create_interpreting_compiler());
    Tensor x = ramp(size, 1, 0);
    for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] += 2;
    (void)fixture.run({x});
    CHECK(fixture.session->profile().swapped == (spoil ? 0 : 1));
    return fixture.log.last(EventKind::kMismatch);
  };
  const struct {
    const char* dims;
    Dims size;
  } shapes[] = {{"n, 19", {4, 19}}, {"n, 74", {4, 74}}, {"b, 3, s, t", {2, 3, 4, 5}}};
  for (const char* op : {"ReduceSum", "ReduceMean"})
    for (const auto& [dims, size] : shapes) {
      CAPTURE(dims);
      CHECK(find(op, dims, size, nullptr) == "");
      const std::vector<Spoil> spoils{
          [](const Seen& s) { s.y[s.count - 1] *= 1.001f; },
          [](const Seen& s) { s.y[0] += 0.01f * std::fabs(s.y[0]) + 1; },
          [](const Seen& s) {
            for (int64_t i = 0; i < s.count; ++i) s.y[i] *= 1 + 4e-5f;
          },
          [](const Seen& s) {  // the last element was not added up
            const int64_t n = s.count / s.rows;
            for (int64_t i = 0; i < s.count; ++i)
              s.y[i] /= 1 - s.y[i / n * n + n - 1] / static_cast<float>(n);
          },
      };
      for (const Spoil& spoil : spoils) CHECK(find(op, dims, size, spoil) != "");
    }
}

TEST_CASE("tiering/verification: results quadratic in the inputs bound the sizes that are tried") {
  // Of n * n elements every pair: all of them stored, and their sums.
  for (const bool stored : {true, false}) {
    const std::string text =
        fmt::format(R"(graph pairs(%x: f32[n, n]) -> (%y) {{
  const %down: i64[2] = [-1, 1]
  const %along: i64[2] = [1, -1]
  const %axis: i64[1] = [-1]
  %f = Reshape(%x, %down)
  %g = Reshape(%x, %along)
  %m = Mul(%f, %g)
  {}
}})",
                    stored ? "%y = Tanh(%m)" : "%t = Tanh(%m)\n  %y = ReduceSum(%t, %axis)");
    int64_t most = 0;
    Fixture fixture(text, in_sync(),
                    planted([&](const Seen& s) { most = std::max(most, s.count); }),
                    create_interpreting_compiler());
    (void)fixture.run({ramp({4, 4}, 1, 0.1)});
    CHECK(fixture.session->profile().swapped == 1);
    CHECK(most == (stored ? 1 << 16 : 1 << 8));  // n = 16
  }
}

TEST_CASE(
    "tiering/verification: a live run is not compared where much lies between small operands") {
  constexpr const char* kPairs = R"(graph pairs(%x: f32[n]) -> (%y) {
  const %down: i64[2] = [-1, 1]
  const %axis: i64[1] = [-1]
  %f = Reshape(%x, %down)
  %m = Mul(%f, %x)
  %t = Abs(%m)
  %y = ReduceSum(%t, %axis)
})";
  for (const int64_t n : {256, 2100}) {
    TierFaults faults;
    faults.eager = true;
    Fixture fixture(kPairs, {}, faults, create_interpreting_compiler());
    const int64_t end = steady_ns() + 60'000'000'000;
    while (fixture.log.count(EventKind::kVerified) == 0 && steady_ns() < end) {
      (void)fixture.run({ramp({n}, 1, 0.1)});
      fixture.session->wait_idle(std::chrono::milliseconds(1000));
    }
    CHECK(fixture.log.last(EventKind::kVerified) ==
          (n == 256 ? "on made-up inputs and one live run" : "on made-up inputs"));
  }
}

TEST_CASE("tiering/verification: fast functions pass, what is further off does not") {
  Config config = in_sync();
  config.numerics = 1;
  const std::vector<Tensor> in = inputs_of(16, 7);
  const auto worst = [&](Fixture& fixture) {
    const Tensor y = fixture.run(in)[0];
    double largest = 0;
    for (int64_t i = 0; i < y.count(); ++i) {
      const double x = in[0].as<float>()[i];
      const double want = std::tanh((x + in[1].as<float>()[i % 7]) * x);
      largest = test::worst_of(largest, std::fabs(y.as<float>()[i] - want) / std::fabs(want));
    }
    return largest;
  };
  {
    Fixture fixture(kChain, config, {}, create_interpreting_compiler());
    const double fast = worst(fixture);
    CHECK(fixture.session->profile().swapped == 1);
    CHECK(fixture.log.count(EventKind::kMismatch) == 0);
    CHECK(fast > 1e-6);  // fewer terms than the other modes
    CHECK(fast <= 0x1p-11 + 1e-6);
  }
  const std::vector<Spoil> spoils{
      [](const Seen& s) {
        for (int64_t i = 0; i < s.count; ++i) s.y[i] *= 1.02f;
      },
      [](const Seen& s) { s.y[s.count - 1] = -s.y[s.count - 1]; },
      [](const Seen& s) {
        for (int64_t i = 0; i < s.count; ++i) s.y[i] = std::tanh(s.x[i]);
      },
  };
  for (const Spoil& spoil : spoils) {
    Fixture fixture(kChain, config, planted(spoil), create_interpreting_compiler());
    CHECK(worst(fixture) <= 1e-5);  // the operators' own kernels
    CHECK(fixture.log.count(EventKind::kMismatch) == 1);
    CHECK(fixture.session->profile().swapped == 0);
  }
}

TEST_CASE("tiering/verification: guard pages stop a kernel that reads outside") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    TierFaults faults = planted([](const Seen& s) {
      volatile const float* beyond = s.x + s.count;
      (void)*beyond;
    });
    faults.guard_pages = true;
    Fixture fixture(kChain, in_sync(), faults, create_interpreting_compiler());
    fixture.run(inputs_of(5, 7));
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("tiering/verification: a kernel for sizes that the model fixes, however large") {
  // More than is copied of a live run's inputs.
  constexpr const char* kFixed = R"(graph fixed(%x: f32[700, 512], %b: f32[512]) -> (%y) {
  %t = Add(%x, %b)
  %u = Mul(%t, %x)
  %y = Tanh(%u)
})";
  for (const bool wrong : {false, true}) {
    TierFaults faults = planted([wrong](const Seen& s) {
      if (wrong) s.y[s.count - 1] += 0.01f;
    });
    Fixture fixture(kFixed, in_sync(), faults, create_interpreting_compiler());
    run_right(fixture, 700, 512);
    CHECK(fixture.log.count(EventKind::kMismatch) == (wrong ? 1 : 0));
    CHECK(fixture.session->profile().swapped == (wrong ? 0 : 1));
  }
}

TEST_CASE("tiering/verification: what a live run's inputs alone show is found in mode auto") {
  std::atomic<int64_t> wrong_rows{0};
  Fixture fixture(kChain, {}, wrong_at(wrong_rows), create_interpreting_compiler());
  wrong_rows = 40;  // no made-up size
  const int64_t end = steady_ns() + 60'000'000'000;
  while (fixture.log.count(EventKind::kMismatch) == 0 && steady_ns() < end) {
    run_right(fixture, 40, 7);
    fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kMismatch) == 1);
  CHECK_MESSAGE(says(fixture.log.last(EventKind::kMismatch), "on a live run's inputs"),
                fixture.log.last(EventKind::kMismatch));
  CHECK(fixture.session->profile().swapped == 0);
}

TEST_CASE("tiering/verification: a live run without any element shows nothing") {
  std::atomic<int64_t> wrong_rows{0};
  Fixture fixture(kChain, {}, wrong_at(wrong_rows), create_interpreting_compiler());
  wrong_rows = 40;  // no made-up size
  const int64_t end = steady_ns() + 60'000'000'000;
  const auto run_until = [&](EventKind kind) {
    while (fixture.log.count(kind) == 0 && fixture.log.count(EventKind::kVerified) == 0 &&
           steady_ns() < end) {
      run_right(fixture, 40, 7);
      fixture.session->wait_idle(std::chrono::milliseconds(1000));
    }
  };
  run_until(EventKind::kCompiled);
  run_right(fixture, 0, 7);
  fixture.session->wait_idle(std::chrono::milliseconds(1000));
  run_until(EventKind::kMismatch);
  CHECK(fixture.log.count(EventKind::kVerified) == 0);
  CHECK_MESSAGE(says(fixture.log.last(EventKind::kMismatch), "on a live run's inputs"),
                fixture.log.last(EventKind::kMismatch));
}

TEST_CASE("tiering/verification: code that a live run shows to be wrong is nobody's any more") {
  constexpr float kOdd = 1.2346f;  // no made-up value
  /// Makes code of kChain that is wrong where x begins with kOdd.
  struct WrongAtOdd final : RegionCompiler {
    struct Code final : PhaseCode {
      explicit Code(std::shared_ptr<const PhaseCode> code) : inner(std::move(code)) {}
      int32_t run(const xc_kargs& args) const override {
        const int32_t status = inner->run(args);
        if (static_cast<const float*>(args.buffers[0])[0] == kOdd)
          static_cast<float*>(args.buffers[2])[0] += 0.25f;
        return status;
      }
      int64_t code_bytes() const override { return inner->code_bytes(); }
      CodeImage image() const override { return inner->image(); }
      std::shared_ptr<const PhaseCode> inner;
    };
    std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
      return std::make_shared<Code>(inner->compile(kernel));
    }
    std::shared_ptr<const PhaseCode> place(const CodeImage& image) override {
      return std::make_shared<Code>(inner->place(image));
    }
    std::string identity() const override { return inner->identity(); }
    std::unique_ptr<RegionCompiler> inner = create_interpreting_compiler();
  };
  std::vector<Tensor> in{ramp({8, 7}, 3, 0.1), ramp({7}, 1, 0.7)};
  in[0].as<float>()[0] = kOdd;
  const auto right = [&](Session& session) {
    const Tensor y = testing::run(session, in)[0];
    double worst = 0;
    for (int64_t i = 0; i < y.count(); ++i) {
      const double x = in[0].as<float>()[i], b = in[1].as<float>()[i % 7];
      worst = std::max(worst, std::fabs(y.as<float>()[i] - std::tanh((x + b) * x)));
    }
    return worst < 1e-5;
  };
  const ScratchDirectory scratch;
  Config config, sync = in_sync();
  config.cache_dir = sync.cache_dir = scratch.path;
  TierFaults faults;
  faults.eager = true;
  {
    Fixture fixture(kChain, config, faults, std::make_unique<WrongAtOdd>());
    const int64_t end = steady_ns() + 60'000'000'000;
    while (fixture.log.count(EventKind::kMismatch) == 0 && steady_ns() < end) {
      CHECK(right(*fixture.session));
      fixture.session->wait_idle(std::chrono::milliseconds(1000));
    }
    REQUIRE(says(fixture.log.last(EventKind::kMismatch), "on a live run's inputs"));
    CHECK(scratch.files("object-").empty());
    CHECK(scratch.files("poison-").size() == 1);
    Session other(Model::create(fixture.session->model().engine(), parse_graph(kChain)), in_sync());
    CHECK(right(other));
    CHECK(other.profile().regions.at(0).state == "banned");
  }
  for (const std::string& name : scratch.files("profile-"))
    std::filesystem::remove(scratch.path + "/" + name);
  Fixture next(kChain, sync, faults, std::make_unique<WrongAtOdd>());
  CHECK(right(*next.session));
  CHECK(next.log.count(EventKind::kLoaded) == 0);
}

TEST_CASE("tiering/verification: a kernel whose results have elements at large sizes only") {
  for (const int64_t from : {100, 5000})
    for (const bool wrong : {false, true}) {
      TierFaults faults = planted([wrong](const Seen& s) {
        if (wrong && s.count > 0) s.y[0] += 0.25f;
      });
      const std::string text = fmt::format(R"(graph cut(%x: f32[n, 3]) -> (%y) {{
  const %from: i64[1] = [{}]
  const %to: i64[1] = [9223372036854775807]
  const %axis: i64[1] = [0]
  %s = Slice(%x, %from, %to, %axis)
  %t = Mul(%s, %s)
  %y = Tanh(%t)
}})",
                                           from);
      Fixture fixture(text, in_sync(), std::move(faults), create_interpreting_compiler());
      const Tensor x = ramp({from + 40, 3}, 2, 0.3);
      const Tensor y = fixture.run({x})[0];
      REQUIRE(y.count() == 40 * 3);
      for (int64_t i = 0; i < y.count(); ++i) {
        const double v = x.as<float>()[from * 3 + i];
        CHECK(y.as<float>()[i] == doctest::Approx(std::tanh(v * v)).epsilon(1e-5));
      }
      CHECK(fixture.log.count(EventKind::kMismatch) == (wrong ? 1 : 0));
      CHECK(fixture.session->profile().swapped == (wrong ? 0 : 1));
    }
}

TEST_CASE("tiering/verification: a kernel comes into use while no size comes twice") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  int64_t rows = 0;
  const int64_t end = steady_ns() + 20'000'000'000;
  const auto run_until = [&](EventKind kind) {
    while (fixture.log.count(kind) == 0 && rows < 4000 && steady_ns() < end) {
      const std::vector<Tensor> in{ramp({++rows, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
      int64_t where = 0;
      REQUIRE(gelu_right(in, fixture.run(in)[0], where));
      fixture.session->wait_idle(std::chrono::milliseconds(1000));
    }
    return fixture.log.count(kind) > 0;
  };
  CHECK(run_until(EventKind::kCompiled));
  CHECK(run_until(EventKind::kVerified));
  CHECK(fixture.log.last(EventKind::kVerified).find("one live run") != std::string::npos);
  CHECK(run_until(EventKind::kAccepted));
}
