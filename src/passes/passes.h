#pragma once
// The passes of the portable pipeline. Each is one function in a file of its name; each returns
// true when it changed the graph, edits through Patch only, keeps what the graph computes, and
// expects types to be inferred. Subgraphs are the runner's business unless told otherwise.

#include "passes/pass.h"

namespace xc {

/// Types and known elements of every value, subgraphs included (ops/infer.h).
bool infer_all_types(Graph& graph, PassContext& context);

/// A constant captured by a body, or known to it, becomes a constant of that body; captures that no
/// body reads are dropped. Looks at the nodes of this graph that have bodies.
bool sink_constants(Graph& graph, PassContext& context);

/// If with a constant condition: the taken branch replaces it.
bool inline_branches(Graph& graph, PassContext& context);

/// Removes what does nothing (Identity, Dropout, Reshape to the same dims, ...) and brings the same
/// thing into one form (constant operand second, one Transpose for two).
bool canonicalise(Graph& graph, PassContext& context);

/// Reductions whose axes come back (Unsqueeze) behind functions of what they gave keep them.
bool keep_reduced_axes(Graph& graph, PassContext& context);

/// Nodes of constant inputs become constants, computed by their reference; values whose elements
/// inference knows (shape arithmetic) too. Bounded in bytes and time by PassOptions; leaves out
/// random ops, views that would only grow memory, and dequantisation, whose bytes are wanted.
bool fold_constants(Graph& graph, PassContext& context);

/// The same of what is kept as integers (DequantizeLinear), which fuse_quantised and fuse_weights
/// look for as it is: behind those.
bool fold_dequantised(Graph& graph, PassContext& context);

/// One of equal nodes, and of equal constants of up to 64 KiB, serves all users.
bool merge_common(Graph& graph, PassContext& context);

/// A Concat whose first parts are those of an earlier one, on the same axis, becomes that one and
/// what follows: dense networks, where each layer reads all before it, copy each part once.
bool share_prefixes(Graph& graph, PassContext& context);

/// Operators without a kernel of their own (a list in the pass) become the simpler ones they stand
/// for, where they can.
bool expand_operators(Graph& graph, PassContext& context);

/// A Loop over all slices of what it captures, in which the number of the iteration has no other
/// use, becomes a Scan.
bool loops_to_scans(Graph& graph, PassContext& context);

/// A product (MatMul, Gemm) in the body of a Scan of a slice along axis 0 with what every step sees
/// alike becomes one product of all steps before the Scan, whose slices the body takes.
bool hoist_products(Graph& graph, PassContext& context);

/// Pattern rules (rules/*.rules and the caller's own).
bool apply_rules(Graph& graph, PassContext& context);

/// What stands between Transposes and others that undo them works in front of them.
bool cancel_transposes(Graph& graph, PassContext& context);
/// Reshape(MatMul(Reshape(x), Reshape(y))) becomes MatMul(x, y) where the inner ones join the axes
/// that the outer one takes apart; so for all operators that leave such an axis as it is.
bool cancel_reshapes(Graph& graph, PassContext& context);

/// Keys and values expanded to a head for each query head (Expand or Tile, then Reshape): groups of
/// heads become an axis of the products that read them, and of what stands between these.
bool share_heads(Graph& graph, PassContext& context);

/// InstanceNormalization of channels reshaped into groups, with factors and addends per channel
/// behind it, becomes GroupNormalization, which needs no particular order of the elements. Tolerant
/// numerics only.
bool group_norms(Graph& graph, PassContext& context);

/// Inference-time BatchNormalization behind a convolution (a transposed one too) goes into its
/// weights, and becomes a product and a sum elsewhere. Tolerant numerics only.
bool fold_batch_norm(Graph& graph, PassContext& context);

/// Elementwise functions behind a Concat of products stand in front of it, with parts of their
/// constants.
bool split_functions(Graph& graph, PassContext& context);

/// Sums of convolutions of one value with constant weights, of the value itself and of numbers per
/// channel, scaled per channel, become one convolution, where one of them has a window that holds
/// the others'. Tolerant numerics only.
bool merge_convolutions(Graph& graph, PassContext& context);

/// Zeros padded around what a convolution reads (an average that counts them too), what is below
/// all else around what MaxPool reads, and what a Slice cuts from the ends of a convolution's
/// result become its own padding.
bool fold_padding(Graph& graph, PassContext& context);

/// Operators that have kernels of f32 alone (a list in the pass) compute f16 and bf16 in f32,
/// between Casts that round as the operator would. Under tolerant numerics what follows them stays
/// f32 until something needs the halves, and constants become f32.
bool widen_halves(Graph& graph, PassContext& context);

/// Values that products round to bf16 are stored in bf16 where their producers can and no reader,
/// or none in the model as it was, needs them in f32. Where PassOptions::reads_bf16 is given.
bool narrow_values(Graph& graph, PassContext& context);

/// False where it would surely change nothing; `graph` may have bodies.
bool may_narrow_values(const Graph& graph, const PassOptions& options);

/// A product or convolution between DequantizeLinear and QuantizeLinear becomes one of bytes:
/// QLinearConv, QLinearMatMul; without the latter MatMulInteger or ConvInteger and a scale.
/// Tolerant numerics only: the result is within one quantum of what was written.
bool fuse_quantised(Graph& graph, PassContext& context);

/// What only moves elements (views, Concat), between DequantizeLinear and QuantizeLinear, moves the
/// bytes; those two with one scale and zero point are nothing. Constants of 8 bits that are turned
/// behind DequantizeLinear are turned in front of it.
bool lift_views(Graph& graph, PassContext& context);

/// A chain of elementwise operators between two bytes, of nothing but constants beside, becomes
/// xc::Lookup in a table of its 256 results. Tolerant numerics only: kernels may round otherwise
/// than the references that fill the table.
bool tabulate_bytes(Graph& graph, PassContext& context);

/// A product with constant weights behind DequantizeLinear (per tensor, per line or in blocks of
/// the contracted axis) becomes xc::DequantizedMatMul, which keeps them as integers. Tolerant
/// numerics only: sums are taken in another order.
bool fuse_weights(Graph& graph, PassContext& context);

/// An elementwise function of one value moves in front of the views behind which it stands
/// (Transpose and Reshape, with their kin), where products read it or give the value.
bool hoist_functions(Graph& graph, PassContext& context);

/// Removes nodes, optional outputs and constants that no output needs.
bool remove_dead(Graph& graph, PassContext& context);

}  // namespace xc
