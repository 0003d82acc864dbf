// Regions that read through index maps: what Gather, Concat and Pad pick, on every instruction set,
// in every mode, at every size, and what bad indices do.
#include <array>
#include <numeric>
#include <tuple>

#include "base/cpu_info.h"
#include "ops/infer.h"
#include "support.h"
#include "support/evaluate.h"

namespace {

using namespace xc;
using namespace xc::testing;

Config config_of(JitMode mode, int64_t isa = 0) {
  Config config;
  config.threads = 1;
  config.rules = 1;  // off: the graphs stay as written
  config.jit = static_cast<int64_t>(mode);
  config.isa = isa;
  return config;
}

int64_t targets() {
#if XC_HAVE_JIT
  return static_cast<int64_t>(cpu_info().isa) + 1;  // Config::isa: 1 = baseline, ...
#else
  return 1;
#endif
}

/// Runs a session and requires that all of its nodes are one live region.
void check_one_region(Session& session) {
  INFO(session.explain({}, false));
  REQUIRE(session.profile().regions.size() == 1);
  CHECK(session.profile().regions[0].state == "live");
}

Tensor indices(DType type, const Dims& dims, int64_t low, int64_t high, int64_t step) {
  Tensor out(type, dims);
  for (int64_t i = 0; i < out.count(); ++i)
    store_int64(out.data(), type, i, low + (i * step) % (high - low));
  return out;
}

double at(const Tensor& t, int64_t i) {
  return load_double(t.data(), t.dtype(), i);
}

constexpr const char* kEmbeddings = R"(graph g(%ids: i64[b, s], %kinds: i32[b, s],
    %words: f32[50, 40], %types: f32[2, 40], %places: f32[64, 40], %at: i64[1, s], %g: f32[40],
    %c: f32[40]) -> (%y) {
  %w = Gather(%words, %ids) {axis = 0}
  %t = Gather(%types, %kinds) {axis = 0}
  %p = Gather(%places, %at) {axis = 0}
  %u = Add(%w, %t)
  %v = Add(%u, %p)
  %y = LayerNormalization(%v, %g, %c) {axis = -1}
})";

std::vector<Tensor> embedding_inputs(int64_t b, int64_t s) {
  return {indices(DType::kI64, {b, s}, -50, 50, 7),
          indices(DType::kI32, {b, s}, -2, 2, 3),
          ramp({50, 40}, 2, 0.1),
          ramp({2, 40}, 1, 0.3),
          ramp({64, 40}, 1, 0.9),
          indices(DType::kI64, {1, s}, 0, 64, 1),
          ramp({40}, 1, 0.2),
          ramp({40}, 1, 0.4)};
}

void check_embeddings(const std::vector<Tensor>& in, const Tensor& y) {
  const int64_t b = in[0].dims()[0], s = in[0].dims()[1];
  REQUIRE(y.dims() == Dims{b, s, 40});
  const auto row = [](const Tensor& table, int64_t index) {
    return (index < 0 ? index + table.dims()[0] : index) * 40;
  };
  for (int64_t i = 0; i < b * s; ++i) {
    std::vector<double> v(40);
    for (int64_t j = 0; j < 40; ++j)
      v[static_cast<size_t>(j)] = at(in[2], row(in[2], static_cast<int64_t>(at(in[0], i))) + j) +
                                  at(in[3], row(in[3], static_cast<int64_t>(at(in[1], i))) + j) +
                                  at(in[4], row(in[4], static_cast<int64_t>(at(in[5], i % s))) + j);
    const double mean = std::accumulate(v.begin(), v.end(), 0.0) / 40;
    double variance = 0;
    for (double x : v) variance += (x - mean) * (x - mean) / 40;
    for (int64_t j = 0; j < 40; ++j) {
      const double want =
          (v[static_cast<size_t>(j)] - mean) / std::sqrt(variance + 1e-5) * at(in[6], j) +
          at(in[7], j);
      REQUIRE(std::fabs(at(y, i * 40 + j) - want) <= 1e-4 * std::fabs(want) + 1e-5);
    }
  }
}

