#include "support/random_graph.h"

#include <array>
#include <cmath>
#include <random>

#include "base/error.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace xc::test {
namespace {

/// Elements of a value and sizes of a symbol, at most: references are slow. Some seeds are large
/// enough for loops that are cut into blocks and tasks.
struct Scale {
  int64_t elements, largest;
};
Scale scale_of(uint64_t seed) {
  return seed % 25 == 7 ? Scale{50'000, 130} : Scale{3000, 17};
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(std::max<int64_t>(n, 1)));
  }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }
  const char* name(std::initializer_list<const char*> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }
  /// About normal, by the sum of uniforms: the same on every standard library.
  double normal() {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(engine_() >> 11) * 0x1p-53;
    return sum;
  }

 private:
  std::mt19937_64 engine_;
};

double special_value(Random& random, DType type) {
  // Squares are still in range: how sums overflow is nothing to compare.
  const double largest = type == DType::kF16 ? 250 : type == DType::kF64 ? 1e140 : 1e17;
  const double tiny = type == DType::kF16 ? 6e-8 : type == DType::kF64 ? 5e-324 : 1e-40;
  const std::array<double, 12> values{NAN,   INFINITY, -INFINITY, -0.0, 0.0,  tiny,
                                      -tiny, largest,  -largest,  88,   -104, 1e-3};
  return values[static_cast<size_t>(random.below(12))];
}

Tensor random_tensor(Random& random, DType type, const Dims& dims, bool specials) {
  Tensor out(type, dims);
  const int64_t style = random.below(4);
  for (int64_t i = 0; i < out.count(); ++i) {
    if (is_float(type)) {
      double v = random.normal() * (style == 1 ? 4 : 1);
      if (style == 0) v = std::fabs(v) + 0.25;                           // for roots and quotients
      if (style == 2) v = static_cast<double>(random.below(9) - 4) / 2;  // ties
      if (specials && random.chance(12)) v = special_value(random, type);
      store_double(out.data(), type, i, v);
    } else if (type == DType::kBool) {
      store_int64(out.data(), type, i, random.below(2));
    } else {
      int64_t v = is_signed(type) ? random.below(11) - 5 : random.below(8);
      if (specials && random.chance(12)) v = random.chance(2) ? INT64_MAX : INT64_MIN;
      store_int64(out.data(), type, i, v);
    }
  }
  return out;
}

const std::vector<DType> kFloatTypes{DType::kF32, DType::kF32, DType::kF32,
                                     DType::kF64, DType::kF16, DType::kBF16};
const std::vector<DType> kIntTypes{DType::kI64, DType::kI32, DType::kI32, DType::kI8, DType::kU8,
                                   DType::kI16, DType::kU16, DType::kU32, DType::kU64};

class Generator {
 public:
  explicit Generator(uint64_t seed) : scale_(scale_of(seed)), random_(seed) {}

  Graph build() {
    graph_.name = "fuzz";
    float_ = random_.of(kFloatTypes);
    space_ = random_dims();
    input(float_, space_);
    if (random_.chance(3)) input(float_, random_dims());
    const int64_t nodes = random_.chance(4) ? 15 + random_.below(20) : 3 + random_.below(14);
    for (int64_t tries = 0; tries < 4 * nodes; ++tries) {
      if (static_cast<int64_t>(graph_.order().size()) >= nodes) break;
      grow();
    }
    choose_outputs();
    return std::move(graph_);
  }

 private:
  using Ids = std::vector<ValueId>;

  // ---- sizes ------------------------------------------------------------------------------------

