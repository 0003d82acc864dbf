// Spectra: DFT, STFT, the windows that go with them, MelWeightMatrix. Transforms are kissfft's, in
// double.

#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <numbers>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/infer.h"
#include "ops/support.h"

namespace xc {

namespace {

using Complex = std::complex<double>;

/// Transforms of lines of one length.
class Transform {
 public:
  Transform(size_t length, bool inverse) : out_(length) {
    if (length > 0) plan_.emplace(length, inverse);
  }
  /// Valid until the next one.
  const std::vector<Complex>& operator()(const std::vector<Complex>& line) {
    if (plan_) plan_->transform(line.data(), out_.data());
    return out_;
  }

 private:
  std::optional<kissfft<double>> plan_;
  std::vector<Complex> out_;
};

/// A size that an input gives: its number, or a fresh symbol where only the run knows it.
Dim size_of(const InferContext& c, size_t i, const std::string& hint) {
  require_scalar(c, i);
  const auto known = c.elements(i);
  if (!known) return c.fresh(hint);
  if (known->front().is_constant() && known->front().value() < 0)
    c.error("{} is {}", hint, known->front().value());
  return known->front();
}

/// Real signals have one component in the last axis, complex ones two.
Dim components(const InferContext& c, const SymDims& dims) {
  const Dim& last = dims.back();
  if (last.is_constant() && last.value() != 1 && last.value() != 2)
    c.error("the last axis has {} components, expected 1 or 2", last.value());
  return last;
}

// ---- short transforms as products ---------------------------------------------------------------

/// Entries of the largest matrix that stands for a transform.
constexpr int64_t kMostEntries = int64_t{1} << 21;

/// Entries of the matrix whose product with a line takes as long as a fast transform of f32, which
/// walks over the line once for each factor of its length, adds up prime ones beyond 5 by
/// definition, and where these are large is two transforms of twice the length. One core of a Xeon
/// with AVX-512, 128 lines, product / transform in us: 128 real points 40 / 59, 512 589 / 251, 64
/// complex 31 / 36, 512 2730 / 282, 77 real (7 x 11) 14 / 102; a line of 1009 330 / 33.
int64_t entries_of_equal_time(int64_t points) {
  constexpr int64_t kSmallFactor = 40, kLargeFactor = 28, kMost = 1000;
  int64_t per_point = 0, rest = points;
  for (int64_t factor : {4, 2, 3, 5})
    for (; rest % factor == 0; rest /= factor) per_point += kSmallFactor;
  for (int64_t factor = 7; rest > 1; factor += 2) {
    if (factor * factor > rest) factor = rest;
    for (; rest % factor == 0; rest /= factor) per_point += kLargeFactor * factor;
  }
  return points * std::min(per_point, kMost);
}

/// The one integer that input i is known to be.
std::optional<int64_t> known_scalar(const Expansion& e, size_t i) {
  const Tensor& t = e.constant_input(i);
  if (!t || t.count() != 1) return std::nullopt;
  return t.to_int64s().front();
}

/// The matrix of a linear operator: what `node` makes of the identity, of dims {n, n_1, n_2} with
/// n_1 * n_2 = n, as rows of `type`. The other inputs as given.
Tensor matrix_of(const Node& node, int64_t n_1, int64_t n_2, std::vector<Tensor> inputs,
                 DType type) {
  const int64_t n = n_1 * n_2;
  inputs[0] = Tensor(DType::kF64, {n, n_1, n_2});
  for (int64_t i = 0; i < n * n; ++i) inputs[0].as<double>()[i] = i % (n + 1) == 0;
  const std::vector<double> values = run_reference(node, inputs)[0].to_doubles();
  Tensor out(type, {n, static_cast<int64_t>(values.size()) / n});
  for (size_t i = 0; i < values.size(); ++i)
    store_double(out.data(), type, static_cast<int64_t>(i), values[i]);
  return out;
}

/// A node of this operator and these attributes alone, to ask its reference.
Node alone(const Node& node, size_t inputs) {
  return {.op = node.op,
          .name = node.name,
          .inputs = std::vector<ValueId>(inputs, 0),
          .outputs = {0},
          .attrs = node.attrs};
}

// ---- DFT ----------------------------------------------------------------------------------------

struct DftKind {
  bool inverse, onesided;
  explicit DftKind(const Attrs& attrs)
      : inverse(attrs.get_int("inverse", 0) != 0), onesided(attrs.get_int("onesided", 0) != 0) {}
};

/// The axis of signals, never the components'.
size_t dft_axis(int64_t axis, size_t rank) {
  const size_t out = normalise_axis(axis, rank);
  if (out + 1 == rank) fail(Status::kInvalidModel, "axis {} is that of the components", axis);
  return out;
}

void infer_dft(InferContext& c) {
  const DType t = check_dtype(c, 0, kFloats);
  check_dtype(c, 1, kIndices);
  check_dtype(c, 2, kIndices);
  SymDims dims = c.dims(0);
  if (dims.size() < 2) c.error("the input has rank {}, expected at least 2", dims.size());
  const Dim parts = components(c, dims);
  const DftKind kind(c.attrs());
  if (kind.onesided && parts == Dim(kind.inverse ? 1 : 2))
    c.error("a one-sided transform of {} input", kind.inverse ? "real" : "complex");
  dims.back() = kind.inverse && kind.onesided ? 1 : 2;
  if (c.has(2)) require_scalar(c, 2);
  const auto axis = c.has(2) ? c.ints(2) : std::vector<int64_t>{-2};
  if (!axis) {
    dims = fresh_dims(c, dims.size(), "DFT");
    return c.set(0, t, dims);
  }
  Dim& size = dims[dft_axis(axis->front(), dims.size())];
  if (c.has(1))
    size = size_of(c, 1, "dft_length");
  else if (kind.inverse && kind.onesided)
    size = (size - Dim(1)) * Dim(2);
  if (kind.onesided && !kind.inverse) size = floor_div(size, Dim(2)) + Dim(1);
  c.set(0, t, dims);
}

void reference_dft(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  check_shapes(c);
  const size_t axis = dft_axis(c.has(2) ? scalar_int(c.inputs[2]) : -2, x.dims.size());
  const DftKind kind(c.attrs());
  const int64_t given = x.dims[axis];
  int64_t length = kind.inverse && kind.onesided ? 2 * (given - 1) : given;
  if (c.has(1)) length = scalar_int(c.inputs[1]);
  if (length < 1) fail(Status::kRange, "a transform of {} points", length);
  const int64_t present = std::min(given, kind.inverse && kind.onesided ? length / 2 + 1 : length);
  const bool complex_in = x.dims.back() == 2, complex_out = y.dims.back() == 2;
  Transform transform(static_cast<size_t>(length), kind.inverse);
  Dims lines(x.dims.begin(), x.dims.end());
  lines[axis] = lines.back() = 1;
  std::vector<Complex> line(static_cast<size_t>(length));
  for_each_coordinate(lines, [&](std::span<const int64_t> at) {
    const int64_t from = offset_of(at, x.strides), to = offset_of(at, y.strides);
    std::fill(line.begin(), line.end(), Complex());
    for (int64_t k = 0; k < present; ++k) {
      const int64_t offset = from + k * x.strides[axis];
      const double imaginary =
          complex_in ? load_double(x.data, x.dtype, offset + x.strides.back()) : 0;
      line[static_cast<size_t>(k)] = {load_double(x.data, x.dtype, offset), imaginary};
    }
    // The half of the spectrum that was left out mirrors the half that is given.
    if (kind.inverse && kind.onesided)
      for (int64_t k = length / 2 + 1; k < length; ++k)
        line[static_cast<size_t>(k)] = std::conj(line[static_cast<size_t>(length - k)]);
    const std::vector<Complex>& bins = transform(line);
    const double scale = kind.inverse ? 1.0 / static_cast<double>(length) : 1.0;
    for (int64_t k = 0; k < y.dims[axis]; ++k) {
      const Complex value = bins[static_cast<size_t>(k)] * scale;
      const int64_t offset = to + k * y.strides[axis];
      store_double(y.data, y.dtype, offset, value.real());
      if (complex_out) store_double(y.data, y.dtype, offset + y.strides.back(), value.imag());
    }
  });
}

/// Transforms of a known, short length: a product with the matrix of sines and cosines. Fast ones
/// are of f32: of halves any length that has a matrix.
std::vector<ValueId> expand_dft(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto& dims = e.type(0).dims;
  const auto place = e.has(2) ? known_scalar(e, 2) : std::optional<int64_t>(-2);
  if (!dims || dims->size() < 2 || !place || (e.has(1) && !known_scalar(e, 1))) return {};
  const size_t rank = dims->size(), axis = dft_axis(*place, rank);
  const auto given = (*dims)[axis].constant(), parts = dims->back().constant();
  const DType type = e.working();
  if (!given || !parts || *given < 1 || *given > kMostEntries || type != DType::kF32) return {};
  const int64_t in = *given * *parts;
  const DftKind kind(node.attrs);
  const bool half_given = kind.inverse && kind.onesided;
  const int64_t points = e.has(1) ? *known_scalar(e, 1) : half_given ? 2 * (*given - 1) : *given;
  if (points < 1 || points > kMostEntries) return {};
  const int64_t entries = in * (half_given      ? points
                                : kind.onesided ? 2 * (points / 2 + 1)
                                                : 2 * points);
  if (entries > kMostEntries || (e.dtype(0) == type && entries > entries_of_equal_time(points)))
    return {};
  const Tensor matrix =
      matrix_of(alone(node, 3), *given, *parts,
                {{}, e.has(1) ? e.constant_input(1) : Tensor(), Tensor::scalar<int64_t>(1)}, type);
  const int64_t out_parts = half_given ? 1 : 2;

  // The axis of the signal in front of its components, and both as one.
  std::vector<int64_t> perm(rank), merged(rank - 1, 0), split(rank, 0);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[axis], perm[rank - 2]);
  const bool moved = axis + 2 != rank;
  merged.back() = in;
  split[rank - 2] = matrix.dims()[1] / out_parts;
  split[rank - 1] = out_parts;
  ValueId x = e.widened(0);
  if (moved) x = e.transposed(x, perm);
  const ValueId lines = e.add("Reshape", {x, e.ints(merged)});
  const ValueId product = e.add("MatMul", {lines, e.constant(matrix)});
  ValueId y = e.add("Reshape", {product, e.ints(split)});
  if (moved) y = e.transposed(y, perm);
  return {e.narrowed(y)};
}

// ---- STFT ---------------------------------------------------------------------------------------

void infer_stft(InferContext& c) {
  const DType t = check_dtype(c, 0, kFloats);
  check_dtype(c, 1, kIndices);
  require_same_dtype(c, 2);
  check_dtype(c, 3, kIndices);
  const SymDims& signal = c.dims(0);
  // A real signal may come without the axis of the components, as onnxruntime takes it.
  const bool bare = signal.size() == 2;
  if (!bare) require_rank(c, 0, 3);
  const Dim parts = bare ? Dim(1) : components(c, signal);
  const bool onesided = c.attrs().get_int("onesided", 1) != 0;
  if (onesided && parts == Dim(2)) c.error("a one-sided transform of complex input");
  Dim length = signal[1];
  if (c.has(2)) {
    require_rank(c, 2, 1);
    length = c.dims(2)[0];
  }
  if (c.has(3)) {
    const Dim given = size_of(c, 3, "frame_length");
    length = c.has(2) ? same_dim(length, given, "frame_length and window") : given;
  }
  const auto step = c.ints(1);
  require_scalar(c, 1);
  if (step && step->front() <= 0) c.error("frame_step is {}", step->front());
  if (length.is_constant() && signal[1].is_constant() && length.value() > signal[1].value())
    c.error("a frame of {} is longer than the signal of {}", length.value(), signal[1].value());
  const Dim frames =
      step ? floor_div(signal[1] - length, Dim(step->front())) + Dim(1) : c.fresh("frames");
  c.set(0, t, {signal[0], frames, onesided ? floor_div(length, Dim(2)) + Dim(1) : length, 2});
}

void reference_stft(const ReferenceContext& c) {
  const TensorView &x = c.inputs[0], &y = c.outputs[0];
  check_shapes(c);
  const int64_t step = scalar_int(c.inputs[1]);
  const auto window = c.has(2) ? double_values(c.inputs[2]) : std::vector<double>{};
  int64_t length = c.has(2) ? c.inputs[2].dims[0] : x.dims[1];
  if (c.has(3)) length = scalar_int(c.inputs[3]);
  if (length < 1) fail(Status::kRange, "a transform of {} points", length);
  if (y.dims[1] < 0 || (y.dims[1] > 0 && (y.dims[1] - 1) * step + length > x.dims[1]))
    fail(Status::kRange, "{} frames of {} do not fit a signal of {}", y.dims[1], length, x.dims[1]);
  std::vector<Complex> line(static_cast<size_t>(length));
  Transform transform(static_cast<size_t>(length), false);
  const Dims frames{y.dims[0], y.dims[1]};
  for_each_coordinate(frames, [&](std::span<const int64_t> at) {
    for (int64_t k = 0; k < length; ++k) {
      const int64_t offset = at[0] * x.strides[0] + (at[1] * step + k) * x.strides[1];
      const double weight = window.empty() ? 1 : window[static_cast<size_t>(k)];
      const bool complex = x.dims.size() == 3 && x.dims[2] == 2;
      const double imaginary = complex ? load_double(x.data, x.dtype, offset + x.strides[2]) : 0;
      line[static_cast<size_t>(k)] =
          Complex(load_double(x.data, x.dtype, offset), imaginary) * weight;
    }
    const std::vector<Complex>& bins = transform(line);
    const int64_t to = offset_of(at, y.strides.first(2));
    for (int64_t k = 0; k < y.dims[2]; ++k) {
      const Complex& value = bins[static_cast<size_t>(k)];
      store_double(y.data, y.dtype, to + k * y.strides[2], value.real());
      store_double(y.data, y.dtype, to + k * y.strides[2] + y.strides[3], value.imag());
    }
  });
}

/// Frames of a known, short length of a real signal: a convolution with windowed sines and cosines.
std::vector<ValueId> expand_stft(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto& dims = e.type(0).dims;
  const auto step = known_scalar(e, 1);
  if (!dims || !step || *step < 1) return {};
  const bool bare = dims->size() == 2;
  if (!bare && !(dims->back() == Dim(1))) return {};
  if ((e.has(2) && !e.constant_input(2)) || (e.has(3) && !known_scalar(e, 3))) return {};
  if (!e.has(2) && !e.has(3)) return {};
  const int64_t length = e.has(3) ? *known_scalar(e, 3) : e.constant_input(2).count();
  const DType type = e.working();
  if (length < 1 || length > kMostEntries || 2 * length * length > kMostEntries ||
      type != DType::kF32)
    return {};
  Tensor window;
  if (e.has(2)) window = Tensor::of(double_values(e.constant_input(2).view()));
  const Tensor matrix =
      matrix_of(alone(node, 4), length, 1,
                {{}, Tensor::scalar<int64_t>(1), window, Tensor::scalar<int64_t>(length)}, type);
  const int64_t rows = matrix.dims()[1];  // bins, real and imaginary
  Tensor weights(type, {rows, 1, length});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < length; ++k)
      weights.as<float>()[r * length + k] = matrix.as<float>()[k * rows + r];
  const ValueId signal = bare ? e.add("Unsqueeze", {e.widened(0), e.ints({1})})
                              : e.transposed(e.widened(0), {0, 2, 1});
  const ValueId frames =
      e.add("Conv", {signal, e.constant(weights)}, {{"strides", std::vector<int64_t>{*step}}});
  return {
      e.narrowed(e.add("Reshape", {e.transposed(frames, {0, 2, 1}), e.ints({0, 0, rows / 2, 2})}))};
}

