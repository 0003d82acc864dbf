// One kernel, many sizes: what is decided at one size does not hold at another, and regions behind
// sizes that a run finds out are compiled like others.
#include <map>

#include "ir/text.h"
#include "ops/infer.h"
#include "runtime/tensor_handle.h"
#include "support.h"
#include "support/evaluate.h"
#include "support/random_graph.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;
using namespace xc::test;

namespace {

std::vector<Tensor> rows(int64_t n) {
  return {ramp({n, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
}

}  // namespace

TEST_CASE(
    "tiering/sizes: a kernel that wins on long inputs and loses on short ones serves the long") {
  // Planted: below 100 rows the kernel takes far longer than what it replaces.
  constexpr int64_t kShort = 4, kLong = 512;
  std::array<std::atomic<int64_t>, 2> fused{};  // runs of the kernel, short and long
  TierFaults faults;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&](int64_t n) {
          ++fused[n >= 100];
          if (n < 100) spin_us(400);
        },
        region.inputs.size(), 0.0f);
  };
  for (const bool short_first : {true, false}) {
    CAPTURE(short_first);
    Fixture fixture(kGelu, {}, faults);
    const auto run = [&](int64_t n) {
      int64_t where = 0;
      const std::vector<Tensor> in = rows(n);
      REQUIRE(gelu_right(in, fixture.run(in)[0], where));
    };
    for (int64_t n : {short_first ? kShort : kLong, short_first ? kLong : kShort})
      for (int k = 0; k < 1500; ++k) {
        run(n);
        if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
      }
    fixture.session->freeze();  // a second look at short inputs, after its back-off, is over too
    fused[0] = fused[1] = 0;
    for (int k = 0; k < 64; ++k) {
      run(kShort);
      run(kLong);
    }
    CHECK(fused[0] == 0);
    CHECK(fused[1] == 64);
    CHECK(fixture.log.count(EventKind::kAccepted) >= 1);
    // New signatures of either kind go with their like at once.
    fused[0] = fused[1] = 0;
    for (int64_t n : {3, 5, 400, 600}) run(n);
    CHECK(fused[0] == 0);
    CHECK(fused[1] == 2);
  }
}

TEST_CASE("tiering/sizes: a region behind data-dependent sizes is compiled and used") {
  Fixture fixture(gelu_of_picked("  %some = Compress(%x, %take) {axis = 0}\n"), {});
  const std::vector<Tensor> all = rows(512);
  for (int k = 0; k < 6000 && fixture.log.count(EventKind::kAccepted) == 0; ++k) {
    // The mask keeps a run of rows, so that the kept part is a plain slice to compare with.
    const int64_t keep = 200 + k % 7 * 40;
    Tensor take(DType::kBool, {512});
    for (int64_t i = 0; i < 512; ++i) take.as<bool>()[i] = i < keep;
    const Tensor y = fixture.run({all[0], all[1], take})[0];
    REQUIRE(y.dims() == Dims{keep, 96});
    int64_t where = 0;
    REQUIRE(gelu_right(all, y, where));
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kAccepted) == 1);
}

