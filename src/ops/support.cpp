#include "ops/support.h"

#include "ops/input_types.h"

#include <algorithm>

namespace xc {

// ---- type sets ----------------------------------------------------------------------------------

std::string text(TypeSet set) {
  std::string out;
  for (int t = 1; t < kDTypeCount; ++t) {
    if (!contains(set, static_cast<DType>(t))) continue;
    if (!out.empty()) out += ' ';
    out += name(static_cast<DType>(t));
  }
  return out;
}

DType check_dtype(const InferContext& c, size_t i, TypeSet allowed) {
  if (!c.has(i)) return DType::kUndefined;
  const Type& t = c.type(i);
  if (t.kind != Type::Kind::kTensor) c.error("input {} is {}, expected a tensor", i, t.text());
  if (!contains(allowed, t.dtype))
    throw WrongDType(i, fmt::format("input {} is of type {}, expected one of: {}", i, name(t.dtype),
                                    text(allowed)));
  return t.dtype;
}

DType read_dtype(const InferContext& c, size_t i) {
  const DType type = c.dtype(i);
  const auto held = dtype_from_onnx_number(c.attrs().get_int(kHeldIn.name, 0));
  return held == type && loop::value_type(type) == DType::kF32 ? DType::kF32 : type;
}

DType check_same_dtype(const InferContext& c, size_t first, size_t last) {
  DType out = DType::kUndefined;
  for (size_t i = first; i < std::min(last, c.input_count()); ++i) {
    if (!c.has(i)) continue;
    const DType t = check_dtype(c, i, kAnyType);
    if (out == DType::kUndefined) out = t;
    if (t != out)
      throw WrongDType(
          i, fmt::format("input {} is of type {}, the others are {}", i, name(t), name(out)));
  }
  return out;
}

DType dtype_attr(int64_t number) {
  const auto type = dtype_from_onnx_number(number);
  if (!type || *type == DType::kUndefined)
    fail(Status::kInvalidModel, "{} is no element type", number);
  return *type;
}

AttrSpec dtype_spec(std::string_view name, bool required, bool none) {
  return {name, AttrKind::kInt, required, none ? 0 : 1, kLargestOnnxNumber};
}

// ---- axes and dims ------------------------------------------------------------------------------

size_t normalise_axis(int64_t axis, size_t rank, std::string_view what) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    fail(Status::kInvalidModel, "{} {} is outside [{}, {}) of a tensor of rank {}", what, axis, -r,
         r, rank);
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

std::vector<size_t> normalise_axes(const std::vector<int64_t>& axes, size_t rank, bool sorted,
                                   std::string_view what) {
  std::vector<size_t> out;
  for (int64_t axis : axes) {
    const size_t a = normalise_axis(axis, rank, what);
    if (std::find(out.begin(), out.end(), a) != out.end())
      fail(Status::kInvalidModel, "{} names axis {} twice", what, a);
    out.push_back(a);
  }
  if (sorted) std::sort(out.begin(), out.end());
  return out;
}

SymDims broadcast_dims(const SymDims& a, const SymDims& b) {
  const SymDims& longer = a.size() >= b.size() ? a : b;
  const SymDims& shorter = a.size() >= b.size() ? b : a;
  SymDims out = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim &x = longer[lead + i], &y = shorter[i];
    if (x.is_constant() && y.is_constant() && x != y && x != Dim(1) && y != Dim(1))
      fail(Status::kInvalidModel, "shapes {} and {} do not broadcast: {} against {}", to_text(a),
           to_text(b), x.text(), y.text());
    out[lead + i] = broadcast(x, y);
  }
  return out;
}

SymDims broadcast_dims(std::span<const SymDims> all) {
  SymDims out;
  for (const SymDims& dims : all) out = broadcast_dims(out, dims);
  return out;
}

SymDims broadcast_inputs(const InferContext& c, size_t first, size_t last) {
  SymDims out;
  for (size_t i = first; i < std::min(last, c.input_count()); ++i)
    if (c.has(i)) out = broadcast_dims(out, c.dims(i));
  return out;
}

Dim same_dim(const Dim& a, const Dim& b, std::string_view what) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant())
    fail(Status::kInvalidModel, "{}: dims {} and {} differ", what, a.text(), b.text());
  return b.is_constant() ? b : a;
}

void infer_same(InferContext& c) {
  c.set(0, c.dtype(0), c.dims(0));
}

void set_unknown_rank(InferContext& c, size_t output, DType dtype) {
  if (output < c.outputs.size()) c.outputs[output] = Type::tensor(dtype);
}

SymDims fresh_dims(const InferContext& c, size_t rank, const std::string& hint) {
  constexpr size_t kMostAxes = 64;  // the number of sizes that an input gives is a model's word
  if (rank > kMostAxes)
    fail(Status::kLimit, "a result of {} axes; at most {} are supported", rank, kMostAxes);
  SymDims out;
  for (size_t i = 0; i < rank; ++i) out.push_back(c.fresh(hint));
  return out;
}

Dim product(const SymDims& dims, size_t begin, size_t end) {
  Dim out = 1;
  for (size_t i = begin; i < end; ++i) out = out * dims[i];
  return out;
}

int64_t product(std::span<const int64_t> dims, size_t begin, size_t end) {
  return element_count(dims.subspan(begin, end - begin));
}

