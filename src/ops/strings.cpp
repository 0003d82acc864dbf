// Operators on text: StringConcat, StringSplit, StringNormalizer, RegexFullMatch. Text is UTF-8;
// case is utf8proc's, regular expressions are RE2's.

#include <re2/re2.h>
#include <utf8proc.h>

#include <algorithm>
#include <unordered_set>

#include "ops/checks.h"
#include "ops/support.h"

namespace xc {

namespace {

constexpr size_t kMostText = size_t{1} << 30;  // of one result
constexpr TypeSet kStrings = type_set({DType::kString});

/// Elements of a string view in row-major order.
std::vector<std::string> string_values(const TensorView& view) {
  std::vector<std::string> out;
  for_each_offset<1>(view.dims, {view.strides},
                     [&](const auto& at) { out.push_back(view.as<std::string>()[at[0]]); });
  return out;
}

/// The value of input 0 where it is known at this point.
std::optional<std::vector<std::string>> known_strings(const InferContext& c) {
  const Tensor* value = c.inputs[0].value;
  if (!value || !*value) return std::nullopt;
  return string_values(value->view());
}

// ---- StringConcat -------------------------------------------------------------------------------

void infer_concat(InferContext& c) {
  check_dtype(c, 0, kStrings);
  check_dtype(c, 1, kStrings);
  c.set(0, DType::kString, broadcast_inputs(c, 0, 2));
}

void reference_concat(const ReferenceContext& c) {
  const TensorView &a = c.inputs[0], &b = c.inputs[1], &y = c.outputs[0];
  const Dims a_strides = broadcast_strides(a, y.dims), b_strides = broadcast_strides(b, y.dims);
  size_t total = 0;  // texts that are added to themselves grow without bound
  for_each_offset<3>(y.dims, {a_strides, b_strides, y.strides}, [&](const auto& at) {
    total += a.as<std::string>()[at[0]].size() + b.as<std::string>()[at[1]].size();
    if (total > kMostText) fail(Status::kLimit, "more than {} bytes of text", kMostText);
    y.as<std::string>()[at[2]] = a.as<std::string>()[at[0]] + b.as<std::string>()[at[1]];
  });
}

// ---- StringSplit --------------------------------------------------------------------------------

/// At every `delimiter`; without one at runs of white space, which also are stripped from the
/// start. After `limit` splits (negative: no limit) the rest is one piece.
std::vector<std::string> split(const std::string& text, const std::string& delimiter,
                               int64_t limit) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string> out;
  const bool by_space = delimiter.empty();
  size_t begin = by_space ? text.find_first_not_of(kSpace) : 0;
  while (begin != std::string::npos) {
    size_t end = std::string::npos;
    if (limit < 0 || static_cast<int64_t>(out.size()) < limit)
      end = by_space ? text.find_first_of(kSpace, begin) : text.find(delimiter, begin);
    out.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) break;
    begin = by_space ? text.find_first_not_of(kSpace, end) : end + delimiter.size();
  }
  return out;
}

std::vector<std::vector<std::string>> split_all(const Node& node,
                                                const std::vector<std::string>& values) {
  const std::string delimiter = node.attrs.get_string("delimiter", "");
  const int64_t limit = node.attrs.get_int("maxsplit", -1);
  std::vector<std::vector<std::string>> out;
  for (const std::string& text : values) out.push_back(split(text, delimiter, limit));
  return out;
}

void infer_split(InferContext& c) {
  check_dtype(c, 0, kStrings);
  SymDims dims = c.dims(0);
  c.set(1, DType::kI64, dims);
  const auto values = known_strings(c);
  int64_t most = 0;
  if (values)
    for (const auto& pieces : split_all(*c.node, *values))
      most = std::max(most, static_cast<int64_t>(pieces.size()));
  dims.push_back(values ? Dim(most) : c.fresh("StringSplit"));
  c.set(0, DType::kString, dims);
}

void reference_split(const ReferenceContext& c) {
  check_shapes(c);
  const auto all = split_all(*c.node, string_values(c.inputs[0]));
  if (const TensorView& y = c.outputs[0]) {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      const size_t rank = at.size() - 1;
      int64_t flat = 0;
      for (size_t i = 0; i < rank; ++i) flat = flat * y.dims[i] + at[i];
      const auto& pieces = all[static_cast<size_t>(flat)];
      const auto k = static_cast<size_t>(at[rank]);
      y.as<std::string>()[offset_of(at, y.strides)] = k < pieces.size() ? pieces[k] : "";
    });
  }
  if (c.outputs.size() < 2 || !c.outputs[1]) return;
  size_t next = 0;
  for_each_offset<1>(c.outputs[1].dims, {c.outputs[1].strides}, [&](const auto& at) {
    c.outputs[1].as<int64_t>()[at[0]] = static_cast<int64_t>(all[next++].size());
  });
}

