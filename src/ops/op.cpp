#include "ops/op.h"

#include <algorithm>

#include "ir/place.h"
#include "ops/support.h"

namespace xc {

// ---- InferContext -------------------------------------------------------------------------------

const Type& InferContext::type(size_t i) const {
  if (!has(i)) error("input {} is missing", i);
  return *inputs[i].type;
}

const SymDims& InferContext::dims(size_t i) const {
  const Type& t = type(i);
  if (t.kind != Type::Kind::kTensor) error("input {} is {}, expected a tensor", i, t.text());
  if (!t.dims) throw UnknownRank(i);
  return *t.dims;
}

namespace {

/// Shape arithmetic through floats (Cast, Mul by a scale, Cast) is followed while all numbers are
/// whole and exact in f32. A zero has no sign there.
std::optional<std::vector<Dim>> whole_numbers(const Tensor& t) {
  std::vector<Dim> out;
  for (double v : t.to_doubles()) {
    if (!(std::fabs(v) < 0x1p24) || v != std::trunc(v)) return std::nullopt;
    if (v == 0 && std::signbit(v)) return std::nullopt;
    out.push_back(static_cast<int64_t>(v));
  }
  return out;
}

}  // namespace

std::optional<std::vector<Dim>> InferContext::elements(size_t i) const {
  if (!has(i)) return std::nullopt;
  const Input& input = inputs[i];
  if (input.elements) return *input.elements;
  if (!input.value || !*input.value) return std::nullopt;
  const DType t = input.value->dtype();
  if (input.value->count() > kMaxKnownElements) return std::nullopt;
  if (t == DType::kF32 || t == DType::kF64) return whole_numbers(*input.value);
  if (!(is_integer(t) && t != DType::kU64) && t != DType::kBool) return std::nullopt;
  const std::vector<int64_t> values = input.value->to_int64s();
  return std::vector<Dim>(values.begin(), values.end());
}

std::optional<std::vector<int64_t>> InferContext::ints(size_t i) const {
  if (!has(i)) return std::nullopt;
  if (const Tensor* value = inputs[i].value; value && *value) {
    const DType t = value->dtype();
    if (is_integer(t) || t == DType::kBool) return value->to_int64s();
    return std::nullopt;
  }
  const auto known = elements(i);
  if (!known) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *known) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

namespace {

/// Sizes are multiplied and added further, for strides and memory, and must be short enough for
/// that: of one, and of the number of elements.
constexpr size_t kLongestSize = 4 << 10, kLongestCount = 16 << 10;

bool has_long_count(const SymDims& dims) {
  try {
    return element_count(dims).text().size() > kLongestCount;
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    return true;
  }
}

/// Which of the dims to give up: the longest expression, where it or the product of all is too
/// long.
std::optional<size_t> too_long(const SymDims& dims) {
  size_t longest = 0, at = 0, symbolic = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is_constant()) continue;
    const size_t length = dims[i].text().size();
    ++symbolic;
    if (length <= longest || dims[i].as_symbol()) continue;
    longest = length;
    at = i;
  }
  const bool long_one = longest > kLongestSize;
  return long_one || (longest > 0 && symbolic > 1 && has_long_count(dims)) ? std::optional(at)
                                                                           : std::nullopt;
}

}  // namespace

void InferContext::set(size_t output, DType dtype, SymDims dims) {
  if (output >= outputs.size()) return;  // an optional output that is not wanted
  constexpr size_t kMostAxes = 64;
  if (dims.size() > kMostAxes) error("output {} would have {} axes", output, dims.size());
  for (Dim& d : dims) {
    if (d.is_constant() && d.value() < 0)
      error("output {} would have dims {}", output, to_text(dims));
    d = as_size(d);
  }
  if (fresh)
    while (const std::optional<size_t> longest = too_long(dims))
      dims[*longest] = fresh("what is too long to write down");
  outputs[output] = Type::tensor(dtype, std::move(dims));
}

