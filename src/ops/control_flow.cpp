// If, Loop, Scan, SequenceMap: schema and inference. The runtime executes them; a subgraph's own
// inputs come first, the captured values last (ir/graph.h).

#include "ops/control_flow.h"

#include <algorithm>
#include <map>

#include "ops/containers.h"

namespace xc {

bool condition_stays(const Graph& body) {
  ValueId id = body.outputs[0];
  for (;;) {
    const Value& v = body.value(id);
    if (v.is_constant()) return v.constant.count() == 1 && v.constant.to_int64s()[0] != 0;
    if (v.producer == kNone) return id == body.inputs[1];
    const Node& node = body.node(v.producer);
    if (node.op->name != "Identity") return false;
    id = node.inputs[0];
  }
}

SymDims loop_scalar_dims(const Graph& body, size_t input) {
  const auto& declared = body.value(body.inputs[input]).type.dims;
  return declared && declared->size() == 1 ? SymDims{Dim(1)} : SymDims{};
}

namespace {

using Types = std::vector<Type>;

Types captured_types(const InferContext& c) {
  Types out;
  for (size_t i = c.input_count() - c.node->capture_count; i < c.input_count(); ++i)
    out.push_back(c.type(i));
  return out;
}

size_t own_inputs(const InferContext& c) {
  return c.input_count() - c.node->capture_count;
}

void require_scalar_of(const InferContext& c, const Type& t, TypeSet allowed,
                       std::string_view what) {
  if (t.kind != Type::Kind::kTensor || !contains(allowed, t.dtype))
    c.error("{} is {}", what, t.text());
  if (t.dims && element_count(*t.dims).is_constant() && element_count(*t.dims) != Dim(1))
    c.error("{} has dims {}, expected one element", what, to_text(*t.dims));
}

/// What holds for both types: dims that differ become fresh symbols, ranks that differ unknown.
Type merge(const InferContext& c, const Type& a, const Type& b, std::string_view what) {
  if (a.kind != Type::Kind::kTensor || b.kind != Type::Kind::kTensor)
    return merge_elements(c, a, b, what);
  if (a.dtype != b.dtype) c.error("{}: types {} and {} do not agree", what, a.text(), b.text());
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return Type::tensor(a.dtype);
  SymDims out = *a.dims;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != (*b.dims)[i]) out[i] = c.fresh(std::string(what));
  return Type::tensor(a.dtype, std::move(out));
}

/// Dims of a result that are computed from sizes which only the body knows become symbols: a plan
/// around it learns sizes from results whose dims are lone symbols, and could not solve others.
void hide_sizes_of_body(const InferContext& c, SymDims& dims) {
  const auto is_computed = [](const Dim& d) { return !d.is_constant() && !d.as_symbol(); };
  if (std::none_of(dims.begin(), dims.end(), is_computed)) return;
  std::vector<std::string> outside;
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    if (c.type(i).kind != Type::Kind::kTensor) continue;
    if (c.type(i).dims)
      for (const Dim& d : *c.type(i).dims) d.collect_symbols(outside);
    if (const auto elements = c.elements(i))
      for (const Dim& d : *elements) d.collect_symbols(outside);
  }
  for (Dim& d : dims) {
    if (!is_computed(d)) continue;
    std::vector<std::string> names;
    d.collect_symbols(names);
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return std::find(outside.begin(), outside.end(), name) == outside.end();
        }))
      d = c.fresh("size inside");
  }
}

// ---- If -----------------------------------------------------------------------------------------

/// What a branch gives, and whether it can.
struct Branch {
  Types types;
  bool fits = true;
};

/// A branch that does not fit what it captures may never be taken, and fails where it is: there the
/// sizes of a run are inferred with. Until then it is given values of any rank.
Branch infer_branch(InferContext& c, size_t k, const Types& captured) {
  try {
    return {c.infer_subgraph(k, captured)};
  } catch (const Error& error) {
    if (error.status() != Status::kInvalidModel) throw;
    Types open = captured;
    const size_t own = own_inputs(c);
    for (size_t i = 0; i < open.size(); ++i)
      if (open[i].kind == Type::Kind::kTensor && !c.inputs[own + i].value && !c.elements(own + i))
        open[i].dims.reset();
    try {
      return {c.infer_subgraph(k, open), false};
    } catch (const Error&) {  // the first says more
    }
    throw;
  }
}

