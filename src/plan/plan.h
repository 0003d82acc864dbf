#pragma once
// A Plan: one graph (or subgraph) as a list of steps with one chosen kernel each. Immutable and
// symbolic in the sizes; it is shared by every signature bound to it and every thread that runs it.
//
// Values live in buffers. A view (reshape, transpose, slice, ...) is no step: it is another value
// of the same buffer with its own strides and offset.
//
// Segments. A step whose output sizes only the run can tell ends a segment: what it defines (its
// runtime symbols) is known when the next segment is bound. Plans without such steps, nearly all,
// have one segment.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/step.h"
#include "base/hash.h"
#include "ir/graph.h"

namespace xc {

/// Where a buffer's memory comes from.
enum class Storage : uint8_t {
  kInput,     ///< index = graph input; borrowed from the caller (a container: as a Tensor object)
  kConstant,  ///< the tensor held in PlanBuffer::constant
  kArena,     ///< offset in the context's arena, fixed at bind
  kOutput,    ///< index = graph output; bound or returned memory, row-major
  kSizes,     ///< shape arithmetic: small integers known once the sizes are, held by the Bound
  kDynamic,   ///< a tensor made by a dynamic step during the run, kept in the context
};

struct PlanBuffer {
  Storage storage = Storage::kArena;
  uint32_t index = 0;  ///< of the input or output
  Tensor constant;
  DType dtype = DType::kUndefined;
  Dim elements;             ///< size of an arena buffer
  std::vector<Dim> sizes;   ///< kSizes: the elements
  uint32_t segment = 0;     ///< the segment that defines it
  uint32_t first_step = 0;  ///< liveness for arena planning: defined by
  uint32_t last_step = 0;   ///< last read by; kUsedLater (liveness.h)
};

struct PlanValue {
  ValueId id = kNone;
  uint32_t buffer = 0;
  DType dtype = DType::kUndefined;  ///< undefined for sequences and optionals
  bool rank_known = true;  ///< false: only the run knows dims; then it is a whole dynamic tensor
  SymDims dims;
  SymDims strides;  ///< in elements
  Dim offset;       ///< in elements
};
inline constexpr uint32_t kNoValue = UINT32_MAX;

/// An implementation that was asked before the chosen one, and why it said no.
struct Refusal {
  std::string name;
  std::string reason;
};

/// Nodes whose operands fit together only if the sizes of a run are right. Bind asks their
/// inference again, with numbers.
struct UnprovenNodes {
  std::vector<NodeId> always;
  std::vector<NodeId> with_zeros;  ///< where a size is 0
};

struct Step {
  enum class Kind : uint8_t {
    kKernel,   ///< a kernel of a backend or a fused region
    kDynamic,  ///< sizes known only from values: inferred, allocated and run by the executor
    kControl,  ///< If, Loop, Scan over child programs
  };
  Kind kind = Kind::kKernel;
  std::string name;           ///< of the model's node(s), for messages and explain
  std::vector<NodeId> nodes;  ///< graph nodes it executes; the first is the anchor
  StepSpec spec;              ///< what the kernel was chosen for
  std::string kernel_name;    ///< "onednn.matmul", "reference", "fused cell 1a2b..."
  std::shared_ptr<Kernel> kernel;
  std::vector<Refusal> refused;
  Hash128 region;                ///< identity of a fused region; zero otherwise
  UnprovenNodes unproven;        ///< of `nodes`
  std::vector<uint32_t> inputs;  ///< PlanValue index per operand; kNoValue = absent
  std::vector<uint32_t> outputs;
};

/// A symbol of the plan and where its value comes from.
struct PlanSymbol {
  enum class Source : uint8_t { kInputDim, kInputElement, kRuntimeDim };
  std::string name;
  Source source = Source::kInputDim;
  uint32_t operand = 0;  ///< graph input, or PlanValue of the dynamic step's output
  uint32_t index = 0;    ///< axis, or flat element
};

struct Segment {
  uint32_t first_step = 0;
  uint32_t end_step = 0;
  /// Symbols [0, symbol_end) of Plan::symbols are known when this segment is bound.
  uint32_t symbol_end = 0;
};

struct Plan {
  std::shared_ptr<const Graph> graph;
  std::vector<std::shared_ptr<const Step>> steps;  ///< shared between plans of one graph
  std::vector<PlanValue> values;
  std::vector<PlanBuffer> buffers;
  std::vector<uint32_t> inputs;   ///< PlanValue per graph input
  std::vector<uint32_t> outputs;  ///< PlanValue per graph output
  std::vector<PlanSymbol> symbols;
  std::vector<Segment> segments;
  /// Concats with parts that are written where they belong (plan/in_place_concat.h). No step where
  /// all are.
  std::vector<NodeId> in_place;
  uint32_t region_steps = 0;  ///< how many steps are fused regions
  uint64_t serial = 0;        ///< 0 = base plan, then 1, 2, ... per graph

