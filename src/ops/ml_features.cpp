// Feature preparation of ai.onnx.ml: Imputer, Scaler, Normalizer, FeatureVectorizer, OneHotEncoder,
// CategoryMapper. Features lie along the last axis. All but odd forms are arithmetic or a table of
// LabelEncoder, and run as such.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/ml.h"

namespace xc {

namespace {

/// A list attribute that has one entry for all features or one for each.
void check_per_feature(InferContext& c, std::string_view attr, size_t length) {
  const Dim& features = c.dims(0).back();
  if (length != 1 && known_different(features, static_cast<int64_t>(length)))
    c.error("attribute '{}' has {} entries for {} features", attr, length, features.text());
}

/// Row-major numbers through f(value, feature), written to output 0.
template <class F>
void map_features(const ReferenceContext& c, F f) {
  check_shapes(c);
  auto x = double_values(c.inputs[0]);
  const auto features = static_cast<size_t>(c.inputs[0].dims.back());
  for (size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], i % features);
  write_dense(c.outputs[0], x);
}

double entry(const std::vector<double>& list, size_t feature) {
  return list.size() == 1 ? list[0] : list[feature];
}

/// Does a list of `length` entries have one for all features or, as far as symbols tell, one for
/// each? Broadcasting would take others.
bool fits_features(const Expansion& x, size_t length) {
  const auto& dims = x.type(0).dims;
  if (!dims || dims->empty() || length == 0) return false;
  return length == 1 || dims->back() == Dim(static_cast<int64_t>(length));
}

Tensor of_floats(DType type, const std::vector<double>& values) {
  Tensor out(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    store_double(out.data(), type, static_cast<int64_t>(i), values[i]);
  return out;
}

/// Arithmetic in f32 for f32, else in f64, which holds all other types as well as references do.
DType arithmetic_type(const Expansion& x) {
  return x.dtype(0) == DType::kF32 ? DType::kF32 : DType::kF64;
}

// ---- Imputer ------------------------------------------------------------------------------------

void infer_imputer(InferContext& c) {
  const DType t = check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  const size_t length = is_float(t) ? c.attrs().get_floats("imputed_value_floats").size()
                                    : c.attrs().get_ints("imputed_value_int64s").size();
  if (length == 0) c.error("no imputed values for elements of type {}", name(t));
  check_per_feature(c, "imputed_value_*", length);
  infer_same(c);
}

void reference_imputer(const ReferenceContext& c) {
  if (is_float(c.inputs[0].dtype)) {
    const auto values = c.attrs().get_floats("imputed_value_floats");
    const double replaced = c.attrs().get_float("replaced_value_float", 0);
    return map_features(c, [&](double x, size_t k) {
      return x == replaced || (std::isnan(x) && std::isnan(replaced)) ? entry(values, k) : x;
    });
  }
  check_shapes(c);
  const auto values = c.attrs().get_ints("imputed_value_int64s");
  const int64_t replaced = c.attrs().get_int("replaced_value_int64", 0);
  auto x = int_values(c.inputs[0]);
  const auto features = static_cast<size_t>(c.inputs[0].dims.back());
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] == replaced) x[i] = values[values.size() == 1 ? 0 : i % features];
  write_ints(c.outputs[0], x);
}

ValueIds expand_imputer(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const DType type = x.dtype(0);
  if (is_float(type)) {
    const auto values = node.attrs.get_floats("imputed_value_floats");
    const double replaced = node.attrs.get_float("replaced_value_float", 0);
    if (!fits_features(x, values.size())) return {};
    const ValueId hit = std::isnan(replaced) ? x.add("IsNaN", {x.in(0)})
                                             : x.add("Equal", {x.in(0), x.scalar(replaced)});
    return {x.add("Where", {hit, x.constant(of_floats(type, values)), x.in(0)})};
  }
  const auto values = node.attrs.get_ints("imputed_value_int64s");
  if (!fits_features(x, values.size())) return {};
  const ValueId wide = x.cast(x.in(0), type, DType::kI64);
  const ValueId hit =
      x.add("Equal", {wide, x.integer(node.attrs.get_int("replaced_value_int64", 0))});
  return {x.cast(x.add("Where", {hit, x.ints(values), wide}), DType::kI64, type)};
}

// ---- Scaler -------------------------------------------------------------------------------------

