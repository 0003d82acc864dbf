#pragma once
// The functions op_map.cpp names. Each changes one thing from an old version to the newest meaning;
// the exact old meaning stands beside each definition.

namespace xc::onnx {

struct Draft;

namespace convert {

// conversions_attributes.cpp
void drop_consumed_inputs(Draft& d);
void drop_broadcast(Draft& d);
void drop_output_sequence(Draft& d);
void axes_to_input(Draft& d);
void slice_inputs(Draft& d);
void pad_inputs(Draft& d);
void clip_inputs(Draft& d);
void split_input(Draft& d);
void split_count(Draft& d);
void reshape_input(Draft& d);
void topk_input(Draft& d);
void dft_axis(Draft& d);
void cast_by_name(Draft& d);
void concat_axis(Draft& d);
void scatter(Draft& d);
void grid_sample_modes(Draft& d);
void roi_align_offset(Draft& d);
void selu_defaults(Draft& d);
void integer_p(Draft& d);
void label_encoder_classes(Draft& d);

// conversions_rewrites.cpp
void broadcast_axis(Draft& d);
void channel_slope(Draft& d);
void dropout_inputs(Draft& d);
void flatten_to_2d(Draft& d);
void upsample(Draft& d);
void resize_10(Draft& d);
void one_hot_range(Draft& d);
void resize_empty_inputs(Draft& d);
void batch_norm_inference(Draft& d);
void group_norm_per_channel(Draft& d);
void tile_axis(Draft& d);
void scan_batched(Draft& d);
void simplified_layer_norm(Draft& d);

}  // namespace convert
}  // namespace xc::onnx
