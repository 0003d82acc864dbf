// Reshape, Flatten, Squeeze, Unsqueeze: the same elements in row-major order under other dims.

#include "ops/support.h"

namespace xc {

namespace {

void pass_elements(InferContext& c) {
  if (auto known = c.elements(0)) c.set_elements(0, std::move(*known));
}

void reference_copy(const ReferenceContext& c) {
  copy_row_major(c.inputs[0], c.outputs[0]);
}

/// A contiguous run of input dims that one run of output dims covers with the same elements.
struct Run {
  size_t in_begin, in_end, out_begin, out_end;
};

bool divides(const Dim& divisor, const Dim& d) {
  return divisor != Dim(0) && floor_div(d, divisor) * divisor == d;
}

/// Pairs runs of equal element counts; false when the symbols do not tell.
bool pair_runs(const SymDims& in, const SymDims& out, std::vector<Run>& runs) {
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    Run run{i, i, o, o};
    Dim in_count = 1, out_count = 1;
    const auto take_in = [&] { in_count = in_count * in[i++]; };
    const auto take_out = [&] { out_count = out_count * out[o++]; };
    if (i < in.size()) take_in();
    if (o < out.size()) take_out();
    while (in_count != out_count) {
      if (o < out.size() && divides(out_count, in_count))
        take_out();
      else if (i < in.size() && divides(in_count, out_count))
        take_in();
      else
        return false;
    }
    run.in_end = i;
    run.out_end = o;
    runs.push_back(run);
  }
  return true;
}

/// Strides of a view by runs: within a run the input must be one progression.
bool view_reshape(ViewContext& c) {
  ViewContext::Out& out = c.outputs[0];
  out.offset = 0;
  std::vector<Run> runs;
  if (!pair_runs(c.dims, out.dims, runs)) return false;
  out.strides.assign(out.dims.size(), Dim(0));
  for (const Run& run : runs) {
    std::optional<Dim> inner, expected;  // stride of the innermost dim; what the next one must be
    for (size_t i = run.in_end; i-- > run.in_begin;) {
      if (c.dims[i] == Dim(1)) continue;
      if (expected && c.strides[i] != *expected) return false;
      if (!inner) inner = c.strides[i];
      expected = c.strides[i] * c.dims[i];
    }
    Dim stride = inner.value_or(Dim(1));
    for (size_t o = run.out_end; o-- > run.out_begin;) {
      out.strides[o] = stride;
      stride = stride * out.dims[o];
    }
  }
  return true;
}

// ---- Reshape ------------------------------------------------------------------------------------

/// 1 where e == 0, else 0, for any integer e.
Dim is_zero(const Dim& e) {
  return max(Dim(0), Dim(1) - max(e, Dim(-1) * e));
}
/// 1 where e == -1 and 0 where e >= 0.
Dim is_hole(const Dim& e) {
  return max(Dim(0), Dim(-1) * e);
}

/// Dims of the result for a shape whose elements are numbers or symbols. A symbolic element may
/// turn out to be -1 or 0, when it is an element of a graph input; then the dim is an expression
/// that covers these cases. -1 is what the dims that are not copied leave: 3 of [0, 3] as [0, -1].
SymDims reshaped_dims(const SymDims& in, const std::vector<Dim>& shape, bool allow_zero) {
  const size_t n = shape.size();
  const auto may_be_negative = [](const Dim& e) {
    return !e.is_constant() && e.lower_bound().value_or(-1) < 0;
  };
  SymDims out(n), left = in;  // of the input, but for what is copied
  std::optional<size_t> hole;
  for (size_t i = 0; i < n; ++i) {
    const Dim& e = shape[i];
    if (e == Dim(-1)) {
      if (hole) fail(Status::kInvalidModel, "shape {} has more than one -1", to_text(shape));
      hole = i;
      out[i] = 1;
    } else if (e.is_constant() && e.value() < 0) {
      fail(Status::kInvalidModel, "shape {} has a negative element", to_text(shape));
    } else if (e == Dim(0) && !allow_zero) {
      if (i >= in.size())
        fail(Status::kInvalidModel, "shape {} copies dim {} of {}", to_text(shape), i, to_text(in));
      out[i] = in[i];
      left[i] = 1;
    } else if (may_be_negative(e)) {
      out[i] = max(e, Dim(0));
      if (!allow_zero && i < in.size()) {
        out[i] = out[i] + is_zero(e) * in[i];
        if (in[i].lower_bound().value_or(0) < 1) left[i] = max(in[i], is_zero(e));
      }
    } else {
      out[i] = e;
    }
  }
  const Dim total = element_count(in), total_left = element_count(left);
  const auto is_copied = [&](size_t i) { return shape[i] == Dim(0) && !allow_zero; };
  const auto others = [&](size_t but, bool at_least_one) {
    Dim product = 1;
    for (size_t j = 0; j < n; ++j)
      if (j != but && !is_copied(j))
        product = product * (at_least_one ? max(Dim(1), out[j]) : out[j]);
    return product;
  };
  if (hole) {
    const Dim rest = others(*hole, false);
    if (rest == Dim(0)) fail(Status::kInvalidModel, "shape {} has a -1 beside a 0", to_text(shape));
    out[*hole] = floor_div(total_left, rest);
  } else {
    SymDims filled = out;
    for (size_t i = 0; i < n; ++i)
      if (may_be_negative(shape[i]))
        filled[i] = out[i] + is_hole(shape[i]) * floor_div(total_left, others(i, true));
    out = std::move(filled);
  }
  const Dim count = element_count(out);
  if (total.is_constant() && count.is_constant() && total != count)
    fail(Status::kInvalidModel, "dims {} cannot be reshaped to {}", to_text(in), to_text(shape));
  return out;
}

void infer_reshape(InferContext& c) {
  const DType t = check_dtype(c, 0, kAnyType);
  check_dtype(c, 1, kIndices);
  const SymDims& shape_dims = c.dims(1);
  if (shape_dims.size() != 1) c.error("the shape has rank {}, expected 1", shape_dims.size());
  if (const auto shape = c.elements(1)) {
    try {
      c.set(0, t, reshaped_dims(c.dims(0), *shape, c.attrs().get_int("allowzero", 0) != 0));
    } catch (const Error& error) {
      if (error.status() != Status::kLimit) throw;
      // Every element of a shape of the run may stand for a dim of the input: too long to write
      // down.
      return c.set(0, t, fresh_dims(c, shape->size(), "Reshape"));
    }
    pass_elements(c);
  } else if (shape_dims[0].is_constant()) {
    c.set(0, t, fresh_dims(c, static_cast<size_t>(shape_dims[0].value()), "Reshape"));
  } else {
    set_unknown_rank(c, 0, t);
  }
}

std::vector<ConcreteView> concrete_reshape(const Node& node, std::span<const TensorView> inputs) {
  const TensorView &x = inputs[0], &shape = inputs[1];
  if (shape.dims.size() != 1)
    fail(Status::kInvalidModel, "the shape has rank {}, expected 1", shape.dims.size());
  if (shape.dims[0] > kMostConcreteAxes || !x.contiguous()) return {};
  const std::vector<int64_t> values = int_values(shape);
  try {
    Dims dims = *to_concrete(reshaped_dims(SymDims(x.dims.begin(), x.dims.end()),
                                           SymDims(values.begin(), values.end()),
                                           node.attrs.get_int("allowzero", 0) != 0));
    Dims strides = contiguous_strides(dims);
    return {{std::move(dims), std::move(strides), 0}};
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    return {};  // as inference has it
  }
}

// ---- Flatten ------------------------------------------------------------------------------------

void infer_flatten(InferContext& c) {
  const SymDims& in = c.dims(0);
  int64_t axis = c.attrs().get_int("axis", 1);
  const auto rank = static_cast<int64_t>(in.size());
  if (axis < -rank || axis > rank) c.error("axis {} is outside [{}, {}]", axis, -rank, rank);
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  c.set(0, c.dtype(0), {product(in, 0, at), product(in, at, in.size())});
  pass_elements(c);
}

// ---- Squeeze, Unsqueeze -------------------------------------------------------------------------

void infer_squeeze(InferContext& c) {
  const SymDims& in = c.dims(0);
  std::vector<bool> removed(in.size(), false);
  if (c.has(1)) {
    check_dtype(c, 1, kIndices);
    const auto axes = c.ints(1);
    if (!axes) return set_unknown_rank(c, 0, c.dtype(0));
    for (size_t axis : normalise_axes(*axes, in.size())) {
      if (in[axis].is_constant() && in[axis] != Dim(1))
        c.error("axis {} of {} has not size 1", axis, to_text(in));
      removed[axis] = true;
    }
  } else {
    // Which axes have size 1 is a matter of the run while a size is symbolic.
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].is_constant() && in[i].lower_bound().value_or(0) <= 1)
        return set_unknown_rank(c, 0, c.dtype(0));
      removed[i] = in[i] == Dim(1);
    }
  }
  SymDims out;
  for (size_t i = 0; i < in.size(); ++i)
    if (!removed[i]) out.push_back(in[i]);
  c.set(0, c.dtype(0), std::move(out));
  pass_elements(c);
}

