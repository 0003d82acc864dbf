// Conversions that move, rename or drop an attribute.

#include <algorithm>
#include <cctype>
#include <cmath>

#include "formats/onnx/conversions.h"
#include "formats/onnx/draft.h"
#include "formats/onnx/types.h"

namespace xc::onnx::convert {

void drop_consumed_inputs(Draft& d) {
  d.attrs.erase("consumed_inputs");
}

// Gemm before 7: C had to be broadcastable only when `broadcast` said so; now it may always be.
void drop_broadcast(Draft& d) {
  d.attrs.erase("broadcast");
}

// Recurrent ops before 7 returned Y only when asked; now when the output is wanted.
void drop_output_sequence(Draft& d) {
  d.attrs.erase("output_sequence");
}

void axes_to_input(Draft& d) {
  if (const auto axes = d.take_ints("axes")) d.set_input(1, d.ints(*axes));
}

void slice_inputs(Draft& d) {
  const auto starts = d.take_ints("starts"), ends = d.take_ints("ends"), axes = d.take_ints("axes");
  d.set_input(1, d.ints(*starts));
  d.set_input(2, d.ints(*ends));
  if (axes) d.set_input(3, d.ints(*axes));
}

void pad_inputs(Draft& d) {
  auto pads = d.take_ints("pads");
  if (!pads) pads = d.take_ints("paddings");
  if (!pads) d.unsupported("Pad without pads");
  d.set_input(1, d.ints(*pads));
  const double value = d.take_float("value", 0);
  if (value != 0) d.set_input(2, d.scalar_like(value, d.input(0)));
}

void clip_inputs(Draft& d) {
  // The defaults are the limits of f32: infinities are clipped to them.
  constexpr double kLimit = 3.4028234663852886e+38;
  d.set_input(1, d.scalar_like(d.take_float("min", -kLimit), d.input(0)));
  d.set_input(2, d.scalar_like(d.take_float("max", kLimit), d.input(0)));
}

void split_input(Draft& d) {
  if (const auto split = d.take_ints("split")) d.set_input(1, d.ints(*split));
}

// Before 18 the number of parts was that of the outputs, and all were equal.
void split_count(Draft& d) {
  if (d.input(1) != kNone) return;
  d.attrs.set("num_outputs", static_cast<int64_t>(d.outputs.size()));
  d.attrs.set("even", int64_t{1});
}

void reshape_input(Draft& d) {
  const auto shape = d.take_ints("shape");
  if (!shape) d.unsupported("Reshape without shape");
  d.set_input(1, d.ints(*shape));
}

void topk_input(Draft& d) {
  d.set_input(1, d.ints({d.take_int("k", 0)}));
}

// DFT 17: the axis is an attribute, 1 when not given; later an input, -2 when not given.
void dft_axis(Draft& d) {
  d.set_input(2, d.constant(Tensor::scalar(d.take_int("axis", 1))));
}

// Cast 1: the type by its name in the enumeration, "FLOAT".
void cast_by_name(Draft& d) {
  std::string type = d.attrs.get_string("to", "");
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::pair<const char*, DType> kNames[] = {
      {"FLOAT", DType::kF32},   {"UINT8", DType::kU8},      {"INT8", DType::kI8},
      {"UINT16", DType::kU16},  {"INT16", DType::kI16},     {"INT32", DType::kI32},
      {"INT64", DType::kI64},   {"STRING", DType::kString}, {"BOOL", DType::kBool},
      {"FLOAT16", DType::kF16}, {"DOUBLE", DType::kF64},    {"UINT32", DType::kU32},
      {"UINT64", DType::kU64},  {"COMPLEX64", DType::kC64}, {"COMPLEX128", DType::kC128}};
  for (const auto& [key, dtype] : kNames)
    if (type == key) return d.attrs.set("to", onnx_number(dtype));
  d.unsupported("unknown type name");
}

// Concat 1: the axis is 1 when not given.
void concat_axis(Draft& d) {
  if (!d.attrs.has("axis")) d.attrs.set("axis", int64_t{1});
}

// Scatter is what ScatterElements was called.
void scatter(Draft& d) {
  d.op = "ScatterElements";
}

void grid_sample_modes(Draft& d) {
  const std::string mode = d.attrs.get_string("mode", "bilinear");
  d.attrs.set("mode", mode == "bilinear"  ? std::string("linear")
                      : mode == "bicubic" ? std::string("cubic")
                                          : mode);
}

// RoiAlign 10 had no half-pixel shift.
void roi_align_offset(Draft& d) {
  d.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

// Selu 1 had shorter constants.
void selu_defaults(Draft& d) {
  if (!d.attrs.has("alpha")) d.attrs.set("alpha", 1.673200011253357);
  if (!d.attrs.has("gamma")) d.attrs.set("gamma", 1.0506999492645264);
}

// LpPool 1: p is a float.
void integer_p(Draft& d) {
  const double p = d.take_float("p", 2);
  constexpr double kMost = 1 << 30;
  if (!(std::abs(p) <= kMost) || p != std::floor(p)) d.unsupported("p is no integer");
  d.attrs.set("p", static_cast<int64_t>(p));
}

// LabelEncoder 1 maps between a list of strings and the indices in it, by the type of its input.
void label_encoder_classes(Draft& d) {
  const auto classes = d.take("classes_strings");
  if (!classes) d.unsupported("LabelEncoder without classes_strings");
  const auto& strings = std::get<std::vector<std::string>>(*classes);
  std::vector<int64_t> indices(strings.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const DType dtype = d.hints.dtype(d.input(0));
  if (dtype == DType::kString) {
    d.attrs.set("keys_strings", strings);
    d.attrs.set("values_int64s", indices);
  } else if (dtype == DType::kI64) {
    d.attrs.set("keys_int64s", indices);
    d.attrs.set("values_strings", strings);
  } else {
    d.unsupported("the type of its input is not known");
  }
}

}  // namespace xc::onnx::convert
