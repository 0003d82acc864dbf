// Outputs in the memory of inputs: states that a host keeps in one place. A run gives what it gives
// with memory apart, whichever plan it takes. Labels: tsan
#include <doctest/doctest.h>

#include <cstring>

#include "runtime/tensor_handle.h"
#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

struct State {
  const char* name;
  const char* graph;
  /// Of the states, which come first among inputs and outputs, then of the other inputs.
  std::vector<Dims> states, others;
  /// Elements of the other inputs are indices below this; 0 = they are numbers.
  int64_t indices = 0;
};

const State kStates[] = {
    {"a filter",
     R"(graph g(%s: f32[n], %x: f32[n]) -> (%t, %y) {
  const %a: f32[] = 0.9
  %d = Mul(%s, %a)
  %t = Add(%d, %x)
  %y = Tanh(%t)
})",
     {{300}},
     {{300}}},
    {"an old state that is read behind the new one",
     R"(graph g(%s: f32[n], %x: f32[n]) -> (%t, %y) {
  %t = Add(%s, %x)
  %e = Exp(%t)
  %y = Div(%s, %e)
})",
     {{300}},
     {{300}}},
    {"states that change places",
     R"(graph g(%a: f32[n], %b: f32[n], %x: f32[n]) -> (%c, %d) {
  %c = Sub(%b, %x)
  %d = Add(%a, %x)
})",
     {{200}, {200}},
     {{200}}},
    {"a state that is handed on",
     R"(graph g(%a: f32[n], %b: f32[n], %x: f32[n]) -> (%c, %d) {
  %c = Identity(%b)
  %e = Mul(%a, %x)
  %d = Sub(%e, %b)
})",
     {{200}, {200}},
     {{200}}},
    {"a matrix that is turned",
     R"(graph g(%s: f32[24, 24], %x: f32[24, 24]) -> (%t) {
  %p = Transpose(%s) {perm = [1, 0]}
  %t = Add(%p, %x)
})",
     {{24, 24}},
     {{24, 24}}},
    {"a recurrent cell",
     R"(graph g(%h: f32[3, 32], %x: f32[3, 32]) -> (%k, %y) {
  const %w: f32[32, 32] = splat 0.03125
  %m = MatMul(%h, %w)
  %s = Add(%m, %x)
  %k = Tanh(%s)
  const %axes: i64[1] = [1]
  %y = ReduceMean(%k, %axes) {keepdims = 0}
})",
     {{3, 32}},
     {{3, 32}}},
    {"sums at indices",
     R"(graph g(%s: f32[50, 7], %x: f32[9, 7], %i: f32[9, 7]) -> (%t, %y) {
  %j = Cast(%i) {to = 7}
  %t = ScatterElements(%s, %j, %x) {axis = 0, reduction = "add"}
  %y = Softmax(%t) {axis = -1}
})",
     {{50, 7}},
     {{9, 7}, {9, 7}},
     50},
};

/// Numbers that differ from run to run; indices.
Tensor given(const Dims& dims, int64_t below, int64_t run) {
  Tensor t = ramp(dims, 1, 0.1 * static_cast<double>(run));
  for (int64_t i = 0; below > 0 && i < t.count(); ++i)
    t.as<float>()[i] = static_cast<float>((i * 7 + run) % below);
  return t;
}

Config config_of(JitMode mode, int64_t threads) {
  Config config = config_in(mode);
  config.threads = threads;
  return config;
}

/// Runs on states that stay in their memory, `results` in memory of the session.
struct Host {
  std::shared_ptr<Session> session;
  std::vector<xc_tensor*> states;
  explicit Host(std::shared_ptr<Session> of, const std::vector<Tensor>& first)
      : session(std::move(of)) {
    for (const Tensor& t : first) {
      states.push_back(new xc_tensor);
      states.back()->tensor = t.clone();
    }
  }
  ~Host() {
    for (xc_tensor* state : states) state->release();
  }
  std::vector<Tensor> step(const std::vector<Tensor>& others) {
    std::vector<TensorView> views;
    for (xc_tensor* state : states) views.push_back(state->tensor.view());
    for (const Tensor& t : others) views.push_back(t.view());
    std::vector<xc_tensor*> slots(session->model().outputs().size(), nullptr);
    std::copy(states.begin(), states.end(), slots.begin());
    session->run(views, slots, {});
    std::vector<Tensor> out;
    for (size_t k = 0; k < slots.size(); ++k) {
      out.push_back(slots[k]->tensor.clone());
      if (k >= states.size()) slots[k]->release();
    }
    return out;
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.byte_size())) == 0;
}

