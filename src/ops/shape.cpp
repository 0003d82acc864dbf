// Ops that make tensors from sizes: Shape, Size, ConstantOfShape, Range, EyeLike, Constant.

#include "ops/support.h"

namespace xc {

namespace {

// ---- Shape, Size --------------------------------------------------------------------------------

/// [start, end) of the axes, clamped as the standard says.
std::pair<size_t, size_t> shape_range(const Attrs& attrs, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + r : v, 0, r); };
  const int64_t start = clamp(attrs.get_int("start", 0)), end = clamp(attrs.get_int("end", r));
  return {static_cast<size_t>(start), static_cast<size_t>(std::max(start, end))};
}

void infer_shape(InferContext& c) {
  if (!c.rank_known(0)) return c.set(0, DType::kI64, {c.fresh("Shape")});
  const SymDims& in = c.dims(0);
  const auto [start, end] = shape_range(c.attrs(), in.size());
  c.set(0, DType::kI64, {static_cast<int64_t>(end - start)});
  c.set_elements(0, {in.begin() + static_cast<std::ptrdiff_t>(start),
                     in.begin() + static_cast<std::ptrdiff_t>(end)});
}

void reference_shape(const ReferenceContext& c) {
  const auto [start, end] = shape_range(c.attrs(), c.inputs[0].dims.size());
  for (size_t i = start; i < end; ++i)
    store_int64(c.outputs[0].data, DType::kI64,
                static_cast<int64_t>(i - start) * c.outputs[0].strides[0], c.inputs[0].dims[i]);
}

void infer_size(InferContext& c) {
  c.set(0, DType::kI64, {});
  if (c.rank_known(0)) c.set_elements(0, {element_count(c.dims(0))});
}

void reference_size(const ReferenceContext& c) {
  *c.outputs[0].as<int64_t>() = c.inputs[0].count();
}

// ---- ConstantOfShape ----------------------------------------------------------------------------

Tensor fill_value(const Node& node) {
  Tensor value = node.attrs.get_tensor("value");
  if (!value) value = Tensor::scalar(0.0f);
  if (value.count() != 1)
    fail(Status::kInvalidModel, "attribute 'value' has {} elements, expected one", value.count());
  if (contains(kComplex | type_set({DType::kString}), value.dtype()))
    fail(Status::kInvalidModel, "attribute 'value' is of type {}, expected a number or bool",
         name(value.dtype()));
  return value;
}

void infer_constant_of_shape(InferContext& c) {
  check_dtype(c, 0, kIndices);
  const Tensor value = fill_value(*c.node);
  const SymDims& shape_dims = c.dims(0);
  if (shape_dims.size() != 1) c.error("the shape has rank {}, expected 1", shape_dims.size());
  const auto shape = c.elements(0);
  if (!shape) {
    if (!shape_dims[0].is_constant()) return set_unknown_rank(c, 0, value.dtype());
    return c.set(0, value.dtype(),
                 fresh_dims(c, static_cast<size_t>(shape_dims[0].value()), "ConstantOfShape"));
  }
  c.set(0, value.dtype(), *shape);
  const Dim count = element_count(*shape);
  if (!is_integer(value.dtype()) && value.dtype() != DType::kBool) return;
  if (count.is_constant() && count.value() <= kMaxKnownElements)
    c.set_elements(0, std::vector<Dim>(static_cast<size_t>(count.value()), value.to_int64s()[0]));
}

void reference_constant_of_shape(const ReferenceContext& c) {
  const Tensor value = fill_value(*c.node);
  const Dims strides(c.outputs[0].dims.size(), 0);
  copy_elements(restrided(value.view(), c.outputs[0].dims, strides), c.outputs[0]);
}

// ---- Range --------------------------------------------------------------------------------------

int64_t range_count(double start, double limit, double delta) {
  const double n = std::ceil((limit - start) / delta);
  if (std::isnan(n)) fail(Status::kInvalidModel, "Range with delta {}", delta);
  if (n >= 0x1p62) fail(Status::kLimit, "Range has {} elements", n);
  return n > 0 ? static_cast<int64_t>(n) : 0;
}

/// `distance` is from the start to the limit, 0 where the limit lies the other way.
int64_t steps_within(uint64_t distance, uint64_t step) {
  if (step == 0) fail(Status::kInvalidModel, "Range with delta 0");
  const uint64_t n = distance ? (distance - 1) / step + 1 : 0;
  if (n >= uint64_t{1} << 62) fail(Status::kLimit, "Range has {} elements", n);
  return static_cast<int64_t>(n);
}

/// Of any two numbers of i64, whose distance may be more than an i64 holds.
int64_t range_count(int64_t start, int64_t limit, int64_t delta) {
  const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
  const auto step = static_cast<uint64_t>(delta);
  if (delta < 0) return steps_within(start > limit ? from - to : 0, -step);
  return steps_within(limit > start ? to - from : 0, step);
}

std::optional<double> scalar_constant(const InferContext& c, size_t i) {
  const Tensor* value = c.inputs[i].value;
  if (!value || !*value || value->count() != 1) return std::nullopt;
  return load_double(value->data(), value->dtype(), 0);
}