void infer_scaler(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  for (const char* attr : {"offset", "scale"})
    if (c.attrs().has(attr)) check_per_feature(c, attr, c.attrs().get_floats(attr).size());
  c.set(0, DType::kF32, c.dims(0));
}

void reference_scaler(const ReferenceContext& c) {
  const auto offset = c.attrs().get_floats("offset", {0.0});
  const auto scale = c.attrs().get_floats("scale", {1.0});
  map_features(c, [&](double x, size_t k) { return (x - entry(offset, k)) * entry(scale, k); });
}

ValueIds expand_scaler(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const DType type = arithmetic_type(x);
  const auto offset = node.attrs.get_floats("offset", {0.0});
  const auto scale = node.attrs.get_floats("scale", {1.0});
  if (!fits_features(x, offset.size()) || !fits_features(x, scale.size())) return {};
  const ValueId moved =
      x.add("Sub", {x.cast(x.in(0), x.dtype(0), type), x.constant(of_floats(type, offset))});
  return {x.cast(x.add("Mul", {moved, x.constant(of_floats(type, scale))}), type, DType::kF32)};
}

// ---- Normalizer ---------------------------------------------------------------------------------

void infer_normaliser(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  c.set(0, DType::kF32, c.dims(0));
}

void reference_normaliser(const ReferenceContext& c) {
  check_shapes(c);
  const std::string norm = c.attrs().get_string("norm", "MAX");
  auto x = double_values(c.inputs[0]);
  const auto features = static_cast<size_t>(c.inputs[0].dims.back());
  for (size_t begin = 0; begin < x.size(); begin += features) {
    const std::span row = std::span(x).subspan(begin, features);
    double divisor = norm == "MAX" ? row[0] : 0;
    for (const double v : row)
      divisor =
          norm == "MAX" ? std::max(divisor, v) : divisor + (norm == "L1" ? std::abs(v) : v * v);
    if (norm == "L2") divisor = std::sqrt(divisor);
    if (divisor != 0)
      for (double& v : row) v /= divisor;
  }
  write_dense(c.outputs[0], x);
}

ValueIds expand_normaliser(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const auto& dims = x.type(0).dims;
  if (!dims || dims->empty() || !dims->back().is_constant() || dims->back().value() == 0) return {};
  const std::string norm = node.attrs.get_string("norm", "MAX");
  const DType type = arithmetic_type(x);
  const ValueId in = x.cast(x.in(0), x.dtype(0), type);
  const ValueId length = x.reduce(norm == "MAX"  ? "ReduceMax"
                                  : norm == "L1" ? "ReduceL1"
                                                 : "ReduceL2",
                                  in, {-1});
  const auto number = [&](double value) { return x.constant(of_floats(type, {value})); };
  const ValueId divisor = x.add("Where", {x.add("Equal", {length, number(0)}), number(1), length});
  return {x.cast(x.add("Div", {in, divisor}), type, DType::kF32)};
}

// ---- FeatureVectorizer --------------------------------------------------------------------------

void infer_vectorizer(InferContext& c) {
  const auto sizes = c.attrs().get_ints("inputdimensions");
  for (size_t i = 0; i < c.input_count(); ++i) check_dtype(c, i, kMlNumbers);
  if (sizes.size() != c.input_count())
    c.error("{} inputdimensions for {} inputs", sizes.size(), c.input_count());
  Dim rows = 1;
  int64_t width = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (c.rank(i) != 1 && c.rank(i) != 2)
      c.error("input {} has rank {}, expected 1 or 2", i, c.rank(i));
    const Dim own = c.rank(i) == 2 ? c.dims(i)[0] : Dim(1);
    rows = i == 0 ? own : same_dim(rows, own, "rows of the inputs");
    if (sizes[i] < 0) c.error("inputdimensions has {}", sizes[i]);
    width = checked_add(width, sizes[i]);
  }
  c.set(0, DType::kF32, {rows, width});
}

/// Features an input has too few of are 0, those it has too many of are left out.
void reference_vectorizer(const ReferenceContext& c) {
  check_shapes(c);
  const auto sizes = c.attrs().get_ints("inputdimensions");
  const int64_t rows = c.outputs[0].dims[0], width = c.outputs[0].dims[1];
  std::vector<double> out(static_cast<size_t>(rows * width), 0.0);
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto x = double_values(c.inputs[i]);
    const int64_t features = c.inputs[i].dims.back();
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(x.begin() + r * features, std::min(features, sizes[i]),
                  out.begin() + r * width + begin);
    begin += sizes[i];
  }
  write_dense(c.outputs[0], out);
}

