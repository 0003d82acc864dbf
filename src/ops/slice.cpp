// Slice and Split: parts of a tensor along axes, as views.

#include <algorithm>

#include "ops/support.h"

namespace xc {

namespace {

/// The part of one axis: `count` elements from `start`, `step` apart.
struct Part {
  Dim start;
  Dim count;
  int64_t step = 1;
};

/// Beyond this a bound means "to the end"; sums with sizes stay far from overflow.
constexpr int64_t kFar = int64_t{1} << 60;

constexpr int64_t kLongStep = int64_t{1} << 40;

/// Bound `b` of an axis of size d, counted from the end when negative, clamped to [low, d + high].
Dim clamp_bound(const Dim& b, const Dim& d, int64_t low, int64_t high) {
  const Dim top = d + Dim(high);
  if (b.is_constant()) {
    if (b.value() >= kFar) return top;
    if (b.value() <= -kFar) return low;
  }
  Dim at = b;
  const auto bound = b.lower_bound();
  const bool negative = b.is_constant() ? b.value() < 0 : b.upper_bound() && *b.upper_bound() < 0;
  if (negative)
    at = b + d;
  else if (!bound || *bound < 0)
    at = b + d * min(Dim(1), max(Dim(0), Dim(-1) * b));
  return max(Dim(low), min(at, top));
}

/// Rules of start:end:step for an axis of size d, numpy's but for one: backwards, a start in front
/// of the axis is its first element (the standard's text: "clamped to [0, dims[axes[i]]-1]").
Part part_of(const Dim& start, const Dim& end, int64_t step, const Dim& d) {
  Part out;
  out.step = step;
  if (step > 0) {
    out.start = clamp_bound(start, d, 0, 0);
    out.count = max(Dim(0), ceil_div(clamp_bound(end, d, 0, 0) - out.start, Dim(step)));
  } else {
    const bool in_front = !(start.is_constant() && start.value() >= -1);
    out.start = clamp_bound(start, d, in_front ? 0 : -1, -1);
    out.count = max(Dim(0), ceil_div(out.start - clamp_bound(end, d, -1, -1), Dim(-step)));
    if (in_front) out.count = min(out.count, d);  // an empty axis
  }
  return out;
}

struct SliceInputs {
  std::optional<std::vector<Dim>> starts, ends;
  std::optional<std::vector<int64_t>> axes, steps;  ///< filled with defaults when absent
};

/// One Part per axis of the input; nullopt when some input is not known.
std::optional<std::vector<Part>> slice_parts(const SliceInputs& in, const SymDims& dims) {
  if (!in.starts || !in.ends || !in.axes || !in.steps) return std::nullopt;
  const size_t n = in.starts->size();
  if (in.ends->size() != n || in.axes->size() != n || in.steps->size() != n)
    fail(Status::kInvalidModel, "starts, ends, axes and steps have {}, {}, {} and {} elements", n,
         in.ends->size(), in.axes->size(), in.steps->size());
  std::vector<Part> parts;
  for (const Dim& d : dims) parts.push_back({Dim(0), d, 1});
  const std::vector<size_t> axes = normalise_axes(*in.axes, dims.size());
  for (size_t i = 0; i < n; ++i) {
    // Steps longer than the axis are alike; strides are multiplied with them.
    const Dim& d = dims[axes[i]];
    const int64_t most = d.is_constant() ? std::max<int64_t>(d.value(), 1) : kLongStep;
    const int64_t step = std::clamp((*in.steps)[i], -most, most);
    if (step == 0) fail(Status::kInvalidModel, "step 0 on axis {}", axes[i]);
    parts[axes[i]] = part_of((*in.starts)[i], (*in.ends)[i], step, dims[axes[i]]);
  }
  return parts;
}

std::vector<int64_t> iota(size_t n) {
  std::vector<int64_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(i);
  return out;
}

/// Reads the inputs through `elements` and `ints` (index -> optional); `present` tells which exist.
template <class Elements, class Ints, class Present>
SliceInputs read_slice(Elements&& elements, Ints&& ints, Present&& present) {
  SliceInputs out;
  out.starts = elements(1);
  out.ends = elements(2);
  if (present(3))
    out.axes = ints(3);
  else if (out.starts)
    out.axes = iota(out.starts->size());
  if (present(4))
    out.steps = ints(4);
  else if (out.starts)
    out.steps.emplace(out.starts->size(), 1);
  return out;
}

void infer_slice(InferContext& c) {
  const SymDims& in = c.dims(0);
  for (size_t i = 1; i < 5; ++i) check_dtype(c, i, kIndices);
  const SliceInputs inputs =
      read_slice([&](size_t i) { return c.elements(i); }, [&](size_t i) { return c.ints(i); },
                 [&](size_t i) { return c.has(i); });
  const auto parts = slice_parts(inputs, in);
  SymDims out;
  if (!parts) {
    std::vector<bool> cut(in.size(), !inputs.axes);
    if (inputs.axes)
      for (size_t axis : normalise_axes(*inputs.axes, in.size())) cut[axis] = true;
    for (size_t i = 0; i < in.size(); ++i) out.push_back(cut[i] ? c.fresh("Slice") : in[i]);
    return c.set(0, c.dtype(0), std::move(out));
  }
  for (const Part& p : *parts) out.push_back(p.count);
  c.set(0, c.dtype(0), out);
  const auto known = c.elements(0);
  const auto dims = to_concrete(in), counts = to_concrete(out);
  if (!known || !dims || !counts) return;
  const Dims strides = contiguous_strides(*dims);
  std::vector<Dim> picked;
  for (const Part& p : *parts)
    if (!p.start.is_constant()) return;
  for_each_coordinate(*counts, [&](std::span<const int64_t> at) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i)
      offset += ((*parts)[i].start.value() + at[i] * (*parts)[i].step) * strides[i];
    picked.push_back((*known)[static_cast<size_t>(offset)]);
  });
  c.set_elements(0, std::move(picked));
}