void infer_range(InferContext& c) {
  const DType t = check_same_dtype(c, 0, 3);
  check_dtype(c, 0, kNumbers);
  for (size_t i = 0; i < 3; ++i)
    if (c.rank_known(i) && element_count(c.dims(i)) != Dim(1) &&
        element_count(c.dims(i)).is_constant())
      c.error("input {} has dims {}, expected a scalar", i, to_text(c.dims(i)));
  if (is_float(t)) {
    const auto start = scalar_constant(c, 0), limit = scalar_constant(c, 1),
               delta = scalar_constant(c, 2);
    return c.set(
        0, t,
        {start && limit && delta ? Dim(range_count(*start, *limit, *delta)) : c.fresh("Range")});
  }
  const auto values = {c.inputs[0].value, c.inputs[1].value, c.inputs[2].value};
  if (t == DType::kU64 && std::all_of(values.begin(), values.end(), [](const Tensor* v) {
        return v && *v && v->count() == 1;
      })) {  // beyond what elements are followed as
    const auto number = [&](size_t i) { return c.inputs[i].value->as<uint64_t>()[0]; };
    return c.set(0, t,
                 {steps_within(number(1) > number(0) ? number(1) - number(0) : 0, number(2))});
  }
  const auto start = c.elements(0), limit = c.elements(1), delta = c.elements(2);
  if (!start || !limit || !delta || !delta->front().is_constant())
    return c.set(0, t, {c.fresh("Range")});
  const int64_t step = delta->front().value();
  if (step == 0) c.error("delta is 0");
  const Dim &first = start->front(), &last = limit->front();
  Dim count;
  if (first.is_constant() && last.is_constant()) {
    count = range_count(first.value(), last.value(), step);
  } else if (step == INT64_MIN) {
    return c.set(0, t, {c.fresh("Range")});  // has no negative
  } else {
    const Dim distance = step > 0 ? last - first : first - last;
    count = max(Dim(0), ceil_div(distance, Dim(step > 0 ? step : -step)));
  }
  c.set(0, t, {count});
  if (!count.is_constant() || count.value() > kMaxKnownElements) return;
  std::vector<Dim> elements;
  for (int64_t i = 0; i < count.value(); ++i) {
    // Added one by one: none lies beyond the limit, but i * step may be more than an i64 holds.
    elements.push_back(i == 0 ? first : elements.back() + Dim(step));
  }
  c.set_elements(0, std::move(elements));
}

void reference_range(const ReferenceContext& c) {
  const TensorView& y = c.outputs[0];
  const int64_t n = y.count();
  if (is_float(y.dtype)) {
    const double start = scalar_value(c.inputs[0]), delta = scalar_value(c.inputs[2]);
    for (int64_t i = 0; i < n; ++i)
      store_double(y.data, y.dtype, i * y.strides[0], start + static_cast<double>(i) * delta);
  } else {
    // Between a start and a limit of i64 there may be more than an i64 counts.
    const auto start = static_cast<uint64_t>(scalar_int(c.inputs[0])),
               delta = static_cast<uint64_t>(scalar_int(c.inputs[2]));
    for (int64_t i = 0; i < n; ++i)
      store_wrapped(y.data, y.dtype, i * y.strides[0],
                    static_cast<int64_t>(start + static_cast<uint64_t>(i) * delta));
  }
}

// ---- EyeLike, Constant --------------------------------------------------------------------------

void infer_eye_like(InferContext& c) {
  check_dtype(c, 0, kNumbers | kBools);
  const SymDims& in = c.dims(0);
  if (in.size() != 2) c.error("the input has rank {}, expected 2", in.size());
  const int64_t to = c.attrs().get_int("dtype", 0);
  const DType out = to ? dtype_attr(to) : c.dtype(0);
  if (!contains(kNumbers | kBools, out)) c.error("attribute 'dtype' is {}", name(out));
  c.set(0, out, in);
}

void reference_eye_like(const ReferenceContext& c) {
  const TensorView& y = c.outputs[0];
  const int64_t k = c.attrs().get_int("k", 0);
  dispatch_storage(y.dtype, [&]<class T>() {
    T one{};
    store_int64(&one, y.dtype, 0, 1);
    for (int64_t row = 0; row < y.dims[0]; ++row)
      for (int64_t column = 0; column < y.dims[1]; ++column)
        y.as<T>()[row * y.strides[0] + column * y.strides[1]] = column - row == k ? one : T{};
  });
}

void infer_constant(InferContext& c) {
  const Tensor value = c.attrs().get_tensor("value");
  c.set(0, value.dtype(), to_symbolic(value.dims()));
  if (value.count() <= kMaxKnownElements && is_integer(value.dtype())) {
    const std::vector<int64_t> v = value.to_int64s();
    c.set_elements(0, std::vector<Dim>(v.begin(), v.end()));
  }
}

void reference_constant(const ReferenceContext& c) {
  copy_elements(c.attrs().get_tensor("value").view(), c.outputs[0]);
}

}  // namespace

void register_shape(OpList& ops) {
  ops.push_back({.name = "Shape",
                 .attrs = {{"start", AttrKind::kInt}, {"end", AttrKind::kInt}},
                 .infer = infer_shape,
                 .reference = reference_shape,
                 .weight = 0});
  ops.push_back({.name = "Size", .infer = infer_size, .reference = reference_size, .weight = 0});
  ops.push_back({.name = "ConstantOfShape",
                 .attrs = {{"value", AttrKind::kTensor}},
                 .infer = infer_constant_of_shape,
                 .reference = reference_constant_of_shape});
  ops.push_back({.name = "Range",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .infer = infer_range,
                 .reference = reference_range,
                 .tolerance = Tolerance::kElementwise});
  ops.push_back({.name = "EyeLike",
                 .attrs = {dtype_spec("dtype", false, true), {"k", AttrKind::kInt}},
                 .infer = infer_eye_like,
                 .reference = reference_eye_like});
  // Front ends make constants values of the graph; the node form remains for texts and rules.
  ops.push_back({.name = "Constant",
                 .min_inputs = 0,
                 .max_inputs = 0,
                 .attrs = {{"value", AttrKind::kTensor, true}},
                 .infer = infer_constant,
                 .reference = reference_constant});
}

}  // namespace xc