namespace {

/// Dims of the results, or what the run was refused for.
struct Answer {
  std::optional<Status> refused;
  std::vector<Dims> dims;
};

/// Which of two wrong sizes is told first is not the same in every plan, and so the status.
std::string text_of(const Answer& answer) {
  std::string out = answer.refused ? "refused" : "results:";
  for (const Dims& dims : answer.dims) out += " " + to_text(dims);
  return out;
}

Answer answer(Session& session, const std::vector<Tensor>& inputs) {
  Answer out;
  try {
    for (const Tensor& y : run(session, inputs)) out.dims.push_back(y.dims());
  } catch (const Error& error) {
    out.refused = error.status();
  }
  return out;
}

std::shared_ptr<Session> session_of(const std::string& graph, JitMode jit, int64_t bands) {
  Config config;
  config.jit = static_cast<int64_t>(jit);
  config.bands = bands;
  return testing::session_of(graph, config);
}

/// The same by inference of one operator after the other on the tensors there are.
Answer reference_answer(const std::string& text, const std::vector<Tensor>& inputs) {
  Answer out;
  try {
    for (const Tensor& y : evaluate(parse_graph(text), inputs)) out.dims.push_back(y.dims());
  } catch (const Error& error) {
    out.refused = error.status();
  }
  return out;
}

/// Runs sizes that fit, so that the plans are fused, then others, which fit by chance alone.
void check_refusals(const std::string& graph, const std::vector<Tensor>& fitting,
                    const std::vector<std::vector<Tensor>>& others) {
  const auto base = session_of(graph, JitMode::kOff, 0);
  const Answer good = answer(*base, fitting);
  REQUIRE(!good.refused);
  for (const int64_t bands : {0, 2}) {
    const auto fused = session_of(graph, JitMode::kSync, bands);
    REQUIRE(text_of(answer(*fused, fitting)) == text_of(good));
    for (const auto& inputs : others) {
      std::string sizes;
      for (const Tensor& x : inputs) sizes += to_text(x.dims());
      CAPTURE(sizes);
      CAPTURE(bands);
      CHECK(text_of(answer(*base, inputs)) == text_of(reference_answer(graph, inputs)));
      CHECK(text_of(answer(*fused, inputs)) == text_of(answer(*base, inputs)));
    }
    CHECK(text_of(answer(*fused, fitting)) == text_of(good));
  }
}

/// The graph with a symbol of its own for every dim of every input: nothing is known to fit.
std::optional<std::string> loosened(const Graph& problem) {
  Graph graph = problem.clone();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    Type& type = graph.value(graph.inputs[i]).type;
    for (size_t axis = 0; axis < type.dims->size(); ++axis)
      (*type.dims)[axis] = Dim::symbol(fmt::format("i{}_{}", i, axis));
  }
  try {
    infer_types_again(graph);
  } catch (const Error&) {
    return std::nullopt;  // an operator that wants a number
  }
  return print(graph, {.max_elements = INT64_MAX});
}

}  // namespace

TEST_CASE("tiering/sizes: what does not fit is refused by fused plans too") {
  const auto f32 = [](Dims dims) { return ramp(dims, 3, 0.1); };
  SUBCASE("a constant that a symbol has to be") {
    const std::string graph = R"(graph g(%x: f32[b, n]) -> (%y) {
  const %c: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]
  %t = Add(%x, %c)
  %u = Sigmoid(%t)
  %y = Mul(%u, %u)
})";
    check_refusals(graph, {f32({4, 8})},
                   {{f32({4, 4})}, {f32({4, 1})}, {f32({4, 9})}, {f32({2, 8})}});
  }
  SUBCASE("the depth of a product in a region of blocks") {
    const std::string graph = R"(graph g(%x: f32[b, n], %w: f32[k, 4], %v: f32[m, 1]) -> (%y) {
  %t = MatMul(%x, %w)
  %u = Mul(%t, %v)
  %z = Transpose(%x) {perm = [1, 0]}
  %y = MatMul(%z, %u)
})";
    const auto sizes = [&](int64_t b, int64_t n, int64_t k, int64_t m) {
      return std::vector<Tensor>{f32({b, n}), f32({k, 4}), f32({m, 1})};
    };
    check_refusals(graph, sizes(40, 32, 32, 40),
                   {sizes(40, 16, 32, 40), sizes(40, 32, 31, 40), sizes(40, 32, 32, 39),
                    sizes(40, 32, 32, 1), sizes(1, 32, 32, 40), sizes(7, 32, 32, 7)});
  }
  SUBCASE("channels of convolutions, in bands and not") {
    const std::string graph = R"(graph g(%x: f32[n, c, h, w], %r: f32[n, d, h, w]) -> (%y) {
  const %k: f32[4, 3, 1, 1] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
  const %l: f32[2, 4, 1, 1] = [1, 2, 3, 4, 5, 6, 7, 8]
  %a = Conv(%x, %k)
  %b = Relu(%a)
  %c2 = Add(%b, %r)
  %y = Conv(%c2, %l)
})";
    const auto sizes = [&](int64_t c, int64_t d) {
      return std::vector<Tensor>{f32({1, c, 12, 12}), f32({1, d, 12, 12})};
    };
    check_refusals(graph, sizes(3, 4),
                   {sizes(2, 4), sizes(4, 4), sizes(3, 1), sizes(3, 3), sizes(3, 5)});
  }
}

