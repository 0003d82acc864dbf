// Feature preparation and linear models of ai.onnx.ml: Imputer, Scaler, Normalizer,
// FeatureVectorizer, OneHotEncoder, CategoryMapper, LinearRegressor. Features lie along the last
// axis.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
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

// ---- LinearRegressor ----------------------------------------------------------------------------

void infer_linear(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  const int64_t targets = c.attrs().get_int("targets", 1);
  const auto coefficients = static_cast<int64_t>(c.attrs().get_floats("coefficients").size());
  if (coefficients % targets != 0 || known_different(c.dims(0).back(), coefficients / targets))
    c.error("{} coefficients for {} targets of {} features", coefficients, targets,
            c.dims(0).back().text());
  if (c.attrs().has("intercepts") &&
      static_cast<int64_t>(c.attrs().get_floats("intercepts").size()) != targets)
    c.error("intercepts for another number of targets than {}", targets);
  c.set(0, DType::kF32, {row_count(c), targets});
}

void reference_linear(const ReferenceContext& c) {
  check_shapes(c);
  const auto coefficients = c.attrs().get_floats("coefficients");
  const auto targets = static_cast<size_t>(c.attrs().get_int("targets", 1));
  const auto intercepts = c.attrs().get_floats("intercepts", std::vector<double>(targets, 0.0));
  const std::string transform = c.attrs().get_string("post_transform", "NONE");
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    std::vector<double> scores = intercepts;
    for (size_t t = 0; t < targets; ++t)
      for (size_t k = 0; k < row.size(); ++k)
        scores[t] += row[k] * coefficients[t * row.size() + k];
    transform_scores(transform, scores);
    out.insert(out.end(), scores.begin(), scores.end());
  });
  write_dense(c.outputs[0], out);
}

}  // namespace

void register_ml_features(OpList& ops) {
  AttrSpec norm{"norm", AttrKind::kString};
  norm.choices = "MAX|L1|L2";
  ops.push_back(ml_op("Imputer",
                      {{"imputed_value_floats", AttrKind::kFloats},
                       {"imputed_value_int64s", AttrKind::kInts},
                       {"replaced_value_float", AttrKind::kFloat},
                       {"replaced_value_int64", AttrKind::kInt}},
                      infer_imputer, reference_imputer));
  OpDef scaler = ml_op("Scaler", {{"offset", AttrKind::kFloats}, {"scale", AttrKind::kFloats}},
                       infer_scaler, reference_scaler);
  scaler.tolerance = Tolerance::kElementwise;
  ops.push_back(std::move(scaler));
  OpDef normaliser = ml_op("Normalizer", {norm}, infer_normaliser, reference_normaliser);
  normaliser.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(normaliser));
  OpDef vectorizer = ml_op("FeatureVectorizer", {{"inputdimensions", AttrKind::kInts, true}},
                           infer_vectorizer, reference_vectorizer);
  vectorizer.max_inputs = -1;
  ops.push_back(std::move(vectorizer));
  ops.push_back(ml_op("OneHotEncoder",
                      {{"cats_int64s", AttrKind::kInts},
                       {"cats_strings", AttrKind::kStrings},
                       {"zeros", AttrKind::kInt, false, 0, 1}},
                      infer_one_hot, reference_one_hot));
  ops.push_back(ml_op("CategoryMapper",
                      {{"cats_int64s", AttrKind::kInts},
                       {"cats_strings", AttrKind::kStrings},
                       {"default_int64", AttrKind::kInt},
                       {"default_string", AttrKind::kString}},
                      infer_category_mapper, reference_category_mapper));
  OpDef linear = ml_op("LinearRegressor",
                       {{"coefficients", AttrKind::kFloats, true},
                        {"intercepts", AttrKind::kFloats},
                        score_transform_attr(),
                        {"targets", AttrKind::kInt, false, 1, INT32_MAX}},
                       infer_linear, reference_linear);
  linear.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(linear));
}

}  // namespace xc
