// If, Loop, Scan and SequenceMap on whole tensors. ONNX operator specification, under these names.
#include <algorithm>

#include "ops/containers.h"
#include "runtime/executor.h"

namespace xc {
namespace {

bool truth(const Tensor& t) {
  if (t.count() != 1)
    fail(Status::kInvalidModel, "a condition must have one element, it has {}", t.count());
  return load_int64(t.data(), t.dtype(), 0) != 0;
}

/// Slices [index] off `axis`, as a copy.
Tensor take(const Tensor& t, int64_t axis, int64_t index) {
  Dims dims = t.dims(), strides = t.strides();
  const int64_t offset = strides[static_cast<size_t>(axis)] * index * element_size(t.dtype());
  dims.erase(dims.begin() + axis);
  strides.erase(strides.begin() + axis);
  return Tensor(t.buffer(), t.byte_offset() + offset, t.dtype(), dims, strides).to_contiguous();
}

/// Stacks equal tensors along a new axis.
Tensor stack(const std::vector<Tensor>& parts, int64_t axis, DType dtype, const Dims& empty_dims) {
  Dims dims = parts.empty() ? empty_dims : parts[0].dims();
  if (axis < 0) axis += static_cast<int64_t>(dims.size()) + 1;
  dims.insert(dims.begin() + axis, static_cast<int64_t>(parts.size()));
  Tensor out(dtype, dims);
  Dims view_dims = dims, view_strides = out.strides();
  view_dims.erase(view_dims.begin() + axis);
  const int64_t step = view_strides[static_cast<size_t>(axis)];
  view_strides.erase(view_strides.begin() + axis);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].dims() != view_dims)
      fail(Status::kInvalidModel, "scan outputs differ in dims between iterations: {} and {}",
           to_text(parts[0].dims()), to_text(parts[k].dims()));
    const Tensor slot(out.buffer(), static_cast<int64_t>(k) * step * element_size(dtype), dtype,
                      view_dims, view_strides);
    copy_elements(parts[k].view(), slot.view());
  }
  return out;
}

/// States that no iteration replaced are the caller's memory still, which will be used for others.
void own_states(std::vector<Tensor>& states) {
  for (Tensor& state : states) state = state.clone();
}

std::vector<Tensor> run_loop(const Node& node, const std::vector<Tensor>& inputs,
                             const BodyRunner& run_body, const std::function<void()>& check_stop) {
  const size_t captures = node.capture_count;
  const size_t states = inputs.size() - 2 - captures;
  const Graph& body = *node.subgraphs[0];
  const size_t scans = body.outputs.size() - 1 - states;
  const int64_t trips = inputs[0] ? inputs[0].to_int64s().at(0) : INT64_MAX;
  bool go = !inputs[1] || truth(inputs[1]);
  std::vector<Tensor> state(inputs.begin() + 2, inputs.begin() + 2 + static_cast<int64_t>(states));
  std::vector<std::vector<Tensor>> collected(scans);
  if (trips <= 0 || !go) own_states(state);
  for (int64_t i = 0; i < trips && go; ++i) {
    check_stop();
    std::vector<Tensor> in{Tensor::scalar(i), Tensor::scalar(true)};
    in.insert(in.end(), state.begin(), state.end());
    in.insert(in.end(), inputs.end() - static_cast<int64_t>(captures), inputs.end());
    std::vector<Tensor> out = run_body(0, in);
    go = truth(out[0]);
    for (size_t k = 0; k < states; ++k) state[k] = std::move(out[1 + k]);
    for (size_t k = 0; k < scans; ++k) collected[k].push_back(std::move(out[1 + states + k]));
  }
  std::vector<Tensor> results = std::move(state);
  for (size_t k = 0; k < scans; ++k) {
    const Type& type = body.value(body.outputs[1 + states + k]).type;
    Dims empty;
    if (type.dims)
      for (const Dim& d : *type.dims) empty.push_back(d.constant().value_or(0));
    results.push_back(stack(collected[k], 0, type.dtype, empty));
  }
  return results;
}

std::vector<Tensor> run_scan(const Node& node, const std::vector<Tensor>& inputs,
                             const BodyRunner& run_body, const std::function<void()>& check_stop) {
  const size_t captures = node.capture_count;
  const auto scan_inputs = static_cast<size_t>(node.attrs.get_int("num_scan_inputs", 0));
  const size_t states = inputs.size() - captures - scan_inputs;
  const Graph& body = *node.subgraphs[0];
  const size_t scan_outputs = body.outputs.size() - states;
  const auto in_axes = node.attrs.get_ints("scan_input_axes");
  const auto in_directions = node.attrs.get_ints("scan_input_directions");
  const auto out_axes = node.attrs.get_ints("scan_output_axes");
  const auto out_directions = node.attrs.get_ints("scan_output_directions");
  const auto at = [](const std::vector<int64_t>& v, size_t k) { return k < v.size() ? v[k] : 0; };
  std::vector<int64_t> axes(scan_inputs);
  int64_t length = -1;
  for (size_t k = 0; k < scan_inputs; ++k) {
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
  std::vector<Tensor> state(inputs.begin(), inputs.begin() + static_cast<int64_t>(states));
  std::vector<std::vector<Tensor>> collected(scan_outputs);
  if (length <= 0) own_states(state);
  for (int64_t i = 0; i < length; ++i) {
    check_stop();
    std::vector<Tensor> in = state;
    for (size_t k = 0; k < scan_inputs; ++k)
      in.push_back(take(inputs[states + k], axes[k], at(in_directions, k) ? length - 1 - i : i));
    in.insert(in.end(), inputs.end() - static_cast<int64_t>(captures), inputs.end());
    std::vector<Tensor> out = run_body(0, in);
    for (size_t k = 0; k < states; ++k) state[k] = std::move(out[k]);
    for (size_t k = 0; k < scan_outputs; ++k) collected[k].push_back(std::move(out[states + k]));
  }
  std::vector<Tensor> results = std::move(state);
  for (size_t k = 0; k < scan_outputs; ++k) {
    const Type& type = body.value(body.outputs[states + k]).type;
    Dims empty;
    if (type.dims)
      for (const Dim& d : *type.dims) empty.push_back(d.constant().value_or(0));
    if (at(out_directions, k)) std::reverse(collected[k].begin(), collected[k].end());
    results.push_back(stack(collected[k], at(out_axes, k), type.dtype, empty));
  }
  return results;
}

std::vector<Tensor> run_sequence_map(const Node& node, const std::vector<Tensor>& inputs,
                                     const BodyRunner& run_body,
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
    std::vector<Tensor> out = run_body(0, in);
    for (size_t j = 0; j < collected.size(); ++j) collected[j].push_back(std::move(out[j]));
  }
  std::vector<Tensor> results;
  for (const auto& elements : collected) results.push_back(make_sequence(elements));
  return results;
}

}  // namespace

std::vector<Tensor> run_control(const Node& node, const std::vector<Tensor>& inputs,
                                const BodyRunner& run_body,
                                const std::function<void()>& check_stop) {
  if (node.op->name == "If")
    return run_body(truth(inputs[0]) ? 0 : 1, {inputs.begin() + 1, inputs.end()});
  if (node.op->name == "Loop") return run_loop(node, inputs, run_body, check_stop);
  if (node.op->name == "Scan") return run_scan(node, inputs, run_body, check_stop);
  if (node.op->name == "SequenceMap") return run_sequence_map(node, inputs, run_body, check_stop);
  fail(Status::kUnsupported, "control-flow operator {} is not implemented", node.op->name);
}

}  // namespace xc