/// Where every input has the features it is said to have.
ValueIds expand_vectorizer(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const auto sizes = node.attrs.get_ints("inputdimensions");
  std::optional<Dim> rows;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& dims = x.type(i).dims;
    if (!dims || dims->empty() || dims->back() != Dim(sizes[i])) return {};
    const Dim own = dims->size() == 2 ? dims->front() : Dim(1);
    if (rows && *rows != own) return {};
    rows = own;
  }
  ValueIds parts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ValueId in = x.cast(x.in(i), x.dtype(i), DType::kF32);
    parts.push_back(x.rank(i) == 1 ? x.add("Unsqueeze", {in, x.ints({0})}) : in);
  }
  return {x.add("Concat", parts, {{"axis", int64_t{-1}}})};
}

// ---- OneHotEncoder ------------------------------------------------------------------------------

void infer_one_hot(InferContext& c) {
  const DType t = check_dtype(c, 0, kMlNumbers | kMlStrings);
  const bool strings = c.attrs().has("cats_strings");
  if (strings == c.attrs().has("cats_int64s"))
    c.error("one of cats_strings and cats_int64s must be given");
  if (strings != (t == DType::kString)) c.error("categories do not fit elements of {}", name(t));
  SymDims dims = c.dims(0);
  dims.emplace_back(static_cast<int64_t>(strings ? c.attrs().get_strings("cats_strings").size()
                                                 : c.attrs().get_ints("cats_int64s").size()));
  c.set(0, DType::kF32, dims);
}

void reference_one_hot(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView& x = c.inputs[0];
  const auto names = c.attrs().get_strings("cats_strings");
  const auto numbers = c.attrs().get_ints("cats_int64s");
  const auto position = [](const auto& list, const auto& value) {
    return static_cast<size_t>(std::find(list.begin(), list.end(), value) - list.begin());
  };
  const auto categories = static_cast<size_t>(c.outputs[0].dims.back());
  const bool zeros = c.attrs().get_int("zeros", 1) != 0;
  std::vector<double> out;
  for_each_offset<1>(x.dims, {x.strides}, [&](const auto& at) {
    const size_t found = x.dtype == DType::kString
                             ? position(names, x.as<std::string>()[at[0]])
                             : position(numbers, load_int64(x.data, x.dtype, at[0]));
    if (found == categories && !zeros) fail(Status::kRange, "an element is of no category");
    for (size_t k = 0; k < categories; ++k) out.push_back(k == found ? 1 : 0);
  });
  write_dense(c.outputs[0], out);
}

/// A LabelEncoder in which, of equal keys, the first one counts.
ValueId first_of(Patch& patch, const Node& node, ValueId in, Expansion::AttrList lists) {
  Attrs attrs;
  for (auto& [name, list] : lists) {
    if (auto* ints = std::get_if<std::vector<int64_t>>(&list)) std::ranges::reverse(*ints);
    if (auto* texts = std::get_if<std::vector<std::string>>(&list)) std::ranges::reverse(*texts);
    attrs.set(name, std::move(list));
  }
  const OpDef& op = get_op("LabelEncoder", "ai.onnx.ml");
  return patch.add_node(op, {in}, 1, std::move(attrs), node.name)[0];
}

/// The positions of the categories, one past the last for what is of none, and OneHot of these.
ValueIds expand_one_hot(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  if (node.attrs.get_int("zeros", 1) == 0) return {};  // what is of none must fail
  const auto names = node.attrs.get_strings("cats_strings");
  const auto numbers = node.attrs.get_ints("cats_int64s");
  const bool text = x.dtype(0) == DType::kString;
  const auto count = static_cast<int64_t>(text ? names.size() : numbers.size());
  if (count == 0) return {};
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  const ValueId in = text ? x.in(0) : x.cast(x.in(0), x.dtype(0), DType::kI64);
  const ValueId found = first_of(patch, node, in,
                                 {text ? std::pair<std::string, Attr>{"keys_strings", names}
                                       : std::pair<std::string, Attr>{"keys_int64s", numbers},
                                  {"values_int64s", positions},
                                  {"default_int64", count}});
  return {x.add("OneHot", {found, x.integer(count), x.constant(of_floats(DType::kF32, {0, 1}))})};
}