std::optional<std::vector<Dim>> known_elements(const Graph& graph, const Node& node, size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == kNone) return std::nullopt;
  const Value& value = graph.value(node.inputs[i]);
  if (value.elements) return value.elements;
  if (!value.is_constant() || value.constant.count() > kMaxKnownElements) return std::nullopt;
  if (!is_integer(value.constant.dtype()) && value.constant.dtype() != DType::kBool)
    return std::nullopt;
  const std::vector<int64_t> v = value.constant.to_int64s();
  return std::vector<Dim>(v.begin(), v.end());
}

std::optional<std::vector<int64_t>> known_ints(const Graph& graph, const Node& node, size_t i) {
  const auto known = known_elements(graph, node, i);
  if (!known) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *known) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

// ---- reference loops ----------------------------------------------------------------------------

Dims broadcast_strides(const TensorView& view, std::span<const int64_t> dims) {
  if (view.dims.size() > dims.size())
    fail(Status::kRange, "rank {} does not broadcast to rank {}", view.dims.size(), dims.size());
  Dims out(dims.size(), 0);
  const size_t lead = dims.size() - view.dims.size();
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == dims[lead + i])
      out[lead + i] = view.strides[i];
    else if (view.dims[i] != 1)
      fail(Status::kRange, "dim {} does not broadcast to {}", view.dims[i], dims[lead + i]);
  }
  return out;
}

TensorView restrided(const TensorView& view, std::span<const int64_t> dims,
                     std::span<const int64_t> strides, int64_t offset) {
  void* data = view.data;
  if (offset != 0) data = static_cast<std::byte*>(data) + offset * element_size(view.dtype);
  return {data, view.dtype, dims, strides};
}

void copy_row_major(const TensorView& from, const TensorView& to) {
  if (from.count() != to.count())
    fail(Status::kRange, "{} elements do not fill dims {}", from.count(),
         to_text(Dims(to.dims.begin(), to.dims.end())));
  if (from.contiguous()) {
    const Dims strides = contiguous_strides(Dims(to.dims.begin(), to.dims.end()));
    return copy_elements(restrided(from, to.dims, strides), to);
  }
  const Tensor copy(from.dtype, Dims(from.dims.begin(), from.dims.end()));
  copy_elements(from, copy.view());
  copy_row_major(copy.view(), to);
}

std::vector<int64_t> int_values(const TensorView& view) {
  std::vector<int64_t> out;
  if (!view) return out;
  for_each_offset<1>(view.dims, {view.strides}, [&](const auto& at) {
    out.push_back(load_int64(view.data, view.dtype, at[0]));
  });
  return out;
}

std::vector<double> double_values(const TensorView& view) {
  std::vector<double> out;
  if (!view) return out;
  if (view.dtype == DType::kF32 && view.contiguous())
    return {view.as<float>(), view.as<float>() + view.count()};
  out.reserve(static_cast<size_t>(view.count()));
  const auto read = [&](auto load) {
    for_each_offset<1>(view.dims, {view.strides},
                       [&](const auto& at) { out.push_back(load(at[0])); });
  };
  if (view.dtype == DType::kF32)
    read([&](int64_t i) { return static_cast<double>(view.as<float>()[i]); });
  else
    read([&](int64_t i) { return load_double(view.data, view.dtype, i); });
  return out;
}

double scalar_value(const TensorView& view) {
  if (!view || view.count() != 1) fail(Status::kRange, "expected a tensor of one element");
  return load_double(view.data, view.dtype, 0);
}

int64_t scalar_int(const TensorView& view) {
  if (!view || view.count() != 1) fail(Status::kRange, "expected a tensor of one element");
  return load_int64(view.data, view.dtype, 0);
}

int64_t checked_index(int64_t index, int64_t extent, std::string_view what) {
  if (index < -extent || index >= extent)
    fail(Status::kRange, "{} {} is outside [{}, {})", what, index, -extent, extent);
  return index < 0 ? index + extent : index;
}

int64_t wrapped(DType dtype, int64_t v) {
  const int bits = info(dtype).bits;
  if (!is_integer(dtype) || bits >= 64) return v;
  const int unused = 64 - bits;
  const auto high = static_cast<uint64_t>(v) << unused;
  return is_signed(dtype) ? static_cast<int64_t>(high) >> unused
                          : static_cast<int64_t>(high >> unused);
}

WholeRange whole_range(DType dtype) {
  if (dtype == DType::kF32) return {-(int64_t{1} << 24), int64_t{1} << 24};
  if (dtype == DType::kF64) return {-(int64_t{1} << 53), int64_t{1} << 53};
  if (dtype == DType::kBool) return {0, 1};
  if (!is_integer(dtype)) return {0, -1};
  const int bits = info(dtype).bits;
  if (dtype == DType::kU64) return {0, INT64_MAX};
  if (!is_signed(dtype)) return {0, (int64_t{1} << bits) - 1};
  const int64_t high = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return {-high - 1, high};
}

void store_wrapped(void* data, DType dtype, int64_t i, int64_t v) {
  if (info(dtype).bits < 8) v = wrapped(dtype, v);  // one element per byte
  switch (element_size(dtype)) {
    case 1:
      static_cast<uint8_t*>(data)[i] =
          dtype == DType::kBool ? static_cast<uint8_t>(v != 0) : static_cast<uint8_t>(v);
      return;
    case 2:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(v);
      return;
    case 4:
      static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(v);
      return;
    default:
      static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(v);
      return;
  }
}

}  // namespace xc
