#pragma once
// Names while a graph is being built: which value a name of the file means where it stands.

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "formats/onnx/attributes.h"
#include "formats/onnx/type_hints.h"
#include "ir/graph.h"

namespace xc::onnx {

/// The body of a graph or of an inlined function.
///
/// A subgraph has a graph of its own and sees the names of its parent: what it takes from there
/// becomes an explicit input (`captures`), constants excepted, which it shares. A subgraph that is
/// written out, in the graph of its parent, captures nothing. A function body adds to the graph of
/// its caller too and sees only its own names.
struct Scope {
  Graph* graph = nullptr;
  TypeHints* hints = nullptr;
  Scope* parent = nullptr;  ///< of a subgraph
  const Opsets* opsets = nullptr;
  const AttributeEnvironment* environment = nullptr;  ///< inside of a function
  std::string prefix;  ///< of value and node names inside of a function
  std::unordered_map<std::string_view, ValueId> names;  ///< kNone = an absent optional value
  /// Those of them that nodes give which are still to come.
  std::unordered_set<std::string_view> ahead;

  struct Capture {
    ValueId outer = kNone, inner = kNone;
  };
  std::vector<Capture> captures;

  /// The value of a name; kNone for "" and for absent optional values. Fails with kInvalidModel for
  /// a name that is not defined here or around.
  ValueId lookup(std::string_view name);
  /// Defines a name, which must pass check_unused().
  void define(std::string_view name, ValueId id);
  /// Fails when the name is defined here, or around it by what stands before the subgraph. What
  /// nodes around it give later (or that of the subgraph) it hides.
  void check_unused(std::string_view name) const;
  /// Fails when the name is defined here. Inputs and weights of a subgraph hide what has their name
  /// around it.
  void check_new(std::string_view name) const;

 private:
  bool made(std::string_view name) const;
  ValueId capture(std::string_view name, ValueId outer);
};

/// Makes the captures of the subgraphs of one node the same list, in the same order, at the end of
/// each subgraph's inputs. Returns the outer values.
std::vector<ValueId> join_captures(const std::vector<Scope*>& subgraphs);

}  // namespace xc::onnx
