// Small operators of ai.onnx.ml: ArrayFeatureExtractor, Binarizer, LabelEncoder.

#include "ops/ml.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "ops/checks.h"
#include "ops/expansion.h"

namespace xc {

namespace {

// ---- ArrayFeatureExtractor ----------------------------------------------------------------------

void infer_extract(InferContext& c) {
  const DType t = check_dtype(c, 0, kMlNumbers | kMlStrings);
  check_dtype(c, 1, type_set({DType::kI64}));
  SymDims dims = c.dims(0);
  if (dims.empty()) c.error("input 0 is a scalar");
  dims.back() = element_count(c.dims(1));
  if (dims.size() == 1) dims.insert(dims.begin(), Dim(1));
  c.set(0, t, dims);
}

void reference_extract(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const auto picks = int_values(c.inputs[1]);
  const size_t last = x.dims.size() - 1;
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      // A vector comes out as one row.
      const auto row = at.subspan(y.dims.size() - x.dims.size()).first(last);
      const int64_t pick = checked_index(picks[static_cast<size_t>(at.back())], x.dims[last]);
      y.as<T>()[offset_of(at, y.strides)] =
          x.as<T>()[offset_of(row, x.strides) + pick * x.strides[last]];
    });
  });
}

ValueIds expand_extract(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const auto rank = x.rank(0), picks_rank = x.rank(1);
  if (!rank || !picks_rank) return {};
  const ValueId picks = *picks_rank == 1 ? x.in(1) : x.add("Reshape", {x.in(1), x.ints({-1})});
  const ValueId out = x.add("Gather", {x.in(0), picks}, {{"axis", *rank - 1}});
  return {*rank == 1 ? x.add("Unsqueeze", {out, x.ints({0})}) : out};
}

// ---- Binarizer ----------------------------------------------------------------------------------

void infer_binarizer(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  infer_same(c);
}

void reference_binarizer(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const double threshold = c.attrs().get_float("threshold", 0);
  for_each_offset<2>(y.dims, {x.strides, y.strides}, [&](const auto& at) {
    store_double(y.data, y.dtype, at[1], load_double(x.data, x.dtype, at[0]) > threshold ? 1 : 0);
  });
}

ValueIds expand_binarizer(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  // Integers in f64, as the threshold may lie between them.
  const DType type = x.dtype(0) == DType::kF32 ? DType::kF32 : DType::kF64;
  Tensor threshold(type, {});
  store_double(threshold.data(), type, 0, node.attrs.get_float("threshold", 0));
  const ValueId above =
      x.add("Greater", {x.cast(x.in(0), x.dtype(0), type), x.constant(std::move(threshold))});
  return {x.cast(above, DType::kBool, x.dtype(0))};
}

// ---- LabelEncoder -------------------------------------------------------------------------------

/// The one list among PREFIX_strings, PREFIX_int64s, PREFIX_floats and PREFIX_tensor that is given.
Tensor label_list(const Attrs& attrs, const std::string& prefix) {
  Tensor out;
  int found = 0;
  const auto take = [&](const char* suffix, auto&& read) {
    if (!attrs.has(prefix + suffix)) return;
    out = read(prefix + suffix);
    ++found;
  };
  take("_strings", [&](const std::string& key) { return Tensor::of(attrs.get_strings(key)); });
  take("_int64s", [&](const std::string& key) { return Tensor::of(attrs.get_ints(key)); });
  take("_floats", [&](const std::string& key) {
    const auto values = attrs.get_floats(key);
    return Tensor::of(std::vector<float>(values.begin(), values.end()));
  });
  take("_tensor", [&](const std::string& key) { return attrs.get_tensor(key).to_contiguous(); });
  if (found != 1)
    fail(Status::kInvalidModel, "{} of the attributes {}_* are given, expected one", found, prefix);
  if (out.rank() != 1)
    fail(Status::kInvalidModel, "{}_* has rank {}, expected 1", prefix, out.rank());
  return out;
}

/// What keys that are not listed become, one element of the type of the values.
Tensor default_label(const Attrs& attrs, DType type) {
  Tensor out(type, {});
  if (attrs.has("default_tensor")) {
    const Tensor given = attrs.get_tensor("default_tensor").to_contiguous();
    if (given.dtype() != type || given.count() != 1)
      fail(Status::kInvalidModel, "default_tensor is {}{}, expected one {}", name(given.dtype()),
           to_text(given.dims()), name(type));
    return given;
  }
  if (type == DType::kString)
    *out.as<std::string>() = attrs.get_string("default_string", "_Unused");
  else if (is_float(type))
    store_double(out.data(), type, 0, attrs.get_float("default_float", -0.0));
  else
    store_int64(out.data(), type, 0, attrs.get_int("default_int64", -1));
  return out;
}

}  // namespace

LabelTable label_table(const Attrs& attrs) {
  LabelTable out{label_list(attrs, "keys"), label_list(attrs, "values"), {}};
  if (out.keys.count() != out.values.count())
    fail(Status::kInvalidModel, "{} keys and {} values", out.keys.count(), out.values.count());
  out.otherwise = default_label(attrs, out.values.dtype());
  return out;
}

