#include "ops/recurrent.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/support.h"

namespace xc {

namespace {

struct ActivationRow {
  std::string_view name;
  bool has_alpha, has_beta;
  double alpha, beta;  // defaults
};
constexpr ActivationRow kActivations[] = {
    {"relu", false, false, 0, 0},        {"tanh", false, false, 0, 0},
    {"sigmoid", false, false, 0, 0},     {"affine", true, true, 1, 0},
    {"leakyrelu", true, false, 0.01, 0}, {"thresholdedrelu", true, false, 1, 0},
    {"scaledtanh", true, true, 1, 1},    {"hardsigmoid", true, true, 0.2, 0.5},
    {"elu", true, false, 1, 0},          {"softsign", false, false, 0, 0},
    {"softplus", false, false, 0, 0},
};

}  // namespace

std::vector<Activation> activations_of(const Node& node, const CellKind& kind, size_t directions) {
  std::vector<std::string> names = node.attrs.get_strings("activations");
  if (names.empty())
    for (size_t d = 0; d < directions; ++d)
      names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  const size_t wanted = kind.activations.size() * directions;
  if (names.size() != wanted)
    fail(Status::kInvalidModel, "attribute 'activations' has {} entries, expected {}", names.size(),
         wanted);
  const auto alphas = node.attrs.get_floats("activation_alpha");
  const auto betas = node.attrs.get_floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> out;
  for (const std::string& given : names) {
    Activation a{given};
    for (char& c : a.name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto* row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const ActivationRow& r) { return r.name == a.name; });
    if (row == std::end(kActivations))
      fail(Status::kInvalidModel, "attribute 'activations' names '{}'", given);
    a.alpha = row->has_alpha && alpha < alphas.size() ? alphas[alpha++] : row->alpha;
    a.beta = row->has_beta && beta < betas.size() ? betas[beta++] : row->beta;
    out.push_back(std::move(a));
  }
  return out;
}

namespace {

constexpr std::string_view kDirections = "forward|reverse|bidirectional";

size_t direction_count(const Node& node) {
  const std::string direction = node.attrs.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail(Status::kInvalidModel, "attribute 'direction' is '{}'", direction);
  return direction == "bidirectional" ? 2 : 1;
}

}  // namespace

std::vector<AttrSpec> recurrent_attr_specs() {
  return {{"activation_alpha", AttrKind::kFloats},
          {"activation_beta", AttrKind::kFloats},
          {"activations", AttrKind::kStrings},
          {"clip", AttrKind::kFloat},
          {"direction", AttrKind::kString, false, 0, 0, kDirections},
          {"hidden_size", AttrKind::kInt, false, 1, INT32_MAX},
          {"layout", AttrKind::kInt, false, 0, 1}};
}

void infer_recurrent(InferContext& ctx, const CellKind& kind) {
  check_dtype(ctx, 0, kFloats);
  for (size_t i : {1, 2, 3, 5}) require_same_dtype(ctx, i);
  require_rank(ctx, 0, 3);
  require_rank(ctx, 2, 3);
  const bool batch_first = ctx.attrs().get_int("layout", 0) != 0;
  const Dim seq = ctx.dims(0)[batch_first ? 1 : 0], batch = ctx.dims(0)[batch_first ? 0 : 1];
  const Dim input = ctx.dims(0)[2], hidden = ctx.dims(2)[2];
  const size_t count = direction_count(*ctx.node);
  const Dim dirs = static_cast<int64_t>(count);
  activations_of(*ctx.node, kind, count);
  if (const double clip = ctx.attrs().get_float("clip", 0); !(clip >= 0))
    ctx.error("attribute 'clip' is {}", clip);
  if (ctx.attrs().has("hidden_size") &&
      known_different(hidden, ctx.attrs().get_int("hidden_size", 0)))
    ctx.error("attribute 'hidden_size' is {}, R has dims {}", ctx.attrs().get_int("hidden_size", 0),
              to_text(ctx.dims(2)));

  const Dim rows = hidden * kind.gates;
  const SymDims state = batch_first ? SymDims{batch, dirs, hidden} : SymDims{dirs, batch, hidden};
  require_dims(ctx, 1, {dirs, rows, input});
  require_dims(ctx, 2, {dirs, rows, hidden});
  if (ctx.has(3)) require_dims(ctx, 3, {dirs, rows * 2});
  if (ctx.has(4)) {
    check_dtype(ctx, 4, type_set({DType::kI32}));
    require_vector(ctx, 4, batch);
  }
  if (ctx.has(5)) require_dims(ctx, 5, state);
  if (kind.has_cell_state && ctx.has(6)) {
    require_same_dtype(ctx, 6);
    require_dims(ctx, 6, state);
  }
  if (kind.has_cell_state && ctx.has(7)) {
    require_same_dtype(ctx, 7);
    require_dims(ctx, 7, {dirs, hidden * 3});
  }
  ctx.set(0, ctx.dtype(0),
          batch_first ? SymDims{batch, seq, dirs, hidden} : SymDims{seq, dirs, batch, hidden});
  ctx.set(1, ctx.dtype(0), state);
  ctx.set(2, ctx.dtype(0), state);
}

