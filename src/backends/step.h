#pragma once
// What a backend is asked: "can you run this step, and how". A step is one operator (or an anchor
// with post-ops) on operands of known dtype and symbolic dims and strides.
//
// Life of a kernel: supports() -> create() once per plan -> bind() once per input signature ->
// run() per call, any number of threads at once.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "ops/op.h"
#include "ops/window.h"

namespace xc {

/// Yes, or no with a reason that `explain` prints.
struct Verdict {
  std::string reason;  ///< empty = yes
  bool yes() const { return reason.empty(); }
  static Verdict ok() { return {}; }
  static Verdict no(std::string reason) { return {std::move(reason)}; }
};

struct Operand {
  DType dtype = DType::kUndefined;  ///< kUndefined = absent
  SymDims dims;
  SymDims strides;  ///< in elements
  Tensor constant;  ///< defined when the value is a constant (weights)
  bool present() const { return dtype != DType::kUndefined; }
  bool contiguous() const;  ///< provably row-major
};

/// An elementwise function applied to the anchor's result before it is stored. Each keeps the type;
/// the last may be a Cast of f32 to halves.
struct PostOp {
  enum class Kind : uint8_t { kUnary, kBinary };
  Kind kind = Kind::kUnary;
  const OpDef* op = nullptr;  ///< Relu, Clip, Add, Mul, ...
  Attrs attrs;
  uint32_t operand = 0;      ///< kBinary: index among StepSpec::inputs, after the anchor's own
  bool anchor_first = true;  ///< kBinary: op(anchor, operand), else op(operand, anchor)
  /// kUnary: scalar constant inputs (Clip's bounds, ...), in order; undefined: absent.
  std::vector<Tensor> constants;
  /// The number that constants[k] is, if it is there.
  std::optional<double> number(size_t k) const;
};

struct StepSpec {
  const OpDef* op = nullptr;
  const Node* node = nullptr;   ///< the anchor; attributes live here. Outlives the kernel.
  std::vector<Operand> inputs;  ///< the anchor's inputs; with post-ops: all that the op could
                                ///< have (absent ones included), then the post-ops' operands
  std::vector<Operand> outputs;
  std::vector<PostOp> post_ops;
  Numerics numerics = Numerics::kTolerant;
  int threads = 1;       ///< of the engine: fixes how weights are sliced
  bool winograd = true;  ///< convolutions may share products among windows
  const Attrs& attrs() const { return node->attrs; }
  /// Whether the last post-op is a Cast of the result so far, f32, to the halves output 0 is of.
  bool narrows() const;
  /// The post-ops but for that Cast.
  std::span<const PostOp> functions() const;
  /// The step without that Cast: its result stays f32.
  StepSpec without_cast() const;
  /// The type in which the model holds both operands of a product, where that may be made use of
  /// (kHeldIn, not in strict numerics); else kUndefined.
  DType held_in() const;
  /// The type that operands of a product may be rounded to before they are multiplied: that one,
  /// in fast numerics bf16, else their own.
  DType multiplied_as() const;
};

/// Whether a product's operands may be rounded to bf16 before they are multiplied: see
/// StepSpec::multiplied_as().
bool rounds_to_bf16(const Node& product, Numerics numerics);

/// Concrete dims and strides of every operand, inputs then outputs, for one signature.
struct BoundOperand {
  std::span<const int64_t> dims;
  std::span<const int64_t> strides;
};
struct BindContext {
  std::span<const BoundOperand> inputs;
  std::span<const BoundOperand> outputs;
  /// True when this bind happens off the caller's path: creating primitives is free then.
  bool background = false;
  /// Bit k: the first output lies where input k does if the bound kernel says BoundKernel::in_place
  /// of that input alone.
  uint32_t replaceable = 0;
  /// Not empty: the result is wanted in these parts, which may overlap. See BoundKernel::by_rows.
  std::span<const RowRange> rows = {};
};

/// Arguments of one execution.
struct StepArgs {
  void* const* buffers =
      nullptr;              ///< element 0 of each operand, inputs then outputs; null = absent
  void* scratch = nullptr;  ///< of this worker, 64-byte aligned, BoundKernel::scratch_bytes
  void* shared = nullptr;   ///< of all workers of the step, likewise, BoundKernel::shared_bytes
};

/// A kernel prepared for concrete dims. Immutable; run() may be called by many threads at once.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  /// Prepares the shared memory: called once, before any task, when there is such memory. Throws
  /// like run().
  virtual void start(const StepArgs&) const {}
  /// Executes tasks [begin, end) of `tasks`. Tasks write disjoint parts of the outputs. Throws
  /// Error(kRange) for data out of range (indices).
  virtual void run(const StepArgs& args, int64_t begin, int64_t end) const = 0;
  /// Puts together what the tasks left in shared memory: called once, when all have run and there
  /// is such memory.
  virtual void finish(const StepArgs&) const {}
  void run_all(const StepArgs& args) const {
    if (shared_bytes > 0) start(args);
    run(args, 0, tasks);
    if (shared_bytes > 0) finish(args);
  }