// ---- CategoryMapper -----------------------------------------------------------------------------

void infer_category_mapper(InferContext& c) {
  const DType t = check_dtype(c, 0, kMlStrings | type_set({DType::kI64}));
  const size_t names = c.attrs().get_strings("cats_strings").size(),
               numbers = c.attrs().get_ints("cats_int64s").size();
  if (names != numbers) c.error("{} cats_strings, {} cats_int64s", names, numbers);
  c.set(0, t == DType::kString ? DType::kI64 : DType::kString, c.dims(0));
}

void reference_category_mapper(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  const auto names = c.attrs().get_strings("cats_strings");
  const auto numbers = c.attrs().get_ints("cats_int64s");
  const int64_t other_number = c.attrs().get_int("default_int64", -1);
  const std::string other_name = c.attrs().get_string("default_string", "_Unused");
  for_each_offset<2>(y.dims, {x.strides, y.strides}, [&](const auto& at) {
    if (x.dtype == DType::kString) {
      const auto found = std::find(names.begin(), names.end(), x.as<std::string>()[at[0]]);
      y.as<int64_t>()[at[1]] =
          found == names.end() ? other_number : numbers[static_cast<size_t>(found - names.begin())];
    } else {
      const auto found = std::find(numbers.begin(), numbers.end(), x.as<int64_t>()[at[0]]);
      y.as<std::string>()[at[1]] =
          found == numbers.end() ? other_name : names[static_cast<size_t>(found - numbers.begin())];
    }
  });
}

ValueIds expand_category_mapper(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const auto names = node.attrs.get_strings("cats_strings");
  const auto numbers = node.attrs.get_ints("cats_int64s");
  if (x.dtype(0) == DType::kString)
    return {first_of(patch, node, x.in(0),
                     {{"keys_strings", names},
                      {"values_int64s", numbers},
                      {"default_int64", node.attrs.get_int("default_int64", -1)}})};
  return {first_of(patch, node, x.in(0),
                   {{"keys_int64s", numbers},
                    {"values_strings", names},
                    {"default_string", node.attrs.get_string("default_string", "_Unused")}})};
}

}  // namespace

void register_ml_features(OpList& ops) {
  const auto add = [&](OpDef op, ExpandFn expand, Tolerance tolerance = Tolerance::kExact) {
    op.expand = expand;
    op.tolerance = tolerance;
    ops.push_back(std::move(op));
  };
  AttrSpec norm{"norm", AttrKind::kString};
  norm.choices = "MAX|L1|L2";
  add(ml_op("Imputer",
            {{"imputed_value_floats", AttrKind::kFloats},
             {"imputed_value_int64s", AttrKind::kInts},
             {"replaced_value_float", AttrKind::kFloat},
             {"replaced_value_int64", AttrKind::kInt}},
            infer_imputer, reference_imputer),
      expand_imputer);
  add(ml_op("Scaler", {{"offset", AttrKind::kFloats}, {"scale", AttrKind::kFloats}}, infer_scaler,
            reference_scaler),
      expand_scaler, Tolerance::kElementwise);
  add(ml_op("Normalizer", {norm}, infer_normaliser, reference_normaliser), expand_normaliser,
      Tolerance::kReduction);
  OpDef vectorizer = ml_op("FeatureVectorizer", {{"inputdimensions", AttrKind::kInts, true}},
                           infer_vectorizer, reference_vectorizer);
  vectorizer.max_inputs = -1;
  add(std::move(vectorizer), expand_vectorizer);
  add(ml_op("OneHotEncoder",
            {{"cats_int64s", AttrKind::kInts},
             {"cats_strings", AttrKind::kStrings},
             {"zeros", AttrKind::kInt, false, 0, 1}},
            infer_one_hot, reference_one_hot),
      expand_one_hot);
  add(ml_op("CategoryMapper",
            {{"cats_int64s", AttrKind::kInts},
             {"cats_strings", AttrKind::kStrings},
             {"default_int64", AttrKind::kInt},
             {"default_string", AttrKind::kString}},
            infer_category_mapper, reference_category_mapper),
      expand_category_mapper);
}

}  // namespace xc