Dim recurrent_flops(const Graph& graph, const Node& node) {
  const auto& x = graph.value(node.inputs[0]).type.dims;
  const auto& w = graph.value(node.inputs[1]).type.dims;
  const auto& r = graph.value(node.inputs[2]).type.dims;
  if (!x || !w || !r || x->size() != 3) return 0;
  return Dim(2) * (*x)[0] * (*x)[1] * (element_count(*w) + element_count(*r));
}

double Activation::operator()(double x) const {
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  if (name == "relu") return std::max(x, 0.0);
  if (name == "affine") return alpha * x + beta;
  if (name == "leakyrelu") return x < 0 ? alpha * x : x;
  if (name == "thresholdedrelu") return x >= alpha ? x : 0;  // unlike the operator of this name
  if (name == "scaledtanh") return alpha * std::tanh(beta * x);
  if (name == "hardsigmoid") return std::clamp(alpha * x + beta, 0.0, 1.0);
  if (name == "elu") return x < 0 ? alpha * std::expm1(x) : x;
  if (name == "softsign") return x / (1 + std::abs(x));
  if (name == "softplus") return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  fail(Status::kInternal, "activation '{}'", name);
}

double CellStep::dot(int64_t gate, int64_t j, const std::vector<double>& state) const {
  const int64_t row = gate * hidden + j;
  double sum = recurrent_bias ? recurrent_bias[row] : 0;
  for (int64_t k = 0; k < hidden; ++k)
    sum += recurrent[row * hidden + k] * state[static_cast<size_t>(k)];
  return sum;
}

double CellStep::activate(size_t which, double x) const {
  return activations[which](std::clamp(x, -clip, clip));
}

namespace {

/// Everything one node brings, dense, and where it lies.
struct Recurrence {
  int64_t seq, batch, input, hidden, dirs, gates;
  bool batch_first;
  std::string direction;
  std::vector<double> x, w, r, b, p, h0, c0;
  std::vector<int64_t> lengths;
  std::vector<Activation> activations;
  double clip = std::numeric_limits<double>::infinity();

  Recurrence(const ReferenceContext& ctx, const CellKind& kind) : gates(kind.gates) {
    batch_first = ctx.attrs().get_int("layout", 0) != 0;
    const auto dims = ctx.inputs[0].dims;
    seq = dims[batch_first ? 1 : 0];
    batch = dims[batch_first ? 0 : 1];
    input = dims[2];
    hidden = ctx.inputs[2].dims[2];
    dirs = static_cast<int64_t>(direction_count(*ctx.node));
    direction = ctx.attrs().get_string("direction", "forward");
    activations = activations_of(*ctx.node, kind, static_cast<size_t>(dirs));
    if (const double c = ctx.attrs().get_float("clip", 0); c > 0) clip = c;
    const auto dense = [&](size_t i) {
      return ctx.has(i) ? double_values(ctx.inputs[i]) : std::vector<double>{};
    };
    x = dense(0);
    w = dense(1);
    r = dense(2);
    b = dense(3);
    h0 = dense(5);
    c0 = kind.has_cell_state ? dense(6) : std::vector<double>{};
    p = kind.has_cell_state ? dense(7) : std::vector<double>{};
    lengths.assign(static_cast<size_t>(batch), seq);
    if (ctx.has(4)) lengths = int_values(ctx.inputs[4]);
    for (int64_t length : lengths)
      if (length < 0 || length > seq)
        fail(Status::kRange, "sequence length {} is outside [0, {}]", length, seq);
  }