/// Runs with states in one place, and of another session with states apart, one behind the other.
/// `exact`: both have the same kernels.
void compare(const State& state, const Config& config, const Config& other, int64_t runs,
             bool exact) {
  std::vector<Tensor> apart;
  for (const Dims& dims : state.states) apart.push_back(ramp(dims, 0.5, 1));
  Host host(session_of(state.graph, config), apart);
  const auto session = session_of(state.graph, other);
  for (int64_t n = 0; n < runs; ++n) {
    std::vector<Tensor> others;
    for (size_t k = 0; k < state.others.size(); ++k)
      others.push_back(given(state.others[k], k == 1 ? state.indices : 0, n));
    std::vector<Tensor> inputs = apart;
    inputs.insert(inputs.end(), others.begin(), others.end());
    const std::vector<Tensor> want = run(*session, inputs), got = host.step(others);
    REQUIRE(got.size() == want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      if (exact) REQUIRE(same_bits(want[k], got[k]));
      const auto a = want[k].to_doubles(), b = got[k].to_doubles();
      REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) REQUIRE(b[i] == doctest::Approx(a[i]).epsilon(1e-4));
    }
    for (size_t k = 0; k < apart.size(); ++k) apart[k] = got[k];
  }
}

}  // namespace

TEST_CASE("tiering/shared_memory: states in one place are what they are in two") {
  for (const State& state : kStates)
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kAuto})
      for (const int64_t threads : {1, 2}) {
        CAPTURE(state.name);
        CAPTURE(static_cast<int>(mode));
        CAPTURE(threads);
        const Config config = config_of(mode, threads);
        const bool swaps = mode == JitMode::kAuto;  // when either session will
        compare(state, config, config, swaps ? 300 : 20, !swaps);
      }
}

TEST_CASE("tiering/shared_memory: plans that take turns") {
  Config config = config_of(JitMode::kSync, 2);
  config.force_swap = 1;
  for (const State& state : kStates) {
    CAPTURE(state.name);
    compare(state, config, config_of(JitMode::kOff, 1), 60, false);
  }
}

TEST_CASE("tiering/shared_memory: a copy that the plan needs counts as memory") {
  // The old state is read behind the new one, so it is copied: 4 MB, beside 8 of the run's.
  const std::string text = R"(graph g(%s: f32[1048576]) -> (%t, %y) {
  %t = Exp(%s)
  %p = Mul(%s, %t)
  %y = ReduceMax(%p) {keepdims = 1}
})";
  for (const int64_t megabytes : {10, 16}) {
    CAPTURE(megabytes);
    Config config = config_of(JitMode::kOff, 1);
    config.max_memory_bytes = megabytes << 20;
    const auto session = session_of(text, config);
    const Tensor before = ramp({1 << 20}, 1, 0);
    const std::vector<Tensor> want = run(*session, {before});
    Host host(session, {before});
    if (megabytes == 10) {
      CHECK_THROWS_AS(host.step({}), Error);
      CHECK(same_bits(host.states[0]->tensor, before));
      continue;
    }
    const std::vector<Tensor> got = host.step({});
    CHECK(same_bits(got[0], want[0]));
    CHECK(same_bits(got[1], want[1]));
  }
}

