#include "formats/onnx/op_map.h"

#include <map>

#include "formats/onnx/conversions.h"

namespace xc::onnx {
namespace {

using namespace convert;

constexpr Conversion kConversions[] = {
    // Hints for memory reuse that were never more than hints.
    {"", "*", 7, drop_consumed_inputs},

    // Broadcasting was asked for, along an axis.
    {"", "Add", 7, broadcast_axis},
    {"", "Sub", 7, broadcast_axis},
    {"", "Mul", 7, broadcast_axis},
    {"", "Div", 7, broadcast_axis},
    {"", "Pow", 7, broadcast_axis},
    {"", "And", 7, broadcast_axis},
    {"", "Or", 7, broadcast_axis},
    {"", "Xor", 7, broadcast_axis},
    {"", "Equal", 7, broadcast_axis},
    {"", "Greater", 7, broadcast_axis},
    {"", "Less", 7, broadcast_axis},
    {"", "Gemm", 7, drop_broadcast},
    {"", "PRelu", 7, channel_slope},

    // Attributes that became inputs.
    {"", "ReduceSum", 13, axes_to_input},
    {"", "ReduceMean", 18, axes_to_input},
    {"", "ReduceMax", 18, axes_to_input},
    {"", "ReduceMin", 18, axes_to_input},
    {"", "ReduceProd", 18, axes_to_input},
    {"", "ReduceL1", 18, axes_to_input},
    {"", "ReduceL2", 18, axes_to_input},
    {"", "ReduceLogSum", 18, axes_to_input},
    {"", "ReduceLogSumExp", 18, axes_to_input},
    {"", "ReduceSumSquare", 18, axes_to_input},
    {"", "Squeeze", 13, axes_to_input},
    {"", "Unsqueeze", 13, axes_to_input},
    {"", "Slice", 10, slice_inputs},
    {"", "Pad", 11, pad_inputs},
    {"", "Clip", 11, clip_inputs},
    {"", "Split", 13, split_input},
    {"", "Split", 18, split_count},
    {"", "Reshape", 5, reshape_input},
    {"", "TopK", 10, topk_input},
    {"", "Dropout", 12, dropout_inputs},
    {"", "DFT", 20, dft_axis},

    // Softmax over all axes from one on, not over one axis.
    {"", "Softmax", 13, flatten_to_2d},
    {"", "LogSoftmax", 13, flatten_to_2d},
    {"", "Hardmax", 13, flatten_to_2d},

    // Resampling.
    {"", "Upsample", 11, upsample},
    {"", "Resize", 11, resize_10},
    {"", "Resize", kEveryVersion, resize_empty_inputs},

    // Single changes.
    {"", "BatchNormalization", 14, batch_norm_inference},
    {"", "Cast", 6, cast_by_name},
    {"", "Concat", 4, concat_axis},
    {"", "OneHot", 11, one_hot_range},
    {"", "Scatter", kEveryVersion, scatter},
    {"", "GridSample", 20, grid_sample_modes},
    {"", "RoiAlign", 16, roi_align_offset},
    {"", "GroupNormalization", 21, group_norm_per_channel},
    {"", "RNN", 7, drop_output_sequence},
    {"", "GRU", 7, drop_output_sequence},
    {"", "LSTM", 7, drop_output_sequence},
    {"", "Selu", 6, selu_defaults},
    {"", "LpPool", 2, integer_p},
    {"", "GlobalLpPool", 2, integer_p},
    {"", "Tile", 6, tile_axis},
    {"", "Scan", 9, scan_batched},
    {"", "SimplifiedLayerNormalization", kEveryVersion, simplified_layer_norm},
    {"ai.onnx.ml", "LabelEncoder", 2, label_encoder_classes},
};

using Key = std::pair<std::string_view, std::string_view>;

const std::multimap<Key, const Conversion*>& by_op() {
  static const auto instance = [] {
    std::multimap<Key, const Conversion*> out;
    for (const Conversion& row : kConversions) out.emplace(Key{row.domain, row.op}, &row);
    return out;
  }();
  return instance;
}

void apply_rows(Draft& draft, std::string_view op) {
  const auto [begin, end] = by_op().equal_range(Key{std::string_view(draft.domain), op});
  for (auto it = begin; it != end && !draft.finished; ++it) {
    const Conversion& row = *it->second;
    if (draft.version >= row.below) continue;
    draft.newer = row.below == kEveryVersion ? 0 : row.below;
    row.convert(draft);
  }
}

}  // namespace

std::span<const Conversion> conversions() {
  return kConversions;
}

void normalise(Draft& draft) {
  const std::string op = draft.op;
  apply_rows(draft, "*");
  apply_rows(draft, op);
}

}  // namespace xc::onnx
