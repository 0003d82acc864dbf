#pragma once
// The rows of the CPU backend, by the file that defines them. kernels.cpp puts them in order.

#include <vector>

#include "backends/step.h"

namespace xc::cpu {

using Rows = std::vector<Implementation>;

/// Implementation::preferred of kernels that run equally fast on any dense order of the axes.
std::vector<Order> any_order(const StepSpec& spec);

// oneDNN.
void add_onednn_matmul(Rows& rows);
void add_bf16_conv(Rows& rows);
void add_onednn_conv(Rows& rows);
void add_integer_conv(Rows& rows);
void add_integer_matmul(Rows& rows);
void add_pool(Rows& rows);

// Own kernels.
void add_max_pool(Rows& rows);
void add_unpool(Rows& rows);
void add_roi_pool(Rows& rows);
void add_roi_align(Rows& rows);
void add_matmul(Rows& rows);
void add_byte_matmul(Rows& rows);
void add_block_matmul(Rows& rows);
void add_plane_conv(Rows& rows);
void add_row_conv(Rows& rows);
void add_winograd_conv(Rows& rows);
void add_group_conv(Rows& rows);
void add_depthwise_conv(Rows& rows);
void add_conv_transpose(Rows& rows);
void add_byte_table(Rows& rows);
void add_quantize_bytes(Rows& rows);
void add_elementwise(Rows& rows);
void add_gathered_conv(Rows& rows);
void add_gathered_integer_conv(Rows& rows);
/// Its kernel, for what others leave to it.
std::unique_ptr<Kernel> create_gathered_integer_conv(const StepSpec& spec);
void add_copy_ops(Rows& rows);
void add_gather(Rows& rows);
void add_reduce(Rows& rows);
void add_row_norms(Rows& rows);
void add_recurrent(Rows& rows);
void add_mapped_copy(Rows& rows);
void add_interpolate(Rows& rows);
void add_affine_ops(Rows& rows);
void add_along_axis(Rows& rows);
void add_scatter(Rows& rows);
void add_fill(Rows& rows);
void add_select_ops(Rows& rows);
void add_sampled(Rows& rows);
void add_det(Rows& rows);
void add_dft(Rows& rows);
void add_linear_attention(Rows& rows);
void add_lookup(Rows& rows);
void add_support_vectors(Rows& rows);
void add_trees(Rows& rows);

// The host's operators.
void add_host_op(Rows& rows);

// The op's reference.
void add_reference(Rows& rows);

}  // namespace xc::cpu