bool walks_for_nothing(const ReferenceContext& context) {
  constexpr double kHuge = 1 << 20;  // elements, but for the empty axes
  bool huge = false;
  const auto look = [&](const TensorView& tensor) {
    double elements = 1;
    for (int64_t dim : tensor.dims) elements *= static_cast<double>(std::max<int64_t>(dim, 1));
    huge = huge || (tensor.count() == 0 && elements > kHuge);
  };
  for (const TensorView& output : context.outputs) {
    if (!output) continue;
    if (output.count() > 0) return false;
    look(output);
  }
  for (const TensorView& input : context.inputs)
    if (input) look(input);
  return huge;
}

void InferContext::set_elements(size_t output, std::vector<Dim> elements) {
  if (output_elements.size() < outputs.size()) output_elements.resize(outputs.size());
  if (output >= outputs.size()) return;
  if (static_cast<int64_t>(elements.size()) > kMaxKnownElements) return;
  const DType type = outputs[output].dtype;
  for (Dim& element : elements) {
    if (element.is_constant()) element = wrapped(type, element.value());
    const WholeRange range = whole_range(type);
    if (!element.stays_within(range.low, range.high)) return;
  }
  if (std::any_of(elements.begin(), elements.end(), [](const Dim& d) {
        return !d.is_constant() && d.text().size() > kLongestSize && !d.as_symbol();
      }))
    return;
  output_elements[output] = std::move(elements);
}

// ---- check_node ---------------------------------------------------------------------------------

namespace {

bool among(std::string_view choices, std::string_view value) {
  for (size_t begin = 0; begin <= choices.size();) {
    const size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

void check_int(const AttrSpec& spec, int64_t v) {
  if (v < spec.low || v > spec.high)
    fail(Status::kInvalidModel, "attribute '{}' is {}, expected a value in [{}, {}]", spec.name, v,
         spec.low, spec.high);
}

void check_attr(const AttrSpec& spec, const Attr& attr) {
  if (kind_of(attr) != spec.kind)
    fail(Status::kInvalidModel, "attribute '{}' is of kind {}, expected {}", spec.name,
         name(kind_of(attr)), name(spec.kind));
  if (const auto* v = std::get_if<int64_t>(&attr)) check_int(spec, *v);
  if (const auto* vs = std::get_if<std::vector<int64_t>>(&attr))
    for (int64_t v : *vs) check_int(spec, v);
  if (const auto* v = std::get_if<std::string>(&attr); v && !spec.choices.empty())
    if (!among(spec.choices, *v))
      fail(Status::kInvalidModel, "attribute '{}' is '{}', expected one of {}", spec.name, *v,
           spec.choices);
}

void check_count(const char* what, size_t count, int low, int high) {
  if (count < static_cast<size_t>(low) || (high >= 0 && count > static_cast<size_t>(high)))
    fail(Status::kInvalidModel, "{} {}, expected {}", count, what,
         high < 0      ? fmt::format("at least {}", low)
         : low == high ? fmt::format("{}", low)
                       : fmt::format("{} to {}", low, high));
}

}  // namespace

void check_node(const Node& node) {
  XC_CHECK(node.op);
  const OpDef& op = *node.op;
  located([&] { return node_place(node); },
          [&] {
            if (node.capture_count > node.inputs.size())
              fail(Status::kInvalidModel, "{} captured values among {} inputs", node.capture_count,
                   node.inputs.size());
            const size_t own_inputs = node.inputs.size() - node.capture_count;
            check_count("inputs", own_inputs, op.min_inputs, op.max_inputs);
            check_count("outputs", node.outputs.size(), op.min_outputs, op.max_outputs);
            check_count("subgraphs", node.subgraphs.size(), op.subgraphs, op.subgraphs);
            for (int i = 0; i < op.min_inputs; ++i)
              if (node.inputs[static_cast<size_t>(i)] == kNone)
                fail(Status::kInvalidModel, "required input {} is absent", i);
            for (const auto& [attr_name, attr] : node.attrs.entries()) {
              const auto it = std::find_if(op.attrs.begin(), op.attrs.end(),
                                           [&](const AttrSpec& s) { return s.name == attr_name; });
              if (it == op.attrs.end())
                fail(Status::kInvalidModel, "unknown attribute '{}'", attr_name);
              check_attr(*it, attr);
            }
            for (const AttrSpec& spec : op.attrs)
              if (spec.required && !node.attrs.has(spec.name))
                fail(Status::kInvalidModel, "required attribute '{}' is missing", spec.name);
          });
}

}  // namespace xc