void infer_if(InferContext& c) {
  require_scalar_of(c, c.type(0), kBools, "the condition");
  const Types captured = captured_types(c);
  const size_t n = c.outputs.size(), then_count = c.node->subgraphs[0]->outputs.size(),
               else_count = c.node->subgraphs[1]->outputs.size();
  if (then_count != n || else_count != n)
    c.error("branches give {} and {} outputs, the node has {}", then_count, else_count, n);
  if (const auto condition = c.ints(0)) {
    const size_t taken = condition->front() != 0 ? 0 : 1;
    c.outputs = c.infer_subgraph(taken, captured);
    // The other may be for another rank. It never runs, and is gone with the If.
    try {
      c.infer_subgraph(1 - taken, captured);
    } catch (const Error&) {
    }
    return;
  }
  const Branch then_branch = infer_branch(c, 0, captured);
  const Branch else_branch =
      then_branch.fits ? infer_branch(c, 1, captured) : Branch{c.infer_subgraph(1, captured)};
  for (size_t k = 0; k < n; ++k) {
    const Type &then_type = then_branch.types[k], &else_type = else_branch.types[k];
    const Type both = merge(c, then_type, else_type, fmt::format("output {}", k));
    if (!then_branch.fits)
      c.outputs[k] = else_type;
    else
      c.outputs[k] = else_branch.fits ? both : then_type;
    Type& out = c.outputs[k];
    if (out.kind == Type::Kind::kTensor && out.dims) hide_sizes_of_body(c, *out.dims);
  }
}

// ---- Loop and Scan: states ----------------------------------------------------------------------

/// Types of loop-carried values: starts from those before the loop and widens dims that the body
/// changes into symbols (one value per iteration) until the body gives back what it takes.
class States {
 public:
  States(const InferContext& c, Types initial) : c_(c), types_(std::move(initial)) {
    for (Type& t : types_)
      if (t.kind != Type::Kind::kTensor) t = merge_elements(c, t, t, "a loop state");
  }
  const Types& types() const { return types_; }

  /// Takes the body's results; true when nothing had to be widened.
  bool absorb(std::span<const Type> results) {
    bool stable = true;
    for (size_t i = 0; i < types_.size(); ++i) stable &= absorb(i, results[i]);
    return stable;
  }
  /// The type after the loop: a widened dim has another value there than in any iteration.
  Type after(size_t i) const {
    Type out = types_[i];
    if (out.kind == Type::Kind::kTensor && out.dims)
      for (size_t axis = 0; axis < out.dims->size(); ++axis)
        if (widened_.count({i, axis})) (*out.dims)[axis] = c_.fresh("state after the loop");
    return out;
  }

 private:
  bool absorb(size_t i, const Type& result) {
    Type& type = types_[i];
    if (type.kind != Type::Kind::kTensor || result.kind != Type::Kind::kTensor) {
      Type merged = merge_elements(c_, type, result, fmt::format("loop state {}", i));
      const bool stable = merged == type;
      type = std::move(merged);
      return stable;
    }
    if (type.dtype != result.dtype)
      c_.error("loop state {} is {}, the body gives {}", i, type.text(), result.text());
    if (!type.dims) return true;
    if (!result.dims || result.dims->size() != type.dims->size()) {
      type.dims.reset();
      return false;
    }
    bool stable = true;
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      if ((*type.dims)[axis] == (*result.dims)[axis] || widened_.count({i, axis})) continue;
      (*type.dims)[axis] = c_.fresh("loop state");
      widened_[{i, axis}] = true;
      stable = false;
    }
    return stable;
  }

  const InferContext& c_;
  Types types_;
  std::map<std::pair<size_t, size_t>, bool> widened_;
};