  /// What bind evaluates per segment: dims, strides and offset of every value its steps touch,
  /// sizes of its arena buffers, elements of its kSizes buffers. Positions are into the result of
  /// `dims`.
  struct SegmentProgram {
    DimProgram dims;
    std::vector<uint32_t> values;           ///< PlanValues with known rank used in the segment
    std::vector<uint32_t> value_positions;  ///< per entry of `values`: dims, then strides, offset
    std::vector<uint32_t> buffers;          ///< arena and kSizes buffers defined in the segment
    std::vector<uint32_t> buffer_positions;
    std::vector<uint32_t> buffer_values;  ///< first PlanValue of each; kNoValue = none
    /// Of `values`, those that an earlier segment uses too or that lie among such ones, ascending;
    /// the others are in [first_own, end_own). What is kept per value of a segment takes room for
    /// both, not for all values of the plan.
    std::vector<uint32_t> earlier;
    uint32_t first_own = 0, end_own = 0;
    /// Of Plan::size_checks and Plan::superseded, what this segment is the first to know the sizes
    /// of; what no segment knows all sizes of is asked by each.
    std::vector<uint32_t> size_checks;
    std::vector<NodeId> superseded;

    size_t value_slots() const { return earlier.size() + (end_own - first_own); }
    /// In [0, value_slots()), or value_slots() for a value that the segment does not use.
    size_t slot_of(uint32_t value) const {
      if (value >= first_own)
        return value < end_own ? earlier.size() + (value - first_own) : value_slots();
      const auto at = std::lower_bound(earlier.begin(), earlier.end(), value);
      return at != earlier.end() && *at == value ? static_cast<size_t>(at - earlier.begin())
                                                 : value_slots();
    }
  };
  std::vector<SegmentProgram> programs;
  /// Input dims that are not a symbol of their own, checked against the values given: the dim's
  /// expression and where it was declared.
  struct InputCheck {
    uint32_t input;
    uint32_t axis;
    Dim expected;
  };
  std::vector<InputCheck> input_checks;
  /// What inference could not prove of sizes that a run gives, the elements of an input that is a
  /// shape among them. Checked at every bind that knows both.
  struct SizeCheck {
    std::string place;         ///< of the node, for the message
    std::string_view problem;  ///< the message, a format of `given` and `wanted`
    Dim given, wanted;         ///< have to be equal
    bool broadcast = false;    ///< either may also be 1
  };
  std::vector<SizeCheck> size_checks;
  std::vector<NodeId> superseded;  ///< Graph::superseded()
};

/// The value of a symbol of the plan, given those of its first symbols; nullopt for others.
inline std::optional<int64_t> symbol_value(const Plan& plan, std::span<const int64_t> symbols,
                                           std::string_view name) {
  for (size_t k = symbols.size(); k-- > 0;)  // the latest are asked for most
    if (plan.symbols[k].name == name) return symbols[k];
  return std::nullopt;
}

}  // namespace xc
