#include "runtime/overlap.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/containers.h"

namespace xc {
namespace {

struct Bytes {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

/// From the first byte of a view to behind its last.
Bytes bytes_of(const TensorView& view) {
  int64_t low = 0, high = 1;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (view.dims[axis] == 0) return {};
    const int64_t reach = (view.dims[axis] - 1) * view.strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  const auto* data = static_cast<const std::byte*>(view.data);
  const int64_t size = element_size(view.dtype);
  return {data + low * size, data + high * size};
}

bool meet(const Bytes& a, const Bytes& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// Whether an input that meets the bytes of an output may: it can be updated in place, or copied.
bool may_share(const TensorView& input, const Bytes& output) {
  const Bytes bytes = bytes_of(input);
  return input.contiguous() && !holds_objects(input.dtype) && bytes.begin == output.begin &&
         bytes.end == output.end;
}

}  // namespace

bool shares_inputs(const Graph& graph, std::span<const TensorView> inputs,
                   std::span<xc_tensor* const> outputs) {
  const auto name = [&](ValueId port) -> const std::string& { return graph.value(port).name; };
  const auto refuse = [&](size_t output, const std::string& message) {
    throw Error(Status::kInvalidArgument, message, "output '" + name(graph.outputs[output]) + "'");
  };
  bool shares = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const TensorView view = outputs[i]->tensor.view();
    const Bytes output = bytes_of(view);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k] || !meet(output, bytes_of(inputs[k]))) continue;
      if (!view.contiguous() || !may_share(inputs[k], output))
        refuse(i, fmt::format("its memory overlaps that of input '{}': give it exactly that of a "
                              "row-major one, or other memory",
                              name(graph.inputs[k])));
      shares = true;
    }
    for (size_t k = 0; k < i; ++k)
      if (outputs[k] && meet(output, bytes_of(outputs[k]->tensor.view())))
        refuse(i, fmt::format("its memory overlaps that of output '{}'", name(graph.outputs[k])));
  }
  return shares;
}

int64_t HandedOut::separate(Tensor& result, const Type& type) {
  copied_ = 0;
  if (std::optional<Tensor> other = copy_of_shared(result, type)) result = std::move(*other);
  return copied_;
}

std::optional<Tensor> HandedOut::copy_of_shared(const Tensor& value, const Type& type) {
  if (!value) return {};
  if (type.kind == Type::Kind::kOptional) return copy_of_shared(value, *type.element);
  if (value.dtype() == DType::kTensor) {
    const std::span<Tensor> elements = elements_of(value);
    std::vector<Tensor> others;  // from the first copy on; the container may be somebody else's
    for (size_t i = type.kind == Type::Kind::kMap ? 1 : 0; i < elements.size(); ++i)
      if (std::optional<Tensor> other = copy_of_shared(elements[i], *type.element)) {
        if (others.empty()) others.assign(elements.begin(), elements.end());
        others[i] = std::move(*other);
      }
    if (others.empty()) return {};
    return make_sequence(std::move(others));
  }
  const Bytes bytes = bytes_of(value.view());
  if (bytes.begin == bytes.end) return {};
  const auto next = taken_.lower_bound(bytes.begin);
  if ((next == taken_.end() || bytes.end <= next->first) &&
      (next == taken_.begin() || std::prev(next)->second <= bytes.begin)) {
    taken_.emplace_hint(next, bytes.begin, bytes.end);
    return {};
  }
  copied_ += value.byte_size();
  return value.clone();
}

}  // namespace xc