/// Results of the body for stable state types; `inputs` builds its inputs from them.
template <class Inputs>
Types infer_body(InferContext& c, States& states, size_t first_result, Inputs&& inputs) {
  for (;;) {  // each round widens a dim or drops a rank, so it ends
    Types results = c.infer_subgraph(0, inputs());
    if (results.size() < first_result + states.types().size())
      c.error("the body has {} outputs for {} states", results.size(), states.types().size());
    if (states.absorb(std::span(results).subspan(first_result, states.types().size())))
      return results;
  }
}

// ---- Loop ---------------------------------------------------------------------------------------

/// Number of iterations, when the inputs tell.
std::optional<Dim> trip_count(const InferContext& c) {
  const auto limit = c.elements(0);
  if (!limit || !condition_stays(*c.node->subgraphs[0])) return std::nullopt;
  if (c.has(1)) {
    const auto condition = c.ints(1);
    if (!condition || condition->front() == 0) return std::nullopt;
  }
  return max(Dim(0), limit->front());
}

void infer_loop(InferContext& c) {
  if (c.has(0)) require_scalar_of(c, c.type(0), kIndices, "the trip count");
  if (c.has(1)) require_scalar_of(c, c.type(1), kBools, "the condition");
  const size_t own = own_inputs(c);
  if (own < 2) c.error("{} inputs, expected at least 2", own);
  Types initial;
  for (size_t i = 2; i < own; ++i) initial.push_back(c.type(i));
  const size_t state_count = initial.size();
  States states(c, std::move(initial));
  const Types captured = captured_types(c);
  const Types results = infer_body(c, states, 1, [&] {
    const Graph& body = *c.node->subgraphs[0];
    Types inputs{Type::tensor(DType::kI64, loop_scalar_dims(body, 0)),
                 Type::tensor(DType::kBool, loop_scalar_dims(body, 1))};
    inputs.insert(inputs.end(), states.types().begin(), states.types().end());
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    return inputs;
  });
  require_scalar_of(c, results[0], kBools, "the body's condition");
  if (c.outputs.size() != results.size() - 1)
    c.error("the body gives {} outputs, the node has {}", results.size() - 1, c.outputs.size());

  for (size_t k = 0; k < state_count; ++k) c.outputs[k] = states.after(k);
  const auto count = trip_count(c);
  std::optional<Dim> trips = count;
  for (size_t k = state_count; k < c.outputs.size(); ++k) {
    const Type& each = results[k + 1];
    if (each.kind != Type::Kind::kTensor) c.error("scan output {} is {}", k, each.text());
    if (!each.dims) {
      set_unknown_rank(c, k, each.dtype);
      continue;
    }
    if (!trips) trips = c.fresh("iterations");
    SymDims dims = *each.dims;
    hide_sizes_of_body(c, dims);
    dims.insert(dims.begin(), *trips);
    c.set(k, each.dtype, std::move(dims));
  }
}

// ---- Scan ---------------------------------------------------------------------------------------

std::vector<int64_t> axis_list(const InferContext& c, std::string_view attr, size_t n) {
  std::vector<int64_t> out = c.attrs().get_ints(attr);
  if (out.empty()) out.assign(n, 0);
  if (out.size() != n) c.error("attribute '{}' has {} entries, expected {}", attr, out.size(), n);
  return out;
}

