#include "formats/onnx/scope.h"

#include "base/utf8.h"

namespace xc::onnx {

ValueId Scope::lookup(std::string_view name) {
  if (name.empty()) return kNone;
  if (const auto it = names.find(name); it != names.end()) return it->second;
  if (!parent) fail(Status::kInvalidModel, "value '{}' is not defined", printable(name));
  const ValueId outer = parent->lookup(name);
  return parent->graph == graph ? outer : capture(name, outer);
}

ValueId Scope::capture(std::string_view name, ValueId outer) {
  if (outer == kNone) return names[name] = kNone;
  const Value& value = parent->graph->value(outer);
  const std::string inner_name = graph->fresh_name(value.name);
  if (value.is_constant()) return names[name] = graph->add_constant(inner_name, value.constant);
  const ValueId inner = graph->add_input(inner_name, value.type);
  captures.push_back({outer, inner});
  return names[name] = inner;
}

bool Scope::made(std::string_view name) const {
  return names.contains(name) ? !ahead.contains(name) : parent && parent->made(name);
}

void Scope::check_unused(std::string_view name) const {
  check_new(name);
  if (parent && parent->made(name))
    fail(Status::kInvalidModel, "value '{}' is defined twice", printable(name));
}

void Scope::define(std::string_view name, ValueId id) {
  check_unused(name);
  names.emplace(name, id);
}

void Scope::check_new(std::string_view name) const {
  if (names.contains(name))
    fail(Status::kInvalidModel, "value '{}' is defined twice", printable(name));
}

std::vector<ValueId> join_captures(const std::vector<Scope*>& subgraphs) {
  std::vector<ValueId> all;
  std::unordered_map<ValueId, size_t> index;
  for (const Scope* scope : subgraphs)
    for (const Scope::Capture& c : scope->captures)
      if (index.emplace(c.outer, all.size()).second) all.push_back(c.outer);

  for (Scope* scope : subgraphs) {
    std::vector<ValueId> inner(all.size(), kNone);
    for (const Scope::Capture& c : scope->captures) inner[index.at(c.outer)] = c.inner;
    Graph& graph = *scope->graph;
    graph.inputs.resize(graph.inputs.size() - scope->captures.size());
    std::vector<ValueId> inputs = graph.inputs;
    for (size_t i = 0; i < all.size(); ++i) {
      if (inner[i] == kNone) {
        const Value& outer = scope->parent->graph->value(all[i]);
        inner[i] = graph.add_input(graph.fresh_name(outer.name), outer.type);
      }
      inputs.push_back(inner[i]);
    }
    graph.inputs = std::move(inputs);
  }
  return all;
}

}  // namespace xc::onnx
