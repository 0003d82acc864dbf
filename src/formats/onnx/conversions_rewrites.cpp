// Conversions that need more than one node, or the rank of an input.

#include <algorithm>
#include <limits>

#include "formats/onnx/conversions.h"
#include "formats/onnx/draft.h"
#include "ops/registry.h"

namespace xc::onnx::convert {
namespace {

/// A constant vector of f32; nullopt where it is none.
std::optional<std::vector<float>> numbers(const Draft& d, ValueId id) {
  const Tensor& t = d.graph.value(id).constant;
  if (!t || t.dtype() != DType::kF32) return std::nullopt;
  const std::vector<double> values = t.to_doubles();
  return std::vector<float>(values.begin(), values.end());
}

// Coordinates of Upsample and Resize 10: nearest takes the element floor(i / scale), linear
// interpolates at i / scale.
void resize_by_scales(Draft& d) {
  d.inputs = {d.input(0), kNone, d.input(1)};
  d.attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  d.attrs.set("nearest_mode", std::string("floor"));
}

}  // namespace

// Binary ops before 7: with broadcast = 1, B's dims stand below A's from `axis` on (below the last
// ones when not given), so that B lacks rank(A) - axis - rank(B) dims of 1 at its end.
void broadcast_axis(Draft& d) {
  const bool broadcast = d.take_int("broadcast", 0) != 0;
  const auto axis_attr = d.take("axis");
  if (!broadcast || !axis_attr) return;
  int64_t axis = std::get<int64_t>(*axis_attr);
  const ValueId a = d.input(0), b = d.input(1);
  const auto rank_a = d.hints.rank(a), rank_b = d.hints.rank(b);
  if (rank_a && rank_b) {
    if (axis < 0) axis += *rank_a;
    if (axis < 0 || axis > *rank_a)
      fail(Status::kInvalidModel, "{}: axis {} of an operand of rank {}", d.op, axis, *rank_a);
    const int64_t missing = *rank_a - axis - *rank_b;
    if (missing < 0)
      fail(Status::kInvalidModel, "{}: axis {} does not fit ranks {} and {}", d.op, axis, *rank_a,
           *rank_b);
    if (missing == 0) return;
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < missing; ++i) axes.push_back(*rank_b + i);
    d.inputs[1] = d.emit("Unsqueeze", {b, d.ints(axes)});
    return;
  }
  // The same with ranks that only a run knows: Reshape(B, [shape(B), 1, 1, ...]).
  const ValueId shape_b = d.emit("Shape", {b});
  const ValueId size_b = d.emit("Shape", {shape_b});
  const ValueId size_a = d.emit("Shape", {d.emit("Shape", {a})});
  const ValueId start = axis >= 0 ? d.ints({axis}) : d.emit("Add", {size_a, d.ints({axis})});
  const ValueId missing = d.emit("Sub", {d.emit("Sub", {size_a, start}), size_b});
  const ValueId ones =
      d.emit("ConstantOfShape", {missing}, with("value", Tensor::of<int64_t>({1})));
  const ValueId shape = d.emit("Concat", {shape_b, ones}, with("axis", int64_t{0}));
  d.inputs[1] = d.emit("Reshape", {b, shape}, with("allowzero", int64_t{1}));
}

// PRelu before 7: a slope of more than one element is one per channel (axis 1).
void channel_slope(Draft& d) {
  const auto rank = d.hints.rank(d.input(0)), slope_rank = d.hints.rank(d.input(1));
  if (!rank || !slope_rank) d.unsupported("the ranks of its inputs are not known");
  if (*slope_rank != 1 || *rank <= 2) return;
  const Type& slope = d.hints.of(d.input(1));
  if ((*slope.dims)[0] == Dim(1)) return;
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < *rank - 1; ++i) axes.push_back(i);
  d.inputs[1] = d.emit("Unsqueeze", {d.input(1), d.ints(axes)});
}

// Dropout before 12: a run of a model is inference, where it passes its input; the ratio is for
// training alone. Its mask had the input's type before 10.
void dropout_inputs(Draft& d) {
  const double ratio = d.take_float("ratio", 0.5);
  d.attrs.erase("is_test");
  if (!d.wants_output(1)) {
    d.finish("Identity", {d.input(0)}, {}, {d.outputs[0]});
    return;
  }
  d.set_input(1, d.scalar_like(ratio, d.input(0)));
  if (d.version >= 10) return;
  const std::vector<ValueId> out = d.emit_self();
  if (out[0] != kNone) d.finish("Identity", {out[0]}, {}, {d.outputs[0]});
  d.finish("CastLike", {out[1], d.input(0)}, {}, {d.outputs[1]});
}

