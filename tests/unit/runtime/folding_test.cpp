// Constants that passes compute with the kernels of a run.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "runtime/evaluate.h"
#include "runtime/model.h"
#include "support/evaluate.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;  // sessions.h

namespace {

std::shared_ptr<Engine> engine() {
  Config config;
  config.set_jit(JitMode::kOff);
  return std::make_shared<Engine>(config, HostHooks{}, nullptr);
}

Node node_of(const char* op, size_t inputs, Attrs attrs = {}) {
  Node node;
  node.op = &get_op(op);
  node.name = op;
  node.inputs.assign(inputs, 0);
  node.outputs = {0};
  node.attrs = std::move(attrs);
  return node;
}

Attrs training() {
  Attrs attrs;
  attrs.set("training_mode", int64_t{1});
  return attrs;
}

}  // namespace

TEST_CASE("runtime/evaluate: a node by kernels gives what its reference gives") {
  const auto check = [](const Node& node, const std::vector<Tensor>& inputs) {
    const Tensor want = run_reference(node, inputs)[0];
    const std::vector<Tensor> got = evaluate(engine(), node, inputs, {});
    REQUIRE(got.size() == 1);
    CHECK_MESSAGE(test::difference({got[0]}, {want}, 1e-4) == "", node.op->name);
  };
  check(node_of("Add", 2), {ramp({40, 50}, 1, 0), ramp({50}, 1, 2)});
  check(node_of("MatMul", 2), {ramp({40, 50}, 1, 0), ramp({50, 30}, 1, 2)});
  check(node_of("Transpose", 1), {ramp({40, 50}, 1, 0)});
  for (const int64_t batch : {1, 3}) {  // with the statistics of the batch
    const std::vector<Tensor> four(4, ramp({8}, 0.3, 1.5));
    for (const Dims& dims : {Dims{batch, 8, 70}, Dims{batch, 8, 5, 9}, Dims{batch, 8}}) {
      std::vector<Tensor> inputs{ramp(dims, 2, 0.5)};
      inputs.insert(inputs.end(), four.begin(), four.end());
      check(node_of("BatchNormalization", 5, training()), inputs);
    }
  }
}

TEST_CASE("runtime/evaluate: spectra of short signals are products, of others fast transforms") {
  const auto check = [](const Node& node, const std::vector<Tensor>& inputs) {
    const Tensor want = run_reference(node, inputs)[0];
    CHECK_MESSAGE(test::difference(evaluate(engine(), node, inputs, {}), {want}, 2e-4) == "",
                  node.op->name << " of " << to_text(inputs[0].dims()));
  };
  for (const int64_t axis : {1, 2})
    for (const int64_t length : {0, 5, 12, 16})  // 0: as long as the axis
      for (const int64_t kind : {0, 1, 2, 3}) {
        Attrs attrs;
        attrs.set("inverse", kind & 1);
        attrs.set("onesided", kind >> 1);
        std::vector<int64_t> parts{1, 2};
        if (kind == 2) parts = {1};
        if (kind == 3) parts = {2};
        for (const int64_t part : parts)
          check(node_of("DFT", 3, attrs), {ramp({3, 12, 12, part}, 1, 0.3),
                                           length == 0 ? Tensor() : Tensor::scalar<int64_t>(length),
                                           Tensor::scalar<int64_t>(axis)});
      }
  // Longer ones are fast transforms, but of lengths with a large prime factor.
  for (const int64_t points : {254, 300, 512})
    for (const int64_t kind : {0, 1, 2, 3}) {
      Attrs attrs;
      attrs.set("inverse", kind & 1);
      attrs.set("onesided", kind >> 1);
      for (const int64_t axis : {1, 2})
        check(node_of("DFT", 3, attrs), {ramp(axis == 1 ? Dims{2, points, 3, kind == 2 ? 1 : 2}
                                                        : Dims{2, 3, points, kind == 2 ? 1 : 2},
                                              1, 0.3),
                                         Tensor(), Tensor::scalar<int64_t>(axis)});
    }
  for (const int64_t onesided : {0, 1})
    for (const int64_t step : {1, 7}) {
      Attrs attrs;
      attrs.set("onesided", onesided);
      const Tensor signal = ramp({2, 100, 1}, 1, 0), window = ramp({20}, 0.5, 1);
      const Tensor by = Tensor::scalar(step), length = Tensor::scalar<int64_t>(20);
      check(node_of("STFT", 4, attrs), {signal, by, window, length});
      check(node_of("STFT", 4, attrs), {signal, by, window, {}});
      check(node_of("STFT", 4, attrs), {signal, by, {}, length});
      check(node_of("STFT", 4, attrs), {ramp({2, 20, 1}, 1, 0), by, {}, length});
    }
}

