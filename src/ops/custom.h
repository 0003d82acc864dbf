#pragma once
// Operators of the host. An operator is declared by one line of text, its signature, and is carried
// out by a function of the host, or stands for what the host's rewrite rules put in its place, or
// both. To everything else it is an OpDef like any other, whose name is written with its domain
// ("acme::Scale"), so that nothing that asks for an operator of the standard by name takes it for
// one; op_name() gives the short name.
//
//   [pure] domain::Name(input, ...) [{attribute, ...}] -> output, ... [where T: f32|f64, ...]
//
// Sizes in inputs bind the names that sizes of outputs are written in; include/xc/operator.h has
// the grammar.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_ref.h"
#include "ops/op.h"
#include "ops/support.h"

namespace xc {

class OpCall;
/// Carries out one execution. Throws Error; may be called from several threads at once.
using HostFunction = std::function<void(OpCall&)>;

/// An input or output of a signature.
struct CustomPort {
  enum class Count : uint8_t { kOne, kOptional, kAny };  ///< x, x?, x* (any number, inputs only)
  std::string name;
  std::string type;  ///< as written, for messages: "f32[n, 2*m]"
  Count count = Count::kOne;
  TypeSet types = 0;          ///< that it may have
  uint32_t variable = kNone;  ///< the type variable it is written with, by number
  bool any_rank = false;      ///< [*]: nothing is said about dims
  bool spread = false;        ///< [..., n]: any dims in front, the same wherever `...` stands
  std::vector<std::optional<Dim>> dims;  ///< nullopt = ?: not said, or found by the function
};

struct CustomAttr {
  std::string name;
  AttrKind kind = AttrKind::kInt;
  bool optional = false;          ///< may be missing without a default
  std::optional<Attr> otherwise;  ///< the default
};

struct CustomSignature {
  std::string name;    ///< with its domain
  std::string domain;  ///< never one of the standard's or ours
  bool pure = false;   ///< equal inputs give equal outputs, and nothing else happens
  std::vector<CustomPort> inputs, outputs;
  std::vector<CustomAttr> attrs;
  uint32_t variables = 0;  ///< type variables

  /// The port of input i of a node: the last one may stand for any number.
  const CustomPort& input(size_t i) const { return inputs[std::min(i, inputs.size() - 1)]; }
  /// True when only the function tells the dims of some output.
  bool sizes_open() const;
};

/// Fails with kFormat and "line 1, column C".
CustomSignature parse_signature(std::string_view text);

struct CustomOp : OpDef {
  CustomOp(CustomSignature parsed, HostFunction does);
  CustomOp(const CustomOp&) = delete;  // OpDef points into the signature
  CustomOp& operator=(const CustomOp&) = delete;

  const CustomSignature signature;
  const HostFunction function;  ///< empty: rules put something in its place
  /// The default of an attribute that a node leaves out; null when there is none.
  const Attr* default_of(std::string_view attr) const;
};

/// The operator of the host behind an OpDef; null for the standard's and our own.
const CustomOp* as_custom(const OpDef& op);

/// A set of the host's operators. Immutable and safe to share once it is built; whoever holds a
/// graph with its operators holds it.
class OpLibrary {
 public:
  /// Fails with kFormat (where = position in the line) and kInvalidArgument (declared twice).
  const CustomOp& add(std::string_view signature, HostFunction function);
  const CustomOp* find(std::string_view name, std::string_view domain) const;
  bool owns(const OpDef& op) const;
  const std::vector<std::unique_ptr<CustomOp>>& ops() const { return ops_; }

 private:
  std::vector<std::unique_ptr<CustomOp>> ops_;
};

/// Checks that the host's operators of a graph, bodies included, are of this library (null = none)
/// and can be executed: fails with kInvalidArgument or kUnsupported at the node.
void check_custom_ops(const Graph& graph, const OpLibrary* library);

/// One execution as the function sees it: row-major inputs and outputs. Lives during the call, one
/// thread's.
class OpCall {
 public:
  /// Outputs lie in the memory of `outputs`, whose dims are those inferred; false = not wanted.
  OpCall(const Node& node, std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  /// The function makes the outputs; `declared` are the types inferred. Wanted ones go to `made`.
  OpCall(const Node& node, std::span<const TensorView> inputs, std::span<const Type> declared,
         std::span<Tensor> made);

  /// Calls the function; fails with what it throws, and when it left a wanted output out.
  void run();

  const Node& node() const { return node_; }
  const CustomOp& op() const { return op_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return node_.outputs.size(); }
  /// False where the input is absent; fails with kInvalidArgument beyond the signature.
  TensorView input(size_t i) const;
  bool wants(size_t k) const;
  /// Memory of output k, whose dims are known: to be filled. Fails with kInvalidArgument when it is
  /// not wanted, or when only the function knows its dims.
  TensorView output(size_t k);
  /// The same for dims found by the function; fails when they disagree with the signature.
  TensorView allocate(size_t k, const Dims& dims);
  /// The attribute or its default; null when it has neither. Fails with kNotFound (not declared)
  /// and kInvalidArgument (another kind).
  const Attr* attr(std::string_view name, AttrKind kind) const;

 private:
  const CustomPort& port(size_t k) const;  ///< of output k; fails when it is not wanted
  const Node& node_;
  const CustomOp& op_;
  std::span<const TensorView> inputs_;
  std::span<const TensorView> outputs_;
  std::span<const Type> declared_;
  std::span<Tensor> made_;
  uint64_t taken_ = 0;  ///< bit k: output k was asked for
};
inline constexpr size_t kMaxCustomPorts = 64;

}  // namespace xc