// Softmax, LogSoftmax and Hardmax before 13: the input as a matrix, [0, axis) by [axis, rank), each
// row on its own; axis 1 when not given. Only for the last axis is this the newest meaning.
void flatten_to_2d(Draft& d) {
  const int64_t axis = d.take_int("axis", 1);
  const ValueId x = d.input(0);
  const auto rank = d.hints.rank(x);
  if (axis == -1 || (rank && axis == *rank - 1)) {
    d.attrs.set("axis", int64_t{-1});
    return;
  }
  const ValueId shape = d.emit("Shape", {x});
  const ValueId matrix = d.emit("Flatten", {x}, with("axis", axis));
  const ValueId rows = d.emit(d.op, {matrix}, with("axis", int64_t{-1}));
  d.finish("Reshape", {rows, shape}, with("allowzero", int64_t{1}), d.outputs);
}

// Upsample: scales are two attributes before 7, one before 9, then an input. What is nearest does
// not depend on whether an axis shrinks.
void upsample(Draft& d) {
  if (d.version < 7) {
    const double height = d.take_float("height_scale", 1), width = d.take_float("width_scale", 1);
    d.set_input(1, d.constant(Tensor::of<float>(
                       {1, 1, static_cast<float>(height), static_cast<float>(width)})));
  } else if (d.version < 9) {
    const std::vector<double> scales = d.attrs.get_floats("scales");
    d.attrs.erase("scales");
    d.set_input(1, d.constant(Tensor::of(std::vector<float>(scales.begin(), scales.end()))));
  }
  if (d.attrs.get_string("mode", "nearest") == "bilinear")
    d.attrs.set("mode", std::string("linear"));
  d.op = "Resize";
  resize_by_scales(d);
}

// Resize 10: as Upsample, but along an axis that shrinks nearest takes the element ceil(i / scale),
// as in the standard's test of it. Where axes may do either, one Resize each: nearest works along
// each axis on its own, and by a scale of one nothing happens.
void resize_10(Draft& d) {
  resize_by_scales(d);
  const ValueId scales = d.input(2);
  if (scales == kNone || d.attrs.get_string("mode", "nearest") != "nearest") return;
  Attrs shrinking = d.attrs;
  shrinking.set("nearest_mode", std::string("ceil"));
  ValueId low = kNone, high = kNone;  // the scales up to one, and from one on
  if (const auto known = numbers(d, scales)) {
    const auto [least, most] = std::minmax_element(known->begin(), known->end());
    if (known->empty() || *least >= 1) return;
    if (*most <= 1) {
      d.attrs = shrinking;
      return;
    }
    std::vector<float> below = *known, above = *known;
    for (float& scale : below) scale = std::min(scale, 1.0F);
    for (float& scale : above) scale = std::max(scale, 1.0F);
    low = d.constant(Tensor::of(below));
    high = d.constant(Tensor::of(above));
  } else {
    const ValueId one = d.constant(Tensor::scalar(1.0F));
    low = d.emit("Min", {scales, one});
    high = d.emit("Max", {scales, one});
  }
  d.set_input(0, d.emit("Resize", {d.input(0), kNone, low}, shrinking));
  d.set_input(2, high);
}

// OneHot before 11: no index counts from the end, a negative one switches nothing on.
void one_hot_range(Draft& d) {
  const ValueId index = d.emit("Cast", {d.input(0)}, with("to", onnx_number(DType::kI64)));
  const ValueId negative = d.emit("Less", {index, d.constant(Tensor::scalar(int64_t{0}))});
  const ValueId none = d.constant(Tensor::scalar(std::numeric_limits<int64_t>::max()));
  d.set_input(0, d.emit("Where", {negative, none, index}));
}

// Resize 11 wrote an absent roi, scales or sizes as an empty tensor, and exporters still do.
void resize_empty_inputs(Draft& d) {
  for (size_t i = 1; i < d.inputs.size(); ++i)
    if (d.inputs[i] != kNone && d.graph.value(d.inputs[i]).is_constant() &&
        d.graph.value(d.inputs[i]).constant.count() == 0)
      d.inputs[i] = kNone;
}

// BatchNormalization before 14 trained when more than one output was wanted; `spatial` = 0 meant
// statistics per element.
void batch_norm_inference(Draft& d) {
  d.attrs.erase("is_test");
  if (d.take_int("spatial", 1) == 0) d.unsupported("spatial = 0");
  for (size_t i = 1; i < d.outputs.size(); ++i)
    if (d.outputs[i] != kNone) d.unsupported("training outputs");
  d.outputs.resize(1);
}

