// Operators of the host through the C++ wrapper.

#include <doctest/doctest.h>
#include <xc/xc.hpp>

#include <stdexcept>

namespace {

constexpr char kModel[] =
    "graph g(%x: f32[n]) -> (%y, %c) {\n"
    "  %y, %c = acme::Pick(%x) {above = 1.5, tags = [\"a\", \"b\"]} \"pick\"\n"
    "}\n";
constexpr char kPick[] =
    "acme::Pick(x: f32[n]) {above: float, tags: strings, most: int = 2} -> y: f32[?], count: i64[]";

void pick(xcrt::OpCall& call) {
  const double above = call.get_float("above");
  std::vector<float> kept;
  for (const float value : call.values<float>(0))
    if (value > above && kept.size() < static_cast<size_t>(call.get_int("most")))
      kept.push_back(value);
  std::ranges::copy(kept, call.result<float>(0, {static_cast<int64_t>(kept.size())}).begin());
  CHECK(call.get_strings("tags") == std::vector<std::string_view>{"a", "b"});
  CHECK(call.dims(0).size() == 1);
  CHECK(call.has(0));
  CHECK(!call.has(1));
  CHECK(call.has_attribute("most"));
  call.result<int64_t>(1)[0] = static_cast<int64_t>(kept.size());
}

xcrt::Session session(const xcrt::OpLibrary& operators) {
  const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"), {}, &operators);
  return xcrt::Session(xcrt::Model(engine, std::as_bytes(std::span(kModel, sizeof kModel - 1))));
}

/// The text of what a run with this function fails with.
template <class Function>
std::string failure(Function function) {
  xcrt::OpLibrary operators;
  operators.add(kPick, function);
  xcrt::Session runs = session(operators);
  const auto x = xcrt::Tensor::of<float>({3});
  try {
    runs.run(x);
  } catch (const xcrt::Error& error) {
    CHECK(error.where().find("pick") != std::string::npos);
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("capi/hpp: a function reads the texts of an attribute that is a tensor") {
  static constexpr char kText[] =
      "graph g(%x: f32[n]) -> (%y) {\n"
      "  %y = acme::Tag(%x) {t = string[2, 1] [\"a\", \"bc\"], u = f32[1] [3]}\n"
      "}\n";
  xcrt::OpLibrary operators;
  operators.add("acme::Tag(x: f32[n]) {t: tensor, u: tensor} -> y: f32[n]", [](xcrt::OpCall& call) {
    CHECK(call.get_tensor("t").rank == 2);
    CHECK(call.get_strings("t") == std::vector<std::string_view>{"a", "bc"});
    std::ranges::fill(call.result<float>(0), 0.0f);
    (void)call.get_strings("u");
  });
  const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"), {}, &operators);
  xcrt::Session runs(xcrt::Model(engine, std::as_bytes(std::span(kText, sizeof kText - 1))));
  const auto x = xcrt::Tensor::of<float>({3});
  CHECK_THROWS_WITH_AS(runs.run(x), doctest::Contains("f32, no strings"), xcrt::Error);
}

TEST_CASE("capi/hpp: operators of the host run in a model") {
  xcrt::OpLibrary operators;
  operators.add(kPick, pick);
  xcrt::Session runs = session(operators);
  const float values[] = {1, 2, 3, 4};
  const std::vector<xcrt::Tensor> out = runs.run(xcrt::Tensor::of<float>({4}, std::span(values)));
  REQUIRE(out.size() == 2);
  REQUIRE(out[0].size() == 2);
  CHECK(out[0].values<float>()[0] == 2);
  CHECK(out[0].values<float>()[1] == 3);
  CHECK(out[1].values<int64_t>()[0] == 2);
}

TEST_CASE("capi/hpp: what an operator's function throws is the run's error") {
  CHECK(failure([](xcrt::OpCall&) {
          throw std::runtime_error("no luck today");
        }).find("INVALID_ARGUMENT: node 'pick' (acme::Pick): no luck today") == 0);
  CHECK(failure([](xcrt::OpCall&) { throw std::bad_alloc(); }).find("OUT_OF_MEMORY") == 0);
  CHECK(failure([](xcrt::OpCall&) { throw 7; }).find("the function threw") != std::string::npos);
  CHECK(failure([](xcrt::OpCall& call) {
          (void)call.get_int("above");
        }).find("is of kind float, not int") != std::string::npos);
  CHECK(failure([](xcrt::OpCall& call) {
          (void)call.values<double>(0);
        }).find("another element type") != std::string::npos);
  CHECK(failure([](xcrt::OpCall& call) {
          (void)call.result<float>(0);
        }).find("for the function to find") != std::string::npos);
  CHECK(failure([](xcrt::OpCall&) {}).find("did not write output 'y'") != std::string::npos);
}

TEST_CASE("capi/hpp: an operator of the host reads transposed strings") {
  xcrt::OpLibrary operators;
  operators.add("acme::Lengths(x: string[n, m]) -> y: i64[n, m]", [](xcrt::OpCall& call) {
    const std::span<int64_t> lengths = call.result<int64_t>(0);
    for (size_t i = 0; i < lengths.size(); ++i)
      lengths[i] = static_cast<int64_t>(call.string(0, i).size());
  });
  constexpr char kText[] =
      "graph g(%x: string[n, m]) -> (%y) {\n"
      "  %t = Transpose(%x)\n"
      "  %y = acme::Lengths(%t)\n"
      "}\n";
  const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"), {}, &operators);
  xcrt::Session runs(xcrt::Model(engine, std::as_bytes(std::span(kText, sizeof kText - 1))));
  xcrt::Tensor x(XC_DTYPE_STRING, std::array<int64_t, 2>{2, 3});
  const std::string_view texts[] = {"", "a", "bb", "ccc", "a string that has memory of its own",
                                    "e"};
  x.set_strings(texts);
  for (int k = 0; k < 3; ++k) {
    const std::vector<xcrt::Tensor> y = runs.run(x);
    const auto lengths = y[0].values<int64_t>();
    CHECK(std::vector<int64_t>(lengths.begin(), lengths.end()) ==
          std::vector<int64_t>{0, 3, 1, 35, 2, 1});
  }
}

TEST_CASE("capi/hpp: a library owns its functions, and rules give operators a meaning") {
  const auto held = std::make_shared<int>(1);
  {
    xcrt::OpLibrary operators;
    CHECK_THROWS_AS(operators.add("acme", [held](xcrt::OpCall&) {}), xcrt::Error);
    CHECK(held.use_count() == 1);
    operators.add(kPick, [held](xcrt::OpCall&) {});
    CHECK(held.use_count() == 2);
    operators.add("acme::Twice(x: f32[...]) -> y: f32[...]")
        .add_rules("rule twice: acme::Twice(?x) => Add(?x, ?x)");
    const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"), {}, &operators);
    xcrt::Graph graph;
    graph.set_operators(operators);
    const xc_value x = graph.input("x", XC_DTYPE_F32, "n");
    graph.output(graph.node("Twice", {x}, nullptr, "t", "acme"), "y");
    xcrt::Session runs(xcrt::Model(engine, graph));
    const float values[] = {1, -4};
    const auto out = runs.run(xcrt::Tensor::of<float>({2}, std::span(values)));
    CHECK(out[0].values<float>()[1] == -8);
    CHECK_THROWS_AS(operators.add("acme::Late(x: f32) -> y: i64[]"), xcrt::Error);
  }
  CHECK(held.use_count() == 1);
}