namespace {

constexpr TypeSet kLabels =
    kMlStrings | type_set({DType::kI64, DType::kF32, DType::kI32, DType::kI16, DType::kF64});

void infer_label_encoder(InferContext& c) {
  const DType from = check_dtype(c, 0, kLabels);
  const auto [keys, values, otherwise] = label_table(c.attrs());
  if (keys.dtype() != from) c.error("keys are {}, the input is {}", name(keys.dtype()), name(from));
  if (!contains(kLabels, values.dtype())) c.error("values are {}", name(values.dtype()));
  c.set(0, values.dtype(), c.dims(0));
}

/// An element as a key: its text, or its bits with one zero and one NaN.
std::string label_key(const void* data, DType type, int64_t i) {
  if (type == DType::kString) return static_cast<const std::string*>(data)[i];
  uint64_t bits = 0;
  if (is_float(type)) {
    double value = load_double(data, type, i);
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    if (value == 0) value = 0;
    std::memcpy(&bits, &value, sizeof bits);
  } else {
    bits = static_cast<uint64_t>(load_int64(data, type, i));
  }
  return {reinterpret_cast<const char*>(&bits), sizeof bits};
}

void reference_label_encoder(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const LabelTable table = label_table(c.attrs());
  const Tensor &keys = table.keys, &values = table.values, &otherwise = table.otherwise;
  std::unordered_map<std::string, int64_t> index;
  for (int64_t i = 0; i < keys.count(); ++i)
    index[label_key(keys.data(), keys.dtype(), i)] = i;  // of equal keys the last one counts
  dispatch_storage(y.dtype, [&]<class T>() {
    for_each_offset<2>(y.dims, {x.strides, y.strides}, [&](const auto& at) {
      const auto found = index.find(label_key(x.data, x.dtype, at[0]));
      y.as<T>()[at[1]] = found == index.end() ? *otherwise.as<T>() : values.as<T>()[found->second];
    });
  });
}

/// Texts have no kernels but the references: positions among them come from a table of numbers.
ValueIds expand_label_encoder(const Graph& graph, const Node& node, Patch& patch) {
  const LabelTable table = label_table(node.attrs);
  if (table.values.dtype() != DType::kString) return {};
  const int64_t count = table.values.count();
  std::vector<std::string> texts(table.values.as<std::string>(),
                                 table.values.as<std::string>() + count);
  texts.push_back(*table.otherwise.as<std::string>());
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  Attrs attrs = node.attrs;
  for (const char* name : {"values_strings", "values_tensor", "default_string", "default_tensor"})
    attrs.erase(name);
  attrs.set("values_int64s", positions);
  attrs.set("default_int64", count);
  Expansion x(graph, node, patch);
  const ValueId found = patch.add_node(*node.op, node.inputs, 1, std::move(attrs), node.name)[0];
  return {x.add("Gather", {x.constant(Tensor::of(texts)), found})};
}

}  // namespace

OpDef ml_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
            ReferenceFn reference) {
  OpDef op;
  op.name = name;
  op.domain = "ai.onnx.ml";
  op.attrs = std::move(attrs);
  op.infer = infer;
  op.reference = reference;
  return op;
}

void check_rows(InferContext& c) {
  if (c.rank(0) != 1 && c.rank(0) != 2)
    c.error("the input has rank {}, expected 1 or 2", c.rank(0));
}

Dim row_count(const InferContext& c) {
  return c.rank(0) == 2 ? c.dims(0)[0] : Dim(1);
}

void register_ml(OpList& ops) {
  OpDef extract = ml_op("ArrayFeatureExtractor", {}, infer_extract, reference_extract);
  extract.min_inputs = extract.max_inputs = 2;
  extract.expand = expand_extract;
  ops.push_back(std::move(extract));
  OpDef binarizer =
      ml_op("Binarizer", {{"threshold", AttrKind::kFloat}}, infer_binarizer, reference_binarizer);
  binarizer.expand = expand_binarizer;
  ops.push_back(std::move(binarizer));
  OpDef encoder = ml_op("LabelEncoder",
                        {{"keys_strings", AttrKind::kStrings},
                         {"keys_int64s", AttrKind::kInts},
                         {"keys_floats", AttrKind::kFloats},
                         {"keys_tensor", AttrKind::kTensor},
                         {"values_strings", AttrKind::kStrings},
                         {"values_int64s", AttrKind::kInts},
                         {"values_floats", AttrKind::kFloats},
                         {"values_tensor", AttrKind::kTensor},
                         {"default_string", AttrKind::kString},
                         {"default_int64", AttrKind::kInt},
                         {"default_float", AttrKind::kFloat},
                         {"default_tensor", AttrKind::kTensor}},
                        infer_label_encoder, reference_label_encoder);
  encoder.expand = expand_label_encoder;
  ops.push_back(std::move(encoder));
}

}  // namespace xc