// ---- StringNormalizer ---------------------------------------------------------------------------

/// Every code point through `map`; bytes that are no UTF-8 stay as they are.
std::string map_code_points(const std::string& text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(at, left, &code);
    if (length <= 0) {
      out.push_back(static_cast<char>(*at++));
      --left;
      continue;
    }
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t written = utf8proc_encode_char(map(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(written));
    at += length;
    left -= length;
  }
  return out;
}
std::string lower(const std::string& text) {
  return map_code_points(text, utf8proc_tolower);
}

std::vector<std::string> normalise(const Node& node, const std::vector<std::string>& values) {
  const bool exact = node.attrs.get_int("is_case_sensitive", 0) != 0;
  const std::string action = node.attrs.get_string("case_change_action", "NONE");
  std::unordered_set<std::string> stops;
  for (const std::string& word : node.attrs.get_strings("stopwords"))
    stops.insert(exact ? word : lower(word));
  std::vector<std::string> out;
  for (const std::string& text : values) {
    if (stops.contains(exact ? text : lower(text))) continue;
    out.push_back(action == "LOWER"   ? lower(text)
                  : action == "UPPER" ? map_code_points(text, utf8proc_toupper)
                                      : text);
  }
  if (out.empty()) out.emplace_back();
  return out;
}

void infer_normaliser(InferContext& c) {
  check_dtype(c, 0, kStrings);
  SymDims dims = c.dims(0);
  if (dims.size() == 2)
    same_dim(dims[0], 1, "the first axis of a matrix of strings and 1");
  else
    require_rank(c, 0, 1);
  const auto values = known_strings(c);
  dims.back() = values ? Dim(static_cast<int64_t>(normalise(*c.node, *values).size()))
                       : c.fresh("StringNormalizer");
  c.set(0, DType::kString, dims);
}

void reference_normaliser(const ReferenceContext& c) {
  check_shapes(c);
  const auto kept = normalise(*c.node, string_values(c.inputs[0]));
  size_t next = 0;
  for_each_offset<1>(c.outputs[0].dims, {c.outputs[0].strides},
                     [&](const auto& at) { c.outputs[0].as<std::string>()[at[0]] = kept[next++]; });
}

// ---- RegexFullMatch -----------------------------------------------------------------------------

/// The pattern compiled, its memory bounded by RE2's default.
void compile(const Attrs& attrs, std::optional<RE2>& out) {
  RE2::Options options;
  options.set_log_errors(false);
  const std::string pattern = attrs.get_string("pattern", "");
  out.emplace(pattern, options);
  if (!out->ok())
    fail(Status::kInvalidModel, "attribute 'pattern' is no RE2 expression: {}", out->error());
}

void infer_match(InferContext& c) {
  check_dtype(c, 0, kStrings);
  std::optional<RE2> expression;
  compile(c.attrs(), expression);
  c.set(0, DType::kBool, c.dims(0));
}

void reference_match(const ReferenceContext& c) {
  std::optional<RE2> expression;
  compile(c.attrs(), expression);
  for_each_offset<2>(c.outputs[0].dims, {c.inputs[0].strides, c.outputs[0].strides},
                     [&](const auto& at) {
                       c.outputs[0].as<bool>()[at[1]] =
                           RE2::FullMatch(c.inputs[0].as<std::string>()[at[0]], *expression);
                     });
}

}  // namespace

void register_strings(OpList& ops) {
  ops.push_back({.name = "StringConcat",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .infer = infer_concat,
                 .reference = reference_concat});
  ops.push_back({.name = "StringSplit",
                 .max_outputs = 2,
                 .attrs = {{"delimiter", AttrKind::kString}, {"maxsplit", AttrKind::kInt}},
                 .infer = infer_split,
                 .reference = reference_split});
  AttrSpec action{"case_change_action", AttrKind::kString};
  action.choices = "NONE|LOWER|UPPER";
  // The locale is not looked at: case is Unicode's everywhere.
  ops.push_back({.name = "StringNormalizer",
                 .attrs = {action,
                           {"is_case_sensitive", AttrKind::kInt, false, 0, 1},
                           {"locale", AttrKind::kString},
                           {"stopwords", AttrKind::kStrings}},
                 .infer = infer_normaliser,
                 .reference = reference_normaliser});
  ops.push_back({.name = "RegexFullMatch",
                 .attrs = {{"pattern", AttrKind::kString, true}},
                 .infer = infer_match,
                 .reference = reference_match});
}

}  // namespace xc
