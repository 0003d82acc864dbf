#pragma once
// How the kernel of one phase reaches a region's operands: its buffer, dim and stride parameters.

#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loop/builder.h"
#include "ops/op.h"
#include "plan/fusion/iteration.h"

namespace xc {

inline bool is_scalar_constant(const Operand& o) {
  return o.constant && o.constant.count() == 1;
}

/// The only element of a tensor as a constant.
inline loop::Expr literal(const Tensor& t) {
  const DType type = loop::value_type(t.dtype());
  if (is_float(type)) return loop::constant(type, load_double(t.data(), t.dtype(), 0));
  if (type == DType::kBool) return loop::boolean(load_int64(t.data(), t.dtype(), 0) != 0);
  return loop::constant_int(type, load_int64(t.data(), t.dtype(), 0));
}

/// A constant that an expansion brought along.
inline loop::Expr expansion_constant(const Tensor& t) {
  if (t.count() != 1) fail(Status::kUnsupported, "an expansion has a constant tensor");
  return literal(t);
}

/// What is left of a value when a step stores it as `type`.
inline loop::Expr as_stored(const loop::Expr& e, DType type) {
  if (type == DType::kF16) return loop::round_f16(e);
  if (type == DType::kBF16) return loop::round_bf16(e);
  return e;
}

/// An elementwise node's value of type `result`. Values between nodes of a half type are rounded as
/// the separate steps round them.
inline loop::Expr scalar_value(const Node& node, std::span<const loop::Expr> args, DType result) {
  const loop::Expr e =
      node.op->scalar ? node.op->scalar(node, args, loop::value_type(result)) : loop::Expr();
  if (!e)
    fail(Status::kUnsupported, "operator {} has no scalar form for these types", node.op->name);
  return as_stored(e, result);
}

/// Buffers, extents and stride parameters of one kernel.
class Access {
 public:
  /// `mapped`: reads through index maps; number k of them is buffer(operands + k).
  Access(loop::KernelBuilder& builder, const StepSpec& spec, RegionPhase& phase,
         std::span<const MappedRead> mapped = {})
      : builder_(builder),
        spec_(spec),
        phase_(phase),
        mapped_(mapped),
        operands_(static_cast<uint32_t>(spec.inputs.size() + spec.outputs.size())),
        buffers_(operands_ + mapped.size()) {}

  loop::Expr extent(const LoopAxis& axis) { return extent(axis.extent); }
  loop::Expr extent(const OperandDims& dims) {
    if (dims.is_constant() && dims.divisor == 1) return loop::i64(dims.constant);
    const int64_t multiple = dims.divisor == 1 ? multiple_of(dims) : 1;
    phase_.dims.push_back(dims);
    phase_.dims.back().divisor *= multiple;
    const loop::Expr d = loop::Expr(builder_.dim("d" + std::to_string(phase_.dims.size() - 1)));
    return multiple > 1 ? d * loop::i64(multiple) : d;
  }

  /// A size for subscripts, the same parameter whenever it is asked for.
  loop::Affine size(const OperandDims& dims) {
    if (dims.is_constant() && dims.divisor == 1) return dims.constant;
    for (const auto& [known, param] : sizes_)
      if (known == dims) return param;
    phase_.dims.push_back(dims);
    sizes_.emplace_back(dims, builder_.dim("d" + std::to_string(phase_.dims.size() - 1)));
    return sizes_.back().second;
  }

  /// The buffer of an operand walked by `axes`, declared at first use. Of a mapped read it has a
  /// dimension for each picked axis besides.
  const loop::Buffer& buffer(uint32_t read, const std::vector<const LoopAxis*>& axes) {
    if (buffers_[read]) return *buffers_[read];
    std::vector<loop::Stride> strides;
    for (const LoopAxis* axis : axes) {
      const AxisStride& s = axis->strides[read];
      strides.push_back(s.literal ? loop::Stride(*s.literal) : parameter(s.ref));
    }
    if (read < operands_) return declare(read, read, std::move(strides));
    const MappedRead& mapped = mapped_[read - operands_];
    for (uint32_t axis : mapped.picked) strides.push_back(own_stride(mapped.operand, axis));
    return declare(read, mapped.operand, std::move(strides));
  }
  /// The buffer of an operand with all its axes, declared at first use. Not to be mixed with the
  /// other form for one operand.
  const loop::Buffer& whole_buffer(uint32_t operand) {
    if (buffers_[operand]) return *buffers_[operand];
    const Operand& o = operand_at(spec_, operand);
    std::vector<loop::Stride> strides;
    for (uint32_t axis = 0; axis < o.strides.size(); ++axis)
      strides.push_back(own_stride(operand, axis));
    return declare(operand, operand, std::move(strides));
  }
  /// A temporary between phases, rank 1 unless strides are given.
  loop::Buffer temp(uint32_t index, DType dtype, bool write,
                    const std::vector<loop::Stride>& strides = {1}) {
    const std::string name = "t" + std::to_string(index);
    const loop::Buffer b =
        write ? builder_.output(name, dtype, strides) : builder_.input(name, dtype, strides);
    order_.emplace_back(b.id(), operands_ + index);
    return b;
  }
  /// Operands in the order of the kernel's buffer parameters.
  void finish() {
    std::sort(order_.begin(), order_.end());
    for (const auto& [id, operand] : order_) phase_.buffers.push_back(operand);
  }

 private:
  /// The power of two, where it matters to vector code, that divides an extent at every size: a
  /// loop to `16 * d` leaves no rest.
  int64_t multiple_of(const OperandDims& dims) const {
    constexpr int64_t kLeast = 4, kMost = 64;
    int64_t known = std::gcd(dims.constant, kMost);
    for (const OperandDims::Ref& ref : dims.factors)
      known = std::gcd(
          known * std::gcd(operand_at(spec_, ref.operand).dims[ref.axis].divisor(), kMost), kMost);
    return known >= kLeast ? known : 1;
  }
  loop::Stride parameter(const RegionPhase::StrideRef& ref) {
    phase_.strides.push_back(ref);
    return builder_.stride("s" + std::to_string(phase_.strides.size() - 1));
  }
  loop::Stride own_stride(uint32_t operand, uint32_t axis) {
    const Operand& o = operand_at(spec_, operand);
    if (o.dims[axis] == Dim(1)) return 0;
    if (o.strides[axis].is_constant()) return o.strides[axis].value();
    return parameter({operand, axis, false});
  }
  const loop::Buffer& declare(uint32_t read, uint32_t operand, std::vector<loop::Stride> strides) {
    const bool output = operand >= spec_.inputs.size();
    const std::string name = (output ? "y" : "x") + std::to_string(operand);
    const DType dtype = operand_at(spec_, operand).dtype;
    buffers_[read] = output ? builder_.output(name, dtype, std::move(strides))
                            : builder_.input(name, dtype, std::move(strides));
    order_.emplace_back(buffers_[read]->id(), operand);
    return *buffers_[read];
  }

  loop::KernelBuilder& builder_;
  const StepSpec& spec_;
  RegionPhase& phase_;
  std::span<const MappedRead> mapped_;
  uint32_t operands_;
  std::vector<std::optional<loop::Buffer>> buffers_;
  std::vector<std::pair<OperandDims, loop::DimParam>> sizes_;
  std::vector<std::pair<uint32_t, uint32_t>> order_;
};

}  // namespace xc
