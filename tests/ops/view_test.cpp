// Views against references: the same elements through other dims and strides.

#include <doctest/doctest.h>

#include "ops/infer.h"
#include "ops/op_case.h"
#include "ops/support.h"

namespace xc::test {

namespace {

/// The view of node 0 for input 0 of these dims and strides; nullopt when there is none.
std::optional<std::vector<ViewContext::Out>> view_of(const Graph& graph, SymDims dims,
                                                     SymDims strides) {
  const Node& node = graph.node(graph.order()[0]);
  ViewContext c;
  c.graph = &graph;
  c.node = &node;
  c.dims = std::move(dims);
  c.strides = std::move(strides);
  for (ValueId v : node.outputs) {
    if (!graph.value(v).type.dims) return std::nullopt;
    c.outputs.push_back({*graph.value(v).type.dims, {}, Dim(0)});
  }
  if (!node.op->view(c)) return std::nullopt;
  return c.outputs;
}

Dims at(const SymDims& dims, const Sizes& sizes) {
  Dims out;
  for (const Dim& d : dims)
    out.push_back(*d.evaluate([&](const std::string& s) { return std::optional(sizes.at(s)); }));
  return out;
}

void check_view(const OpCase& problem, const Tensor& x, const std::vector<ViewContext::Out>& view,
                const Sizes& sizes) {
  for (size_t k = 0; k < view.size(); ++k) {
    const Tensor& want = problem.expected[k];
    CHECK(at(view[k].dims, sizes) == want.dims());
    if (want.count() == 0) continue;
    const int64_t offset = at({view[k].offset}, sizes)[0] * element_size(x.dtype());
    const Tensor got(x.buffer(), x.byte_offset() + offset, x.dtype(), want.dims(),
                     at(view[k].strides, sizes));
    CHECK(difference(problem, k, got) == "");
  }
}

bool is_view_problem(const OpCase& p) {
  const Graph& g = p.graph;
  return g.order().size() == 1 && g.node(g.order()[0]).op->view && !p.inputs.empty() &&
         is_float(p.inputs[0].dtype());
}

}  // namespace

TEST_CASE("ops/view: contiguous inputs of symbolic dims") {
  int views = 0;
  for_each_case([&](OpCase& problem) {
    if (!is_view_problem(problem)) return;
    Sizes sizes;
    Graph graph = generalised(problem, sizes);
    try {
      infer_types(graph);
    } catch (const Error&) {
      return;  // needs sizes that are numbers
    }
    const SymDims& dims = *graph.value(graph.inputs[0]).type.dims;
    const auto view = view_of(graph, dims, contiguous_strides(dims));
    if (!view) return;
    ++views;
    check_view(problem, problem.inputs[0], *view, sizes);
  });
  CHECK(views > 20);
}

TEST_CASE("ops/view: inputs of any strides") {
  int views = 0;
  for_each_case([&](OpCase& problem) {
    if (!is_view_problem(problem)) return;
    Sizes sizes;
    Graph graph = generalised(problem, sizes);
    graph.value(graph.inputs[0]).type.dims = to_symbolic(problem.inputs[0].dims());
    infer_types(graph);
    const Tensor x = with_odd_strides(problem.inputs[0]);
    const auto view = view_of(graph, to_symbolic(x.dims()), to_symbolic(x.strides()));
    if (!view) return;
    ++views;
    check_view(problem, x, *view, {});
  });
  CHECK(views > 20);
}

TEST_CASE("ops/view: of tensors that are there, with any strides, nothing is inferred") {
  int views = 0;
  for_each_case([&](OpCase& problem) {
    const Graph& graph = problem.graph;
    if (!is_view_problem(problem)) return;
    const Node& node = graph.node(graph.order()[0]);
    if (!node.op->concrete_views || node.inputs[0] != graph.inputs[0]) return;
    const Tensor x = with_odd_strides(problem.inputs[0]);
    std::vector<TensorView> inputs;
    size_t given = 1;
    for (const ValueId v : node.inputs) {
      if (v == kNone)
        inputs.emplace_back();
      else if (inputs.empty())
        inputs.push_back(x.view());
      else if (graph.value(v).is_constant())
        inputs.push_back(graph.value(v).constant.view());
      else
        inputs.push_back(problem.inputs.at(given++).view());
    }
    const auto made = node.op->concrete_views(node, inputs);
    for (size_t k = 0; k < made.size(); ++k) {
      if (node.outputs[k] == kNone) continue;
      CHECK(made[k].dims == problem.expected[k].dims());
      if (problem.expected[k].count() == 0) continue;
      const int64_t first = x.byte_offset() + made[k].offset * element_size(x.dtype());
      const Tensor got(x.buffer(), first, x.dtype(), made[k].dims, made[k].strides);
      CHECK(difference(problem, k, got) == "");
      ++views;
    }
  });
  CHECK(views >= 20);
}

TEST_CASE("ops/view: a reshape across a gap is none, within rows it is") {
  const auto reshape = [](SymDims dims, SymDims strides, std::vector<int64_t> shape) {
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::kF32, dims));
    const ValueId s = graph.add_constant("s", Tensor::of(shape));
    graph.outputs = graph.node(graph.add_node(get_op("Reshape"), {x, s}, 1)).outputs;
    infer_types(graph);
    return view_of(graph, dims, strides);
  };
  const Dim n = Dim::symbol("n");
  CHECK(!reshape({4, 6}, {8, 1}, {24}));
  const auto split = reshape({4, 6}, {8, 1}, {2, 2, 2, 3});
  REQUIRE(split);
  CHECK((*split)[0].strides == SymDims{16, 8, 3, 1});
  const auto heads = reshape({n, 768}, {Dim(3 * 768), 1}, {0, 12, 64});
  REQUIRE(heads);
  CHECK((*heads)[0].strides == SymDims{Dim(3 * 768), 64, 1});
  CHECK(!reshape({n, 768}, {Dim(3 * 768), 1}, {-1}));
}

}  // namespace xc::test
