#pragma once
// Which post-ops oneDNN does itself, in registers. The rest of a chain is left to an Epilogue.

#include <optional>

#include "backends/cpu/onednn_common.h"

namespace xc::cpu {

/// A prefix of a step's post-ops in oneDNN's terms. Binary operands are whole tensors of the
/// result's dims in the result's order, or one value per channel (axis 1).
struct MappedPostOps {
  struct Binary {
    uint32_t input = 0;  ///< index among the step's inputs
    bool per_channel = false;
    DType dtype = DType::kF32;
    int position = 0;  ///< in the chain: DNNL_ARG_ATTR_MULTIPLE_POST_OP(position)
  };
  size_t count = 0;  ///< post-ops covered
  std::vector<Binary> binaries;
  /// The first post-op, the Add of a whole f32 operand, is the library's sum: the result lies where
  /// the operand does, which is no argument then.
  bool in_place = false;
  bool empty() const { return count == 0; }
};

/// The longest prefix that oneDNN can do as fast as an Epilogue, and but for Clip does with NaN
/// what the operators do, except in fast numerics. With `stores_bf16` a Cast to that at the end is
/// done too: it is the type the primitive writes. Channels of the result are axis 1.
MappedPostOps map_post_ops(const StepSpec& spec, bool stores_bf16 = false);
/// The input whose Add the library can do in place of it (MappedPostOps::in_place), or none.
std::optional<uint32_t> summed_in_place(const StepSpec& spec, const MappedPostOps& mapped);
/// The chain as an attribute, for a result (or a part of it) of descriptor `dst`.
void append_post_ops(const StepSpec& spec, const MappedPostOps& mapped,
                     const dnnl::memory::desc& dst, dnnl::primitive_attr& attributes);
/// Arguments of the binaries, in order.
std::vector<PreparedPrimitive::Argument> post_op_arguments(const MappedPostOps& mapped,
                                                           const dnnl::memory::desc& dst);

}  // namespace xc::cpu
