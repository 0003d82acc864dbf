// One function per kind of operator that changes dims by numbers it is given: each adds what must
// hold where inference has no proof of it. What the dims say by themselves is no check.
#include "plan/size_checks.h"

#include <algorithm>
#include <string_view>

#include "ir/place.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "ops/support.h"

namespace xc {
namespace {

using Checks = std::vector<Plan::SizeCheck>;

void add_check(Checks& checks, const Graph& graph, const Node& node, std::string_view problem,
               const Dim& given, const Dim& wanted, bool broadcast = false) {
  checks.push_back({node_place(graph, node), problem, given, wanted, broadcast});
}

/// Operators that change dims alone: the number of elements stays.
void check_reshape(Checks& checks, const Graph& graph, const Node& node) {
  const auto& given = graph.value(node.inputs[0]).type.dims;
  const auto& wanted = graph.value(node.outputs[0]).type.dims;
  if (given && wanted && !(element_count(*given) == element_count(*wanted)))
    add_check(checks, graph, node, "{} elements cannot become {}", element_count(*given),
              element_count(*wanted));
  // -1 is the least an element may be; of no elements any other would do.
  if (const auto shape = node.op->name == "Reshape" ? known_elements(graph, node, 1) : std::nullopt)
    for (const Dim& e : *shape)
      if (!e.is_constant() && e.lower_bound().value_or(-2) < -1)
        add_check(checks, graph, node, "an element of the shape must be at least {}, not {}",
                  max(e, Dim(-1)), e);
}

/// The parts of a Split are its axis: no more, or a view would read behind it.
void check_split(Checks& checks, const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims) return;
  const Dim& axis = (*dims)[normalise_axis(node.attrs.get_int("axis", 0), dims->size())];
  if (node.attrs.get_int("even", 0) != 0) {
    const Dim parts(static_cast<int64_t>(node.outputs.size()));
    const Dim equal = floor_div(axis, parts) * parts;
    if (!(equal == axis))
      add_check(checks, graph, node, "equal parts of {} together, the axis has {}", equal, axis);
    return;
  }
  const auto sizes = known_elements(graph, node, 1);
  if (!sizes) return;
  Dim total = 0;
  for (const Dim& size : *sizes) {
    total = total + size;
    if (!size.is_constant() && size.lower_bound().value_or(-1) < 0)
      add_check(checks, graph, node, "a part must have at least {} elements, not {}",
                max(size, Dim(0)), size);
  }
  if (!(total == axis))
    add_check(checks, graph, node, "parts of {} together, the axis has {}", total, axis);
}

/// A number wins over a size that is none, be it the dim or the element of the shape, and so may
/// one of two sizes: a cut of the other.
void check_expand(Checks& checks, const Graph& graph, const Node& node) {
  constexpr std::string_view kBroadcast = "dims {} and {} do not broadcast";
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  const auto shape = known_elements(graph, node, 1);
  if (!dims || !shape) return;
  for (size_t k = 1; k <= std::min(dims->size(), shape->size()); ++k) {
    const Dim& own = (*dims)[dims->size() - k];
    const Dim& asked = (*shape)[shape->size() - k];
    if (own.is_constant() && !asked.is_constant() && own != Dim(1))
      add_check(checks, graph, node, kBroadcast, asked, own, true);
    if (asked.is_constant() && !own.is_constant() && asked != Dim(1))
      add_check(checks, graph, node, kBroadcast, own, asked, true);
    if (!asked.is_constant() && !own.is_constant() && asked != own)
      add_check(checks, graph, node, kBroadcast, own, asked, true);
  }
}

}  // namespace

UnprovenNodes unproven_nodes(const Graph& graph, std::span<const NodeId> nodes) {
  UnprovenNodes out;
  for (const NodeId id : nodes) {
    const SizeProof proof = proof_of_sizes(graph, graph.node(id));
    if (proof == SizeProof::kNone) out.always.push_back(id);
    if (proof == SizeProof::kAboveZero) out.with_zeros.push_back(id);
  }
  return out;
}

std::vector<Plan::SizeCheck> size_checks(const Graph& graph) {
  Checks checks;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.op->domain.empty()) continue;
    if (node.op->name == "Reshape" || node.op->name == "Squeeze")
      check_reshape(checks, graph, node);
    if (node.op->name == "Split") check_split(checks, graph, node);
    if (node.op->name == "Expand") check_expand(checks, graph, node);
  }
  return checks;
}

}  // namespace xc
