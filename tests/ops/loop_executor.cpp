#include "ops/loop_executor.h"

#include <doctest/doctest.h>

#include "loop/builder.h"
#include "loop/interpret.h"
#include "ops/infer.h"
#include "ops/support.h"

namespace xc::test {

namespace {

using loop::Expr;

bool in_loops(DType t) {
  return loop::is_value_type(loop::value_type(t));
}

/// Runs a kernel over row-major buffers; inputs first.
void interpret(const loop::Kernel& kernel, const std::vector<Tensor>& inputs, Tensor& output,
               std::vector<int64_t> dims) {
  std::vector<void*> buffers;
  for (const Tensor& t : inputs) buffers.push_back(t.data());
  buffers.push_back(output.data());
  xc_kargs args{};
  args.version = XC_KERNEL_ABI_VERSION;
  args.buffers = buffers.data();
  args.dims = dims.data();
  REQUIRE_EQ(loop::interpret(kernel, args), 0);
}

std::optional<Tensor> run_scalar(const Node& node, const std::vector<Tensor>& inputs,
                                 const Type& result) {
  Tensor output(result.dtype, *to_concrete(*result.dims));
  std::vector<Tensor> spread;  // inputs expanded to the output's dims
  loop::KernelBuilder b("scalar");
  const loop::DimParam n = b.dim("n");
  std::vector<std::optional<loop::Buffer>> buffers;
  for (const Tensor& x : inputs) {
    buffers.emplace_back();
    if (!x) continue;
    if (!in_loops(x.dtype())) return std::nullopt;
    Tensor copy(x.dtype(), output.dims());
    const Dims strides = broadcast_strides(x.view(), output.dims());
    copy_elements(restrided(x.view(), output.dims(), strides), copy.view());
    spread.push_back(copy);
    buffers.back() = b.input("x", x.dtype(), {1});
  }
  const loop::Buffer y = b.output("y", result.dtype, {1});
  bool expressible = true;
  b.loop("i", 0, n, [&](loop::Var i) {
    std::vector<Expr> args;
    for (const auto& buffer : buffers) args.push_back(buffer ? Expr((*buffer)(i)) : Expr());
    const Expr value = node.op->scalar(node, args, result.dtype);
    expressible = static_cast<bool>(value);
    if (expressible) b.store(y(i), value);
  });
  if (!expressible) return std::nullopt;
  interpret(b.finish(), spread, output, {output.count()});
  return output;
}

std::optional<Tensor> run_reduction(const Node& node, const std::vector<Tensor>& inputs,
                                    const Type& result) {
  const Tensor& x = inputs[0];
  if (!in_loops(x.dtype()) || x.dtype() == DType::kBool) return std::nullopt;
  const std::vector<int64_t> axes =
      inputs.size() > 1 && inputs[1] ? inputs[1].to_int64s() : std::vector<int64_t>{};
  const bool all = axes.empty() && node.attrs.get_int("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), all);
  for (size_t axis : normalise_axes(axes, reduced.size())) reduced[axis] = true;
  // Kept axes first, reduced axes last, row-major.
  Dims dims, strides;
  int64_t rows = 1, columns = 1;
  for (const bool last : {false, true})
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (reduced[i] != last) continue;
      dims.push_back(x.dims()[i]);
      strides.push_back(x.strides()[i]);
      (last ? columns : rows) *= x.dims()[i];
    }
  Tensor matrix(x.dtype(), dims), output(result.dtype, *to_concrete(*result.dims));
  copy_elements(restrided(x.view(), dims, strides), matrix.view());

  const ReductionSpec& spec = *node.op->reduction;
  loop::KernelBuilder b("reduction");
  const loop::DimParam m = b.dim("m"), n = b.dim("n");
  const loop::Buffer in = b.input("x", x.dtype(), {b.stride("row"), 1});
  const loop::Buffer y = b.output("y", result.dtype, {1});
  b.loop("i", 0, m, [&](loop::Var i) {
    const loop::Acc acc = b.acc("acc", spec.op, loop::value_type(x.dtype()));
    b.loop("j", 0, n, [&](loop::Var j) {
      const Expr element = in(i, j);
      b.accumulate(acc, spec.pre ? spec.pre(element) : element);
    });
    b.store(y(i), spec.post ? spec.post(acc.value(), loop::dim_value(n)) : acc.value());
  });
  std::vector<void*> buffers{matrix.data(), output.data()};
  const int64_t sizes[] = {rows, columns}, row_stride[] = {columns};
  xc_kargs args{};
  args.version = XC_KERNEL_ABI_VERSION;
  args.buffers = buffers.data();
  args.dims = sizes;
  args.strides = row_stride;
  REQUIRE_EQ(loop::interpret(b.finish(), args), 0);
  return output;
}

}  // namespace

std::optional<std::vector<Tensor>> run_as_loops(const OpCase& problem) {
  const Graph& graph = problem.graph;
  if (graph.order().size() != 1) return std::nullopt;
  const Node& node = graph.node(graph.order()[0]);
  if (!node.op->scalar && !node.op->reduction) return std::nullopt;
  std::vector<Tensor> inputs;
  for (ValueId v : node.inputs) {
    if (v == kNone) inputs.emplace_back();
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i] == v) inputs.push_back(problem.inputs[i]);
  }
  const Type result = infer_concrete(node, inputs)[0];
  if (!in_loops(result.dtype)) return std::nullopt;
  const auto output =
      node.op->scalar ? run_scalar(node, inputs, result) : run_reduction(node, inputs, result);
  if (!output) return std::nullopt;
  return std::vector<Tensor>{*output};
}

}  // namespace xc::test
