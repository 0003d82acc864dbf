// What a model may not say: every number is refused at inference, with the place, before a
// reference touches memory.

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/infer.h"
#include "ops/registry.h"

using namespace xc;

namespace {

using List = std::vector<int64_t>;

struct Wrong {
  const char* what;
  const char* op;
  std::vector<std::vector<int64_t>> inputs;  ///< dims of f32 operands
  std::vector<std::pair<const char*, Attr>> attrs;
};

const std::vector<Wrong>& wrong_nodes() {
  static const std::vector<Wrong> all{
      {"a stride of zero", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"strides", List{0, 1}}}},
      {"a negative stride", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"strides", List{-1, 1}}}},
      {"a dilation of zero", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"dilations", List{0, 1}}}},
      {"a huge dilation",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"dilations", List{INT64_MAX, 1}}}},
      {"negative padding", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"pads", List{-1, 0, 0, 0}}}},
      {"pads of one axis", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"pads", List{1, 1}}}},
      {"three strides for two axes",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"strides", List{1, 1, 1}}}},
      {"a kernel larger than its input", "Conv", {{1, 2, 4, 4}, {4, 2, 5, 3}}, {}},
      {"a dilated kernel larger than its input",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"dilations", List{4, 1}}}},
      {"an empty kernel", "Conv", {{1, 2, 4, 4}, {4, 2, 0, 3}}, {}},
      {"a group of zero", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"group", int64_t{0}}}},
      {"a group that does not divide the outputs",
       "Conv",
       {{1, 4, 8, 8}, {5, 2, 3, 3}},
       {{"group", int64_t{2}}}},
      {"channels that do not fit", "Conv", {{1, 3, 8, 8}, {4, 2, 3, 3}}, {}},
      {"a bias of another length", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}, {5}}, {}},
      {"another kernel_shape than the weights",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"kernel_shape", List{3, 2}}}},
      {"weights of another rank", "Conv", {{1, 2, 8, 8}, {4, 2, 3}}, {}},
      {"an unknown padding mode",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"auto_pad", std::string("SAME")}}},
      {"an attribute of another kind",
       "Conv",
       {{1, 2, 8, 8}, {4, 2, 3, 3}},
       {{"strides", int64_t{1}}}},
      {"an unknown attribute", "Conv", {{1, 2, 8, 8}, {4, 2, 3, 3}}, {{"stride", List{1, 1}}}},
      {"a group that does not divide the inputs",
       "ConvTranspose",
       {{1, 3, 8, 8}, {3, 2, 3, 3}},
       {{"group", int64_t{2}}}},
      {"padding larger than the result",
       "ConvTranspose",
       {{1, 2, 1, 1}, {2, 2, 1, 1}},
       {{"pads", List{1, 1, 1, 1}}}},
      {"a pool without kernel", "MaxPool", {{1, 2, 8, 8}}, {}},
      {"a pool kernel of zero", "MaxPool", {{1, 2, 8, 8}}, {{"kernel_shape", List{0, 2}}}},
      {"a pool kernel larger than its input",
       "AveragePool",
       {{1, 2, 2, 2}},
       {{"kernel_shape", List{3, 3}}}},
      {"pool padding as wide as the kernel",
       "MaxPool",
       {{1, 2, 8, 8}},
       {{"kernel_shape", List{2, 2}}, {"pads", List{2, 0, 0, 0}}}},
      {"an Lp norm of order zero",
       "LpPool",
       {{1, 2, 8, 8}},
       {{"kernel_shape", List{2, 2}}, {"p", int64_t{0}}}},
      {"inner sizes that differ", "MatMul", {{2, 3}, {4, 5}}, {}},
      {"batches that do not broadcast", "MatMul", {{2, 3, 4}, {3, 4, 5}}, {}},
      {"a scalar operand", "MatMul", {{}, {4, 5}}, {}},
      {"operands of rank three", "Gemm", {{1, 2, 3}, {3, 4}}, {}},
      {"C that does not broadcast", "Gemm", {{2, 3}, {3, 4}, {3, 4}}, {}},
      {"an axis outside", "Softmax", {{2, 3}}, {{"axis", int64_t{2}}}},
      {"an axis outside", "LayerNormalization", {{2, 3}, {3}}, {{"axis", int64_t{-3}}}},
      {"a scale that does not fit", "LayerNormalization", {{2, 3}, {4}}, {}},
      {"groups that do not divide",
       "GroupNormalization",
       {{1, 5, 2}, {5}, {5}},
       {{"num_groups", int64_t{2}}}},
      {"no groups", "GroupNormalization", {{1, 4, 2}, {4}, {4}}, {{"num_groups", int64_t{0}}}},
      {"statistics of another length", "BatchNormalization", {{1, 4, 2}, {4}, {4}, {3}, {4}}, {}},
      {"a window of zero channels", "LRN", {{1, 4, 2, 2}}, {{"size", int64_t{0}}}},
      {"an axis named twice", "MeanVarianceNormalization", {{1, 4, 2, 2}}, {{"axes", List{1, -3}}}},
      {"gate rows that do not fit", "LSTM", {{5, 2, 3}, {1, 15, 3}, {1, 16, 4}}, {}},
      {"an unknown activation",
       "LSTM",
       {{5, 2, 3}, {1, 16, 3}, {1, 16, 4}},
       {{"activations", std::vector<std::string>{"Sigmoid", "Tanh", "Sine"}}}},
      {"too few activations",
       "GRU",
       {{5, 2, 3}, {1, 12, 3}, {1, 12, 4}},
       {{"activations", std::vector<std::string>{"Sigmoid"}}}},
      {"an unknown direction",
       "RNN",
       {{5, 2, 3}, {1, 4, 3}, {1, 4, 4}},
       {{"direction", std::string("sideways")}}},
      {"weights of one direction",
       "RNN",
       {{5, 2, 3}, {1, 4, 3}, {1, 4, 4}},
       {{"direction", std::string("bidirectional")}}},
      {"another hidden size",
       "RNN",
       {{5, 2, 3}, {1, 4, 3}, {1, 4, 4}},
       {{"hidden_size", int64_t{5}}}},
      {"neither scales nor sizes", "Resize", {{1, 1, 4, 4}}, {}},
      {"an equation for other ranks",
       "Einsum",
       {{2, 3}, {3, 4}},
       {{"equation", std::string("ijk,kl->il")}}},
      {"an equation for other inputs",
       "Einsum",
       {{2, 3}, {3, 4}},
       {{"equation", std::string("ij->i")}}},
      {"an output label from nowhere",
       "Einsum",
       {{2, 3}, {3, 4}},
       {{"equation", std::string("ij,jk->iz")}}},
      {"an equation of noise", "Einsum", {{2, 3}}, {{"equation", std::string("i;->-")}}},
      {"label sizes that differ",
       "Einsum",
       {{2, 3}, {4, 5}},
       {{"equation", std::string("ij,jk->ik")}}},
      {"a grid of other axes", "GridSample", {{1, 1, 4, 4}, {1, 2, 2, 3}}, {}},
      {"heads that do not divide",
       "Attention",
       {{1, 2, 6}, {1, 2, 6}, {1, 2, 6}},
       {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{4}}}},
      {"no heads", "Attention", {{1, 2, 6}, {1, 2, 6}, {1, 2, 6}}, {}},
      {"query heads in no whole groups",
       "Attention",
       {{1, 3, 2, 4}, {1, 2, 2, 4}, {1, 2, 2, 4}},
       {}},
      {"a mask that does not broadcast",
       "Attention",
       {{1, 2, 2, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {3, 3}},
       {}},
      {"heads that do not divide",
       "LinearAttention",
       {{1, 2, 6}, {1, 2, 6}, {1, 2, 6}},
       {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{2}}}},
      {"an offset of other taps", "DeformConv", {{1, 1, 4, 4}, {1, 1, 2, 2}, {1, 6, 3, 3}}, {}},
      {"a matrix that is not square", "Det", {{2, 3}}, {}},
      {"a gate of another shape", "SwiGLU", {{2, 3}, {1, 3}}, {}},
      {"a signal of three components", "DFT", {{1, 8, 3}}, {}},
      {"half a spectrum of a complex signal", "DFT", {{1, 8, 2}}, {{"onesided", int64_t{1}}}},
      {"an update of another shape", "TensorScatter", {{2, 5, 3}, {2, 2, 4}}, {}},
      {"an update longer than its cache", "TensorScatter", {{2, 5, 3}, {2, 6, 3}}, {}},
  };
  return all;
}

}  // namespace