// ---- windows ------------------------------------------------------------------------------------

void infer_window(InferContext& c) {
  check_dtype(c, 0, kIndices);
  const DType t = dtype_attr(c.attrs().get_int("output_datatype", 1));
  if (!contains(kNumbers, t)) c.error("output_datatype is {}", name(t));
  c.set(0, t, {size_of(c, 0, "window")});
}

/// a - b cos(2 pi n / N) + d cos(4 pi n / N), over N or, symmetric, N - 1 steps.
template <class Coefficients>
void reference_window(const ReferenceContext& c) {
  const int64_t size = c.outputs[0].dims[0];
  const bool periodic = c.attrs().get_int("periodic", 1) != 0;
  const auto steps = static_cast<double>(std::max<int64_t>(1, periodic ? size : size - 1));
  std::vector<double> values;
  for (int64_t n = 0; n < size; ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / steps;
    values.push_back(Coefficients::a - Coefficients::b * std::cos(angle) +
                     Coefficients::d * std::cos(2 * angle));
  }
  write_dense(c.outputs[0], values);
}
struct Hann {
  static constexpr double a = 0.5, b = 0.5, d = 0;
};
struct Hamming {
  static constexpr double a = 25.0 / 46, b = 21.0 / 46, d = 0;
};
struct Blackman {
  static constexpr double a = 0.42, b = 0.5, d = 0.08;
};