  size_t state_at(int64_t d, int64_t n) const {
    return static_cast<size_t>((batch_first ? n * dirs + d : d * batch + n) * hidden);
  }
  const double* row_of_x(int64_t t, int64_t n) const {
    return x.data() + (batch_first ? n * seq + t : t * batch + n) * input;
  }
  size_t y_at(int64_t t, int64_t d, int64_t n) const {
    return static_cast<size_t>(
        (batch_first ? (n * seq + t) * dirs + d : (t * dirs + d) * batch + n) * hidden);
  }
  bool reversed(int64_t d) const { return d == 1 || direction == "reverse"; }

  /// W x + Wb of every gate.
  std::vector<double> project(int64_t d, int64_t t, int64_t n) const {
    const int64_t rows = gates * hidden;
    std::vector<double> out(static_cast<size_t>(rows));
    const double* from = row_of_x(t, n);
    for (int64_t j = 0; j < rows; ++j) {
      double sum = b.empty() ? 0 : b[static_cast<size_t>(d * 2 * rows + j)];
      const double* weights = w.data() + (d * rows + j) * input;
      for (int64_t k = 0; k < input; ++k) sum += weights[k] * from[k];
      out[static_cast<size_t>(j)] = sum;
    }
    return out;
  }
};

}  // namespace

void run_recurrent(const ReferenceContext& ctx, const CellKind& kind, const CellFn& cell) {
  check_shapes(ctx);
  const Recurrence s(ctx, kind);
  const int64_t rows = s.gates * s.hidden;
  const auto state_size = static_cast<size_t>(s.dirs * s.batch * s.hidden);
  std::vector<double> y(static_cast<size_t>(s.seq) * state_size, 0.0);
  std::vector<double> last_h(state_size), last_c(state_size);
  const auto initial = [&](const std::vector<double>& from, size_t at) {
    std::vector<double> out(static_cast<size_t>(s.hidden), 0.0);
    if (!from.empty()) std::copy_n(from.data() + at, s.hidden, out.data());
    return out;
  };
  for (int64_t d = 0; d < s.dirs; ++d)
    for (int64_t n = 0; n < s.batch; ++n) {
      auto h = initial(s.h0, s.state_at(d, n)), c = initial(s.c0, s.state_at(d, n));
      const int64_t length = s.lengths[static_cast<size_t>(n)];
      for (int64_t step = 0; step < length; ++step) {
        const int64_t t = s.reversed(d) ? length - 1 - step : step;
        const auto projected = s.project(d, t, n);
        const CellStep in{s.hidden,
                          projected.data(),
                          s.r.data() + d * rows * s.hidden,
                          s.b.empty() ? nullptr : s.b.data() + d * 2 * rows + rows,
                          s.p.empty() ? nullptr : s.p.data() + d * 3 * s.hidden,
                          s.activations.data() + static_cast<size_t>(d) * kind.activations.size(),
                          s.clip};
        cell(in, h, c);
        std::copy(h.begin(), h.end(), y.begin() + static_cast<std::ptrdiff_t>(s.y_at(t, d, n)));
      }
      std::copy(h.begin(), h.end(), last_h.begin() + static_cast<std::ptrdiff_t>(s.state_at(d, n)));
      std::copy(c.begin(), c.end(), last_c.begin() + static_cast<std::ptrdiff_t>(s.state_at(d, n)));
    }
  if (ctx.outputs.size() > 0) write_dense(ctx.outputs[0], y);
  if (ctx.outputs.size() > 1) write_dense(ctx.outputs[1], last_h);
  if (ctx.outputs.size() > 2) write_dense(ctx.outputs[2], last_c);
}

}  // namespace xc