TEST_CASE("ops/invalid: wrong attributes and dims are refused with their place") {
  for (const Wrong& wrong : wrong_nodes()) {
    CAPTURE(wrong.op);
    CAPTURE(wrong.what);
    Graph graph;
    Node node;
    node.op = &get_op(wrong.op);
    node.name = "here";
    std::vector<Tensor> operands;
    for (const auto& dims : wrong.inputs) {
      node.inputs.push_back(graph.add_input(fmt::format("x{}", node.inputs.size()),
                                            Type::tensor(DType::kF32, to_symbolic(dims))));
      operands.emplace_back(DType::kF32, dims);
    }
    node.outputs = {graph.add_value("y")};
    for (const auto& [name, value] : wrong.attrs) node.attrs.set(name, value);
    const Node alone = node;
    graph.add_node(std::move(node));
    try {
      infer_types(graph);
      FAIL_CHECK("accepted at load");
    } catch (const Error& error) {
      CHECK(error.status() == Status::kInvalidModel);
      CHECK(error.where().find("here") != std::string::npos);
    }
    CHECK_THROWS_AS(run_reference(alone, operands), Error);
  }
}

TEST_CASE("ops/invalid: relations between symbolic sizes are checked on the actual ones") {
  Graph graph;
  Node node;
  node.op = &get_op("Conv");
  const SymDims any{Dim::symbol("n"), Dim::symbol("c"), Dim::symbol("h")};
  node.inputs = {graph.add_input("x", Type::tensor(DType::kF32, any)),
                 graph.add_input("w", Type::tensor(DType::kF32, SymDims{4, 2, 3}))};
  node.outputs = {graph.add_value("y")};
  graph.outputs = node.outputs;
  const NodeId id = graph.add_node(std::move(node));
  infer_types(graph);
  // What a reference is handed when a plan was made for symbols: three channels against two.
  const Tensor x(DType::kF32, {1, 3, 5}), w(DType::kF32, {4, 2, 3});
  Tensor y(DType::kF32, {1, 4, 3});
  ReferenceContext context;
  context.node = &graph.node(id);
  context.inputs = {x.view(), w.view()};
  context.outputs = {y.view()};
  CHECK_THROWS_AS(graph.node(id).op->reference(context), Error);
}

