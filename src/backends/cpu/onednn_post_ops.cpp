#include "backends/cpu/onednn_post_ops.h"

#include <algorithm>
#include <limits>

namespace xc::cpu {
namespace {

using Algorithm = dnnl::algorithm;

struct Eltwise {
  Algorithm algorithm;
  float alpha = 0, beta = 0;
};

/// Where the library's definition is the op's own, and as fast as ours over the result: its
/// exponentials take twice as long (README), so Sigmoid, Tanh, Swish and Elu are the epilogue's.
std::optional<Eltwise> eltwise_of(const PostOp& post) {
  const std::string_view op = post.op->name;
  const auto attr = [&](const char* name, double otherwise) {
    return static_cast<float>(post.attrs.get_float(name, otherwise));
  };
  if (op == "Relu") return Eltwise{Algorithm::eltwise_relu};
  if (op == "LeakyRelu") return Eltwise{Algorithm::eltwise_relu, attr("alpha", 0.01)};
  if (op == "Abs") return Eltwise{Algorithm::eltwise_abs};
  if (op == "HardSigmoid")
    return Eltwise{Algorithm::eltwise_hardsigmoid, attr("alpha", 0.2), attr("beta", 0.5)};
  if (op == "HardSwish") return Eltwise{Algorithm::eltwise_hardswish, 1.0f / 6, 0.5f};
  if (op == "Clip") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Eltwise out{Algorithm::eltwise_clip, -kInfinity, kInfinity};
    if (const auto low = post.number(0)) out.alpha = static_cast<float>(*low);
    if (const auto high = post.number(1)) out.beta = static_cast<float>(*high);
    if (!(out.alpha <= out.beta)) return std::nullopt;
    return out;
  }
  return std::nullopt;
}

std::optional<Algorithm> binary_of(const PostOp& post) {
  const std::string_view op = post.op->name;
  if (op == "Add") return Algorithm::binary_add;
  if (op == "Mul") return Algorithm::binary_mul;
  if (op == "Sub" && post.anchor_first) return Algorithm::binary_sub;
  if (op == "Max") return Algorithm::binary_max;
  if (op == "Min") return Algorithm::binary_min;
  return std::nullopt;
}

/// The library's maximum and minimum, and what it makes with them, pass over a NaN. (So does its
/// Clip, which is too dear to do without: README.)
bool loses_nan(const PostOp& post) {
  constexpr std::string_view kLosing[] = {"Relu", "HardSigmoid", "Max", "Min"};
  return std::find(std::begin(kLosing), std::end(kLosing), post.op->name) != std::end(kLosing);
}

/// Dims of `operand` over the result's axes, 1 in front.
SymDims aligned(const Operand& operand, size_t rank) {
  SymDims out(rank - std::min(rank, operand.dims.size()), Dim(1));
  out.insert(out.end(), operand.dims.begin(), operand.dims.end());
  return out;
}

}  // namespace

MappedPostOps map_post_ops(const StepSpec& spec, bool stores_bf16) {
  MappedPostOps out;
  const Operand& result = spec.outputs[0];
  const size_t rank = result.dims.size();
  for (const PostOp& post : spec.post_ops) {
    if (post.op->name == "Cast") {
      if (stores_bf16 && result.dtype == DType::kBF16) ++out.count;
      break;
    }
    if (loses_nan(post) && spec.numerics != Numerics::kFast) break;
    if (post.kind == PostOp::Kind::kUnary) {
      if (!eltwise_of(post)) break;
    } else {
      if (!binary_of(post) || post.operand >= spec.inputs.size()) break;
      const Operand& operand = spec.inputs[post.operand];
      if ((operand.dtype != DType::kF32 && operand.dtype != DType::kBF16) ||
          operand.dims.size() > rank)
        break;
      const SymDims dims = aligned(operand, rank);
      bool whole = true, channel = true;
      for (size_t i = 0; i < rank; ++i) {
        whole &= dims[i] == result.dims[i];
        channel &= i == 1 ? dims[i] == result.dims[i] : dims[i] == Dim(1);
      }
      if (!whole && !channel) break;
      out.binaries.push_back({post.operand, !whole, operand.dtype, static_cast<int>(out.count)});
    }
    ++out.count;
  }
  return out;
}

namespace {

dnnl::memory::desc binary_desc(const MappedPostOps::Binary& binary, const dnnl::memory::desc& dst) {
  const dnnl::memory::data_type type = onednn_type(binary.dtype);
  if (!binary.per_channel) return dnnl::memory::desc(dst.get_dims(), type, dst.get_strides());
  dnnl::memory::dims dims(dst.get_dims().size(), 1), strides(dims.size(), 1);
  dims[1] = dst.get_dims()[1];
  strides[0] = dims[1];
  return dnnl::memory::desc(dims, type, strides);
}

}  // namespace

std::optional<uint32_t> summed_in_place(const StepSpec& spec, const MappedPostOps& mapped) {
  if (mapped.binaries.empty() || spec.post_ops.front().op->name != "Add") return std::nullopt;
  const MappedPostOps::Binary& first = mapped.binaries.front();
  if (first.position != 0 || first.per_channel || first.dtype != DType::kF32) return std::nullopt;
  return first.input;
}

void append_post_ops(const StepSpec& spec, const MappedPostOps& mapped,
                     const dnnl::memory::desc& dst, dnnl::primitive_attr& attributes) {
  if (mapped.empty()) return;
  dnnl::post_ops ops;
  size_t binary = 0;
  for (size_t i = 0; i < mapped.count; ++i) {
    const PostOp& post = spec.post_ops[i];
    if (post.op->name == "Cast") break;
    if (post.kind == PostOp::Kind::kUnary) {
      const Eltwise eltwise = *eltwise_of(post);
      ops.append_eltwise(eltwise.algorithm, eltwise.alpha, eltwise.beta);
    } else if (i == 0 && mapped.in_place) {
      ops.append_sum();
    } else {
      ops.append_binary(*binary_of(post), binary_desc(mapped.binaries[binary++], dst));
    }
  }
  attributes.set_post_ops(ops);
}

std::vector<PreparedPrimitive::Argument> post_op_arguments(const MappedPostOps& mapped,
                                                           const dnnl::memory::desc& dst) {
  std::vector<PreparedPrimitive::Argument> out;
  for (const auto& binary : mapped.binaries)
    out.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(binary.position) | DNNL_ARG_SRC_1,
                   binary_desc(binary, dst)});
  return out;
}

}  // namespace xc::cpu