/// Rewrites what it compiles.
class WrongCompiler final : public RegionCompiler {
 public:
  using Rewrite = std::function<loop::Expr(const loop::Expr&)>;
  explicit WrongCompiler(Rewrite rewrite) : rewrite_(std::move(rewrite)) {}
  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    loop::Kernel wrong = kernel;
    wrong.body = loop::rewrite_exprs(kernel.body, rewrite_);
    return inner_->compile(wrong);
  }

 private:
  Rewrite rewrite_;
  std::unique_ptr<RegionCompiler> inner_ = create_interpreting_compiler();
};

/// Picks the neighbour of what it should.
loop::Expr pick_beside(const loop::Expr& e) {
  if (e->op != loop::Op::kLoad) return e;
  loop::Node node = *e;
  for (loop::Index& index : node.indices)
    if (!index.is_affine()) index.checked = loop::mod(index.checked + loop::i64(1), index.extent);
  return loop::Expr(std::make_shared<const loop::Node>(std::move(node)));
}

/// Reads a part where nothing is, and the other way round.
loop::Expr swap_arms(const loop::Expr& e) {
  return e->op == loop::Op::kSelect ? loop::select(e->args[0], e->args[2], e->args[1]) : e;
}

constexpr const char* kPicked = R"(graph g(%x: f32[n, 5], %i: i64[n]) -> (%y) {
  %a = Gather(%x, %i) {axis = 0}
  %y = Exp(%a)
})";
constexpr const char* kPadded = R"(graph g(%x: f32[n, 5]) -> (%y) {
  const %pads: i64[4] = [0, 2, 0, 3]
  const %low: f32[] = -3
  %p = Pad(%x, %pads, %low)
  %y = Exp(%p)
})";

std::vector<Tensor> inputs_of(const char* text) {
  std::vector<Tensor> in{ramp({7, 5}, 2, 0.1)};
  if (text == kPicked) in.push_back(indices(DType::kI64, {7}, -7, 7, 3));
  return in;
}

Tensor expected_of(const char* text, const std::vector<Tensor>& in) {
  const int64_t columns = text == kPicked ? 5 : 10;
  Tensor out(DType::kF32, {7, columns});
  for (int64_t r = 0; r < 7; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      const double x = text == kPicked
                           ? at(in[0], (static_cast<int64_t>(at(in[1], r)) + 7) % 7 * 5 + j)
                       : j < 2 || j >= 7 ? -3
                                         : at(in[0], r * 5 + j - 2);
      store_double(out.data(), DType::kF32, r * columns + j, std::exp(x));
    }
  return out;
}

}  // namespace

TEST_CASE("tiering/index_map: a wrong map is seen, and verification keeps it out") {
  const struct {
    const char* text;
    WrongCompiler::Rewrite fault;
  } cases[] = {{kPicked, pick_beside}, {kPadded, swap_arms}};
  for (const auto& [text, fault] : cases) {
    CAPTURE(text);
    const auto in = inputs_of(text);
    const Tensor want = expected_of(text, in);
    for (const bool verified : {false, true}) {
      CAPTURE(verified);
      TierFaults faults;
      faults.unverified = !verified;
      Fixture fixture(text, config_of(JitMode::kSync), faults,
                      std::make_unique<WrongCompiler>(fault));
      const Tensor have = fixture.run(in)[0];
      CHECK((test::difference({have}, {want}, 1e-5) == "") == verified);
      CHECK(fixture.log.count(EventKind::kMismatch) == verified);
    }
    // Without a fault the same compiler gives what is right.
    Fixture right(text, config_of(JitMode::kSync), {},
                  std::make_unique<WrongCompiler>([](const loop::Expr& e) { return e; }));
    CHECK(test::difference({right.run(in)[0]}, {want}, 1e-5) == "");
    CHECK(right.log.count(EventKind::kMismatch) == 0);
  }
}