TEST_CASE("ops/invalid: values of a run are checked before use") {
  const auto run = [](const char* op, std::vector<Tensor> inputs,
                      std::vector<std::pair<const char*, Attr>> attrs = {}) {
    Node node;
    node.op = &get_op(op);
    node.name = "here";
    for (size_t i = 0; i < inputs.size(); ++i)
      node.inputs.push_back(inputs[i] ? static_cast<ValueId>(i) : kNone);
    node.outputs = {static_cast<ValueId>(inputs.size())};
    for (const auto& [name, value] : attrs) node.attrs.set(name, value);
    run_reference(node, inputs);
  };
  const Tensor x(DType::kF32, {2, 3}), image(DType::kF32, {1, 1, 2, 2});
  CHECK_THROWS_AS(run("TopK", {x, Tensor::of<int64_t>({4})}), Error);
  CHECK_THROWS_AS(run("TopK", {x, Tensor::of<int64_t>({-1})}), Error);
  CHECK_THROWS_AS(run("Pad", {x, Tensor::of<int64_t>({-3, 0, 0, 0})}), Error);
  CHECK_THROWS_AS(run("Pad", {x, Tensor::of<int64_t>({INT64_MAX, 0, INT64_MAX, 0})}), Error);
  CHECK_THROWS_AS(run("Pad", {x, Tensor::of<int64_t>({0, 0, 0})}), Error);
  CHECK_THROWS_AS(run("Resize", {x, {}, Tensor::of<float>({1.0f, -1.0f})}), Error);
  CHECK_THROWS_AS(run("Resize", {x, {}, Tensor::of<float>({1e30f, 1.0f})}), Error);
  CHECK_THROWS_AS(run("Resize", {x, {}, Tensor::of<float>({NAN, 1.0f})}), Error);
  CHECK_THROWS_AS(run("Resize", {x, {}, {}, Tensor::of<int64_t>({2, -3})}), Error);
  CHECK_THROWS_AS(run("MaxUnpool", {image, Tensor::of<int64_t>({0, 1, 2, 99}, {1, 1, 2, 2})},
                      {{"kernel_shape", List{2, 2}}}),
                  Error);
  CHECK_THROWS_AS(run("Col2Im", {Tensor(DType::kF32, {1, 4, 9}), Tensor::of<int64_t>({4, 4}),
                                 Tensor::of<int64_t>({0, 2})}),
                  Error);
  CHECK_THROWS_AS(run("DFT", {Tensor(DType::kF32, {1, 8, 1}), Tensor::scalar<int64_t>(0)}), Error);
  CHECK_THROWS_AS(run("DFT", {Tensor(DType::kF32, {1, 8, 1}), {}, Tensor::scalar<int64_t>(2)}),
                  Error);
  CHECK_THROWS_AS(run("DFT", {Tensor(DType::kF32, {1, 1, 2})},
                      {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}}),
                  Error);
  CHECK_THROWS_AS(run("STFT", {Tensor(DType::kF32, {1, 8, 1}), Tensor::scalar<int64_t>(0)}), Error);
  CHECK_THROWS_AS(run("STFT", {Tensor(DType::kF32, {1, 8, 1}), Tensor::scalar<int64_t>(1),
                               Tensor(DType::kF32, {9})}),
                  Error);
  CHECK_THROWS_AS(run("TensorScatter", {Tensor(DType::kF32, {1, 5, 3}),
                                        Tensor(DType::kF32, {1, 2, 3}), Tensor::of<int64_t>({4})}),
                  Error);
  CHECK_THROWS_AS(run("NegativeLogLikelihoodLoss", {x, Tensor::of<int64_t>({0, 3})}), Error);
  CHECK_THROWS_AS(
      run("RoiAlign", {image, Tensor::of<float>({0, 0, 1, 1}, {1, 4}), Tensor::of<int64_t>({1})}),
      Error);
}