void infer_unsqueeze(InferContext& c) {
  const SymDims& in = c.dims(0);
  check_dtype(c, 1, kIndices);
  const auto axes = c.ints(1);
  if (!axes) {
    const auto& dims = c.dims(1);
    const Dim count = element_count(dims);
    if (!count.is_constant()) return set_unknown_rank(c, 0, c.dtype(0));
    return c.set(0, c.dtype(0),
                 fresh_dims(c, in.size() + static_cast<size_t>(count.value()), "Unsqueeze"));
  }
  const size_t rank = in.size() + axes->size();
  std::vector<bool> added(rank, false);
  for (size_t axis : normalise_axes(*axes, rank)) added[axis] = true;
  SymDims out;
  for (size_t i = 0, k = 0; i < rank; ++i) out.push_back(added[i] ? Dim(1) : in[k++]);
  c.set(0, c.dtype(0), std::move(out));
  pass_elements(c);
}

}  // namespace

void register_reshape(OpList& ops) {
  ops.push_back({.name = "Reshape",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attrs = {{"allowzero", AttrKind::kInt, false, 0, 1}},
                 .infer = infer_reshape,
                 .reference = reference_copy,
                 .view = view_reshape,
                 .concrete_views = concrete_reshape,
                 .weight = 0});
  ops.push_back({.name = "Flatten",
                 .attrs = {{"axis", AttrKind::kInt}},
                 .infer = infer_flatten,
                 .reference = reference_copy,
                 .view = view_reshape,
                 .weight = 0});
  ops.push_back({.name = "Squeeze",
                 .min_inputs = 1,
                 .max_inputs = 2,
                 .infer = infer_squeeze,
                 .reference = reference_copy,
                 .view = view_reshape,
                 .weight = 0});
  ops.push_back({.name = "Unsqueeze",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .infer = infer_unsqueeze,
                 .reference = reference_copy,
                 .view = view_reshape,
                 .weight = 0});
}

}  // namespace xc