TEST_CASE("runtime/evaluate: outputs not wanted and inputs not given") {
  Node split = node_of("Split", 2);
  split.outputs = {kNone, 0};
  const auto parts =
      evaluate(engine(), split, {ramp({6, 4}, 1, 0), Tensor::of<int64_t>({2, 4})}, {});
  REQUIRE(parts.size() == 2);
  CHECK(!parts[0]);
  CHECK(parts[1].dims() == Dims{4, 4});
  Node clip = node_of("Clip", 3);
  clip.inputs = {0, kNone, 0};
  const Tensor x = ramp({30}, 1, 0), high = Tensor::scalar(0.25F);
  CHECK(test::difference(evaluate(engine(), clip, {x, {}, high}, {}),
                         run_reference(clip, {x, {}, high}), 0) == "");
}

TEST_CASE("runtime/model: weights made in the graph are made once, whatever their size") {
  // Weights standardised per filter and scaled, as exporters write networks without batch norms:
  // each larger than the bound on one result.
  const Tensor w = ramp({640, 16, 3, 3}, 1, 0.2), x = ramp({1, 16, 5, 5}, 1, 0);
  const Tensor ones = Tensor::of(std::vector<float>(640, 1.0F)),
               zeros = Tensor::of(std::vector<float>(640, 0.0F)), half = Tensor::scalar(0.5F);
  Graph graph;
  const auto then = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.node(graph.add_node(get_op(op), std::move(inputs), 1, std::move(attrs)))
        .outputs[0];
  };
  const ValueId in = graph.add_input("x", Type::tensor(DType::kF32, to_symbolic(x.dims())));
  const ValueId one = graph.add_constant("one", ones), zero = graph.add_constant("zero", zeros);
  const ValueId flat = then(
      "Reshape",
      {graph.add_constant("w", w), graph.add_constant("flat", Tensor::of<int64_t>({1, 640, -1}))});
  const ValueId norm = then("BatchNormalization", {flat, one, zero, zero, one}, training());
  const ValueId back =
      then("Reshape", {norm, graph.add_constant("back", Tensor::of<int64_t>({640, 16, 3, 3}))});
  const ValueId scaled = then("Mul", {back, graph.add_constant("half", half)});
  graph.outputs = {then("Conv", {in, scaled})};

  const auto model = Model::create(engine(), std::move(graph));
  const Graph& folded = *model->graph();
  REQUIRE(folded.order().size() == 1);
  Tensor want = run_reference(node_of("BatchNormalization", 5, training()),
                              {w.reshaped({1, 640, 144}), ones, zeros, zeros, ones})[0];
  want = run_reference(node_of("Mul", 2), {want.reshaped(w.dims()), half})[0];
  const Node& left = folded.node(folded.order()[0]);
  CHECK(test::difference({folded.value(left.inputs[1]).constant}, {want}, 1e-4) == "");
}

TEST_CASE("runtime/model: what cannot be computed is left for the run to tell") {
  Graph graph = parse_graph(R"(graph main(%x: f32[1]) -> (%y) {
  const %data: f32[200, 200] = splat 1
  const %at: i64[1] = [500]
  %g = Gather(%data, %at)
  %y = Add(%g, %x)
})");
  const auto model = Model::create(engine(), std::move(graph));
  CHECK(model->graph()->order().size() == 2);
}