TEST_CASE("tiering/shared_memory: the state of a loop, read again behind its update") {
  // s[i % 5] += i, twice what was there; y sums what the old state had at 2.
  const std::string text = R"(graph g(%m: i64[], %s: f32[5, 3]) -> (%t, %y) {
  const %go: bool[] = true
  const %zero: f32[] = 0.0
  %t, %y = Loop(%m, %go, %s, %zero) captures 0 (
    graph b(%i: i64[], %c: bool[], %a: f32[5, 3], %q: f32[]) -> (%c2, %b, %r) {
      const %five: i64[] = 5
      const %at: i64[2] = [1, 1]
      const %two: i64[] = 2
      const %axis: i64[1] = [0]
      %c2 = Identity(%c)
      %k = Mod(%i, %five)
      %j = Reshape(%k, %at)
      %f = Cast(%i) {to = 1}
      const %wide: i64[2] = [1, 3]
      %u = Expand(%f, %wide)
      %b = ScatterND(%a, %j, %u) {reduction = "add"}
      READ
      %p = ReduceSum(%row) {keepdims = 0}
      %r = Add(%q, %p)
    })
})";
  for (const std::string read :
       {"%row = Gather(%a, %two) {axis = 0}", "%row = Gather(%b, %two) {axis = 0}"})
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kAuto}) {
      CAPTURE(read);
      CAPTURE(static_cast<int>(mode));
      std::string graph = text;
      graph.replace(graph.find("READ"), 4, read);
      const auto session = session_of(graph, config_of(mode, 1));
      for (const int64_t trips : {0, 1, 2, 3, 17, 400}) {
        CAPTURE(trips);
        const Tensor first = ramp({5, 3}, 1, 0.3);
        std::vector<double> s = first.to_doubles();
        double y = 0;
        for (int64_t i = 0; i < trips; ++i) {
          const std::vector<double> old = s;
          for (size_t k = 0; k < 3; ++k)
            s[static_cast<size_t>(i % 5) * 3 + k] += static_cast<double>(i);
          const auto& seen = read.find("%a") != std::string::npos ? old : s;
          y += seen[6] + seen[7] + seen[8];
        }
        const auto got = run(*session, {Tensor::scalar<int64_t>(trips), first});
        for (size_t i = 0; i < s.size(); ++i)
          CHECK(got[0].as<float>()[i] == doctest::Approx(s[i]).epsilon(1e-4));
        CHECK(got[1].as<float>()[0] == doctest::Approx(y).epsilon(1e-4));
        CHECK(same_bits(first, ramp({5, 3}, 1, 0.3)));
      }
    }
}

TEST_CASE("tiering/shared_memory: a cache of keys and values that is as long as it will be") {
  // Tokens one after the other, with caches in one place, against caches that the runs return.
  const std::string text =
      R"(graph g(%x: f32[1, 1, 64], %kc: f32[1, 2, p, 16], %vc: f32[1, 2, p, 16], %last: i32[1], %total: i32[]) -> (%ka, %va, %y) {
  %k, %v = Split(%x) {axis = 2, num_outputs = 2}
  %y, %ka, %va = com.microsoft::GroupQueryAttention(%x, %k, %v, %kc, %vc, %last, %total) {num_heads = 4, kv_num_heads = 2}
})";
  constexpr int64_t kTokens = 24;
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
    for (const int64_t threads : {1, 2}) {
      const auto session = session_of(text, config_of(mode, threads)),
                 other = session_of(text, config_of(mode, threads));
      const Tensor none(DType::kF32, {1, 2, 0, 16});
      std::vector<Tensor> grown{none, none};
      std::vector<xc_tensor*> caches;
      for (int k = 0; k < 2; ++k) {
        caches.push_back(new xc_tensor);
        caches.back()->tensor = ramp({1, 2, kTokens, 16}, 100, 0);  // what is behind does not count
      }
      for (int64_t token = 0; token < kTokens; ++token) {
        CAPTURE(token);
        const Tensor x = ramp({1, 1, 64}, 1, 0.2 * static_cast<double>(token));
        const Tensor last = Tensor::of<int32_t>({static_cast<int32_t>(token)});
        const Tensor total = Tensor::scalar<int32_t>(static_cast<int32_t>(token + 1));
        const auto want = run(*other, {x, grown[0], grown[1], last, total});
        grown = {want[0], want[1]};
        const TensorView views[] = {x.view(), caches[0]->tensor.view(), caches[1]->tensor.view(),
                                    last.view(), total.view()};
        xc_tensor* slots[3] = {caches[0], caches[1], nullptr};
        session->run(views, slots, {});
        const auto a = want[2].to_doubles(), b = slots[2]->tensor.to_doubles();
        for (size_t i = 0; i < a.size(); ++i) CHECK(b[i] == doctest::Approx(a[i]).epsilon(1e-4));
        slots[2]->release();
      }
      for (size_t k = 0; k < 2; ++k) CHECK(same_bits(grown[k], caches[k]->tensor));
      for (xc_tensor* cache : caches) cache->release();
    }
}