TEST_CASE("tiering/index_map: flat pieces over several tasks") {
  constexpr const char* kText = R"(graph g(%x: f32[1, n, 100], %y: f32[1, m, 100],
    %z: f32[n + m + 3, 100]) -> (%r, %s) {
  const %first: i64[1] = [0]
  const %pads: i64[4] = [1, 0, 2, 0]
  %c = Concat(%x, %y) {axis = 1}
  %r = Neg(%c)
  %d = Squeeze(%c, %first)
  %p = Pad(%d, %pads)
  %s = Add(%p, %z)
})";
  for (const int64_t threads : {1, 2})
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      Config config = config_of(JitMode::kSync, isa);
      config.threads = threads;
      auto session = session_of(kText, config);
      for (const auto& [n, m] :
           {std::pair<int64_t, int64_t>{200, 300}, {1, 1}, {0, 170}, {327, 1}}) {
        const std::vector<Tensor> in{ramp({1, n, 100}, 2, 0.1), ramp({1, m, 100}, 2, 0.5),
                                     ramp({n + m + 3, 100}, 2, 0.9)};
        const auto out = run(*session, in);
        const auto joined = [&](int64_t k) {
          return k < n * 100 ? at(in[0], k) : at(in[1], k - n * 100);
        };
        const int64_t all = (n + m) * 100;
        for (int64_t k = 0; k < all; ++k) REQUIRE(at(out[0], k) == -joined(k));
        for (int64_t k = 0; k < all + 300; ++k) {
          const bool inside = k >= 100 && k < all + 100;
          REQUIRE(at(out[1], k) == static_cast<double>(static_cast<float>(
                                       (inside ? joined(k - 100) : 0.0) + at(in[2], k))));
        }
      }
      INFO(session->explain({}, false));
      CHECK(session->profile().compiled_regions == 2);
    }
}

TEST_CASE("tiering/index_map: embeddings and their norm are one region") {
  for (int64_t isa = 1; isa <= targets(); ++isa) {
    CAPTURE(isa);
    auto session = session_of(kEmbeddings, config_of(JitMode::kSync, isa));
    for (const auto& [b, s] :
         {std::pair<int64_t, int64_t>{2, 7}, {1, 1}, {3, 33}, {0, 5}, {2, 0}}) {
      const auto in = embedding_inputs(b, s);
      check_embeddings(in, run(*session, in)[0]);
    }
    check_one_region(*session);
  }
}

TEST_CASE("tiering/index_map: a bad index fails as the operator does, and the session goes on") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(kEmbeddings, config_of(mode));
    const auto good = embedding_inputs(2, 9);
    check_embeddings(good, run(*session, good)[0]);
    const struct {
      size_t input;
      int64_t place, index;
      const char* says;
    } bad[] = {{0, 17, 50, "index 50 is outside [-50, 50)"},
               {0, 3, -51, "index -51 is outside [-50, 50)"},
               {1, 0, 2, "index 2 is outside [-2, 2)"},
               {5, 8, INT64_MIN, "is outside [-64, 64)"}};
    for (const auto& [input, place, index, says] : bad) {
      auto in = embedding_inputs(2, 9);
      store_int64(in[input].data(), in[input].dtype(), place, index);
      std::string message;
      Status status = Status::kOk;
      try {
        (void)run(*session, in);
      } catch (const Error& error) {
        message = error.what();
        status = error.status();
      }
      CAPTURE(message);
      CHECK(status == Status::kRange);
      CHECK(message.find(says) != std::string::npos);
      check_embeddings(good, run(*session, good)[0]);
    }
    if (mode == JitMode::kSync) check_one_region(*session);
  }
}

TEST_CASE("tiering/index_map: a bad coordinate of GatherND is named") {
  constexpr const char* kText = R"(graph g(%x: f32[n, 6, 8], %i: i32[k, 2]) -> (%y) {
  %a = GatherND(%x, %i)
  %y = Exp(%a)
})";
  auto session = session_of(kText, config_of(JitMode::kSync));
  const Tensor x = ramp({4, 6, 8}, 1, 0.1);
  Tensor i = indices(DType::kI32, {5, 2}, -4, 4, 3);
  const Tensor y = run(*session, {x, i})[0];
  for (int64_t k = 0; k < 5; ++k) {
    const auto a = static_cast<int64_t>(at(i, 2 * k)), b = static_cast<int64_t>(at(i, 2 * k + 1));
    for (int64_t j = 0; j < 8; ++j)
      CHECK(at(y, k * 8 + j) ==
            doctest::Approx(std::exp(at(x, ((a + 4) % 4 * 6 + (b + 6) % 6) * 8 + j))));
  }
  check_one_region(*session);
  store_int64(i.data(), DType::kI32, 5, 6);
  try {
    (void)run(*session, {x, i});
    FAIL("an index of 6 into 6 elements");
  } catch (const Error& error) {
    CHECK(error.status() == Status::kRange);
    CHECK(std::string(error.what()).find("index 6 is outside [-6, 6)") != std::string::npos);
  }
}

