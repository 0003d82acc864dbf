// Operators whose result is random: RandomUniform, RandomNormal and their Like forms, Bernoulli,
// Multinomial.

#include "ops/random.h"

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/support.h"

namespace xc {

namespace {

void infer_random(InferContext& c) {
  const DType t = dtype_attr(c.attrs().get_int("dtype", 1));
  if (!contains(kFloats, t)) c.error("dtype is {}, expected a float", name(t));
  const auto shape = c.attrs().get_ints("shape");
  for (int64_t d : shape)
    if (d < 0) c.error("shape has a dim of {}", d);
  c.set(0, t, SymDims(shape.begin(), shape.end()));
}

/// The type that `dtype` names, or that of the input.
DType type_like(const InferContext& c) {
  return c.attrs().has("dtype") ? dtype_attr(c.attrs().get_int("dtype", 1)) : c.dtype(0);
}

void infer_random_like(InferContext& c) {
  const DType t = type_like(c);
  if (!contains(kFloats, t)) c.error("the result would be {}, expected a float", name(t));
  c.set(0, t, c.dims(0));
}

/// Fills output 0 with draw(source).
template <class Draw>
void fill(const ReferenceContext& c, Draw draw) {
  RandomSource source = RandomSource::of(c.attrs());
  const TensorView& y = c.outputs[0];
  for_each_offset<1>(y.dims, {y.strides},
                     [&](const auto& at) { store_double(y.data, y.dtype, at[0], draw(source)); });
}

void reference_uniform(const ReferenceContext& c) {
  const double low = c.attrs().get_float("low", 0), high = c.attrs().get_float("high", 1);
  fill(c, [&](RandomSource& source) { return low + (high - low) * source.uniform(); });
}

void reference_normal(const ReferenceContext& c) {
  const double mean = c.attrs().get_float("mean", 0), scale = c.attrs().get_float("scale", 1);
  fill(c, [&](RandomSource& source) { return mean + scale * source.normal(); });
}

// ---- Bernoulli ----------------------------------------------------------------------------------

void infer_bernoulli(InferContext& c) {
  check_dtype(c, 0, kFloats);
  const DType t = type_like(c);
  if (!contains(kNumbers | kBools, t)) c.error("dtype is {}", name(t));
  c.set(0, t, c.dims(0));
}

void reference_bernoulli(const ReferenceContext& c) {
  RandomSource source = RandomSource::of(c.attrs());
  const TensorView &p = c.inputs[0], &y = c.outputs[0];
  for_each_offset<2>(y.dims, {p.strides, y.strides}, [&](const auto& at) {
    const bool drawn = source.uniform() < load_double(p.data, p.dtype, at[0]);
    store_double(y.data, y.dtype, at[1], drawn ? 1 : 0);
  });
}

// ---- Multinomial --------------------------------------------------------------------------------

void infer_multinomial(InferContext& c) {
  check_dtype(c, 0, kFloats);
  require_rank(c, 0, 2);
  const DType t = dtype_attr(c.attrs().get_int("dtype", 6));
  if (!contains(kIndices, t)) c.error("dtype is {}, expected i32 or i64", name(t));
  if (c.dims(0)[1] == Dim(0)) c.error("there are no classes to draw from");
  c.set(0, t, {c.dims(0)[0], c.attrs().get_int("sample_size", 1)});
}

/// Classes by their unnormalised log probabilities.
void reference_multinomial(const ReferenceContext& c) {
  RandomSource source = RandomSource::of(c.attrs());
  check_shapes(c);
  const auto logits = double_values(c.inputs[0]);
  const auto classes = static_cast<size_t>(c.inputs[0].dims[1]);
  std::vector<int64_t> out;
  std::vector<double> cumulative(classes);
  for (int64_t row = 0; row < c.outputs[0].dims[0]; ++row) {
    const double* x = logits.data() + static_cast<size_t>(row) * classes;
    const double top = *std::max_element(x, x + classes);
    double sum = 0;
    for (size_t k = 0; k < classes; ++k) cumulative[k] = sum += std::exp(x[k] - top);
    for (int64_t s = 0; s < c.outputs[0].dims[1]; ++s) {
      const auto at =
          std::upper_bound(cumulative.begin(), cumulative.end(), source.uniform() * sum);
      out.push_back(std::min<int64_t>(at - cumulative.begin(), static_cast<int64_t>(classes) - 1));
    }
  }
  write_ints(c.outputs[0], out);
}

OpDef random_op(std::string_view name, int inputs, std::vector<AttrSpec> attrs, InferFn infer,
                ReferenceFn reference) {
  OpDef op;
  op.name = name;
  op.min_inputs = op.max_inputs = inputs;
  op.attrs = std::move(attrs);
  op.infer = infer;
  op.reference = reference;
  op.random = true;
  return op;
}

}  // namespace

void register_random(OpList& ops) {
  const AttrSpec dtype = dtype_spec("dtype"), seed{"seed", AttrKind::kFloat};
  const AttrSpec shape{"shape", AttrKind::kInts, true};
  const AttrSpec low{"low", AttrKind::kFloat}, high{"high", AttrKind::kFloat};
  const AttrSpec mean{"mean", AttrKind::kFloat}, scale{"scale", AttrKind::kFloat};
  const AttrSpec sample_size{"sample_size", AttrKind::kInt, false, 0, INT32_MAX};
  ops.push_back(random_op("RandomUniform", 0, {dtype, seed, shape, low, high}, infer_random,
                          reference_uniform));
  ops.push_back(random_op("RandomUniformLike", 1, {dtype, seed, low, high}, infer_random_like,
                          reference_uniform));
  ops.push_back(random_op("RandomNormal", 0, {dtype, seed, shape, mean, scale}, infer_random,
                          reference_normal));
  ops.push_back(random_op("RandomNormalLike", 1, {dtype, seed, mean, scale}, infer_random_like,
                          reference_normal));
  ops.push_back(random_op("Bernoulli", 1, {dtype, seed}, infer_bernoulli, reference_bernoulli));
  ops.push_back(random_op("Multinomial", 1, {dtype, seed, sample_size}, infer_multinomial,
                          reference_multinomial));
}

}  // namespace xc
