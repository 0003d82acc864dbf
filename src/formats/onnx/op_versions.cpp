#include "formats/onnx/op_versions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/utf8.h"

namespace xc::onnx {
namespace {

struct Row {
  std::string_view domain, op, versions;
};
constexpr Row kRows[] = {
#include "formats/onnx/op_versions.inc"
#include "formats/onnx/op_versions_microsoft.inc"
};

/// Splits off the text up to `separator`.
std::string_view take(std::string_view& text, std::string_view separator) {
  const size_t end = text.find(separator);
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
  return out;
}

int number(std::string_view text) {
  int out = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  XC_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size());
  return out;
}

/// "2", "1-3" or "0-*".
void parse_arity(std::string_view text, int& low, int& high) {
  low = number(take(text, "-"));
  high = text.empty() ? low : text == "*" ? -1 : number(text);
}

AttributeType kind_from(std::string_view text) {
  constexpr std::pair<std::string_view, AttributeType> kKinds[] = {
      {"i", AttributeType::kInt},        {"f", AttributeType::kFloat},
      {"s", AttributeType::kString},     {"t", AttributeType::kTensor},
      {"g", AttributeType::kGraph},      {"st", AttributeType::kSparseTensor},
      {"tp", AttributeType::kTypeProto}, {"is", AttributeType::kInts},
      {"fs", AttributeType::kFloats},    {"ss", AttributeType::kStrings}};
  for (const auto& [key, type] : kKinds)
    if (key == text) return type;
  fail(Status::kInternal, "op_versions.inc: unknown attribute kind '{}'", text);
}

OpVersion parse_version(std::string_view text, const OpVersion* previous) {
  OpVersion out;
  out.since = number(take(text, " "));
  if (text.empty() || text == "deprecated") {
    XC_CHECK(previous);
    const int since = out.since;
    out = *previous;
    out.since = since;
    out.deprecated = !text.empty();
    return out;
  }
  parse_arity(take(text, " "), out.min_inputs, out.max_inputs);
  parse_arity(take(text, " "), out.min_outputs, out.max_outputs);
  while (!text.empty()) {
    std::string_view kind = take(text, " ");
    if (kind == "deprecated") {
      out.deprecated = true;
      continue;
    }
    const std::string_view attribute = take(kind, ":");
    const bool required = kind.ends_with('!');
    if (required) kind.remove_suffix(1);
    out.attributes.push_back({attribute, kind_from(kind), required});
  }
  return out;
}

using Key = std::pair<std::string_view, std::string_view>;

// Parsed once, immutable afterwards.
const std::map<Key, std::vector<OpVersion>>& table() {
  static const auto instance = [] {
    std::map<Key, std::vector<OpVersion>> out;
    for (const Row& row : kRows) {
      std::vector<OpVersion>& versions = out[{row.domain, row.op}];
      for (std::string_view rest = row.versions; !rest.empty();)
        versions.push_back(
            parse_version(take(rest, "; "), versions.empty() ? nullptr : &versions.back()));
      std::sort(versions.begin(), versions.end(),
                [](const OpVersion& a, const OpVersion& b) { return a.since < b.since; });
    }
    return out;
  }();
  return instance;
}

std::string shown(std::string_view domain, std::string_view op) {
  return domain.empty() ? printable(op) : printable(domain) + "." + printable(op);
}

}  // namespace

const AttributeRow* OpVersion::find(std::string_view name) const {
  for (const AttributeRow& row : attributes)
    if (row.name == name) return &row;
  return nullptr;
}

std::vector<std::pair<std::string_view, std::string_view>> standard_ops() {
  std::vector<Key> out;
  for (const auto& [key, versions] : table()) out.push_back(key);
  return out;
}

std::span<const OpVersion> op_versions(std::string_view domain, std::string_view op) {
  const auto it = table().find({domain, op});
  return it == table().end() ? std::span<const OpVersion>() : it->second;
}

const OpVersion& op_version(std::string_view domain, std::string_view op, int64_t opset) {
  const auto versions = op_versions(domain, op);
  if (versions.empty())
    fail(Status::kUnsupported,
         "operator {} is not known; if it is a custom operator, register it "
         "before the model is loaded",
         shown(domain, op));
  const OpVersion* found = nullptr;
  for (const OpVersion& version : versions)
    if (version.since <= opset) found = &version;
  if (found) return *found;
  std::string list;
  for (const OpVersion& version : versions)
    list += (list.empty() ? "" : ", ") + std::to_string(version.since);
  fail(Status::kUnsupported,
       "operator {} does not exist in opset {} (its versions are {}); re-export the model with a "
       "newer opset",
       shown(domain, op), opset, list);
}

int newest_opset(std::string_view domain) {
  if (domain.empty()) return 28;
  if (domain == "ai.onnx.ml") return 5;
  if (domain == "com.microsoft") return 1;
  if (domain == "ai.onnx.preview" || domain == "ai.onnx.preview.training") return 1;
  return 0;
}

std::string_view name(AttributeType type) {
  constexpr std::array<std::string_view, 15> kNames{
      "undefined",      "float", "int",     "string",  "tensor", "graph",
      "floats",         "ints",  "strings", "tensors", "graphs", "sparse tensor",
      "sparse tensors", "type",  "types"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace xc::onnx
