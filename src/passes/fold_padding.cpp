// Zeros around the data of a convolution or an average that counts them, what is below all data of
// a largest element, and what is cut from the ends of a convolution's result, are its own padding:
// nothing is copied, nothing computed in vain, and what follows the cut stands right behind the
// convolution.

#include <algorithm>
#include <limits>

#include "ir/patch.h"
#include "ops/support.h"
#include "ops/window.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Elements at both ends of each spatial axis.
struct Ends {
  std::vector<int64_t> begin, end;
  explicit Ends(size_t spatial) : begin(spatial, 0), end(spatial, 0) {}
};

class Padding {
 public:
  Padding(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "fold-padding") {}

  /// Either all padding in front or all cuts behind: each looks at the graph as it is.
  bool run(bool cuts) {
    for (NodeId id : graph_.order())
      if (cuts ? cut(id) : pads(id)) context_.count("fold-padding");
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  /// Integers of input k of a node; `otherwise` where it is absent.
  std::optional<std::vector<int64_t>> integers(const Node& node, size_t k,
                                               std::vector<int64_t> otherwise) const {
    const ValueId input = input_of(node, k);
    return input == kNone ? std::optional(std::move(otherwise))
                          : known_integers(graph_.value(input));
  }

  /// All axes, or those of input k, counted from the front.
  std::optional<std::vector<int64_t>> axes(const Node& node, size_t k, size_t rank) const {
    std::vector<int64_t> all(rank);
    for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
    auto out = integers(node, k, all);
    if (out)
      for (int64_t& axis : *out) axis = static_cast<int64_t>(normalise_axis(axis, rank));
    return out;
  }

  /// What a Pad adds around the spatial axes; none where it adds other than constants, or
  /// elsewhere.
  std::optional<Ends> padded(const Node& pad) const {
    if (!is_op(pad, "Pad")) return std::nullopt;
    const auto rank = rank_of(graph_, pad.inputs[0]);
    if (!rank || *rank < 3) return std::nullopt;
    if (pad.attrs.get_string("mode", "constant") != "constant") return std::nullopt;
    const auto at = axes(pad, 3, *rank);
    const auto pads = integers(pad, 1, {});
    if (!at || !pads || pads->size() != 2 * at->size()) return std::nullopt;
    Ends out(*rank - 2);
    for (size_t i = 0; i < at->size(); ++i) {
      const int64_t begin = (*pads)[i], end = (*pads)[i + at->size()];
      if (begin < 0 || end < 0) return std::nullopt;
      if ((*at)[i] < 2) {
        if (begin != 0 || end != 0) return std::nullopt;
        continue;
      }
      const auto axis = static_cast<size_t>((*at)[i] - 2);
      out.begin[axis] += begin;
      out.end[axis] += end;
    }
    return out;
  }

  /// What it adds there; none where it is not constant.
  std::optional<double> fill(const Node& pad) const {
    const ValueId value = input_of(pad, 2);
    return value == kNone ? 0.0 : scalar_constant(graph_.value(value));
  }

  /// Is no element of the value below `fill`?
  bool none_below(ValueId value, double fill) const {
    const DType type = graph_.value(value).type.dtype;
    if (type == DType::kI8) return fill == -128;
    if (type == DType::kU8) return fill == 0;
    if (fill == -std::numeric_limits<double>::infinity()) return true;
    // What exporters write for it; of windows of nothing but infinities it is the largest.
    if (type == DType::kF32 && fill == std::numeric_limits<float>::lowest())
      return context_.options.tolerant;
    return fill == 0 && never_negative(value);
  }
  bool never_negative(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer == kNone) return false;
    const Node& node = graph_.node(producer);
    constexpr std::string_view kOps[] = {"Relu", "Sigmoid", "HardSigmoid", "Abs", "Exp", "Softmax"};
    if (std::ranges::any_of(kOps, [&](std::string_view op) { return is_op(node, op); }))
      return true;
    if (!is_op(node, "Clip") || input_of(node, 1) == kNone) return false;
    const auto least = scalar_constant(graph_.value(node.inputs[1]));
    return least && *least >= 0;
  }