// GroupNormalization 18: scale and bias are one per group; later one per channel.
void group_norm_per_channel(Draft& d) {
  const int64_t groups = d.attrs.get_int("num_groups", 1);
  const ValueId channels = d.emit("Shape", {d.input(0)}, [] {
    Attrs a = with("start", int64_t{1});
    a.set("end", int64_t{2});
    return a;
  }());
  const ValueId per_group = d.emit("Div", {channels, d.ints({groups})});
  const ValueId dims = d.emit("Concat", {d.ints({groups}), per_group}, with("axis", int64_t{0}));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const ValueId column = d.emit("Unsqueeze", {d.input(i), d.ints({1})});
    const ValueId matrix = d.emit("Expand", {column, dims});
    d.set_input(i, d.emit("Reshape", {matrix, d.ints({-1})}));
  }
}

// Tile 1: `tiles` copies along the one axis that the third input names.
void tile_axis(Draft& d) {
  const auto rank = d.hints.rank(d.input(0));
  const Value* axis = d.input(2) == kNone ? nullptr : &d.graph.value(d.input(2));
  if (!rank || !axis || !axis->is_constant() || axis->constant.count() != 1)
    d.unsupported("rank or axis not known");
  const int64_t at = axis->constant.to_int64s()[0];
  if (at < 0 || at >= *rank) fail(Status::kInvalidModel, "Tile: axis {} of rank {}", at, *rank);
  Attrs to;
  to.set("to", int64_t{7});
  const ValueId tiles = d.emit("Reshape", {d.emit("Cast", {d.input(1)}, to), d.ints({1})});
  const std::vector<int64_t> before(static_cast<size_t>(at), 1),
      after(static_cast<size_t>(*rank - at - 1), 1);
  d.inputs = {d.input(0),
              d.emit("Concat", {d.ints(before), tiles, d.ints(after)}, with("axis", int64_t{0}))};
}

// Scan 8 runs the scan for each element of a batch: every input has the batch as axis 0 and the
// sequence as axis 1. The same as a Scan without state over the batch around the newest Scan.
void scan_batched(Draft& d) {
  if (d.input(0) != kNone) d.unsupported("sequence_lens");
  d.inputs.erase(d.inputs.begin());
  const auto directions = d.take_ints("directions");
  const int64_t scans = d.attrs.get_int("num_scan_inputs", 0);
  const size_t own = d.inputs.size() - d.capture_count;
  if (scans < 0 || static_cast<size_t>(scans) > own)
    fail(Status::kInvalidModel, "Scan: num_scan_inputs {} of {} inputs", scans, own);

  auto batch = std::make_shared<Graph>();
  batch->name = d.name + ".batch";
  Node inner;
  inner.op = &get_op("Scan");
  inner.name = d.name;
  inner.attrs = d.attrs;
  if (directions) inner.attrs.set("scan_input_directions", *directions);
  for (size_t i = 0; i < d.inputs.size(); ++i)
    inner.inputs.push_back(batch->add_input("in" + std::to_string(i), {}));
  for (size_t i = 0; i < d.outputs.size(); ++i) {
    inner.outputs.push_back(batch->add_value("out" + std::to_string(i)));
    batch->outputs.push_back(inner.outputs.back());
  }
  inner.subgraphs = std::move(d.subgraphs);
  inner.capture_count = d.capture_count;
  batch->add_node(std::move(inner));

  d.subgraphs = {std::move(batch)};
  d.attrs = with("num_scan_inputs", static_cast<int64_t>(own));
}

// onnxruntime's name for RMSNormalization, from before the standard had it, with 1 / sqrt(mean(x^2)
// + epsilon) as a second output.
void simplified_layer_norm(Draft& d) {
  if (d.wants_output(1)) {
    const double epsilon = d.attrs.get_float("epsilon", 1e-5f);
    int64_t axis = d.attrs.get_int("axis", -1);
    if (axis >= 0) {
      const auto rank = d.hints.rank(d.input(0));
      if (!rank) d.unsupported("its second output where the rank of the input is not known");
      axis -= *rank;
    }
    constexpr int64_t kMostAxes = 64;
    if (axis < -kMostAxes) fail(Status::kInvalidModel, "{}: axis {}", d.op, axis);
    std::vector<int64_t> axes;
    for (; axis < 0; ++axis) axes.push_back(axis);
    const ValueId x = d.emit("Cast", {d.input(0)}, with("to", d.attrs.get_int("stash_type", 1)));
    const ValueId squares = d.emit("ReduceMean", {d.emit("Mul", {x, x}), d.ints(axes)});
    const ValueId sum = d.emit(
        "Add",
        {squares,
         d.emit("CastLike", {d.constant(Tensor::scalar(static_cast<float>(epsilon))), squares})});
    d.finish("Reciprocal", {d.emit("Sqrt", {sum})}, {}, {d.outputs[1]});
  }
  d.finish("RMSNormalization", d.inputs, d.attrs, {d.outputs[0]});
}

}  // namespace xc::onnx::convert