TEST_CASE("tiering/index_map: a bad index fails where the region has no elements too") {
  constexpr const char* kText = R"(graph g(%x: f32[k], %i: i64[]) -> (%y) {
  %p = Gather(%x, %i) {axis = 0}
  %a = Add(%x, %p)
  %y = Exp(%a)
})";
  // What picks nothing fails nowhere.
  constexpr const char* kNothing = R"(graph g(%x: f32[k, m], %i: i64[j]) -> (%y) {
  %p = Gather(%x, %i) {axis = 0}
  %a = Neg(%p)
  %y = Exp(%a)
})";
  Tensor index(DType::kI64, {}), in_row(DType::kI64, {1});
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    CAPTURE(static_cast<int>(mode));
    auto session = session_of(kText, config_of(mode));
    *index.as<int64_t>() = 1;
    CHECK(run(*session, {ramp({4}, 1, 0.1), index})[0].count() == 4);
    for (const int64_t bad : {0, 17}) {
      *index.as<int64_t>() = bad;
      std::string message;
      try {
        (void)run(*session, {ramp({0}, 1, 0.1), index});
      } catch (const Error& error) {
        message = error.what();
      }
      CAPTURE(message);
      CHECK(message.find("is outside [0, 0)") != std::string::npos);
    }
    auto rows = session_of(kNothing, config_of(mode));
    *in_row.as<int64_t>() = 1;
    CHECK(run(*rows, {ramp({4, 3}, 1, 0.1), in_row})[0].count() == 3);
    *in_row.as<int64_t>() = 17;
    CHECK(run(*rows, {ramp({4, 0}, 1, 0.1), in_row})[0].count() == 0);
    if (mode == JitMode::kSync) check_one_region(*session);
  }
}

/// Sizes of a part before and one behind, and of the axis along which they lie.
constexpr std::array<std::tuple<int64_t, int64_t, int64_t>, 6> kJoined{
    {{2, 4, 5}, {0, 1, 1}, {5, 0, 17}, {16, 33, 16}, {0, 0, 3}, {1, 1, 0}}};

TEST_CASE("tiering/index_map: concatenated parts of every size") {
  constexpr const char* kText = R"(graph g(%x: f32[b, n, h], %y: f32[b, 3, h], %z: f32[b, m, h])
    -> (%r, %c) {
  %c = Concat(%x, %y, %z) {axis = 1}
  %r = Tanh(%c)
})";
  for (int64_t isa = 1; isa <= targets(); ++isa) {
    CAPTURE(isa);
    auto session = session_of(kText, config_of(JitMode::kSync, isa));
    for (const auto& [n, m, h] : kJoined) {
      const std::vector<Tensor> in{ramp({2, n, h}, 2, 0.1), ramp({2, 3, h}, 2, 0.5),
                                   ramp({2, m, h}, 2, 0.9)};
      const auto out = run(*session, in);
      const int64_t all = n + 3 + m;
      REQUIRE(out[0].dims() == Dims{2, all, h});
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < all; ++c)
          for (int64_t j = 0; j < h; ++j) {
            const size_t part = c < n ? 0 : c < n + 3 ? 1 : 2;
            const int64_t first = part == 0 ? 0 : part == 1 ? n : n + 3;
            const double want = at(in[part], (b * in[part].dims()[1] + c - first) * h + j);
            REQUIRE(at(out[1], (b * all + c) * h + j) == want);
            REQUIRE(std::fabs(at(out[0], (b * all + c) * h + j) - std::tanh(want)) <= 1e-6);
          }
    }
    check_one_region(*session);
  }
}

