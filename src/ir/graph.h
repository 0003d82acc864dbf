#pragma once
// Graph IR: a model as typed values and nodes in single-assignment form.
//
// Invariants (checked by verify.h):
// - Every value has exactly one definition: a graph input, a constant, or one output of one node.
// - Nodes are in an order in which definitions come before uses.
// - A subgraph (body of If, Loop, Scan) sees only its own values. What it takes from outside is
//   passed explicitly: the captured values come last among the node's inputs and, in the same
//   order, last among the inputs of EACH of its subgraphs; `capture_count` says how many they are.
// - Every op means one internal version of itself; front ends normalise (see ops/op.h).
// - Types are inferred (ops/infer.h); a front end may leave dims it does not know.
//
// Edits go through Patch (patch.h) only. A finished Graph is immutable and shared between threads.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/attrs.h"
#include "tensor/dim.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace xc {

struct OpDef;  // ops/op.h
class Graph;

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;  ///< absent optional input/output; no producer

/// Type of a value. Containers nest: sequence(tensor f32), optional(...).
struct Type {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kMap };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kUndefined;      ///< of the tensor; of the key for a map
  std::optional<SymDims> dims;          ///< nullopt = unknown rank
  std::shared_ptr<const Type> element;  ///< of a container

  static Type tensor(DType dtype, std::optional<SymDims> dims = std::nullopt) {
    return {Kind::kTensor, dtype, std::move(dims), nullptr};
  }
  /// Element type of a value's memory; containers have none of their own.
  DType memory_dtype() const { return kind == Kind::kTensor ? dtype : DType::kUndefined; }
  bool known() const { return kind != Kind::kTensor || (dtype != DType::kUndefined && dims); }
  std::string text() const;  ///< "f32[n, 3072]", "f32[*]" for unknown rank, "seq(f32[*])"
  friend bool operator==(const Type& a, const Type& b);
};

struct Value {
  std::string
      name;  ///< unique in its graph; of the model where it had one. Graph::rename changes it
  Type type;
  NodeId producer = kNone;
  uint32_t output_index = 0;
  bool is_input = false;
  Tensor constant;  ///< defined for constants
  /// Elements of a small integer tensor as symbolic numbers, row-major, when inference knows them
  /// (shape arithmetic). At most kMaxKnownElements.
  std::optional<std::vector<Dim>> elements;
  bool is_constant() const { return static_cast<bool>(constant); }
};
inline constexpr int64_t kMaxKnownElements = 1024;

struct Node {
  const OpDef* op = nullptr;
  std::string name = {};              ///< of the model, or derived; for messages and explain
  std::vector<ValueId> inputs = {};   ///< kNone where an optional input is absent
  std::vector<ValueId> outputs = {};  ///< kNone where an optional output is not wanted
  Attrs attrs = {};
  std::vector<std::shared_ptr<Graph>> subgraphs = {};  ///< If: then, else. Loop, Scan: body.
  uint32_t capture_count = 0;
  std::string made_by = {};  ///< label of the patch that made it; empty for the model's own
  bool alive = true;
  /// No longer alive, but what it asks of the sizes of a run holds: see Patch::supersede().
  bool superseded = false;
};

/// The outputs of a graph in order; a value may be there twice. Knows in constant time which values
/// they are, so elements change through it alone.
class GraphOutputs {
 public:
  GraphOutputs& operator=(std::vector<ValueId> ids) {
    members_ = {ids.begin(), ids.end()};
    ids_ = std::move(ids);
    return *this;
  }
  void push_back(ValueId id) {
    members_.insert(id);
    ids_.push_back(id);
  }
  void clear() { *this = std::vector<ValueId>(); }

  operator const std::vector<ValueId>&() const { return ids_; }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  ValueId operator[](size_t k) const { return ids_[k]; }
  bool contains(ValueId id) const { return members_.count(id) != 0; }

 private:
  std::vector<ValueId> ids_;
  std::unordered_set<ValueId> members_;
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  std::string name;
  std::vector<ValueId> inputs;
  GraphOutputs outputs;

  // Construction (front ends, tests). Ids and references to values and nodes are stable; removed
  // nodes leave a dead slot. An empty name gets a fresh one; a name used twice fails
  // (kInvalidModel).
  ValueId add_input(std::string name, Type type);
  ValueId add_constant(std::string name, Tensor tensor);
  /// A value without definition yet; give it to a node as output.
  ValueId add_value(std::string name, Type type = {});
  /// Appends a node. Output values become defined by it; a value defined twice fails.
  NodeId add_node(Node node);
  /// A node with `output_count` new values named after the node.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, uint32_t output_count,
                  Attrs attrs = {}, std::string name = {});

  const Value& value(ValueId id) const { return values_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  uint32_t value_count() const { return static_cast<uint32_t>(values_.size()); }
  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size()); }  ///< slots
  /// Live nodes in execution order.
  const std::vector<NodeId>& order() const { return order_; }
  void set_order(std::vector<NodeId> order) { order_ = std::move(order); }

  /// Nodes that others stand for (Patch::supersede()), with what they read and gave.
  std::vector<NodeId> superseded() const;

  std::optional<ValueId> find_value(std::string_view name) const;
  /// Fails with kInvalidModel when another value has that name.
  void rename(ValueId id, std::string name);
  /// Nodes that read each value (a node twice if it reads it twice), without graph outputs.
  std::vector<std::vector<NodeId>> users() const;
  /// The node that alone reads a value, and once; kNone where there is none, or the value is an
  /// output. `users`: what users() gave.
  NodeId only_user(const std::vector<std::vector<NodeId>>& users, ValueId value) const {
    return users[value].size() == 1 && !is_output(value) ? users[value][0] : kNone;
  }
  bool is_output(ValueId id) const { return outputs.contains(id); }
  /// A name not used by any value yet, starting with `stem`.
  std::string fresh_name(const std::string& stem);

  /// Sorts `order` topologically: nodes stay where they are but for those that must come earlier
  /// for a user. Fails with kInvalidModel naming a node of a cycle. Linear in nodes and inputs.
  void sort();
  /// A deep copy, subgraphs included; tensors are shared.
  Graph clone() const;

 private:
  friend class Patch;
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  ValueId new_value(std::string name, Type type);
  NodeId new_node(Node node);  ///< add_node without a place in the order

  std::deque<Value> values_;  // deques: references stay valid while a pass adds
  std::deque<Node> nodes_;
  std::vector<NodeId> order_;
  std::unordered_map<std::string, ValueId, NameHash, std::equal_to<>> by_name_;
  std::unordered_map<std::string, uint64_t, NameHash, std::equal_to<>> next_suffix_;  // per stem
};

}  // namespace xc
