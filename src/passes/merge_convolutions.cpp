// A sum of convolutions of one value is a convolution of it: weights of smaller windows stand in
// the places of the largest one that look at the same elements. Factors and addends per channel go
// into weights and bias, and a value that is added to its own convolution is a one in the middle.
// Networks that train several branches side by side are written so where nobody joined them before
// export (RepVGG, arXiv:2101.03697, section 3.3; MobileOne, arXiv:2206.04040, section 3.2), and
// frozen norms, residuals around a depthwise convolution and factors per layer (ConvNeXt) too.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/registry.h"
#include "ops/window.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// A number per channel, or one for all of them.
using PerChannel = std::vector<double>;

double at(const PerChannel& numbers, int64_t channel) {
  return numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

template <class Combine>
PerChannel combined(const PerChannel& a, const PerChannel& b, Combine combine) {
  PerChannel out(std::max(a.size(), b.size()));
  for (size_t c = 0; c < out.size(); ++c) {
    const auto channel = static_cast<int64_t>(c);
    out[c] = combine(at(a, channel), at(b, channel));
  }
  return out;
}

/// One with constant weights, [channels, channels of a group's input, taps...], and bias.
struct Convolution {
  NodeId node = kNone;
  Tensor weights;
  PerChannel bias = {0};
  int64_t groups = 1;
  WindowAttrs window;  ///< with kernel sizes, and padding as numbers

  int64_t channels() const { return weights.dims()[0]; }
  bool keeps_channels() const { return weights.dims()[1] * groups == channels(); }
};

/// Along one axis, where the taps of one window lie among those of another.
struct Place {
  int64_t first = 0, step = 1;
};

/// Nothing unless the two give results of the same sizes and `outer` has all taps of `inner`.
std::optional<Place> place_in(const WindowAttrs& outer, const WindowAttrs& inner, size_t axis) {
  const int64_t taps = inner.kernel[axis], dilation = inner.dilations[axis];
  const int64_t spacing = outer.dilations[axis];
  const int64_t begin = outer.pads_begin[axis] - inner.pads_begin[axis];
  const int64_t end = outer.pads_end[axis] - inner.pads_end[axis];
  const int64_t beyond = (outer.kernel[axis] - 1) * spacing - (taps - 1) * dilation;
  if (outer.strides[axis] != inner.strides[axis] || begin + end != beyond) return std::nullopt;
  if (begin % spacing != 0 || (taps > 1 && dilation % spacing != 0)) return std::nullopt;
  const Place out{begin / spacing, taps > 1 ? dilation / spacing : 1};
  if (out.first < 0 || out.first + (taps - 1) * out.step >= outer.kernel[axis]) return std::nullopt;
  return out;
}

/// The window of a value that is a convolution of itself.
WindowAttrs one_tap(size_t axes) {
  const std::vector<int64_t> ones(axes, 1), zeros(axes, 0);
  WindowAttrs out;
  out.kernel = out.strides = out.dilations = ones;
  out.pads_begin = out.pads_end = zeros;
  return out;
}

/// A convolution of a value, or the value itself, times something.
struct Term {
  std::optional<Convolution> convolution;
  PerChannel factor = {1};
};

/// Where a term's taps are among those of a convolution, one number for each.
std::optional<std::vector<int64_t>> taps_in(const Convolution& outer, const Term& term) {
  const size_t axes = outer.window.kernel.size();
  if (term.convolution) {
    const Convolution& inner = *term.convolution;
    if (inner.window.kernel.size() != axes || inner.groups != outer.groups ||
        inner.weights.dtype() != outer.weights.dtype() ||
        inner.weights.dims()[0] != outer.weights.dims()[0] ||
        inner.weights.dims()[1] != outer.weights.dims()[1])
      return std::nullopt;
  } else if (!outer.keeps_channels()) {
    return std::nullopt;
  }
  if (term.factor.size() != 1 && static_cast<int64_t>(term.factor.size()) != outer.channels())
    return std::nullopt;
  const WindowAttrs window = term.convolution ? term.convolution->window : one_tap(axes);
  std::vector<int64_t> taps = {0};
  for (size_t i = 0; i < axes; ++i) {
    const std::optional<Place> place = place_in(outer.window, window, i);
    if (!place) return std::nullopt;
    std::vector<int64_t> longer;
    for (const int64_t tap : taps)
      for (int64_t k = 0; k < window.kernel[i]; ++k)
        longer.push_back(tap * outer.window.kernel[i] + place->first + k * place->step);
    taps = std::move(longer);
  }
  return taps;
}

/// What is linear in one value: the sum of the terms and of a number per channel.
struct Linear {
  ValueId source = kNone;
  std::vector<Term> terms;
  PerChannel shift = {0};
  std::vector<NodeId> nodes;  ///< that compute it; nothing else reads what is between them

  void scale(const PerChannel& factor) {
    for (Term& term : terms) term.factor = combined(term.factor, factor, std::multiplies());
    shift = combined(shift, factor, std::multiplies());
  }
  void add(Linear other) {
    std::ranges::move(other.terms, std::back_inserter(terms));
    std::ranges::move(other.nodes, std::back_inserter(nodes));
    shift = combined(shift, other.shift, std::plus());
  }
  bool convolves() const {
    return std::ranges::any_of(terms, [](const Term& t) { return t.convolution.has_value(); });
  }
  /// The convolution that has the taps of all terms; null where there is none.
  const Convolution* outermost() const {
    for (const Term& term : terms) {
      if (!term.convolution) continue;
      const Convolution& outer = *term.convolution;
      const bool fits = shift.size() == 1 || static_cast<int64_t>(shift.size()) == outer.channels();
      if (fits &&
          std::ranges::all_of(terms, [&](const Term& t) { return taps_in(outer, t).has_value(); }))
        return &outer;
    }
    return nullptr;
  }
};

/// False where one is too large for the type.
bool store(const std::vector<double>& numbers, const Tensor& out) {
  bool finite = true;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    store_double(out.data(), out.dtype(), index, numbers[i]);
    finite = finite && std::isfinite(load_double(out.data(), out.dtype(), index));
  }
  return finite;
}