TEST_CASE("tiering/index_map: a softmax over concatenated rows") {
  constexpr const char* kText = R"(graph g(%x: f32[n, 40], %y: f32[n, 25]) -> (%r) {
  %c = Concat(%x, %y) {axis = -1}
  %r = Softmax(%c) {axis = -1}
})";
  for (int64_t isa = 1; isa <= targets(); ++isa) {
    CAPTURE(isa);
    auto session = session_of(kText, config_of(JitMode::kSync, isa));
    for (const int64_t n : {3, 1, 0}) {
      const std::vector<Tensor> in{ramp({n, 40}, 3, 0.1), ramp({n, 25}, 3, 0.5)};
      const Tensor r = run(*session, in)[0];
      for (int64_t i = 0; i < n; ++i) {
        std::vector<double> e(65);
        for (int64_t j = 0; j < 65; ++j)
          e[static_cast<size_t>(j)] =
              std::exp(j < 40 ? at(in[0], i * 40 + j) : at(in[1], i * 25 + j - 40));
        const double sum = std::accumulate(e.begin(), e.end(), 0.0);
        for (int64_t j = 0; j < 65; ++j)
          REQUIRE(std::fabs(at(r, i * 65 + j) - e[static_cast<size_t>(j)] / sum) <= 1e-6);
      }
    }
    check_one_region(*session);
  }
}

TEST_CASE(
    "tiering/index_map: reductions over axes that are joined, and whose sizes are no operand's") {
  const char* const texts[] = {
      R"(graph g(%x: f32[b, n, h], %y: f32[b, 3, h], %z: f32[b, m, h]) -> (%r) {
  const %axes: i64[1] = [1]
  %c = Concat(%x, %y, %z) {axis = 1}
  %t = Mul(%c, %c)
  %r = ReduceSum(%t, %axes) {keepdims = 0}
})",
      R"(graph g(%x: f32[n, b, h], %y: f32[3, b, h], %z: f32[m, b, h]) -> (%r) {
  const %axes: i64[3] = [0, 1, 2]
  %c = Concat(%x, %y, %z) {axis = 0}
  %t = Mul(%c, %c)
  %r = ReduceSum(%t, %axes) {keepdims = 0}
})",
      R"(graph g(%x: f32[b, h, n], %y: f32[b, h, 3], %z: f32[b, h, m]) -> (%r) {
  const %pads: i64[6] = [0, 0, 2, 0, 0, 1]
  const %value: f32[] = 1.5
  const %axes: i64[1] = [-1]
  %c = Concat(%x, %y, %z) {axis = 2}
  %p = Pad(%x, %pads, %value)
  %t = Mul(%c, %c)
  %q = Mul(%p, %p)
  %s = ReduceSum(%t, %axes) {keepdims = 0}
  %u = ReduceSum(%q, %axes) {keepdims = 0}
  %r = Sub(%s, %u)
})"};
  for (size_t k = 0; k < std::size(texts); ++k)
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(k);
      CAPTURE(isa);
      auto session = session_of(texts[k], config_of(JitMode::kSync, isa));
      for (const auto& [n, m, h] : kJoined) {
        const auto part = [&](int64_t size, double phase) {
          return ramp(k == 0   ? Dims{2, size, h}
                      : k == 1 ? Dims{size, 2, h}
                               : Dims{2, h, size},
                      2, phase);
        };
        const std::vector<Tensor> in{part(n, 0.1), part(3, 0.5), part(m, 0.9)};
        const Tensor r = run(*session, in)[0];
        std::vector<double> want(k == 1 ? 1 : static_cast<size_t>(2 * h), 0.0);
        REQUIRE(r.count() == static_cast<int64_t>(want.size()));
        for (size_t o = 0; o < in.size(); ++o)
          for (int64_t i = 0; i < in[o].count(); ++i) {
            const int64_t size = in[o].dims()[k == 0 ? 1 : 2];
            const int64_t row = k == 0 ? i / (size * h) * h + i % h : k == 1 ? 0 : i / size;
            const double square = at(in[o], i) * at(in[o], i);
            if (k < 2 || o > 0) want[static_cast<size_t>(row)] += square;  // x itself cancels
          }
        for (double& sum : want) sum -= k == 2 ? 3 * 1.5 * 1.5 : 0;
        for (int64_t i = 0; i < r.count(); ++i)
          REQUIRE(std::fabs(at(r, i) - want[static_cast<size_t>(i)]) <=
                  1e-4 * (1 + std::fabs(want[static_cast<size_t>(i)])));
      }
      const auto profile = session->profile();
      REQUIRE(!profile.regions.empty());
      for (const auto& region : profile.regions)
        CHECK_MESSAGE(region.state == "live", region.reason);
    }
}

