// The C++ wrapper, over the same small model.

#include <doctest/doctest.h>
#include <xc/xc.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "support/scratch.h"

namespace {

xcrt::Engine engine(const char* jit = "off") {
  return xcrt::Engine(xcrt::Config().set("threads", "1").set("jit", jit));
}

xcrt::Graph graph() {
  const float bias[] = {10, -2};
  xcrt::Graph graph("small");
  const xc_value x = graph.input("x", XC_DTYPE_F32, "n, 2");
  const xc_value b = graph.constant(xcrt::Tensor::of<float>({2}, std::span(bias)), "b");
  graph.output(graph.node("Relu", {graph.node("Add", {x, b})}), "y");
  return graph;
}

}  // namespace

TEST_CASE("capi/hpp: post_ops=off makes a step for every operator") {
  const auto explained = [](const char* post_ops) {
    xcrt::Config config;
    config.set("threads", "1").set("jit", "off").set("post_ops", post_ops);
    xcrt::Session session(xcrt::Model(xcrt::Engine(config), graph()));
    auto x = xcrt::Tensor::of<float>({1, 2});
    std::ranges::fill(x.values<float>(), 1.0f);
    CHECK(session.run(x)[0].values<float>()[0] == 11);
    return session.explain();
  };
  CHECK(explained("on").find("with 1 steps") != std::string::npos);
  CHECK(explained("off").find("with 2 steps") != std::string::npos);
}

TEST_CASE("capi/hpp: builds, runs and prepares a model") {
  xcrt::Session session(xcrt::Model(engine(), graph()));
  auto x = xcrt::Tensor::of<float>({2, 2});
  const float values[] = {1, 5, -20, 0};
  std::copy(std::begin(values), std::end(values), x.values<float>().begin());
  const std::vector<xcrt::Tensor> y = session.run(x);
  REQUIRE(y.size() == 1);
  CHECK(y[0].dims().size() == 2);
  CHECK(y[0].dims()[0] == 2);
  CHECK(std::vector<float>(y[0].values<float>().begin(), y[0].values<float>().end()) ==
        std::vector<float>{11, 3, 0, 0});

  xcrt::Call call = session.prepare(x);
  x.values<float>()[0] = -100;
  call.run();
  CHECK(call.output(0).values<float>()[0] == 0);
  CHECK(session.profile().counters().runs >= 1);
  CHECK(!session.explain().empty());
  const int64_t dims[] = {2, 2};
  const xc_shape shapes[] = {{dims, 2, 0}};
  CHECK(session.warm_up(shapes, std::chrono::seconds(60)));
  xcrt::RunOptions in_place;
  in_place.no_alloc = true;
  CHECK(in_place.raw().flags == XC_RUN_NO_ALLOC);
}

TEST_CASE("capi/hpp: runs and calls write into tensors of the caller") {
  xcrt::Session session(xcrt::Model(engine(), graph()));
  float in[] = {1, 5, -20, 0};
  const auto x = xcrt::Tensor::borrow({2, 2}, in);
  auto y = xcrt::Tensor::of<float>({2, 2});
  const xc_tensor_view views[] = {x.view()};
  CHECK(views[0].data == in);
  CHECK(views[0].rank == 2);
  xc_tensor* outputs[] = {y.handle()};
  session.run_into(views, outputs);
  std::array<float, 4> copy{};
  y.copy_out(std::as_writable_bytes(std::span(copy)));
  CHECK(copy == std::array<float, 4>{11, 3, 0, 0});
  CHECK_THROWS_AS(y.copy_out(std::as_writable_bytes(std::span(copy).first(3))), xcrt::Error);

  const xc_tensor* inputs[] = {x.handle()};
  xcrt::Call call = session.prepare(inputs, outputs);
  in[0] = 7;
  call.run();
  CHECK(call.output(0).data() == y.data());
  CHECK(y.values<float>()[0] == 17);
}

TEST_CASE("capi/hpp: attributes of every kind") {
  xcrt::Graph graph("kinds");
  const xc_value x = graph.input("x", XC_DTYPE_F32, "n");
  xc_node kinds = 0;
  graph.output(graph.node("Identity", {x}, &kinds));
  const double alphas[] = {0.5, 2};
  const char* const names[] = {"a", "b"};
  graph.set(kinds, "floats", std::span(alphas));
  graph.set(kinds, "strings", std::span(names));
  graph.set(kinds, "tensor", xcrt::Tensor::of<double>({2}, std::span(alphas)));
  const std::string text = graph.text();
  CHECK(text.find("floats = [0.5, 2.0]") != std::string::npos);
  CHECK(text.find("strings = [\"a\", \"b\"]") != std::string::npos);
  CHECK(text.find("tensor = f64[2] [0.5, 2]") != std::string::npos);
}

TEST_CASE("capi/hpp: nodes of several outputs, and bodies") {
  // y = the first two columns where the flag is set, else the others.
  const auto branch = [](size_t which) {
    xcrt::Graph body("branch");
    const xc_value x = body.input("x", XC_DTYPE_F32, "n, 4");
    const int64_t sizes[] = {2, 2};
    const xc_value split = body.constant(xcrt::Tensor::of<int64_t>({2}, std::span(sizes)));
    xc_value halves[2];
    const xc_value given[] = {x, split};
    xc_node node = 0;
    body.add_node("Split", given, halves, &node);
    body.set(node, "axis", 1);
    body.output(halves[which], "half");
    return body;
  };
  xcrt::Graph graph("if");
  const xc_value flag = graph.input("flag", XC_DTYPE_BOOL, "");
  const xc_value x = graph.input("x", XC_DTYPE_F32, "n, 4");
  xc_node node = 0;
  graph.output(graph.node("If", {flag, x}, &node), "y");
  graph.add_body(node, branch(0), 1);
  graph.add_body(node, branch(1), 1);
  xcrt::Session session(xcrt::Model(engine(), graph));
  auto on = xcrt::Tensor::of<bool>({});
  const float values[] = {1, 2, 3, 4};
  const auto row = xcrt::Tensor::of<float>({1, 4}, std::span(values));
  CHECK(session.run(on, row)[0].values<float>()[0] == 3);
  on.values<bool>()[0] = true;
  CHECK(session.run(on, row)[0].values<float>()[0] == 1);
}

