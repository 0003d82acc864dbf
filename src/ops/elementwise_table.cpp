#include "ops/elementwise_table.h"

namespace xc::elementwise {

namespace {

/// Types whose elements are followed symbolically. Narrower ones could wrap unnoticed.
constexpr TypeSet kShapeTypes =
    type_set({DType::kI32, DType::kI64, DType::kBool, DType::kF32, DType::kF64});

double choice_index(std::string_view choices, std::string_view value) {
  double index = 0;
  for (size_t begin = 0; begin <= choices.size(); ++index) {
    const size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value) return index;
    begin = end + 1;
  }
  fail(Status::kInvalidModel, "'{}' is not one of {}", value, choices);
}

}  // namespace

Params read_params(const Node& node) {
  Params out{};
  const auto& specs = node.op->attrs;
  XC_CHECK(specs.size() <= out.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    out[i] = specs[i].otherwise;
    if (const Attr* attr = node.attrs.find(specs[i].name)) {
      if (const auto* v = std::get_if<int64_t>(attr))
        out[i] = static_cast<double>(*v);
      else if (const auto* f = std::get_if<double>(attr))
        out[i] = *f;
      else if (const auto* s = std::get_if<std::string>(attr))
        out[i] = choice_index(specs[i].choices, *s);
    }
  }
  return out;
}

void infer_broadcast(InferContext& c, TypeSet allowed, bool mixed, Result result) {
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) c.error("input {} is missing", i);
    check_dtype(c, i, allowed);
  }
  const DType type = read_dtype(c, 0);
  for (size_t i = 0; !mixed && i < c.input_count(); ++i)
    if (read_dtype(c, i) != type) check_same_dtype(c, 0, c.input_count());
  c.set(0, result == Result::kBool ? DType::kBool : type, broadcast_inputs(c, 0, c.input_count()));
}

void propagate_elements(InferContext& c,
                        const std::function<scalar::Sym(std::span<const scalar::Sym>)>& f) {
  const DType t = c.outputs[0].dtype;
  if (!contains(kShapeTypes, t)) return;
  const auto dims = to_concrete(*c.outputs[0].dims);
  if (!dims || element_count(*dims) > kMaxKnownElements) return;
  std::vector<std::vector<Dim>> known;
  std::vector<Dims> strides;
  for (size_t i = 0; i < c.input_count(); ++i) {
    auto elements = c.elements(i);
    if (!elements) return;
    const auto own = to_concrete(c.dims(i));
    if (!own) return;
    const Dims row_major = contiguous_strides(*own);
    strides.push_back(broadcast_strides({nullptr, DType::kUndefined, *own, row_major}, *dims));
    known.push_back(std::move(*elements));
  }
  std::vector<Dim> out;
  bool all = true;
  for_each_coordinate(*dims, [&](std::span<const int64_t> at) {
    std::vector<scalar::Sym> args;
    for (size_t i = 0; all && i < known.size(); ++i)
      args.push_back(
          {known[i][static_cast<size_t>(offset_of(at, strides[i]))], is_float(c.dtype(i))});
    scalar::Sym element;
    try {
      if (all) element = f(args);
    } catch (const Error&) {
      // Numbers that no size can be, the bounds of a Slice that means "to the end" among them.
    }
    if (element.v)
      out.push_back(std::move(*element.v));
    else
      all = false;
  });
  if (all) c.set_elements(0, std::move(out));
}

void visit_broadcast(const ReferenceContext& c, const std::function<void(const int64_t*)>& body) {
  const TensorView& y = c.outputs[0];
  std::vector<Dims> strides;
  for (const TensorView& x : c.inputs) strides.push_back(broadcast_strides(x, y.dims));
  std::vector<std::span<const int64_t>> spans(strides.begin(), strides.end());
  spans.push_back(y.strides);
  for_each_index(y.dims, spans, [&](int64_t, const int64_t* at) { body(at); });
}

DType domain_of(const ReferenceContext& c) {
  DType out = DType::kBool;
  for (const TensorView& x : c.inputs) {
    if (is_float(x.dtype)) return x.dtype;
    if (out == DType::kBool) out = x.dtype;
  }
  return out;
}

}  // namespace xc::elementwise