TEST_CASE("tiering/sizes: random graphs refuse what does not fit in every mode") {
  uint64_t tried = 0;
  for (uint64_t seed = 1; seed <= 400 && tried < 60; ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed);
    const auto graph = loosened(problem.graph);
    if (!graph || problem.runs.empty()) continue;
    const std::vector<Tensor>& fitting = problem.runs[0];
    if (answer(*session_of(*graph, JitMode::kOff, 0), fitting).refused) continue;
    ++tried;
    std::vector<std::vector<Tensor>> others;
    for (size_t i = 0; i < fitting.size(); ++i)
      for (size_t axis = 0; axis < fitting[i].dims().size(); ++axis)
        for (const int64_t size : {fitting[i].dims()[axis] + 1, int64_t{1}}) {
          Dims dims = fitting[i].dims();
          dims[axis] = size;
          others.push_back(fitting);
          others.back()[i] = Tensor(fitting[i].dtype(), dims);
          std::memset(others.back()[i].data(), 0,
                      static_cast<size_t>(element_count(dims) * element_size(fitting[i].dtype())));
        }
    check_refusals(*graph, fitting, others);
  }
  CHECK(tried >= 40);
}

TEST_CASE("tiering/sizes: inputs whose rank the model leaves open") {
  const std::string graph = R"(graph g(%x: f32[*], %w: f32[8, 8]) -> (%y, %n) {
  %a = MatMul(%x, %w)
  %b = Sigmoid(%a)
  %c = Mul(%b, %a)
  %y = Softmax(%c) {axis = -1}
  %n = Shape(%x)
})";
  for (const JitMode jit : {JitMode::kOff, JitMode::kSync, JitMode::kAuto}) {
    const auto session = session_of(graph, jit, 0);
    for (int round = 0; round < 3; ++round)
      for (const Dims& dims : {Dims{4, 8}, Dims{2, 3, 8}, Dims{5, 8}, Dims{8}, Dims{2, 1, 2, 8}}) {
        const Tensor x = ramp(dims, 1, 0.1), w = ramp({8, 8}, 1, 0.4);
        const std::vector<Tensor> got = run(*session, {x, w});
        REQUIRE(got[0].dims() == dims);
        CHECK(got[1].to_int64s() == std::vector<int64_t>(dims.begin(), dims.end()));
        // The same as with the rank declared.
        std::string declared = graph;
        declared.replace(declared.find('*'), 1, to_text(dims).substr(1, to_text(dims).size() - 2));
        const Tensor want = run(*session_of(declared, JitMode::kOff, 0), {x, w})[0];
        const float *a = got[0].as<float>(), *b = want.as<float>();
        for (int64_t i = 0; i < want.count(); ++i) REQUIRE(std::abs(a[i] - b[i]) < 1e-5f);
      }
    CHECK(answer(*session, {ramp({4, 7}, 1, 0), ramp({8, 8}, 1, 0)}).refused ==
          Status::kInvalidArgument);
    CHECK(answer(*session, {Tensor::of<int32_t>({1}), ramp({8, 8}, 1, 0)}).refused ==
          Status::kInvalidArgument);
    const auto view = ramp({3, 8}, 1, 0.2);
    const Tensor w = ramp({8, 8}, 1, 0.4);
    const std::vector<TensorView> views{view.view(), w.view()};
    const auto call = session->prepare(views, {});
    CHECK(call->output(0)->tensor.dims() == Dims{3, 8});
    CHECK(session->counters().runs >= 15);
    CHECK(session->explain({{3, 8}, {8, 8}}, false).find("dynamic") == std::string::npos);
  }
}

TEST_CASE("tiering/sizes: what changes nothing may still broadcast operands of an unknown rank") {
  const auto check = [](const std::string& what, const Dims& want) {
    const std::string graph =
        "graph g(%x: f32[n, 1], %k: i64[1]) -> (%y) {\n"
        "  const %zero: f32[2, 1] = [0, 0]\n"
        "  const %one: f32[2, 1] = [1, 1]\n"
        "  const %no: bool[2, 1] = [false, false]\n"
        "  %v = Unsqueeze(%x, %k)\n  %y = " +
        what + "\n}";
    CAPTURE(what);
    for (const JitMode jit : {JitMode::kOff, JitMode::kSync})
      CHECK(run(*session_of(graph, jit, 0), {ramp({4, 1}, 1, 0.1), Tensor::of<int64_t>({1})})[0]
                .dims() == want);
  };
  for (const char* what : {"Add(%v, %zero)", "Sub(%v, %zero)", "Mul(%v, %one)", "Div(%v, %one)",
                           "Where(%no, %zero, %v)"})
    check(what, {4, 2, 1});
}