TEST_CASE("ops/invalid: what com.microsoft asks for and is not there is refused by name") {
  struct Refused {
    const char* inputs;
    const char* node;  ///< of com.microsoft
    Status status;
    const char* told;
  };
  constexpr const char* kBlocks = "%a: f32[2, 32], %b: u8[3, 2, 8], %s: f32[3, 2]";
  constexpr const char* kGrouped =
      "%q: f32[1, 1, 32], %k: f32[1, 1, 16], %p: f32[1, 1, 4, 16], %n: i32[1], %t: i32[], %h: "
      "f32[2]";
  constexpr const char* kHeads = "%q: f32[2, 3, 8], %m: i32[2, 1, 3, 3], %n: i32[]";
  const Refused all[] = {
      {"%a: f32[2, 32], %b: u8[3, 2, 8], %s: f32[3, 2], %g: i32[30]",
       "MatMulNBits(%a, %b, %s, _, %g) {K = 32, N = 3, block_size = 16}", Status::kInvalidModel,
       "[30]"},
      {kBlocks, "MatMulNBits(%a, %b, %s) {K = 32, N = 3, block_size = 16, bits = 3}",
       Status::kUnsupported, "'bits' = 3"},
      {kBlocks, "MatMulNBits(%a, %b, %s) {K = 32, N = 3, block_size = 16, weight_prepacked = 1}",
       Status::kUnsupported, "weight_prepacked"},
      {kBlocks, "MatMulNBits(%a, %b, %s) {K = 32, N = 3, block_size = 24}", Status::kInvalidModel,
       "block_size"},
      {kBlocks, "MatMulNBits(%a, %b, %s) {K = 64, N = 3, block_size = 16}", Status::kInvalidModel,
       "'K' is 64"},
      {kGrouped,
       "GroupQueryAttention(%q, %k, %k, %p, %p, %n, %t, _, _, _, _, _, %h) {num_heads = 2, "
       "kv_num_heads = 1}",
       Status::kUnsupported, "k_scale"},
      {kGrouped,
       "GroupQueryAttention(%q, %k, %k, %p, %p, %n, %t) {num_heads = 2, kv_num_heads = 1, "
       "sliding_window_cache = 1}",
       Status::kUnsupported, "sliding_window_cache"},
      {kGrouped,
       "GroupQueryAttention(%q, %k, %k, %p, %p, %n, %t, _, _, _, _, _, _, _, %h) {num_heads = 2, "
       "kv_num_heads = 1}",
       Status::kInvalidModel, "k_norm_weight"},
      {kGrouped,
       "GroupQueryAttention(%q, %k, %k, %p, %p, %n, %t) {num_heads = 2, kv_num_heads = 1, "
       "do_rotary = 1}",
       Status::kInvalidModel, "cos_cache"},
      {kHeads, "MultiHeadAttention(%q, %q, %q, _, %m) {num_heads = 2}", Status::kUnsupported,
       "a mask of rank 4"},
      {kHeads, "MultiHeadAttention(%q, %q, %q, _, _, _, _, _, %n) {num_heads = 2}",
       Status::kUnsupported, "past_sequence_length"},
      {kHeads, "MultiHeadAttention(%q, %q, %q) {num_heads = 3}", Status::kInvalidModel, "3 heads"},
      {"%x: f32[1, 2, 4, 4], %w: f32[2, 2, 3, 3]",
       "FusedConv(%x, %w) {activation = \"Clip\", activation_params = [1.0]}",
       Status::kInvalidModel, "activation_params"},
      {"%x: f32[1, 2, 4, 4], %w: f32[2, 2, 3, 3]", "FusedConv(%x, %w) {activation = \"Mish\"}",
       Status::kInvalidModel, "HardSigmoid"},
      {"%a: f32[2, 3], %b: f32[3, 4]", "FusedGemm(%a, %b) {activation = \"LeakyRelu\"}",
       Status::kInvalidModel, "activation_alpha"},
      {"%x: u8[2, 3, 5], %w: u8[5, 24], %b: f32[24], %s: f32[]",
       "QAttention(%x, %w, %b, %s, %s) {num_heads = 2, do_rotary = 1}", Status::kUnsupported,
       "do_rotary"},
      {"%a: f32[2, 32], %b: u8[48], %s: f32[6]",
       "MatMulBnb4(%a, %b, %s) {K = 32, N = 3, block_size = 16, quant_type = 1, transB = 0}",
       Status::kUnsupported, "transB"},
      {"%d: u4[4, 32], %i: i64[2], %s: f32[1, 32]",
       "GatherBlockQuantized(%d, %i, %s) {gather_axis = 0, quantize_axis = 0, block_size = 16}",
       Status::kUnsupported, "the axis of their blocks"},
      {"%d: u8[4, 32], %i: i64[2], %s: f32[4, 4]",
       "GatherBlockQuantized(%d, %i, %s) {quantize_axis = 1, block_size = 32}",
       Status::kInvalidModel, "[4, 2]"},
      {"%x: f32[1, 4, 4, 6], %g: f32[6]", "GroupNorm(%x, %g, %g) {groups = 4, activation = 0}",
       Status::kInvalidModel, "6 channels"},
  };
  for (const Refused& refused : all) {
    CAPTURE(refused.node);
    const std::string text =
        fmt::format("graph g({}) -> (%y) {{ %y = \"com.microsoft\"::{} \"here\" }}", refused.inputs,
                    refused.node);
    try {
      Graph graph = parse_graph(text);
      for (const NodeId id : graph.order()) check_node(graph.node(id));
      infer_types(graph);
      FAIL_CHECK("it was taken");
    } catch (const Error& error) {
      CHECK(error.status() == refused.status);
      CHECK_MESSAGE(error.message().find(refused.told) != std::string::npos, error.message());
    }
  }
}