// ---- MelWeightMatrix ----------------------------------------------------------------------------

void infer_mel(InferContext& c) {
  for (size_t i = 0; i < 3; ++i) check_dtype(c, i, kIndices);
  for (size_t i = 3; i < 5; ++i) check_dtype(c, i, kFloats);
  for (size_t i = 2; i < 5; ++i) require_scalar(c, i);
  const DType t = dtype_attr(c.attrs().get_int("output_datatype", 1));
  if (!contains(kNumbers, t)) c.error("output_datatype is {}", name(t));
  c.set(0, t, {floor_div(size_of(c, 1, "dft_length"), Dim(2)) + Dim(1), size_of(c, 0, "mel_bins")});
}

/// Triangles of height 1, their corners evenly spaced on the mel scale and rounded down to bins.
void reference_mel(const ReferenceContext& c) {
  const TensorView& y = c.outputs[0];
  check_shapes(c);
  const int64_t bins = y.dims[1], spectrum = y.dims[0];
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(scalar_value(c.inputs[3])), high = mel(scalar_value(c.inputs[4]));
  const double rate = scalar_value(c.inputs[2]), length = scalar_value(c.inputs[1]);
  std::vector<int64_t> corners;
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double at = low + (high - low) * static_cast<double>(k) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10, at / 2595) - 1);
    const double corner = std::floor((length + 1) * hertz / rate);
    if (!(corner >= 0 && corner <= static_cast<double>(spectrum)))
      fail(Status::kRange, "an edge of {} Hz lies outside a spectrum of {} bins", hertz, spectrum);
    corners.push_back(static_cast<int64_t>(corner));
  }
  std::vector<double> weights(static_cast<size_t>(spectrum * bins), 0.0);
  for (int64_t k = 0; k < bins; ++k) {
    const auto i = static_cast<size_t>(k);
    const int64_t left = corners[i], top = corners[i + 1], right = corners[i + 2];
    const auto set = [&](int64_t bin, double value) {
      if (bin < spectrum) weights[static_cast<size_t>(bin * bins + k)] = value;
    };
    set(top, 1);
    for (int64_t bin = left; bin < top; ++bin)
      set(bin, static_cast<double>(bin - left) / static_cast<double>(top - left));
    for (int64_t bin = top; bin < right; ++bin)
      set(bin, static_cast<double>(right - bin) / static_cast<double>(right - top));
  }
  write_dense(y, weights);
}