ConcreteView slice_of(std::span<const TensorView> inputs) {
  const TensorView& x = inputs[0];
  const auto values = [&](size_t i) -> std::optional<std::vector<int64_t>> {
    return int_values(inputs[i]);
  };
  const auto elements = [&](size_t i) -> std::optional<std::vector<Dim>> {
    const std::vector<int64_t> v = int_values(inputs[i]);
    return std::vector<Dim>(v.begin(), v.end());
  };
  const auto present = [&](size_t i) { return i < inputs.size() && inputs[i]; };
  const auto parts =
      slice_parts(read_slice(elements, values, present), SymDims(x.dims.begin(), x.dims.end()));
  ConcreteView out;
  for (size_t i = 0; i < parts->size(); ++i) {
    const Part& p = (*parts)[i];
    out.dims.push_back(p.count.value());
    out.strides.push_back(x.strides[i] * p.step);
    out.offset += p.start.value() * x.strides[i];
  }
  return out;
}

std::vector<ConcreteView> concrete_slice(const Node&, std::span<const TensorView> inputs) {
  if (std::max(inputs[1].count(), inputs[2].count()) > kMaxKnownElements) return {};
  return {slice_of(inputs)};
}

void reference_slice(const ReferenceContext& c) {
  const ConcreteView part = slice_of(c.inputs);
  const TensorView& y = c.outputs[0];
  if (!std::equal(part.dims.begin(), part.dims.end(), y.dims.begin(), y.dims.end()))
    fail(Status::kRange, "the slice changed its size");
  if (c.inputs[0].count() != 0)
    copy_elements(restrided(c.inputs[0], y.dims, part.strides, part.offset), y);
}

bool view_slice(ViewContext& c) {
  const SliceInputs inputs =
      read_slice([&](size_t i) { return known_elements(*c.graph, *c.node, i); },
                 [&](size_t i) { return known_ints(*c.graph, *c.node, i); },
                 [&](size_t i) { return i < c.node->inputs.size() && c.node->inputs[i] != kNone; });
  const auto parts = slice_parts(inputs, c.dims);
  if (!parts) return false;
  ViewContext::Out& out = c.outputs[0];
  out.offset = 0;
  out.strides.clear();
  for (size_t i = 0; i < c.dims.size(); ++i) {
    out.offset = out.offset + (*parts)[i].start * c.strides[i];
    out.strides.push_back(c.strides[i] * Dim((*parts)[i].step));
  }
  return true;
}

// ---- Split --------------------------------------------------------------------------------------

/// Parts that are not equal are refused: what versions before 18 mean. Files cannot say it.
constexpr const char* kEven = "even";

