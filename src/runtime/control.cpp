// If, Loop, Scan and SequenceMap on whole tensors. ONNX operator specification, under these names.
#include <algorithm>

#include "base/memory_budget.h"
#include "ops/containers.h"
#include "ops/control_flow.h"
#include "runtime/body_loop.h"
#include "runtime/executor.h"

namespace xc {
namespace {

/// Executes subgraph k on whole tensors.
std::vector<Tensor> run_body(Program& program, const Node& node, size_t k,
                             std::span<const Tensor> inputs, const RunOptions& options) {
  std::vector<TensorView> views;
  views.reserve(inputs.size());
  for (const Tensor& t : inputs) views.push_back(t.view());
  return program.child(node, k, views).run_tensors(views, options);
}

bool truth(const Tensor& t) {
  if (t.count() != 1)
    fail(Status::kInvalidModel, "a condition must have one element, it has {}", t.count());
  return load_int64(t.data(), t.dtype(), 0) != 0;
}

std::vector<Tensor> run_loop(Program& program, const Node& node, const std::vector<Tensor>& inputs,
                             const RunOptions& options, const std::function<void()>& check_stop) {
  const Graph& body = *node.subgraphs[0];
  const size_t states = inputs.size() - 2 - node.capture_count;
  if (inputs[0] && inputs[0].count() != 1)
    fail(Status::kInvalidModel, "a trip count must have one element, it has {}", inputs[0].count());
  const int64_t trips = inputs[0] ? inputs[0].to_int64s()[0] : INT64_MAX;
  bool go = !inputs[1] || truth(inputs[1]);
  std::vector<Tensor> first = inputs;
  const auto ones = [&](size_t input) { return Dims(loop_scalar_dims(body, input).size(), 1); };
  first[0] = Tensor::of<int64_t>({0}, ones(0));
  first[1] = Tensor::of<bool>({true}, ones(1));
  BodyLoop loop(program, node, options, std::move(first), {2, 1, states});
  std::optional<int64_t> expected;
  if (inputs[0] && condition_stays(body)) expected = trips;
  for (size_t k = 1 + states; k < body.outputs.size(); ++k) loop.stack(k, 0, false, expected);
  for (int64_t i = 0; i < trips && go; ++i) {
    check_stop();
    loop.scalar<int64_t>(0) = i;
    loop.iterate();
    go = truth(loop.output(0));
  }
  return loop.finish();
}

std::vector<Tensor> run_scan(Program& program, const Node& node, const std::vector<Tensor>& inputs,
                             const RunOptions& options, const std::function<void()>& check_stop) {
  const Graph& body = *node.subgraphs[0];
  const auto scans = static_cast<size_t>(node.attrs.get_int("num_scan_inputs", 0));
  const size_t states = inputs.size() - node.capture_count - scans;
  const auto in_axes = node.attrs.get_ints("scan_input_axes");
  const auto in_directions = node.attrs.get_ints("scan_input_directions");
  const auto out_axes = node.attrs.get_ints("scan_output_axes");
  const auto out_directions = node.attrs.get_ints("scan_output_directions");
  const auto at = [](const std::vector<int64_t>& v, size_t k) { return k < v.size() ? v[k] : 0; };
  std::vector<int64_t> axes(scans);
  int64_t length = -1;
  for (size_t k = 0; k < scans; ++k) {
    const Tensor& t = inputs[states + k];
    axes[k] = at(in_axes, k) < 0 ? at(in_axes, k) + t.rank() : at(in_axes, k);
    if (axes[k] < 0 || axes[k] >= t.rank())
      fail(Status::kInvalidModel, "scan_input_axes[{}] = {} is outside rank {}", k, at(in_axes, k),
           t.rank());
    const int64_t n = t.dims()[static_cast<size_t>(axes[k])];
    if (length >= 0 && n != length)
      fail(Status::kInvalidModel, "scan inputs have lengths {} and {}", length, n);
    length = n;
  }
  BodyLoop loop(program, node, options, inputs, {0, 0, states});
  for (size_t k = 0; k < scans; ++k) loop.slice(states + k, axes[k], at(in_directions, k) != 0);
  for (size_t k = states; k < body.outputs.size(); ++k)
    loop.stack(k, at(out_axes, k - states), at(out_directions, k - states) != 0, length);
  for (int64_t i = 0; i < length; ++i) {
    check_stop();
    loop.iterate();
  }
  return loop.finish();
}

std::vector<Tensor> run_sequence_map(Program& program, const Node& node,
                                     const std::vector<Tensor>& inputs, const RunOptions& options,
                                     const std::function<void()>& check_stop) {
  const size_t own = inputs.size() - node.capture_count;
  const size_t length = elements_of(inputs[0]).size();
  std::vector<std::vector<Tensor>> collected(node.subgraphs[0]->outputs.size());
  for (size_t k = 0; k < length; ++k) {
    check_stop();
    std::vector<Tensor> in = inputs;
    for (size_t i = 0; i < own; ++i) {
      if (inputs[i].dtype() != DType::kTensor) continue;
      const auto elements = elements_of(inputs[i]);
      if (elements.size() != length)
        fail(Status::kRange, "sequences have {} and {} elements", length, elements.size());
      in[i] = elements[k];
    }
    std::vector<Tensor> out = run_body(program, node, 0, in, options);
    for (size_t j = 0; j < collected.size(); ++j) {
      if (options.budget) options.budget->charge(held_bytes(out[j]));
      collected[j].push_back(std::move(out[j]));
    }
  }
  std::vector<Tensor> results;
  for (auto& elements : collected) results.push_back(make_sequence(std::move(elements)));
  return results;
}

}  // namespace

std::vector<Tensor> run_control(Program& program, const Node& node,
                                const std::vector<Tensor>& inputs, const RunOptions& options,
                                const std::function<void()>& check_stop) {
  if (node.op->name == "Loop") return run_loop(program, node, inputs, options, check_stop);
  if (node.op->name == "Scan") return run_scan(program, node, inputs, options, check_stop);
  if (node.op->name == "If")
    return run_body(program, node, truth(inputs[0]) ? 0 : 1, std::span(inputs).subspan(1), options);
  if (node.op->name == "SequenceMap")
    return run_sequence_map(program, node, inputs, options, check_stop);
  fail(Status::kUnsupported, "control-flow operator {} is not implemented", node.op->name);
}

}  // namespace xc
