#pragma once
// A Bound: a segment of a plan prepared for concrete sizes. Immutable; serves any number of
// threads. It holds offsets and templates only; resolved pointers live in the run context.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "plan/plan.h"

namespace xc {

/// PointerTemplate::buffer of an operand that is absent: a null pointer.
inline constexpr uint32_t kNoBuffer = UINT32_MAX;

/// One pointer a step needs: the buffer's address in the context plus a byte offset.
struct PointerTemplate {
  uint32_t buffer = kNoBuffer;  ///< in Plan::buffers
  int64_t offset = 0;           ///< bytes from the buffer's start
};

/// A pointer that the caller's memory fills at every run.
struct PointerPatch {
  uint32_t pointer;  ///< in Bound::pointers
  uint32_t port;     ///< graph input or output
  int64_t offset;    ///< bytes
};

/// A graph output that lies exactly where a graph input does.
struct SharedPort {
  uint32_t output;
  uint32_t input;
  bool operator==(const SharedPort&) const = default;
};

/// Where an arena buffer of the segment lies.
struct ArenaSlot {
  uint32_t buffer = 0;
  int64_t offset = 0;  ///< bytes in the segment's arena
  int64_t bytes = 0;
};

struct BoundStep {
  std::shared_ptr<const BoundKernel> kernel;  ///< null for dynamic and control steps
  uint32_t step = 0;                          ///< in Plan::steps
  uint32_t count = 1;                         ///< steps of the plan that it does (plan/bands.h)
  int64_t band_rows = 0;                      ///< of several: rows of the last result in a band
  uint32_t replaceable = 0;                   ///< BindContext::replaceable it was bound with
  uint32_t first_pointer = 0;                 ///< inputs then outputs, in Bound::pointers
  /// Bound before Kernel::prepare() had ended. Kernels of several steps have nothing to prepare.
  bool unprepared = false;
};

struct Bound {
  std::shared_ptr<const Plan> plan;
  uint32_t segment = 0;
  uint64_t serial = 0;           ///< unique in the process: contexts cache what they resolved
  std::vector<int64_t> symbols;  ///< values of the first symbol_end symbols
  std::vector<int64_t> sizes;    ///< every evaluated dim and stride; spans below point here
  /// Per value of the segment (SegmentProgram::slot_of()); empty where not used in it, or handed on
  /// in bands.
  std::vector<BoundOperand> operands;
  std::vector<ArenaSlot> arena;
  std::vector<std::pair<uint32_t, Tensor>> size_tensors;  ///< kSizes buffers with their elements
  /// Buffers that a step reads, held.
  std::vector<std::pair<uint32_t, std::shared_ptr<void>>> constants;
  std::vector<BoundStep> steps;
  std::vector<PointerTemplate> pointers;
  /// Places in `pointers` of those to tensors that steps make (Storage::kDynamic), by buffer.
  std::vector<uint32_t> dynamic_pointers;
  std::vector<PointerPatch> input_patches, output_patches;
  /// Outputs that may lie where an input does, of as many bytes: the steps update it in place.
  std::vector<SharedPort> shared_ports;
  int64_t arena_bytes = 0;
  int64_t scratch_bytes = 0;  ///< per worker, the largest of any step
  int scratch_workers = 1;    ///< how many need it: one, where steps of several tasks need none
  int64_t shared_bytes = 0;   ///< of all workers, the largest of any step
  bool divided = false;       ///< a step has several tasks
  int64_t held_bytes = 0;     ///< of this object and its bound kernels
  uint32_t stand_ins = 0;     ///< kernels that are (BoundKernel::provisional)
  bool provisional = false;   ///< binding in the background gives a better one
  bool unprepared = false;    ///< a step is

  /// Whether binding again gives kernels that read weights packed since.
  bool outdated() const;
  /// Empty for a value that is not used in the segment.
  BoundOperand operand(uint32_t plan_value) const {
    const size_t slot = plan->programs[segment].slot_of(plan_value);
    return slot < operands.size() ? operands[slot] : BoundOperand{};
  }
  std::span<const int64_t> dims(uint32_t plan_value) const { return operand(plan_value).dims; }
  std::span<const int64_t> strides(uint32_t plan_value) const {
    return operand(plan_value).strides;
  }
  /// In elements from the start of the buffer; of a value used in the segment. It lies behind the
  /// strides.
  int64_t offset(uint32_t plan_value) const {
    const std::span<const int64_t> strides = this->strides(plan_value);
    return strides.data()[strides.size()];
  }
  /// What the run's scratch is at least: the shared part, then each worker's.
  int64_t all_scratch_bytes() const {
    return checked_add(align_up(shared_bytes, 64),
                       checked_mul(align_up(scratch_bytes, 64), scratch_workers));
  }
  /// What a run of the segment keeps: its arena and results.
  int64_t value_bytes() const;
};

/// What a kernel step of the plan is bound with. One serves several steps, one after the other.
struct OperandsOfStep {
  std::vector<BoundOperand> inputs, outputs;
  void set(const Bound& bound, const Step& step) {
    const Plan::SegmentProgram& program = bound.plan->programs[bound.segment];
    const auto fill = [&](const std::vector<uint32_t>& values, std::vector<BoundOperand>& to) {
      to.clear();
      to.reserve(values.size());
      for (const uint32_t v : values) {
        const size_t slot = v == kNoValue ? bound.operands.size() : program.slot_of(v);
        to.push_back(slot < bound.operands.size() ? bound.operands[slot] : BoundOperand{});
      }
    };
    fill(step.inputs, inputs);
    fill(step.outputs, outputs);
  }
};

/// Whether steps run band by band (plan/bands.h).
enum class Bands : uint8_t {
  kWhereTheyPay,
  kOff,
  kAlways,  ///< wherever it can be done, at once, in bands of few rows: for tests
};

struct BindOptions {
  bool background = false;  ///< see BindContext
  /// With `background`: kernels that come when so much time has passed since the first stay what
  /// they are in `like`, and nothing runs band by band. 0 = no end.
  double seconds = 0;
  /// Of arena, scratch and results; 0 = no cap, else kLimit before anything is allocated.
  int64_t max_bytes = 0;
  int workers = 1;  ///< that a step's tasks may run on
  Bands bands = Bands::kWhereTheyPay;
  /// Null, or a Bound for the same or other sizes: where it is of the same segment and plan,
  /// kernels of steps whose operands have the same sizes in both serve both, but for those that
  /// binding anew would better.
  const Bound* like = nullptr;
};

/// Binds segment `segment` of the plan. `symbols` are the values of its known symbols. Fails with
/// kInvalidModel/kLimit naming the step when sizes are impossible.
std::shared_ptr<const Bound> bind_segment(const std::shared_ptr<const Plan>& plan, uint32_t segment,
                                          std::vector<int64_t> symbols, const BindOptions& options);

}  // namespace xc