/// Sizes of the outputs along the axis: given, or equal, but for a smaller last one where the node
/// may have one.
std::optional<std::vector<Dim>> split_sizes(const Node& node, const Dim& d,
                                            const std::optional<std::vector<Dim>>& given,
                                            bool has_sizes) {
  const size_t n = node.outputs.size();
  if (has_sizes) {
    if (!given) return std::nullopt;
    if (given->size() != n)
      fail(Status::kInvalidModel, "{} split sizes for {} outputs", given->size(), n);
    Dim total = 0;
    for (const Dim& size : *given) {
      if (size.is_constant() && size.value() < 0)
        fail(Status::kInvalidModel, "split size {} is negative", size.text());
      total = total + size;
    }
    if (total.is_constant() && d.is_constant() && total != d)
      fail(Status::kInvalidModel, "split sizes sum to {}, the axis has {}", total.text(), d.text());
    return given;
  }
  if (!node.attrs.has("num_outputs"))
    fail(Status::kInvalidModel, "neither the input of sizes nor attribute 'num_outputs' is there");
  const int64_t asked = node.attrs.get_int("num_outputs", 0);
  if (asked != static_cast<int64_t>(n))
    fail(Status::kInvalidModel, "num_outputs is {}, the node has {} outputs", asked, n);
  const auto k = static_cast<int64_t>(n);
  if (node.attrs.get_int(kEven, 0) != 0) {
    const Dim part = floor_div(d, Dim(k));
    if (d.is_constant() && part * Dim(k) != d)
      fail(Status::kInvalidModel, "an axis of {} cannot be split into {} equal parts", d.text(), k);
    return std::vector<Dim>(n, part);
  }
  const Dim chunk = ceil_div(d, Dim(k));
  std::vector<Dim> out;
  for (int64_t i = 0; i < k; ++i)
    out.push_back(d.divisor() % k == 0 ? chunk : max(Dim(0), min(chunk, d - chunk * Dim(i))));
  return out;
}

void infer_split(InferContext& c) {
  const SymDims& in = c.dims(0);
  check_dtype(c, 1, kIndices);
  const size_t axis = normalise_axis(c.attrs().get_int("axis", 0), in.size());
  auto given = c.elements(1);
  // More than are followed as symbols, when they are numbers.
  if (const auto all = given ? std::nullopt : c.ints(1)) given.emplace(all->begin(), all->end());
  const auto sizes = split_sizes(*c.node, in[axis], given, c.has(1));
  auto known = in.size() == 1 ? c.elements(0) : std::nullopt;
  size_t at = 0;
  for (size_t k = 0; k < c.outputs.size(); ++k) {
    SymDims out = in;
    out[axis] = sizes ? (*sizes)[k] : c.fresh("Split");
    const auto count = out[axis].constant();
    c.set(k, c.dtype(0), std::move(out));
    // Behind a part whose size only a run knows nobody can tell where a part begins.
    if (!count || !sizes) known.reset();
    if (!known) continue;
    const auto n = static_cast<size_t>(*count);
    if (at + n > known->size()) continue;
    const auto begin = known->begin() + static_cast<std::ptrdiff_t>(at);
    c.set_elements(k, {begin, begin + static_cast<std::ptrdiff_t>(n)});
    at += n;
  }
}

std::vector<ConcreteView> concrete_split(const Node& node, std::span<const TensorView> inputs) {
  const TensorView& x = inputs[0];
  const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), x.dims.size());
  const bool has_sizes = inputs.size() > 1 && inputs[1];
  std::optional<std::vector<Dim>> given;
  if (has_sizes) {
    const std::vector<int64_t> values = int_values(inputs[1]);
    given.emplace(values.begin(), values.end());
  }
  const auto sizes = split_sizes(node, Dim(x.dims[axis]), given, has_sizes);
  std::vector<ConcreteView> out;
  int64_t start = 0;
  for (const Dim& size : *sizes) {
    Dims dims(x.dims.begin(), x.dims.end());
    dims[axis] = size.value();
    out.push_back(
        {std::move(dims), Dims(x.strides.begin(), x.strides.end()), start * x.strides[axis]});
    start += size.value();
  }
  return out;
}

void reference_split(const ReferenceContext& c) {
  const std::vector<ConcreteView> parts = concrete_split(*c.node, c.inputs);
  for (size_t k = 0; k < c.outputs.size(); ++k)
    if (c.outputs[k])
      copy_elements(
          restrided(c.inputs[0], c.outputs[k].dims, parts.at(k).strides, parts.at(k).offset),
          c.outputs[k]);
}

bool view_split(ViewContext& c) {
  const size_t axis = normalise_axis(c.node->attrs.get_int("axis", 0), c.dims.size());
  Dim start = 0;
  for (ViewContext::Out& out : c.outputs) {
    out.strides = c.strides;
    out.offset = start * c.strides[axis];
    start = start + out.dims[axis];
  }
  return true;
}

}  // namespace

void register_slice(OpList& ops) {
  ops.push_back({.name = "Slice",
                 .min_inputs = 3,
                 .max_inputs = 5,
                 .infer = infer_slice,
                 .reference = reference_slice,
                 .view = view_slice,
                 .concrete_views = concrete_slice,
                 .weight = 0});
  ops.push_back({.name = "Split",
                 .min_inputs = 1,
                 .max_inputs = 2,
                 .max_outputs = -1,
                 .attrs = {{"axis", AttrKind::kInt},
                           {"num_outputs", AttrKind::kInt, false, 1},
                           {kEven, AttrKind::kInt, false, 0, 1}},
                 .infer = infer_split,
                 .reference = reference_split,
                 .view = view_split,
                 .concrete_views = concrete_split,
                 .weight = 0});
}

}  // namespace xc
