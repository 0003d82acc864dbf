#include "runtime/op_table.h"

#include <algorithm>
#include <set>

#include "backends/step.h"
#include "base/json_writer.h"
#include "formats/onnx/op_versions.h"
#include "ir/op_ref.h"
#include "ops/expansion.h"
#include "ops/input_types.h"
#include "ops/registry.h"

namespace xc {

namespace {

constexpr std::string_view kTraining = "ai.onnx.preview.training";

std::vector<std::string> names_of(TypeSet set) {
  std::vector<std::string> out;
  for (int k = 1; k < kDTypeCount; ++k)
    if (contains(set, static_cast<DType>(k))) out.emplace_back(xc::name(static_cast<DType>(k)));
  return out;
}

std::vector<std::string> implementations(const Backend& backend, const OpDef& op) {
  std::vector<std::string> out;
  if (op.control_flow || (op.evaluate && !op.reference)) return {"runtime"};
  if (op.reference == reference_by_expansion) return {"expanded"};
  for (const Implementation& row : backend.implementations()) {
    if (row.op != op.name && (row.op != "*" || !op.reference)) continue;
    if (std::find(out.begin(), out.end(), row.name) == out.end()) out.emplace_back(row.name);
  }
  if (out.empty() && op.expand) out.emplace_back("expanded");
  return out;
}

std::string fusion_of(const OpDef& op) {
  if (op.scalar) return "elementwise";
  if (op.reduction) return "reduction";
  if (op.view) return "view";
  if (op.expand) return "composite";
  return op.name == "MatMul" && op.domain.empty() ? "product" : "";
}

OpSupport support_of(const Backend& backend, std::string_view domain, std::string_view name) {
  OpSupport out{std::string(domain), std::string(name), {}, 0, {}, {}, {}};
  for (const onnx::OpVersion& version : onnx::op_versions(domain, name))
    if (version.deprecated)
      out.deprecated_since = version.since;
    else
      out.versions.push_back(version.since);
  const OpDef* op = find_op(name, domain);
  if (!op) {
    if (domain != kTraining) out.implementations = {"import"};
    return out;
  }
  for (const TypeSet set : input_types(*op)) out.input_types.push_back(names_of(set));
  out.implementations = implementations(backend, *op);
  out.fusion = fusion_of(*op);
  return out;
}

/// Sets that occur often, by name; the others as a list.
std::string short_text(const std::vector<std::string>& types) {
  static const std::vector<std::pair<TypeSet, const char*>> groups{
      {kAnyType, "any"},
      {kAnyType & ~type_set({DType::kC64, DType::kC128}), "any but complex"},
      {kAnyType & ~type_set({DType::kString}), "any but string"},
      {kNumbers | kBools, "numbers, bool"},
      {kNumbers, "numbers"},
      {kFloats, "floats"},
      {kInts, "integers"}};
  for (const auto& [set, text] : groups)
    if (names_of(set) == types) return text;
  return fmt::format("{}", fmt::join(types, " "));
}

std::string types_text(const OpSupport& op) {
  std::vector<std::string> each;
  for (const auto& types : op.input_types) each.push_back(short_text(types));
  while (each.size() > 1 && each.back() == each[each.size() - 2]) each.pop_back();
  return fmt::format("{}", fmt::join(each, "; "));
}

std::string versions_text(const OpSupport& op) {
  std::string out = fmt::format("{}", fmt::join(op.versions, " "));
  if (op.deprecated_since != 0) out += fmt::format(" (until {})", op.deprecated_since);
  return out;
}

}  // namespace

std::vector<OpSupport> op_table(const Backend& backend) {
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const auto& standard : onnx::standard_ops()) names.insert(standard);
  for (const OpDef* op : all_ops()) names.insert({op->domain, op_name(*op)});
  std::vector<OpSupport> out;
  for (const auto& [domain, name] : names) out.push_back(support_of(backend, domain, name));
  return out;
}

std::string op_table_text(const Backend& backend, bool json) {
  const std::vector<OpSupport> rows = op_table(backend);
  if (json) {
    JsonWriter out(1);
    out.array(rows, [&](const OpSupport& op) {
      out.object([&] {
        out.field("domain", op.domain);
        out.field("name", op.name);
        out.field("versions", op.versions);
        out.field("deprecated_since", op.deprecated_since);
        out.field("input_types", op.input_types);
        out.field("implementations", op.implementations);
        out.field("fusion", op.fusion);
      });
    });
    return out.take() + "\n";
  }
  std::string out =
      "| operator | versions | types of its inputs | implementations | fuses as |\n"
      "|---|---|---|---|---|\n";
  for (const OpSupport& op : rows)
    out += fmt::format("| {}{}{} | {} | {} | {} | {} |\n", op.domain, op.domain.empty() ? "" : ".",
                       op.name, versions_text(op), types_text(op),
                       op.implementations.empty()
                           ? std::string("none")
                           : fmt::format("{}", fmt::join(op.implementations, ", ")),
                       op.fusion);
  return out;
}

}  // namespace xc