void infer_scan(InferContext& c) {
  const size_t own = own_inputs(c);
  const auto scans = static_cast<size_t>(c.attrs().get_int("num_scan_inputs", 0));
  if (scans < 1 || scans > own) c.error("{} scan inputs among {} inputs", scans, own);
  const size_t state_count = own - scans;
  const auto in_axes = axis_list(c, "scan_input_axes", scans);
  axis_list(c, "scan_input_directions", scans);

  Types initial, slices;
  for (size_t i = 0; i < state_count; ++i) initial.push_back(c.type(i));
  std::optional<Dim> known;
  for (size_t k = 0; k < scans; ++k) {
    const Type& whole = c.type(state_count + k);
    // To ask for a rank has others tried, and the body would keep what follows from the one that
    // was tried first.
    if (whole.kind == Type::Kind::kTensor && !whole.dims) {
      slices.push_back(Type::tensor(whole.dtype));
      continue;
    }
    SymDims dims = c.dims(state_count + k);
    const size_t axis = normalise_axis(in_axes[k], dims.size(), "scan axis");
    known = known ? same_dim(*known, dims[axis], "scan lengths") : dims[axis];
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    slices.push_back(Type::tensor(c.dtype(state_count + k), std::move(dims)));
  }
  const Dim length = known ? *known : c.fresh("iterations");
  States states(c, std::move(initial));
  const Types captured = captured_types(c);
  const Types results = infer_body(c, states, 0, [&] {
    Types inputs = states.types();
    inputs.insert(inputs.end(), slices.begin(), slices.end());
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    return inputs;
  });
  if (c.outputs.size() != results.size())
    c.error("the body gives {} outputs, the node has {}", results.size(), c.outputs.size());
  for (size_t k = 0; k < state_count; ++k) c.outputs[k] = states.after(k);
  const auto out_axes = axis_list(c, "scan_output_axes", results.size() - state_count);
  axis_list(c, "scan_output_directions", results.size() - state_count);
  for (size_t k = state_count; k < results.size(); ++k) {
    if (results[k].kind != Type::Kind::kTensor)
      c.error("scan output {} is {}", k, results[k].text());
    if (!results[k].dims) {
      set_unknown_rank(c, k, results[k].dtype);
      continue;
    }
    SymDims dims = *results[k].dims;
    hide_sizes_of_body(c, dims);
    const size_t axis =
        normalise_axis(out_axes[k - state_count], dims.size() + 1, "scan output axis");
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), length);
    c.set(k, results[k].dtype, std::move(dims));
  }
}

// ---- SequenceMap --------------------------------------------------------------------------------

/// The body runs on element k of every sequence among the inputs, and on the other inputs whole;
/// its results are element k of the outputs.
void infer_sequence_map(InferContext& c) {
  element_type(c, 0);
  const size_t own = own_inputs(c);
  Types inputs;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const bool each = i < own && c.type(i).kind == Type::Kind::kSequence;
    inputs.push_back(each ? one_element(c, *c.type(i).element) : c.type(i));
  }
  const Types results = c.infer_subgraph(0, inputs);
  if (c.outputs.size() != results.size())
    c.error("the body gives {} outputs, the node has {}", results.size(), c.outputs.size());
  for (size_t k = 0; k < results.size(); ++k) c.outputs[k] = sequence_type(results[k]);
}

}  // namespace

void register_control_flow(OpList& ops) {
  ops.push_back(
      {.name = "If", .max_outputs = -1, .infer = infer_if, .control_flow = true, .subgraphs = 2});
  ops.push_back({.name = "Loop",
                 .min_inputs = 0,
                 .max_inputs = -1,
                 .max_outputs = -1,
                 .infer = infer_loop,
                 .control_flow = true,
                 .subgraphs = 1});
  const AttrSpec directions_in{"scan_input_directions", AttrKind::kInts, false, 0, 1};
  const AttrSpec directions_out{"scan_output_directions", AttrKind::kInts, false, 0, 1};
  ops.push_back({.name = "Scan",
                 .max_inputs = -1,
                 .max_outputs = -1,
                 .attrs = {{"num_scan_inputs", AttrKind::kInt, true, 1},
                           {"scan_input_axes", AttrKind::kInts},
                           directions_in,
                           {"scan_output_axes", AttrKind::kInts},
                           directions_out},
                 .infer = infer_scan,
                 .control_flow = true,
                 .subgraphs = 1});
  ops.push_back({.name = "SequenceMap",
                 .max_inputs = -1,
                 .max_outputs = -1,
                 .infer = infer_sequence_map,
                 .control_flow = true,
                 .subgraphs = 1});
}

}  // namespace xc