/// A term as numbers to add: of a convolution its weights, else nothing but ones.
struct Addend {
  PerChannel factor;
  std::vector<int64_t> taps;  ///< taps_in() of the sum's convolution
  Tensor held;                ///< `weights` lie in it
  const void* weights = nullptr;
};

/// Adds to the weights of a sum, channel by channel.
template <class T>
void add_to(T* out, const Convolution& outer, const Addend& addend) {
  const Dims& dims = outer.weights.dims();
  const int64_t of_group = dims[0] / outer.groups, inputs = dims[1];
  const int64_t taps = outer.weights.count() / (dims[0] * inputs);
  const auto add = [](T& sum, double x) { sum = static_cast<T>(static_cast<double>(sum) + x); };
  const auto own = static_cast<int64_t>(addend.taps.size());
  const auto* weights = static_cast<const T*>(addend.weights);
  for (int64_t channel = 0; channel < dims[0]; ++channel, out += inputs * taps) {
    const double factor = at(addend.factor, channel);
    if (!weights) {
      add(out[channel % of_group * taps + addend.taps[0]], factor);
      continue;
    }
    for (int64_t input = 0; input < inputs; ++input, weights += own)
      for (int64_t k = 0; k < own; ++k)
        add(out[input * taps + addend.taps[static_cast<size_t>(k)]],
            factor * static_cast<double>(weights[k]));
  }
}

/// False where a weight is too large for T. Most are those of the largest window, as they are.
template <class T>
bool add_up(T* out, const Convolution& outer, std::vector<Addend> addends) {
  const auto count = static_cast<size_t>(outer.weights.count());
  const auto first = std::ranges::find_if(addends, [&](const Addend& a) {
    return a.weights && a.held.count() == outer.weights.count() && a.factor == PerChannel{1};
  });
  if (first == addends.end()) {
    std::fill_n(out, count, T{0});
  } else {
    std::copy_n(static_cast<const T*>(first->weights), count, out);
    addends.erase(first);
  }
  for (const Addend& addend : addends) add_to(out, outer, addend);
  return std::all_of(out, out + count, [](T weight) { return std::isfinite(weight); });
}

/// Weights of the sum; undefined where one is too large for their type.
Tensor weights_of(const Linear& sum, const Convolution& outer) {
  const DType type = outer.weights.dtype();
  std::vector<Addend> addends;
  for (const Term& term : sum.terms) {
    Addend& addend = addends.emplace_back(term.factor, *taps_in(outer, term), Tensor(), nullptr);
    if (!term.convolution) continue;
    const Tensor& weights = term.convolution->weights;
    addend.held = type == DType::kF32 ? weights.to_contiguous().held()
                                      : Tensor::of(weights.to_doubles(),
                                                   {weights.dims().begin(), weights.dims().end()});
    addend.weights = addend.held.data();
  }
  Tensor out(type, outer.weights.dims());
  if (type == DType::kF32)
    return add_up(out.as<float>(), outer, std::move(addends)) ? out : Tensor();
  Tensor sums(DType::kF64, outer.weights.dims());
  if (!add_up(sums.as<double>(), outer, std::move(addends))) return {};
  return store(sums.to_doubles(), out) ? out : Tensor();
}