TEST_CASE("tiering/index_map: padding with a constant, and cropping") {
  constexpr const char* kText = R"(graph g(%x: f32[n, 5, h], %y: f32[n, 8, h], %z: f32[n, 8, m])
    -> (%r) {
  const %pads: i64[6] = [0, 1, 0, 0, 2, 0]
  const %low: f32[] = -3
  const %crop: i64[6] = [0, 0, -2, 0, 0, -1]
  %p = Pad(%x, %pads, %low)
  %q = Pad(%z, %crop)
  %s = Add(%p, %y)
  %r = Add(%s, %q)
})";
  for (int64_t isa = 1; isa <= targets(); ++isa) {
    CAPTURE(isa);
    std::string text = kText;
    text.replace(text.find("%z: f32[n, 8, m]"), 16, "%z: f32[n, 8, h + 3]");
    auto session = session_of(text, config_of(JitMode::kSync, isa));
    for (const auto& [n, h] :
         {std::pair<int64_t, int64_t>{2, 5}, {1, 1}, {3, 16}, {1, 33}, {0, 4}, {2, 0}}) {
      const std::vector<Tensor> in{ramp({n, 5, h}, 2, 0.1), ramp({n, 8, h}, 2, 0.5),
                                   ramp({n, 8, h + 3}, 2, 0.9)};
      const Tensor r = run(*session, in)[0];
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < 8; ++c)
          for (int64_t j = 0; j < h; ++j) {
            const double p = c < 1 || c >= 6 ? -3 : at(in[0], (i * 5 + c - 1) * h + j);
            const double want =
                p + at(in[1], (i * 8 + c) * h + j) + at(in[2], (i * 8 + c) * (h + 3) + j + 2);
            REQUIRE(std::fabs(at(r, (i * 8 + c) * h + j) - want) <= 1e-5);
          }
    }
    check_one_region(*session);
  }
}

