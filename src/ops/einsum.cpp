// Einsum: sums of products over labelled axes. Symbolic inference checks and gathers the labels;
// the reference walks every label; what floats expand to is in einsum_expand.cpp.

#include "ops/einsum.h"

#include <algorithm>
#include <set>

#include "ops/checks.h"
#include "ops/dense.h"

namespace xc {

namespace einsum {

namespace {

constexpr TypeSet kEinsumTypes = kNumbers;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The labels of one term; `ellipsis` is the number of axes that "..." stands for.
std::vector<Label> parse_term(const std::string& text, int ellipsis) {
  std::vector<Label> out;
  bool seen = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_letter(text[i])) {
      out.push_back(text[i]);
    } else if (text.compare(i, 3, "...") == 0 && !seen) {
      for (int k = ellipsis; k-- > 0;) out.push_back(static_cast<Label>('0' + k));
      i += 2;
      seen = true;
    } else {
      fail(Status::kInvalidModel, "attribute 'equation': unexpected '{}' in term '{}'", text[i],
           text);
    }
  }
  return out;
}

constexpr int kMaxEllipsis = 10;

}  // namespace

Equation parse(std::string text, const std::vector<size_t>& ranks) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != ranks.size())
    fail(Status::kInvalidModel, "attribute 'equation' has {} terms for {} inputs", terms.size(),
         ranks.size());
  Equation out;
  int widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto letters =
        static_cast<int>(std::count_if(terms[i].begin(), terms[i].end(), is_letter));
    const bool ellipsis = terms[i].find("...") != std::string::npos;
    const int rest = static_cast<int>(ranks[i]) - letters;
    if (ellipsis ? rest < 0 || rest >= kMaxEllipsis : rest != 0)
      fail(Status::kInvalidModel, "attribute 'equation': term '{}' for an input of rank {}",
           terms[i], ranks[i]);
    widest = std::max(widest, ellipsis ? rest : 0);
    out.terms.push_back(parse_term(terms[i], rest));
  }
  std::map<Label, int> uses;
  for (const auto& term : out.terms)
    for (Label label : term) ++uses[label];
  if (arrow != std::string::npos) {
    out.output = parse_term(text.substr(arrow + 2), widest);
    std::set<Label> once;
    for (Label label : out.output)
      if (!uses.contains(label) || !once.insert(label).second)
        fail(Status::kInvalidModel,
             "attribute 'equation': output label '{}' is unknown or repeated", label);
    return out;
  }
  for (int k = widest; k-- > 0;) out.output.push_back(static_cast<Label>('0' + k));
  for (const auto& [label, count] : uses)
    if (is_letter(label) && count == 1) out.output.push_back(label);
  return out;
}

std::map<Label, Dim> sizes_of(const Equation& equation, const std::vector<SymDims>& dims) {
  std::map<Label, Dim> out;
  for (size_t i = 0; i < dims.size(); ++i)
    for (size_t k = 0; k < dims[i].size(); ++k) {
      const Label label = equation.terms[i][k];
      const Dim& size = dims[i][k];
      const auto [it, fresh] = out.emplace(label, size);
      if (fresh) continue;
      if (it->second.is_constant() && size.is_constant() && it->second != size &&
          it->second != Dim(1) && size != Dim(1))
        fail(Status::kInvalidModel, "label '{}': dims {} and {} differ", label, it->second.text(),
             size.text());
      it->second = broadcast(it->second, size);
    }
  return out;
}

namespace {

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kEinsumTypes);
  check_same_dtype(ctx, 0, ctx.input_count());
  std::vector<SymDims> dims;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    dims.push_back(ctx.dims(i));
    ranks.push_back(dims.back().size());
  }
  const Equation equation = parse(ctx.attrs().get_string("equation", ""), ranks);
  const auto sizes = sizes_of(equation, dims);
  SymDims out;
  for (Label label : equation.output) out.push_back(sizes.at(label));
  ctx.set(0, ctx.dtype(0), std::move(out));
}

/// y[output labels] = sum over the other labels of the product of all operands.
template <class T>
std::vector<T> evaluate(const ReferenceContext& ctx, std::vector<T> (*read)(const TensorView&)) {
  std::vector<SymDims> dims;
  std::vector<size_t> ranks;
  for (const TensorView& view : ctx.inputs) {
    dims.push_back(to_symbolic(dims_of(view)));
    ranks.push_back(view.dims.size());
  }
  const Equation equation = parse(ctx.attrs().get_string("equation", ""), ranks);
  // The loop nest: output labels first, then the summed ones.
  std::vector<Label> order = equation.output;
  const auto sizes = sizes_of(equation, dims);
  for (const auto& [label, size] : sizes)
    if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
  Dims space;
  for (Label label : order) space.push_back(sizes.at(label).value());
  // Strides of every operand over the nest; a repeated label adds up to the diagonal.
  std::vector<std::vector<T>> values;
  std::vector<Dims> strides;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) {
    values.push_back(read(ctx.inputs[i]));
    const Dims own = dims_of(ctx.inputs[i]), own_strides = contiguous_strides(own);
    Dims over(order.size(), 0);
    for (size_t k = 0; k < own.size(); ++k) {
      const auto at = std::find(order.begin(), order.end(), equation.terms[i][k]) - order.begin();
      if (own[k] != 1) over[static_cast<size_t>(at)] += own_strides[k];
    }
    strides.push_back(std::move(over));
  }
  const size_t kept = equation.output.size();
  const int64_t count = product(space, 0, kept), summed = product(space, kept, space.size());
  std::vector<T> y(static_cast<size_t>(count));
  std::vector<std::span<const int64_t>> spans(strides.begin(), strides.end());
  for_each_index(space, spans, [&](int64_t flat, const int64_t* at) {
    T term = 1;
    for (size_t i = 0; i < values.size(); ++i) term *= values[i][static_cast<size_t>(at[i])];
    y[static_cast<size_t>(flat / summed)] += term;
  });
  return y;
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  if (is_float(ctx.inputs[0].dtype))
    write_dense(ctx.outputs[0], evaluate<double>(ctx, double_values));
  else
    write_wrapped(ctx.outputs[0], evaluate<uint64_t>(ctx, read_wrapped));
}

Dim flops(const Graph& graph, const Node& node) {
  std::vector<SymDims> dims;
  std::vector<size_t> ranks;
  for (ValueId id : node.inputs) {
    const auto& known = graph.value(id).type.dims;
    if (!known) return 0;
    dims.push_back(*known);
    ranks.push_back(known->size());
  }
  Dim out(static_cast<int64_t>(dims.size()));
  const Equation equation = parse(node.attrs.get_string("equation", ""), ranks);
  for (const auto& [label, size] : sizes_of(equation, dims)) out = out * size;
  return out;
}

}  // namespace

}  // namespace einsum

void register_einsum(OpList& ops) {
  OpDef op;
  op.name = "Einsum";
  op.max_inputs = -1;
  op.attrs = {{"equation", AttrKind::kString, true}};
  op.infer = einsum::infer;
  op.reference = einsum::reference;
  op.expand = einsum::expand;
  op.flops = einsum::flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
