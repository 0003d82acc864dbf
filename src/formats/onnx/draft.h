#pragma once
// A node on its way from the version the file means to the newest one.

#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/type_hints.h"
#include "ir/graph.h"

namespace xc::onnx {

/// Attributes with one entry.
Attrs with(std::string name, Attr value);

struct Draft {
  Graph& graph;
  TypeHints& hints;
  std::string op;
  std::string domain;
  int version = 0;  ///< since_version of the op that the file means
  std::string name;
  std::vector<ValueId> inputs, outputs;
  Attrs attrs;
  std::vector<std::shared_ptr<Graph>> subgraphs;
  uint32_t capture_count = 0;
  /// The version that needs no such conversion as the one at work; 0: every version needs it.
  int newer = 0;
  /// Set when the outputs have their node already and nothing is left to add.
  bool finished = false;

  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  void set_input(size_t i, ValueId id) {
    if (inputs.size() <= i) inputs.resize(i + 1, kNone);
    inputs[i] = id;
  }
  bool wants_output(size_t i) const { return i < outputs.size() && outputs[i] != kNone; }
  /// Removes an attribute and returns it, null when it was not given.
  std::optional<Attr> take(std::string_view attribute);
  std::optional<std::vector<int64_t>> take_ints(std::string_view attribute);
  int64_t take_int(std::string_view attribute, int64_t otherwise);
  double take_float(std::string_view attribute, double otherwise);

  // New constants and nodes, named after this one.
  ValueId constant(Tensor tensor);
  ValueId ints(const std::vector<int64_t>& values) { return constant(Tensor::of(values)); }
  /// A scalar of the dtype of `like`, exact: converted now when the dtype is known, at run time
  /// otherwise.
  ValueId scalar_like(double value, ValueId like);
  /// Adds a node of the newest version with one new output.
  ValueId emit(std::string_view op_name, std::vector<ValueId> node_inputs, Attrs node_attrs = {});
  /// Adds the node that defines this draft's outputs.
  void finish(std::string_view op_name, std::vector<ValueId> node_inputs, Attrs node_attrs,
              std::vector<ValueId> node_outputs);
  /// Adds this draft itself with other outputs, for a conversion that works on what comes out; the
  /// new values are returned, kNone where the draft has none.
  std::vector<ValueId> emit_self();
  /// Fails with kUnsupported: what cannot be converted and what to do.
  [[noreturn]] void unsupported(std::string_view what) const;
};

}  // namespace xc::onnx