TEST_CASE("tiering/index_map: padding that repeats what it surrounds") {
  // Where an element comes from, step by step.
  const auto source = [](const std::string& mode, int64_t i, int64_t size) {
    if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
    if (mode == "wrap") {
      while (i < 0) i += size;
      while (i >= size) i -= size;
      return i;
    }
    if (size == 1) return int64_t{0};
    while (i < 0 || i >= size) i = i < 0 ? -i : 2 * (size - 1) - i;
    return i;
  };
  const auto text_of = [](const std::string& mode, const std::string& n, const std::string& c,
                          const std::string& h) {
    return fmt::format(R"(graph g(%x: f32[{1}, {2}, {3}], %y: f32[{1} + 3, {2}, {3} + 9])
    -> (%r, %s) {{
  const %pads: i64[6] = [1, 0, 4, 2, 0, 5]
  %p = Pad(%x, %pads) {{mode = "{0}"}}
  %r = Add(%p, %y)
  %s = Softmax(%r) {{axis = -1}}
}})",
                       mode, n, c, h);
  };
  const auto check = [&](Session& session, const std::string& mode, int64_t n, int64_t c,
                         int64_t h) {
    const std::vector<Tensor> in{ramp({n, c, h}, 2, 0.1), ramp({n + 3, c, h + 9}, 2, 0.5)};
    const auto out = run(session, in);
    REQUIRE(out[0].dims() == Dims{n + 3, c, h + 9});
    for (int64_t i = 0; i < n + 3; ++i)
      for (int64_t k = 0; k < c; ++k)
        for (int64_t j = 0; j < h + 9; ++j) {
          const int64_t from = (source(mode, i - 1, n) * c + k) * h + source(mode, j - 4, h);
          const int64_t to = (i * c + k) * (h + 9) + j;
          REQUIRE(at(out[0], to) ==
                  static_cast<double>(static_cast<float>(at(in[0], from) + at(in[1], to))));
        }
    check_one_region(session);
  };
  const std::tuple<int64_t, int64_t, int64_t> sizes[] = {
      {2, 3, 40}, {1, 2, 1}, {5, 1, 2}, {3, 2, 16}, {3, 1, 6}, {3, 1, 5}, {2, 0, 7}};
  for (const std::string mode : {"reflect", "edge", "wrap"}) {
    CAPTURE(mode);
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(isa);
      auto session = session_of(text_of(mode, "n", "c", "h"), config_of(JitMode::kSync, isa));
      for (const auto& [n, c, h] : sizes) check(*session, mode, n, c, h);
      // Nothing to repeat: said by the operator, and the session goes on.
      for (const Dims& dims : {Dims{0, 2, 7}, Dims{2, 2, 0}})
        CHECK_THROWS_WITH_AS(
            (void)run(*session, {ramp(dims, 2, 0.1), ramp({dims[0] + 3, 2, dims[2] + 9}, 2, 0.5)}),
            doctest::Contains("nothing to repeat"), Error);
      check(*session, mode, 4, 2, 33);
      // Sizes that the model knows.
      for (const auto& [n, c, h] : sizes) {
        const auto number = [](int64_t v) { return std::to_string(v); };
        if (c > 0)
          check(*session_of(text_of(mode, number(n), number(c), number(h)),
                            config_of(JitMode::kSync, isa)),
                mode, n, c, h);
      }
    }
  }
}

TEST_CASE("tiering/index_map: every type that regions hold is moved bit by bit") {
  for (const char* type : {"f32", "f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32",
                           "i64", "u64", "bool"}) {
    const bool logic = std::string(type) == "bool";
    const std::string text = fmt::format(R"(graph g(%x: {0}[7, n], %y: {0}[7, 5], %i: i32[k])
    -> (%a, %b, %c) {{
  const %pads: i64[4] = [1, 0, 0, 3]
  %p = Pad(%x, %pads)
  %a = {1}(%p)
  %g = Gather(%x, %i) {{axis = 0}}
  %b = {1}(%g)
  %j = Concat(%x, %y) {{axis = 1}}
  %c = {1}(%j)
}})",
                                         type, logic ? "Not" : "Abs");
    CAPTURE(text);
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(isa);
      auto session = session_of(text, config_of(JitMode::kSync, isa));
      const DType dtype = parse_graph(text).value(parse_graph(text).inputs[0]).type.dtype;
      for (const int64_t n : {5, 1, 64, 0}) {
        Tensor x(dtype, {7, n}), y(dtype, {7, 5});
        for (Tensor* t : {&x, &y})
          for (int64_t k = 0; k < t->count(); ++k)
            store_int64(t->data(), dtype, k, logic ? (k * 5 / 3) % 2 : (k * 11 + 3) % 113);
        const Tensor i = indices(DType::kI32, {9}, -7, 7, 4);
        const auto out = run(*session, {x, y, i});
        const auto moved = [&](double v) { return logic ? 1 - v : v; };
        for (int64_t r = 0; r < 8; ++r)
          for (int64_t j = 0; j < n + 3; ++j)
            REQUIRE(at(out[0], r * (n + 3) + j) ==
                    moved(r == 0 || j >= n ? 0 : at(x, (r - 1) * n + j)));
        for (int64_t r = 0; r < 9; ++r)
          for (int64_t j = 0; j < n; ++j)
            REQUIRE(at(out[1], r * n + j) ==
                    moved(at(x, (static_cast<int64_t>(at(i, r)) + 7) % 7 * n + j)));
        for (int64_t r = 0; r < 7; ++r)
          for (int64_t j = 0; j < n + 5; ++j)
            REQUIRE(at(out[2], r * (n + 5) + j) ==
                    moved(j < n ? at(x, r * n + j) : at(y, r * 5 + j - n)));
      }
    }
  }
}