  int64_t tasks = 1;          ///< independent parts; 1 = sequential
  int64_t scratch_bytes = 0;  ///< per worker
  int64_t shared_bytes = 0;   ///< between start(), the tasks and finish()
  /// Bit k: the first output may lie where input k does, if both lie alike and have one type: every
  /// element is read for the last time before it is written, in whatever order tasks run.
  uint32_t in_place = 0;
  /// Bit k: input k, a constant, is not read when this runs (it is packed): null then.
  uint32_t unread = 0;
  /// Bit k: input k, a constant, may lie at an address that is no multiple of its type's size.
  uint32_t any_address = 0;
  /// Its tasks are BindContext::rows of one image (the first axis) after the other: task n *
  /// rows.size() + i touches no other rows of the result, of the first operand none but those that
  /// the windows of these reach, in images of more than one row, and no other image.
  bool by_rows = false;
  /// It takes memory from the system in every run.
  bool allocates = false;
  /// A slower stand-in: binding again with BindContext::background gives a better one.
  bool provisional = false;
  /// Bytes held by this object (primitives, templates), for the cache's byte cap.
  int64_t held_bytes = 256;
};

/// In which order an operand's elements lie. Channels-last is an ordinary strided tensor whose axis
/// 1 is innermost (NHWC for a rank-4 NCHW value): there is no opaque layout. Every kernel takes
/// every stride its supports() accepted; some run fastest with one order, because they convert
/// otherwise.
enum class Order : uint8_t {
  kAny,  ///< dense in any order of axes runs equally fast (elementwise); follow the inputs
  kRowMajor,
  kChannelsLast,
};

/// One implementation of one step, weights included.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// What it returns keeps nothing of the context.
  virtual std::shared_ptr<const BoundKernel> bind(const BindContext& context) const = 0;
  /// Whether what it binds heeds BindContext::rows, where operands lie channels-last.
  virtual bool takes_rows() const { return false; }
  /// Expensive one-time preparation (packing weights). Called at most once, possibly on a
  /// background thread while bound kernels made earlier run; bind() works before and after it.
  virtual void prepare() {}
  /// True when prepare() has work to do and kernels bound afterwards would differ; false from its
  /// end on. Any thread.
  virtual bool wants_prepare() const { return false; }
  /// A kernel of the same step that takes less time the more elements of its first operand are
  /// zero, with the same results but for rounding; null: there is none. Slow, for a background
  /// thread; after prepare().
  virtual std::shared_ptr<Kernel> skipping_zeros() const { return nullptr; }
  /// Whether skipping_zeros() may give one.
  virtual bool may_skip_zeros() const { return false; }
};

/// A row of a backend's ordered list for an op. The first row whose supports() says yes is chosen.
struct Implementation {
  std::string_view name;  ///< "onednn.matmul", "xc.elementwise", "reference"
  std::string_view op;    ///< op name; "*" = every op, "::" = every one of the host
  Verdict (*supports)(const StepSpec& spec);
  std::unique_ptr<Kernel> (*create)(const StepSpec& spec);
  /// Orders this implementation is fastest with, inputs then outputs; null = row-major. The planner
  /// gives values channels-last strides by it (plan/layout.h).
  std::vector<Order> (*preferred)(const StepSpec& spec) = nullptr;
  /// The type it rounds a product's operands to: asked only where that may be. Unset: it does not.
  std::optional<DType> multiplies = {};
  /// Whether it reads and writes a part of a larger value (gaps between its rows) as fast as a
  /// dense one although it prefers an order.
  bool takes_gaps = false;
  bool asked_about(const StepSpec& spec) const {
    return !multiplies || *multiplies == spec.multiplied_as();
  }
};

}  // namespace xc