  Dim random_dim() {
    switch (random_.below(10)) {
      case 0:
      case 1:
        return Dim::symbol("n");
      case 2:
        return Dim::symbol("s");
      case 3:
        return 1;
      default:
        if (scale_.largest > 100 && random_.chance(2)) return random_.chance(2) ? 64 : 257;
        return random_.of(std::vector<int64_t>{2, 3, 4, 5, 7, 8, 16, 17, 33});
    }
  }
  SymDims random_dims() {
    const int64_t rank = random_.of(std::vector<int64_t>{0, 1, 2, 2, 2, 3, 3, 3, 4, 5});
    SymDims dims;
    for (int64_t k = 0; k < rank; ++k) dims.push_back(random_dim());
    if (!dims.empty() && random_.chance(40))
      dims[static_cast<size_t>(random_.below(static_cast<int64_t>(dims.size())))] = 0;
    while (elements(dims) > scale_.elements) dims.erase(dims.begin());
    return dims;
  }
  int64_t elements(const SymDims& dims) const {
    double count = 1;
    for (const Dim& d : dims) {
      const auto v = d.evaluate([&](const std::string&) { return std::optional(scale_.largest); });
      count *= static_cast<double>(v.value_or(scale_.largest));
    }
    return static_cast<int64_t>(std::min(count, 1e9));
  }
  const SymDims& dims(ValueId v) const { return *graph_.value(v).type.dims; }
  DType type(ValueId v) const { return graph_.value(v).type.dtype; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(dims(v).size()); }
  static bool constant(const SymDims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
  }
  /// Do they broadcast, and into what? Dims must be the same expression or 1.
  static std::optional<SymDims> broadcast(const SymDims& a, const SymDims& b) {
    SymDims out = a.size() > b.size() ? a : b;
    for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
      const Dim &x = a[a.size() - 1 - k], &y = b[b.size() - 1 - k];
      if (!(x == y) && !(x == Dim(1)) && !(y == Dim(1))) return std::nullopt;
      out[out.size() - 1 - k] = x == Dim(1) ? y : x;
    }
    return out;
  }

  // ---- values -----------------------------------------------------------------------------------

  ValueId input(DType type, SymDims dims) {
    return values_.emplace_back(graph_.add_input("", Type::tensor(type, std::move(dims))));
  }
  ValueId tensor(DType type, const SymDims& dims) {
    return graph_.add_constant("", random_tensor(random_, type, *to_concrete(dims), false));
  }
  ValueId ints(const std::vector<int64_t>& values) {
    return graph_.add_constant("", Tensor::of(values));
  }
  ValueId scalar(DType type, double value) {
    Tensor t(type, {});
    store_double(t.data(), type, 0, value);
    return graph_.add_constant("", t);
  }
  /// A constant, or an input where sizes are symbols.
  ValueId parameter(DType type, const SymDims& dims) {
    if (constant(dims) && !random_.chance(4)) return tensor(type, dims);
    return input(type, dims);
  }
  /// One of the values, recent ones more often: chains get long.
  ValueId any() {
    const auto n = static_cast<int64_t>(values_.size());
    const int64_t back =
        random_.chance(3) ? random_.below(n) : random_.below(std::min<int64_t>(n, 4));
    return values_[static_cast<size_t>(n - 1 - back)];
  }
  template <class Accepts>
  ValueId any_of(const Accepts& accepts) {
    for (int tries = 0; tries < 12; ++tries)
      if (const ValueId v = any(); accepts(v)) return v;
    return kNone;
  }
  ValueId any_float() {
    return any_of([&](ValueId v) { return is_float(type(v)); });
  }
  ValueId any_of_rank(int64_t least, bool only_floats) {
    return any_of([&](ValueId v) {
      return rank(v) >= least && (is_float(type(v)) || (!only_floats && is_integer(type(v))));
    });
  }

  ValueId node(const char* op, Ids inputs, Attrs attrs = {}, uint32_t outputs = 1) {
    const NodeId id = graph_.add_node(get_op(op), std::move(inputs), outputs, std::move(attrs));
    infer_types(graph_);
    for (ValueId v : graph_.node(id).outputs) values_.push_back(v);
    return graph_.node(id).outputs[0];
  }
  static Attrs attr(const char* name, Attr value) {
    Attrs out;
    out.set(name, std::move(value));
    return out;
  }

  /// A second operand that broadcasts with x: another value, a new input, or a constant.
  ValueId partner(ValueId x, DType type_wanted) {
    if (random_.chance(2)) {
      const ValueId v = any_of([&](ValueId v) {
        const auto out = broadcast(dims(x), dims(v));
        return type(v) == type_wanted && out && elements(*out) <= scale_.elements;
      });
      if (v != kNone) return v;
    }
    if (random_.chance(3)) return scalar(type_wanted, static_cast<double>(random_.below(7)) / 2);
    SymDims out = dims(x);
    for (Dim& d : out)
      if (random_.chance(3)) d = 1;
    if (random_.chance(3) && !out.empty())
      out.erase(out.begin(), out.begin() + random_.below(static_cast<int64_t>(out.size()) + 1));
    if (random_.chance(12) && out.size() < 5 && elements(out) * 2 <= scale_.elements)
      out.insert(out.begin(), Dim(2));
    for (size_t k = 0; k < out.size(); ++k)  // x may be what is repeated
      if (out[k] == Dim(1) && random_.chance(12) && elements(out) * 3 <= scale_.elements / 4 &&
          out.size() - k <= dims(x).size() && dims(x)[dims(x).size() - (out.size() - k)] == Dim(1))
        out[k] = 3;
    const auto both = broadcast(out, dims(x));
    if (!both || elements(*both) > scale_.elements) out = {};
    return parameter(type_wanted, out);
  }

  // ---- growth -----------------------------------------------------------------------------------

  void grow() {
    switch (random_.below(24)) {
      case 20:
        return grow_image();
      case 21:
        return grow_pick();
      case 22:
        return grow_concat();
      case 23:
        return grow_pad();
      case 0:
      case 1:
      case 2:
        return grow_unary();
      case 3:
      case 4:
      case 5:
      case 6:
        return grow_binary();
      case 7:
        return grow_comparison();
      case 8:
        return grow_cast();
      case 9:
      case 10:
        return grow_reduction();
      case 11:
        return grow_norm();
      case 12:
        return grow_spelled_out();
      case 13:
        return grow_product();
      case 14:
        return grow_integers();
      case 15:
        return grow_selection();
      default:
        return grow_view();
    }
  }

  void grow_unary() {
    const ValueId x = any_float();
    if (x == kNone) return;
    const char* op = random_.name(
        {"Sqrt",   "Reciprocal", "Exp",         "Log",       "Sin",      "Cos",
         "Tan",    "Tanh",       "Erf",         "Cosh",      "Sinh",     "Asin",
         "Atan",   "Relu",       "LeakyRelu",   "Elu",       "Selu",     "Celu",
         "Shrink", "Sigmoid",    "HardSigmoid", "HardSwish", "Softplus", "Softsign",
         "Mish",   "Swish",      "Gelu",        "Abs",       "Neg",      "Sign",
         "Floor",  "Ceil",       "Round",       "Identity",  "Clip",     "ThresholdedRelu"});
    Ids inputs{x};
    Attrs attrs;
    if (op == std::string("Clip")) {
      inputs.push_back(random_.chance(3) ? kNone : scalar(type(x), -0.5));
      if (random_.chance(2)) inputs.push_back(scalar(type(x), 1.5));
      if (inputs.back() == kNone) inputs.pop_back();
    } else if (op == std::string("Gelu") && random_.chance(2)) {
      attrs.set("approximate", std::string("tanh"));
    } else if (op == std::string("LeakyRelu")) {
      attrs.set("alpha", 0.3);
    }
    node(op, inputs, attrs);
  }

  void grow_binary() {
    const ValueId x = any_of([&](ValueId v) { return type(v) != DType::kBool; });
    if (x == kNone) return;
    const char* op = random_.name({"Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Mod",
                                   "PRelu", "Pow", "Sum", "Mean"});
    const bool whole = !is_float(type(x));
    const std::string name = op;
    if (whole && (name == "Pow" || name == "Sum" || name == "Mean")) op = "Sub";
    ValueId y = partner(x, type(x));
    Attrs attrs;
    if (name == "Mod" && !whole) attrs.set("fmod", int64_t{1});
    if (name == "PRelu") {  // the slope is what is repeated
      const auto out = broadcast(dims(x), dims(y));
      if (!out || !(*out == dims(x))) y = scalar(type(x), 2);
    }
    if (name == "Pow" && !whole) y = random_.chance(2) ? y : scalar(type(x), 2);
    Ids inputs{x, y};
    if (name == "Sum" || name == "Mean" || name == "Max") {
      const ValueId z = partner(x, type(x));
      const auto out = broadcast(*broadcast(dims(x), dims(y)), dims(z));
      if (out && elements(*out) <= scale_.elements && op == name) inputs.push_back(z);
    } else if (random_.chance(3) && name != "PRelu" && name != "Pow") {
      std::swap(inputs[0], inputs[1]);
    }
    node(op, inputs, attrs);
  }

  void grow_comparison() {
    const ValueId x = any_of([&](ValueId v) { return type(v) != DType::kBool; });
    if (x == kNone) return;
    ValueId c = node(random_.name({"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"}),
                     {x, partner(x, type(x))});
    if (is_float(type(x)) && random_.chance(4)) c = node(random_.name({"IsNaN", "IsInf"}), {x});
    if (random_.chance(3)) c = node("Not", {c});
    if (random_.chance(3))
      c = node(random_.name({"And", "Or", "Xor"}), {c, partner(c, DType::kBool)});
    const ValueId a = partner(c, type(x));
    const auto out = broadcast(dims(a), dims(c));
    if (const auto with_x = broadcast(*out, dims(x));
        with_x && elements(*with_x) <= scale_.elements)
      node("Where", random_.chance(2) ? Ids{c, a, x} : Ids{c, x, a});
  }

  void grow_cast() {
    const ValueId x = any();
    DType to = random_.chance(2) ? random_.of(kFloatTypes) : random_.of(kIntTypes);
    if (random_.chance(6)) to = DType::kBool;
    const ValueId y = node("Cast", {x}, attr("to", onnx_number(to)));
    // Most often back to where the arithmetic is.
    if (!is_float(to) && random_.chance(2)) {
      node("Cast", {y}, attr("to", onnx_number(float_)));
    }
  }

  std::vector<int64_t> random_axes(int64_t rank) {
    std::vector<int64_t> out;
    const int64_t count = 1 + random_.below(rank);
    switch (random_.below(4)) {
      case 0:
        for (int64_t k = 0; k < count; ++k) out.push_back(k);
        break;
      case 1:
        for (int64_t k = 0; k < rank; ++k)
          if (random_.chance(2)) out.push_back(random_.chance(3) ? k - rank : k);
        break;
      default:
        for (int64_t k = 0; k < count; ++k) out.push_back(-1 - k);
    }
    return out;
  }

  void grow_reduction() {
    const ValueId x = any_of_rank(1, !random_.chance(4));
    if (x == kNone) return;
    if (random_.chance(6)) {
      const int64_t axis = random_.below(rank(x));
      if (dims(x)[static_cast<size_t>(axis)] == Dim(0)) return;
      Attrs attrs = attr("axis", axis);
      attrs.set("keepdims", random_.below(2));
      attrs.set("select_last_index", random_.below(2));
      node(random_.name({"ArgMax", "ArgMin"}), {x}, attrs);
      return;
    }
    const bool wide = is_float(type(x)) || type(x) == DType::kI32 || type(x) == DType::kI64 ||
                      type(x) == DType::kU32 || type(x) == DType::kU64;
    const char* op = wide ? random_.name({"ReduceSum", "ReduceSum", "ReduceMean", "ReduceMax",
                                          "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                                          "ReduceProd", "ReduceLogSum", "ReduceLogSumExp"})
                          : "ReduceMax";
    // The mean of integers whose sum overflows is not pinned down.
    if (!is_float(type(x)) && op == std::string("ReduceMean")) return;
    if (!wide && type(x) != DType::kI8 && type(x) != DType::kU8) return;
    const std::vector<int64_t> axes = random_axes(rank(x));
    const bool keep = !random_.chance(3);
    Attrs attrs = attr("keepdims", int64_t{keep});
    if (axes.empty() && random_.chance(2)) attrs.set("noop_with_empty_axes", int64_t{1});
    const ValueId r =
        axes.empty() && random_.chance(2) ? node(op, {x}, attrs) : node(op, {x, ints(axes)}, attrs);
    if (keep && type(r) == type(x) && random_.chance(2))
      node(random_.name({"Sub", "Mul", "Add", "Div"}), {x, r});
  }

  ValueId last_axis_parameter(ValueId x) { return parameter(type(x), SymDims{dims(x).back()}); }

  void grow_norm() {
    const ValueId x = any_of_rank(1, true);
    if (x == kNone) return;
    const int64_t axis = random_.chance(3) ? random_.below(rank(x)) : -1;
    const Attrs at = attr("axis", axis);
    switch (random_.below(7)) {
      case 0:
        node(random_.name({"Softmax", "LogSoftmax"}), {x}, at);
        return;
      case 1: {
        Ids inputs{x, last_axis_parameter(x)};
        if (random_.chance(2)) inputs.push_back(last_axis_parameter(x));
        node("LayerNormalization", inputs, attr("axis", int64_t{-1}));
        return;
      }
      case 2:
        node("RMSNormalization", {x, last_axis_parameter(x)}, attr("axis", int64_t{-1}));
        return;
      case 3:
        node("LpNormalization", {x}, at);
        return;
      case 4: {
        if (rank(x) < 3) return;
        const SymDims channels{dims(x)[1]};
        node("InstanceNormalization",
             {x, parameter(type(x), channels), parameter(type(x), channels)});
        return;
      }
      case 5: {
        if (rank(x) < 3 || !dims(x)[1].is_constant() || dims(x)[1].value() % 2 != 0 ||
            dims(x)[1].value() == 0)
          return;
        const SymDims channels{dims(x)[1]};
        node("GroupNormalization", {x, parameter(type(x), channels), parameter(type(x), channels)},
             attr("num_groups", int64_t{2}));
        return;
      }
      default:
        node("Softmax", {x}, attr("axis", int64_t{-1}));
    }
  }

  /// Norms, softmax and activations as exporters write them.
  void grow_spelled_out() {
    const ValueId x = any_of_rank(1, true);
    if (x == kNone) return;
    // Other axes without a draw, which would make other graphs of the seeds that failed once.
    const ValueId axes = ints({x % 4 == 2 ? static_cast<int64_t>(x) % rank(x) : -1});
    const DType t = type(x);
    switch (random_.below(6)) {
      case 0: {
        const ValueId e = node("Exp", {node("Sub", {x, node("ReduceMax", {x, axes})})});
        node("Div", {e, node("ReduceSum", {e, axes})});
        return;
      }
      case 1: {
        const ValueId d = node("Sub", {x, node("ReduceMean", {x, axes})});
        const ValueId square =
            random_.chance(2) ? node("Mul", {d, d}) : node("Pow", {d, scalar(t, 2)});
        const ValueId variance = node("ReduceMean", {square, axes});
        const ValueId deviation = node("Sqrt", {node("Add", {variance, scalar(t, 1e-3)})});
        const ValueId y = node("Mul", {node("Div", {d, deviation}), last_axis_parameter(x)});
        node("Add", {y, last_axis_parameter(x)});
        return;
      }
      case 2: {
        const ValueId mean = node("ReduceMean", {node("Mul", {x, x}), axes});
        const ValueId deviation = node("Sqrt", {node("Add", {mean, scalar(t, 1e-3)})});
        node("Mul", {node("Mul", {x, node("Reciprocal", {deviation})}), last_axis_parameter(x)});
        return;
      }
      case 3:
        node("Mul", {x, node("Sigmoid", {x})});
        return;
      case 4: {
        const ValueId e = node("Erf", {node("Div", {x, scalar(t, 1.4142135623730951)})});
        node("Mul", {node("Mul", {x, node("Add", {e, scalar(t, 1)})}), scalar(t, 0.5)});
        return;
      }
      default: {
        const ValueId cube = node("Mul", {node("Mul", {x, x}), x});
        const ValueId inner = node("Add", {x, node("Mul", {cube, scalar(t, 0.044715)})});
        const ValueId y = node("Tanh", {node("Mul", {inner, scalar(t, 0.7978845608)})});
        node("Mul", {node("Mul", {x, scalar(t, 0.5)}), node("Add", {y, scalar(t, 1)})});
      }
    }
  }

  void grow_product() {
    const ValueId x = any_of_rank(2, true);
    if (x == kNone) return;
    const Dim inner = dims(x).back();
    const int64_t columns = random_.of(std::vector<int64_t>{1, 2, 5, 8, 17});
    SymDims result = dims(x);
    result.back() = Dim(columns);
    if (elements(result) > scale_.elements) return;
    ValueId y = kNone;
    switch (random_.below(4)) {
      case 0:
        if (rank(x) == 2) {
          Attrs attrs = attr("alpha", random_.chance(2) ? 1.0 : 0.5);
          const bool transposed = random_.chance(2);
          attrs.set("transB", int64_t{transposed});
          Ids inputs{x, parameter(type(x),
                                  transposed ? SymDims{columns, inner} : SymDims{inner, columns})};
          if (random_.chance(2)) inputs.push_back(parameter(type(x), SymDims{columns}));
          y = node("Gemm", inputs, attrs);
          break;
        }
        [[fallthrough]];
      case 1: {  // x times its own transpose
        std::vector<int64_t> perm(static_cast<size_t>(rank(x)));
        for (size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<int64_t>(k);
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        SymDims square = dims(x);
        square.back() = square[square.size() - 2];
        if (elements(square) > scale_.elements) return;
        y = node("MatMul", {x, node("Transpose", {x}, attr("perm", perm))});
        break;
      }
      case 2:
        y = node("MatMul", {x, parameter(type(x), SymDims{inner})});
        break;
      default:
        y = node("MatMul", {x, parameter(type(x), SymDims{inner, columns})});
    }
    if (random_.chance(2)) y = node("Add", {y, partner(y, type(y))});
    if (random_.chance(2)) node(random_.name({"Relu", "Sigmoid", "Tanh", "Gelu", "Elu"}), {y});
  }

  /// Convolution, pooling and what stands around them, on values of rank 4.
  void grow_image() {
    const ValueId x = any_of([&](ValueId v) {
      return rank(v) == 4 && (type(v) == DType::kF32 || type(v) == DType::kF64) &&
             dims(v)[1].is_constant() && dims(v)[2].is_constant() && dims(v)[3].is_constant() &&
             elements(dims(v)) > 0;
    });
    if (x == kNone) {
      if (random_.chance(2)) input(DType::kF32, {Dim::symbol("n"), 1 + random_.below(9), 6, 5});
      return;
    }
    const Dim channels = dims(x)[1];
    const bool roomy = dims(x)[2].value() >= 2 && dims(x)[3].value() >= 2;
    switch (random_.below(5)) {
      case 0:
        if (roomy)
          node(random_.name({"MaxPool", "AveragePool"}), {x},
               attr("kernel_shape", std::vector<int64_t>{2, 2}));
        return;
      case 1:
        node("GlobalAveragePool", {x});
        return;
      case 2: {
        Ids inputs{x};
        for (int k = 0; k < 4; ++k) inputs.push_back(tensor(type(x), {channels}));
        Tensor variance = graph_.value(inputs[4]).constant;
        for (int64_t i = 0; i < variance.count(); ++i)
          store_double(variance.data(), type(x), i, 0.5 + static_cast<double>(i % 3));
        node("BatchNormalization", inputs);
        return;
      }
      default: {
        const int64_t kernel = roomy && random_.chance(2) ? 3 : 1, out = 1 + random_.below(9);
        SymDims result = dims(x);
        result[1] = Dim(out);
        if (elements(result) > scale_.elements) return;
        Attrs attrs = attr("kernel_shape", std::vector<int64_t>{kernel, kernel});
        attrs.set("pads", std::vector<int64_t>(4, kernel / 2));
        Ids inputs{x, tensor(type(x), {out, channels, kernel, kernel})};
        if (random_.chance(2)) inputs.push_back(tensor(type(x), {out}));
        const ValueId y = node("Conv", inputs, attrs);
        if (random_.chance(2)) node(random_.name({"Relu", "Sigmoid", "Erf", "Swish"}), {y});
      }
    }
  }

  void grow_integers() {
    const ValueId x = any_of([&](ValueId v) { return is_integer(type(v)); });
    if (x == kNone) {
      input(random_.of(kIntTypes), random_.chance(2) ? space_ : random_dims());
      return;
    }
    const ValueId y = partner(x, type(x));
    switch (random_.below(4)) {
      case 0:
        node("BitShift", {x, y}, attr("direction", std::string(random_.name({"LEFT", "RIGHT"}))));
        return;
      case 1:
        node("BitwiseNot", {x});
        return;
      case 2:
        node("Div", {x, y});
        return;
      default:
        node(random_.name({"BitwiseAnd", "BitwiseOr", "BitwiseXor"}), {x, y});
    }
  }

  void grow_selection() {
    const ValueId x = any_of_rank(1, true);
    if (x == kNone) return;
    const int64_t axis = random_.below(rank(x));
    const Dim& size = dims(x)[static_cast<size_t>(axis)];
    if (random_.chance(3)) {
      Attrs attrs = attr("exclusive", random_.below(2));
      attrs.set("reverse", random_.below(2));
      node("CumSum", {x, graph_.add_constant("", Tensor::scalar<int64_t>(axis))}, attrs);
    } else if (size.is_constant() && size.value() >= 2 && random_.chance(2)) {
      Attrs attrs = attr("axis", axis);
      attrs.set("largest", random_.below(2));
      const NodeId id = graph_.add_node(get_op("TopK"), {x, ints({2})}, 2, attrs);
      infer_types(graph_);
      for (ValueId v : graph_.node(id).outputs) values_.push_back(v);
    } else if (size.is_constant() && size.value() >= 1) {
      std::vector<int64_t> at;
      for (int64_t k = 0, n = 1 + random_.below(4); k < n; ++k)
        at.push_back(random_.below(2 * size.value()) - size.value());
      SymDims out = dims(x);
      out[static_cast<size_t>(axis)] = static_cast<int64_t>(at.size());
      if (elements(out) <= scale_.elements) node("Gather", {x, ints(at)}, attr("axis", axis));
    }
  }

  /// Something that reads a value where it is made.
  void grow_reader(ValueId x) {
    if (random_.chance(4)) return;
    const bool floats = is_float(type(x));
    if (floats && rank(x) >= 1 && random_.chance(3)) {
      node("Softmax", {x}, attr("axis", int64_t{-1}));
    } else if (floats && rank(x) >= 1 && random_.chance(3)) {
      node("LayerNormalization", {x, last_axis_parameter(x)}, attr("axis", int64_t{-1}));
    } else if (floats && random_.chance(2)) {
      node(random_.name({"Exp", "Sigmoid", "Abs", "Floor"}), {x});
    } else if (type(x) != DType::kBool) {
      const ValueId y = partner(x, type(x));
      node(random_.name({"Add", "Mul", "Sub"}), random_.chance(3) ? Ids{y, x} : Ids{x, y});
    } else {
      node("Not", {x});
    }
  }

  /// Elements picked by indices that are inputs; problem_inputs() keeps them in range.
  void grow_pick() {
    ValueId x = any();
    if (random_.chance(3) || rank(x) == 0)  // a table
      x = parameter(random_.chance(2) ? float_ : random_.of(kIntTypes),
                    {random_.of(std::vector<int64_t>{1, 5, 40}), random_dim()});
    const DType integer = random_.chance(2) ? DType::kI64 : DType::kI32;
    const int64_t r = rank(x), axis = random_.below(r);
    const auto from = dims(x).begin();
    SymDims picks, result;
    const char* op = random_.name({"Gather", "Gather", "Gather", "GatherElements", "GatherND"});
    if (op == std::string("GatherElements")) {
      picks = dims(x);
      picks[static_cast<size_t>(axis)] = random_dim();
      result = picks;
    } else {
      for (int64_t k = random_.below(3); k > 0; --k) picks.push_back(random_dim());
      result.assign(from, from + (op == std::string("GatherND") ? 0 : axis));
      result.insert(result.end(), picks.begin(), picks.end());
      result.insert(result.end(), from + axis + 1, dims(x).end());
      if (op == std::string("GatherND")) picks.push_back(Dim(axis + 1));
    }
    if (elements(result) > scale_.elements || result.size() > 5) return;
    const ValueId i = graph_.add_input("", Type::tensor(integer, picks));
    const bool whole = op == std::string("GatherND");
    grow_reader(
        node(op, {x, i}, whole ? Attrs{} : attr("axis", random_.chance(3) ? axis - r : axis)));
  }

  void grow_concat() {
    const ValueId x = any();
    if (rank(x) == 0) return;
    const int64_t axis = random_.below(rank(x));
    Ids inputs{x};
    Dim sum = dims(x)[static_cast<size_t>(axis)];
    for (int64_t k = 1 + random_.below(3); k > 0; --k) {
      SymDims part = dims(x);
      part[static_cast<size_t>(axis)] = random_dim();
      sum = sum + part[static_cast<size_t>(axis)];
      SymDims all = dims(x);
      all[static_cast<size_t>(axis)] = sum;
      if (elements(all) > scale_.elements) break;
      const ValueId other =
          any_of([&](ValueId v) { return type(v) == type(x) && dims(v) == part; });
      inputs.push_back(other == kNone ? parameter(type(x), part) : other);
    }
    if (random_.chance(2)) std::swap(inputs.front(), inputs.back());
    grow_reader(node("Concat", inputs, attr("axis", axis)));
  }

  void grow_pad() {
    const ValueId x = any();
    const int64_t r = rank(x);
    if (r == 0 || elements(dims(x)) * 8 > scale_.elements) return;
    std::vector<int64_t> pads(static_cast<size_t>(2 * r), 0);
    for (int64_t& p : pads)
      if (random_.chance(3)) p = 1 + random_.below(3);
    Ids inputs{x, ints(pads)};
    constexpr std::array<const char*, 3> kRepeating{"reflect", "edge", "wrap"};
    if (random_.chance(2)) {
      const auto mode = static_cast<size_t>(random_.below(3));
      return grow_reader(node("Pad", inputs, attr("mode", std::string(kRepeating[mode]))));
    }
    if (type(x) != DType::kBool && random_.chance(2))
      inputs.push_back(scalar(type(x), is_float(type(x)) ? -1.5 : 3));
    grow_reader(node("Pad", inputs));
  }

  // Views of x, most of them along one axis. Each may find nothing to do.

  void grow_view() {
    const ValueId x = any();
    if (rank(x) == 0) {
      if (random_.chance(2)) node("Unsqueeze", {x, ints({0})});
      return;
    }
    const int64_t axis = random_.below(rank(x));
    using Grow = void (Generator::*)(ValueId x, int64_t axis);
    static constexpr Grow kViews[] = {
        &Generator::transpose,  &Generator::transpose,   &Generator::merge_axes,
        &Generator::split_axis, &Generator::slice,       &Generator::concat,
        &Generator::split,      &Generator::axis_of_one, &Generator::expand,
        &Generator::pad,        &Generator::flatten};
    (this->*kViews[random_.below(std::size(kViews))])(x, axis);
  }

  const Dim& dim(ValueId x, int64_t axis) { return dims(x)[static_cast<size_t>(axis)]; }
  bool has_empty_axis(ValueId x) {
    return std::any_of(dims(x).begin(), dims(x).end(), [](const Dim& d) { return d == Dim(0); });
  }

  void transpose(ValueId x, int64_t) {
    std::vector<int64_t> perm;
    for (int64_t k = 0; k < rank(x); ++k) perm.insert(perm.begin() + random_.below(k + 1), k);
    node("Transpose", {x}, attr("perm", perm));
  }

  /// Two axes, or all.
  void merge_axes(ValueId x, int64_t axis) {
    std::vector<int64_t> shape;
    if (rank(x) < 2 || random_.chance(4) || axis + 1 == rank(x)) {
      shape = {-1};
    } else {
      shape.assign(static_cast<size_t>(axis), 0);
      shape.push_back(-1);
      for (int64_t k = axis + 2; k < rank(x); ++k) {
        if (!dim(x, k).is_constant()) return;
        shape.push_back(dim(x, k).value());
      }
    }
    if (!has_empty_axis(x)) node("Reshape", {x, ints(shape)});  // -1 has no value then
  }

  void split_axis(ValueId x, int64_t axis) {
    const Dim& size = dim(x, axis);
    if (!size.is_constant() || size.value() % 2 != 0 || rank(x) >= 5) return;
    if (has_empty_axis(x)) return;  // a 0 in the shape would mean: copy
    std::vector<int64_t> shape;
    for (int64_t k = 0; k < rank(x); ++k) {
      if (k == axis)
        shape.insert(shape.end(), {2, size.value() / 2});
      else if (dim(x, k).is_constant())
        shape.push_back(dim(x, k).value());
      else if (k < axis)
        shape.push_back(0);
      else
        return;
    }
    node("Reshape", {x, ints(shape)});
  }

  void slice(ValueId x, int64_t axis) {
    const Dim& size = dim(x, axis);
    if (random_.chance(2))  // all of it, backwards
      node("Slice", {x, ints({-1}), ints({INT64_MIN}), ints({axis}), ints({-1})});
    else if (random_.chance(2))
      node("Slice", {x, ints({1}), ints({INT64_MAX}), ints({axis}), ints({1 + random_.below(2)})});
    else if (size.is_constant() && size.value() > 2)
      node("Slice", {x, ints({-1}), ints({0}), ints({axis}), ints({-2})});
  }

  void concat(ValueId x, int64_t axis) {
    const ValueId y = any_of([&](ValueId v) {
      if (type(v) != type(x) || rank(v) != rank(x)) return false;
      for (int64_t k = 0; k < rank(x); ++k)
        if (k != axis && !(dim(v, k) == dim(x, k))) return false;
      return true;
    });
    if (y == kNone || elements(dims(x)) + elements(dims(y)) > scale_.elements) return;
    node("Concat", {x, y}, attr("axis", axis));
  }

  void split(ValueId x, int64_t axis) {
    const Dim& size = dim(x, axis);
    if (!size.is_constant() || size.value() < 2) return;
    const int64_t first = 1 + random_.below(size.value() - 1);
    node("Split", {x, ints({first, size.value() - first})}, attr("axis", axis), 2);
  }

  void axis_of_one(ValueId x, int64_t axis) {
    if (dim(x, axis) == Dim(1) && random_.chance(2))
      node("Squeeze", {x, ints({axis})});
    else if (rank(x) < 5)
      node("Unsqueeze", {x, ints({random_.below(rank(x) + 1)})});
  }

  /// Repeats axes of 1, or adds one in front.
  void expand(ValueId x, int64_t) {
    std::vector<int64_t> shape(static_cast<size_t>(rank(x)), 1);
    for (int64_t k = 0; k < rank(x); ++k)
      if (dim(x, k) == Dim(1) && random_.chance(2)) shape[static_cast<size_t>(k)] = 3;
    if (random_.chance(2) && rank(x) < 5) shape.insert(shape.begin(), 2);
    int64_t times = 1;
    for (int64_t d : shape) times *= d;
    if (elements(dims(x)) * times <= scale_.elements) node("Expand", {x, ints(shape)});
  }

  void pad(ValueId x, int64_t axis) {
    const Dim& size = dim(x, axis);
    std::vector<int64_t> pads(static_cast<size_t>(2 * rank(x)), 0);
    pads[static_cast<size_t>(axis)] = random_.below(3);
    pads[static_cast<size_t>(rank(x) + axis)] =
        random_.below(3) - (size.is_constant() && size.value() > 2 ? 1 : 0);
    if (elements(dims(x)) * 4 > scale_.elements || type(x) == DType::kBool) return;
    Ids inputs{x, ints(pads)};
    if (random_.chance(2)) inputs.push_back(scalar(type(x), 2));
    node("Pad", inputs);
  }

  void flatten(ValueId x, int64_t axis) { node("Flatten", {x}, attr("axis", axis)); }

  void choose_outputs() {
    const auto users = graph_.users();
    Ids out;
    for (NodeId n : graph_.order())
      for (ValueId v : graph_.node(n).outputs)
        if (v != kNone && (users[v].empty() || random_.chance(8))) out.push_back(v);
    if (out.empty()) out.push_back(values_.back());
    graph_.outputs = out;
  }

  Scale scale_;
  Random random_;
  Graph graph_;
  Ids values_;
  SymDims space_;
  DType float_ = DType::kF32;
};

}  // namespace

namespace {

/// The axes that the elements of an input pick from.
std::vector<Dim> picked_axes(const Graph& graph, ValueId input) {
  std::vector<Dim> out;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.op->name.starts_with("Gather") || node.inputs[1] != input) continue;
    const SymDims& data = *graph.value(node.inputs[0]).type.dims;
    const auto rank = static_cast<int64_t>(data.size());
    if (node.op->name == "GatherND") {
      const int64_t depth = graph.value(input).type.dims->back().value();
      out.insert(out.end(), data.begin(), data.begin() + depth);
    } else {
      const int64_t axis = node.attrs.get_int("axis", 0);
      out.push_back(data[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
    }
  }
  return out;
}

}  // namespace

std::vector<Tensor> problem_inputs(const Graph& graph,
                                   const std::map<std::string, int64_t>& symbols, uint64_t seed,
                                   bool specials) {
  Random random(seed);
  std::vector<Tensor> out;
  const auto size_of = [&](const Dim& d) {
    return *d.evaluate([&](const std::string& s) -> std::optional<int64_t> {
      const auto it = symbols.find(s);
      return it == symbols.end() ? std::optional<int64_t>(2) : it->second;
    });
  };
  for (ValueId id : graph.inputs) {
    const Type& type = graph.value(id).type;
    Dims dims;
    for (const Dim& d : *type.dims) dims.push_back(size_of(d));
    out.push_back(random_tensor(random, type.dtype, dims, specials));
    const std::vector<Dim> picked = picked_axes(graph, id);
    if (picked.empty()) continue;
    int64_t least = INT64_MAX;
    for (const Dim& d : picked) least = std::min(least, size_of(d));
    for (int64_t i = 0; i < out.back().count(); ++i)
      store_int64(out.back().data(), type.dtype, i,
                  least == 0 ? 0 : random.below(2 * least) - least);
    if (out.back().count() > 0 && random.chance(20))  // one that is refused
      store_int64(out.back().data(), type.dtype, random.below(out.back().count()), least + 1);
  }
  return out;
}

Problem random_problem(uint64_t seed) {
  Problem out{Generator(seed).build(), {}};
  Random random(seed ^ 0x9e3779b97f4a7c15);
  const bool specials = random.chance(5);
  const std::vector<int64_t> sizes{1, 2, 3, 5, 16, scale_of(seed).largest};
  for (int k = 0; k < 3; ++k) {
    std::map<std::string, int64_t> symbols{{"n", random.of(sizes)}, {"s", random.of(sizes)}};
    if (random.chance(12)) symbols[random.chance(2) ? "n" : "s"] = 0;
    out.runs.push_back(
        problem_inputs(out.graph, symbols, seed * 31 + static_cast<uint64_t>(k), specials));
  }
  return out;
}

}  // namespace xc::test
