// THE ordered list of implementations on the CPU. For one op, the first row whose supports() says
// yes is used: special cases, then the general kernel (oneDNN's, or an own one), then the op's
// reference.

#include "backends/cpu/kernels.h"

#include "backends/backend.h"

namespace xc {

std::vector<Order> cpu::any_order(const StepSpec& spec) {
  return std::vector<Order>(spec.inputs.size() + spec.outputs.size(), Order::kAny);
}

const Backend& cpu_backend() {
  static const Backend backend{"cpu", [] {
                                 static const cpu::Rows rows = [] {
                                   cpu::Rows list;
                                   cpu::add_onednn_matmul(list);
                                   cpu::add_matmul(list);
                                   cpu::add_bf16_conv(list);
                                   cpu::add_plane_conv(list);
                                   cpu::add_row_conv(list);
                                   cpu::add_winograd_conv(list);
                                   cpu::add_group_conv(list);
                                   cpu::add_depthwise_conv(list);
                                   cpu::add_onednn_conv(list);
                                   cpu::add_gathered_conv(list);
                                   cpu::add_integer_conv(list);
                                   cpu::add_integer_matmul(list);
                                   cpu::add_pool(list);
                                   cpu::add_max_pool(list);
                                   cpu::add_unpool(list);
                                   cpu::add_roi_pool(list);
                                   cpu::add_byte_matmul(list);
                                   cpu::add_block_matmul(list);
                                   cpu::add_gathered_integer_conv(list);
                                   cpu::add_conv_transpose(list);
                                   cpu::add_quantize_bytes(list);
                                   cpu::add_byte_table(list);
                                   cpu::add_elementwise(list);
                                   cpu::add_copy_ops(list);
                                   cpu::add_gather(list);
                                   cpu::add_reduce(list);
                                   cpu::add_row_norms(list);
                                   cpu::add_recurrent(list);
                                   cpu::add_linear_attention(list);
                                   cpu::add_mapped_copy(list);
                                   cpu::add_interpolate(list);
                                   cpu::add_affine_ops(list);
                                   cpu::add_along_axis(list);
                                   cpu::add_scatter(list);
                                   cpu::add_fill(list);
                                   cpu::add_select_ops(list);
                                   cpu::add_sampled(list);
                                   cpu::add_roi_align(list);
                                   cpu::add_det(list);
                                   cpu::add_dft(list);
                                   cpu::add_lookup(list);
                                   cpu::add_support_vectors(list);
                                   cpu::add_trees(list);
                                   cpu::add_host_op(list);
                                   cpu::add_reference(list);
                                   return list;
                                 }();
                                 return std::span<const Implementation>(rows);
                               }};
  return backend;
}

}  // namespace xc