  /// What a Slice takes away from the spatial axes of a value; none where it does anything else.
  std::optional<Ends> taken(const Node& slice) const {
    if (!is_op(slice, "Slice")) return std::nullopt;
    const auto rank = rank_of(graph_, slice.inputs[0]);
    if (!rank || rank_of(graph_, slice.outputs[0]) != rank || *rank < 3) return std::nullopt;
    const auto starts = integers(slice, 1, {}), ends = integers(slice, 2, {});
    const auto at = axes(slice, 3, *rank);
    if (!starts || !ends || !at || starts->size() > at->size() || ends->size() != starts->size())
      return std::nullopt;
    const auto steps = integers(slice, 4, std::vector<int64_t>(starts->size(), 1));
    if (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; }))
      return std::nullopt;
    Ends out(*rank - 2);
    for (size_t i = 0; i < starts->size(); ++i) {
      const auto axis = static_cast<size_t>((*at)[i]);
      const auto size = (*graph_.value(slice.inputs[0]).type.dims)[axis].constant();
      int64_t begin = (*starts)[i], end = (*ends)[i];
      if (size) {  // elements before the start, and from the end on
        if (begin < 0) begin += *size;
        if (end < 0) end += *size;
        begin = std::clamp<int64_t>(begin, 0, *size);
        end = *size - std::clamp<int64_t>(end, begin, *size);
      } else if (begin >= 0 && begin < kMaxWindow && (end < 0 || end >= INT32_MAX)) {
        end = end < 0 ? -std::max(end, -kMaxWindow) : 0;
      } else {
        return std::nullopt;
      }
      if (axis < 2) {
        if (begin != 0 || end != 0) return std::nullopt;
        continue;
      }
      out.begin[axis - 2] += begin;
      out.end[axis - 2] += end;
    }
    return out;
  }

  /// Elements from the first to the last that a window sees; nothing where the model does not say.
  std::optional<int64_t> extent_of(const Node& node, const WindowAttrs& window, size_t axis) const {
    std::optional<int64_t> kernel;
    if (!window.kernel.empty()) {
      kernel = window.kernel[axis];
    } else if (const auto& dims = graph_.value(node.inputs[1]).type.dims) {
      kernel = (*dims)[2 + axis].constant();
    }
    if (!kernel || *kernel < 1) return std::nullopt;
    return (*kernel - 1) * window.dilations[axis] + 1;
  }

  /// The node with the window's padding over `data`, in the place of node `old`.
  void put(NodeId old, const Node& node, ValueId data, const WindowAttrs& window) {
    Node now{.op = node.op, .name = node.name, .inputs = node.inputs, .attrs = node.attrs};
    now.inputs[0] = data;
    std::vector<int64_t> pads = window.pads_begin;
    pads.insert(pads.end(), window.pads_end.begin(), window.pads_end.end());
    now.attrs.erase("auto_pad");
    now.attrs.set("pads", std::move(pads));
    put_in_place_of(graph_, patch_, old, std::move(now));
  }

  /// Does the node take what the Pad adds to `data` for its own padding?
  bool takes(const Node& node, const Node& pad) const {
    const auto added = fill(pad);
    if (!added) return false;
    if (is_op(node, "MaxPool"))
      return node.outputs.size() == 1 && none_below(pad.inputs[0], *added);
    return *added == 0 && (is_op(node, "Conv") || is_op(node, "AveragePool"));
  }

  /// Has every window of a MaxPool an element that is no padding? Of a sum, padding alone is zero.
  bool all_see_data(const Node& node, const Node& pad, const WindowAttrs& window,
                    size_t axis) const {
    if (!is_op(node, "MaxPool")) return true;
    if (window.dilations[axis] != 1) return false;
    const Dim& size = (*graph_.value(pad.inputs[0]).type.dims)[2 + axis];
    return window.pads_begin[axis] + window.pads_end[axis] < window.kernel[axis] ||
           size.lower_bound().value_or(0) > 0;
  }

  bool pads(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.inputs.empty() || node.inputs[0] == kNone) return false;
    const NodeId producer = graph_.value(node.inputs[0]).producer;
    if (producer == kNone) return false;
    const Node& pad = graph_.node(producer);
    const auto more = padded(pad);
    if (!more || !takes(node, pad)) return false;
    const size_t spatial = more->begin.size();
    auto window = explicit_window(node, spatial);
    if (!window) return false;
    const bool pool = !is_op(node, "Conv");
    if (pool && (node.attrs.get_int("ceil_mode", 0) != 0 ||
                 !std::all_of(window->pads_begin.begin(), window->pads_begin.end(), is_zero) ||
                 !std::all_of(window->pads_end.begin(), window->pads_end.end(), is_zero)))
      return false;
    for (size_t i = 0; i < spatial; ++i) {
      window->pads_begin[i] += more->begin[i];
      window->pads_end[i] += more->end[i];
      // Windows of padding alone are not what kernels expect.
      const auto extent = extent_of(node, *window, i);
      if (!extent || std::max(window->pads_begin[i], window->pads_end[i]) >= *extent) return false;
      if (!all_see_data(node, pad, *window, i)) return false;
    }
    Node counted = node;
    if (is_op(node, "AveragePool")) counted.attrs.set("count_include_pad", int64_t{1});
    put(id, counted, pad.inputs[0], *window);
    return true;
  }

  bool cut(NodeId id) {
    const Node& slice = graph_.node(id);
    const auto less = taken(slice);
    if (!less) return false;
    const ValueId between = slice.inputs[0];
    const NodeId producer = graph_.value(between).producer;
    if (producer == kNone || graph_.only_user(users_, between) == kNone) return false;
    const Node& conv = graph_.node(producer);
    const bool transposed = is_op(conv, "ConvTranspose");
    if (!is_op(conv, "Conv") && !transposed) return false;
    if (transposed && conv.attrs.has("output_shape")) return false;
    const size_t spatial = less->begin.size();
    auto window = explicit_window(conv, spatial);
    if (!window) return false;
    for (size_t i = 0; i < spatial; ++i) {
      // Padding takes from the result of a transposed convolution, an element each.
      const int64_t by = transposed ? -1 : window->strides[i];
      window->pads_begin[i] -= less->begin[i] * by;
      window->pads_end[i] -= less->end[i] * by;
      if (std::min(window->pads_begin[i], window->pads_end[i]) < 0 ||
          std::max(window->pads_begin[i], window->pads_end[i]) >= kMaxWindow)
        return false;
      // Something is left of the shortest data; the Slice of nothing is empty, not wrong.
      const auto extent = extent_of(conv, *window, i);
      const int64_t pads = window->pads_begin[i] + window->pads_end[i];
      const auto size = (*graph_.value(slice.outputs[0]).type.dims)[2 + i].constant();
      if (!extent || !(size ? *size > 0 : transposed ? pads < *extent : pads >= *extent - 1))
        return false;
    }
    put(id, conv, conv.inputs[0], *window);
    return true;
  }

  static bool is_zero(int64_t v) { return v == 0; }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
};

}  // namespace

bool fold_padding(Graph& graph, PassContext& context) {
  const bool pads = Padding(graph, context).run(false);
  return Padding(graph, context).run(true) || pads;
}

}  // namespace xc