OpDef window(std::string_view name, ReferenceFn reference) {
  OpDef op;
  op.name = name;
  op.attrs = {dtype_spec("output_datatype"), {"periodic", AttrKind::kInt, false, 0, 1}};
  op.infer = infer_window;
  op.reference = reference;
  op.tolerance = Tolerance::kElementwise;
  return op;
}

}  // namespace

void register_signal(OpList& ops) {
  ops.push_back({.name = "DFT",
                 .max_inputs = 3,
                 .attrs = {{"inverse", AttrKind::kInt, false, 0, 1},
                           {"onesided", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_dft,
                 .reference = reference_dft,
                 .expand = expand_dft,
                 .tolerance = Tolerance::kContraction});
  ops.push_back({.name = "STFT",
                 .min_inputs = 2,
                 .max_inputs = 4,
                 .attrs = {{"onesided", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_stft,
                 .reference = reference_stft,
                 .expand = expand_stft,
                 .tolerance = Tolerance::kContraction});
  ops.push_back(window("HannWindow", reference_window<Hann>));
  ops.push_back(window("HammingWindow", reference_window<Hamming>));
  ops.push_back(window("BlackmanWindow", reference_window<Blackman>));
  ops.push_back({.name = "MelWeightMatrix",
                 .min_inputs = 5,
                 .max_inputs = 5,
                 .attrs = {dtype_spec("output_datatype")},
                 .infer = infer_mel,
                 .reference = reference_mel,
                 .tolerance = Tolerance::kElementwise});
}

}  // namespace xc