TEST_CASE("capi/hpp: the table of knobs, and the loop IR") {
  const std::vector<xc_config_option_info> options = xcrt::Config::options();
  REQUIRE(!options.empty());
  CHECK(xcrt::view(options[0].name) == "threads");
  CHECK(xcrt::view(options[0].environment) == "XC_THREADS");
  const std::string_view kernel =
      "kernel relu(n) {\n  in x: f32[1]\n  out y: f32[1]\n"
      "  for i = 0 .. n {\n    y[i] = max(x[i], 0:f32)\n  }\n}\n";
  CHECK(xcrt::loop_schedule(kernel, "vectorize i 8").find("vector") != std::string::npos);
  CHECK_THROWS_AS(xcrt::loop_schedule(kernel, "vectorize k 8"), xcrt::Error);
}

TEST_CASE("capi/hpp: ports, names and text") {
  xcrt::Model model(engine(), graph());
  const std::vector<xcrt::Port> inputs = model.inputs();
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].name == "x");
  CHECK(inputs[0].type == "f32[n, 2]");
  CHECK(inputs[0].dims[0] == -1);
  CHECK(inputs[0].dim_texts[0] == "n");
  CHECK(model.output_index("y") == 0);
  CHECK(model.graph().text().find("graph small") != std::string::npos);
  CHECK_THROWS_AS(model.input_index("z"), xcrt::Error);
}

TEST_CASE("capi/hpp: failures are exceptions that say what, where and what to do") {
  try {
    xcrt::Model(engine(), "/no/such/model.onnx");
    FAIL("loaded a file that does not exist");
  } catch (const xcrt::Error& error) {
    CHECK(error.status() == XC_NOT_FOUND);
    CHECK(std::strcmp(error.status_name(), "NOT_FOUND") == 0);
    CHECK(std::string(error.what()).find("NOT_FOUND") == 0);
    CHECK(*error.advice() != 0);
  }
  xcrt::Session session(xcrt::Model(engine(), graph()));
  CHECK_THROWS_AS(session.run(xcrt::Tensor::of<float>({2, 3})), xcrt::Error);
  CHECK_THROWS_AS((xcrt::Tensor::of<float>({2}).values<int32_t>()), xcrt::Error);
  CHECK(session.run(xcrt::Tensor::of<float>({1, 2})).size() == 1);
}

TEST_CASE("capi/hpp: hooks live as long as their engine") {
  auto alive = std::make_shared<int>(0);
  std::weak_ptr<int> watch = alive;
  {
    xcrt::Engine hooked(xcrt::Config().set("jit", "off"),
                        {.log = [alive](int32_t, std::string_view) {}});
    alive.reset();
    CHECK(!watch.expired());
    const xcrt::Engine again = hooked.share();
  }
  CHECK(watch.expired());
}

TEST_CASE("capi/hpp: tensors share, borrow and hold strings") {
  float memory[] = {1, 2, 3};
  auto borrowed = xcrt::Tensor::borrow({3}, memory);
  CHECK(borrowed.data() == memory);
  const xcrt::Tensor other = borrowed.share();
  borrowed = {};
  CHECK(other.values<float>()[2] == 3);
  const int64_t two = 2;
  xcrt::Tensor strings(XC_DTYPE_STRING, {&two, 1});
  const std::string_view values[] = {"a", "bc"};
  strings.set_strings(values);
  CHECK(strings.string(1) == "bc");
}

TEST_CASE("capi/hpp: tensors without elements are row-major") {
  const xcrt::Tensor empty = xcrt::Tensor::of<float>({2, 0}, {});
  CHECK(empty.row_major());
  CHECK(empty.values<float>().empty());
}

TEST_CASE("capi/hpp: a sequence holds tensors") {
  const xcrt::Tensor elements[] = {xcrt::Tensor::of<float>({2}), xcrt::Tensor::of<int64_t>({})};
  const auto sequence = xcrt::Tensor::sequence(elements);
  CHECK(sequence.dtype() == XC_DTYPE_TENSOR);
  CHECK(sequence.size() == 2);
  CHECK(sequence.element(0).dims()[0] == 2);
  CHECK(sequence.element(1).dtype() == XC_DTYPE_I64);
  CHECK_THROWS_AS(sequence.element(2), xcrt::Error);
}

TEST_CASE("capi/hpp: what a visitor of a cache throws comes out as it is") {
  struct Enough : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const xc::testing::ScratchDirectory directory;
  for (const char digit : {'1', '2'})
    directory.write("object-" + std::string(32, digit), "damaged");
  std::vector<std::string> names;
  xcrt::visit_cache(directory.path, [&](const xc_cache_entry& entry) {
    names.emplace_back(xcrt::view(entry.name));
  });
  REQUIRE(names.size() == 2);
  int visited = 0;
  CHECK_THROWS_WITH_AS(xcrt::visit_cache(directory.path,
                                         [&](const xc_cache_entry&) {
                                           ++visited;
                                           throw Enough("seen enough");
                                         }),
                       "seen enough", Enough);
  CHECK(visited == 1);
}