Tensor bias_of(const Linear& sum, const Convolution& outer) {
  Tensor out(outer.weights.dtype(), {outer.channels()});
  std::vector<double> numbers;
  for (int64_t c = 0; c < outer.channels(); ++c) numbers.push_back(at(sum.shift, c));
  return store(numbers, out) ? out : Tensor();
}

class Convolutions {
 public:
  Convolutions(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        users_(graph.users()),
        patch_(graph, "merge-convolutions") {}

  /// From the end: the largest sum first.
  bool run() {
    const std::vector<NodeId> order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id)
      if (!taken_.contains(*id) && (whole(*id) || parts(*id))) context_.count("merge-convolutions");
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  std::optional<Convolution> convolution_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "Conv")) return std::nullopt;
    Convolution out;
    out.node = id;
    out.weights = graph_.value(node.inputs[1]).constant;
    const Tensor& w = out.weights;
    if (!w || !is_float(w.dtype()) || w.dims().size() < 3 || w.count() == 0) return std::nullopt;
    if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
      const Tensor& bias = graph_.value(node.inputs[2]).constant;
      if (!bias) return std::nullopt;
      out.bias = bias.to_doubles();
    }
    const std::optional<WindowAttrs> window = explicit_window(node, w.dims().size() - 2);
    out.groups = node.attrs.get_int("group", 1);
    if (!window || out.groups < 1 || out.channels() % out.groups != 0) return std::nullopt;
    out.window = *window;
    out.window.kernel.assign(w.dims().begin() + 2, w.dims().end());
    return out;
  }

  /// The numbers of a constant that has one per channel of `beside`, or one.
  std::optional<PerChannel> per_channel(ValueId constant, ValueId beside) const {
    const Tensor& t = graph_.value(constant).constant;
    const auto& dims = graph_.value(beside).type.dims;
    if (!t || !is_float(t.dtype()) || t.count() == 0 || !dims || dims->size() < 3)
      return std::nullopt;
    if (!lies_along(t, dims->size(), 1, (*dims)[1])) return std::nullopt;
    PerChannel out = t.to_doubles();
    if (!std::ranges::all_of(out, [](double x) { return std::isfinite(x); })) return std::nullopt;
    return out;
  }

  /// What a value is linear in, as far in front of it as nothing else reads what is between and as
  /// `depth` nodes; at least in itself.
  Linear linear(ValueId value, int depth = kDepth) const {
    const NodeId maker = graph_.value(value).producer;
    if (maker != kNone && graph_.only_user(users_, value) != kNone)
      if (std::optional<Linear> out = linear_result(maker, depth)) return *std::move(out);
    return {.source = value, .terms = {Term{}}, .shift = {0}, .nodes = {}};
  }

  std::optional<Linear> linear_result(NodeId id, int depth = kDepth) const {
    const Node& node = graph_.node(id);
    if (depth == 0 || taken_.contains(id)) return std::nullopt;
    if (const std::optional<Convolution> found = convolution_of(id))
      return Linear{.source = node.inputs[0],
                    .terms = {Term{found, {1}}},
                    .shift = found->bias,
                    .nodes = {id}};
    const bool sum = is_op(node, "Add"), difference = is_op(node, "Sub");
    if (!sum && !difference && !is_op(node, "Mul")) return std::nullopt;
    const ValueId a = node.inputs[0], b = node.inputs[1];
    std::optional<Linear> out;
    for (const bool swapped : {false, true}) {
      const ValueId value = swapped ? b : a;
      const auto numbers = per_channel(swapped ? a : b, value);
      if (!numbers) continue;
      out = linear(value, depth - 1);
      if (!sum && (swapped || !difference)) out->scale(difference ? PerChannel{-1} : *numbers);
      if (sum || difference)
        out->shift = combined(out->shift, *numbers, [&](double x, double y) {
          return difference && !swapped ? x - y : x + y;
        });
      out->nodes.push_back(id);
      return out;
    }
    if ((!sum && !difference) || a == b) return std::nullopt;
    out = linear(a, depth - 1);
    Linear other = linear(b, depth - 1);
    if (other.source != out->source) return std::nullopt;
    if (difference) other.scale({-1});
    out->add(std::move(other));
    out->nodes.push_back(id);
    return out;
  }

  /// The convolution that is the sum; kNone where there is none, or where it would be the one that
  /// is there.
  ValueId written(const Linear& sum, const std::string& name) {
    const Convolution* outer = sum.nodes.size() < 2 ? nullptr : sum.outermost();
    if (!outer) return kNone;
    const Tensor weights = weights_of(sum, *outer), bias = bias_of(sum, *outer);
    if (!weights || !bias) return kNone;
    const Node& node = graph_.node(outer->node);
    const std::string& stem = graph_.value(node.inputs[1]).name;
    Node now{.op = node.op, .name = name};
    now.attrs = node.attrs;
    now.inputs = {sum.source, patch_.add_constant(stem + ".merged", weights)};
    if (std::ranges::any_of(sum.shift, [](double shift) { return shift != 0; }))
      now.inputs.push_back(patch_.add_constant(stem + ".bias", bias));
    return add_typed(graph_, patch_, std::move(now), 1)[0];
  }

  void remove(const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) {
      patch_.remove(id);
      taken_.insert(id);
    }
  }

  bool whole(NodeId id) {
    const Node& node = graph_.node(id);
    const std::optional<Linear> sum = linear_result(id);
    const ValueId now = sum ? written(*sum, node.name) : kNone;
    if (now == kNone) return false;
    patch_.replace(node.outputs[0], now);
    remove(sum->nodes);
    return true;
  }

  /// The addends of a sum, those of sums in it that nothing else reads included, and these.
  void collect(NodeId id, std::vector<ValueId>& addends, std::vector<NodeId>& sums) const {
    sums.push_back(id);
    for (const ValueId in : graph_.node(id).inputs) {
      const NodeId maker = graph_.value(in).producer;
      const bool more = maker != kNone && is_op(graph_.node(maker), "Add") &&
                        graph_.only_user(users_, in) != kNone && !taken_.contains(maker);
      if (more && sums.size() < kDepth)
        collect(maker, addends, sums);
      else
        addends.push_back(in);
    }
  }

  /// Those addends of a longer sum that have one source.
  bool parts(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "Add")) return false;
    std::vector<ValueId> addends;
    std::vector<NodeId> sums;
    collect(id, addends, sums);
    if (sums.size() < 2) return false;
    struct Part {
      Linear linear;
      std::vector<ValueId> addends;
    };
    std::vector<Part> parts;
    for (const ValueId addend : addends) {
      Linear one = linear(addend);
      const auto joins = [&](const Part& part) {
        if (part.linear.source != one.source) return false;
        Linear both = part.linear;
        both.add(one);
        return !both.convolves() || both.outermost();
      };
      const auto part = std::ranges::find_if(parts, joins);
      if (part == parts.end()) {
        parts.push_back({std::move(one), {addend}});
        continue;
      }
      part->linear.add(std::move(one));
      part->addends.push_back(addend);
    }
    std::vector<ValueId> values;
    std::vector<NodeId> gone = sums;
    for (const Part& part : parts) {
      const ValueId now = part.addends.size() < 2 ? kNone : written(part.linear, node.name);
      if (now == kNone) {
        std::ranges::copy(part.addends, std::back_inserter(values));
        continue;
      }
      values.push_back(now);
      std::ranges::copy(part.linear.nodes, std::back_inserter(gone));
    }
    if (values.size() == addends.size()) return false;
    ValueId total = values[0];
    for (size_t i = 1; i < values.size(); ++i) {
      Node add{.op = node.op, .name = node.name};
      add.inputs = {total, values[i]};
      total = add_typed(graph_, patch_, std::move(add), 1)[0];
    }
    patch_.replace(node.outputs[0], total);
    remove(gone);
    return true;
  }

  static constexpr int kDepth = 32;  // of what is taken apart: branches are few, chains may be long

  Graph& graph_;
  PassContext& context_;
  std::vector<std::vector<NodeId>> users_;
  Patch patch_;
  std::unordered_set<NodeId> taken_;
};

}  // namespace

bool merge_convolutions(Graph& graph, PassContext& context) {
  const bool any =
      std::ranges::any_of(graph.order(), [&](NodeId id) { return is_op(graph.node(id), "Conv"); });
  return any && context.options.tolerant && Convolutions(graph, context).run();
}

}  // namespace xc
