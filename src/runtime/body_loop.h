#pragma once
// The body of a Loop or Scan over its iterations. Its context is leased once; its signature is
// looked up again only while sizes change; carried states are updated in place where the plan does
// so, or alternate between two memories; what is stacked is written where it belongs. An iteration
// of a body whose sizes stay allocates nothing.

#include <deque>
#include <optional>
#include <vector>

#include "base/memory_budget.h"
#include "runtime/output_pool.h"
#include "runtime/program.h"

namespace xc {

/// Equal tensors, one per iteration, stacked along a new axis as they are made.
class Stack {
 public:
  /// `output`: of the body, which knows it as `type`. `expected`: the number of iterations where it
  /// is known. `backwards`: the first iteration makes the last part; needs `expected`.
  /// Memory is charged to `budget`, unless that is null.
  Stack(uint32_t output, int64_t axis, bool backwards, std::optional<int64_t> expected, Type type,
        MemoryBudget* budget)
      : output_(output),
        axis_(axis),
        backwards_(backwards),
        expected_(expected),
        type_(std::move(type)),
        budget_(budget) {}
  ~Stack();
  Stack(Stack&&) = delete;

  uint32_t output() const { return output_; }  ///< of the body
  /// A handle through which the next iteration may write its part, `place_offset()` bytes into its
  /// memory; null when the sizes of the part are not known before it is made.
  xc_tensor* place();
  bool is_place(const xc_tensor* handle) const { return handle == &part_; }
  int64_t place_offset() const;
  /// The next iteration made its part: in the place it was given, or elsewhere. Memory of the whole
  /// comes from `pool`.
  void add(const xc_tensor& part, OutputPool& pool);
  /// The whole.
  Tensor finish(const Engine& engine);

 private:
  /// For how many parts memory is taken next.
  int64_t next_capacity() const;
  void reserve(OutputPool& pool);

  uint32_t output_;
  int64_t axis_;
  bool backwards_;
  std::optional<int64_t> expected_;
  Type type_;
  MemoryBudget* budget_;
  int64_t count_ = 0, capacity_ = 0;
  bool in_place_ = false;  ///< kernels write the parts, and know their sizes before
  int64_t part_bytes_ = 0;
  xc_tensor* whole_ = nullptr;  ///< row-major, of `capacity_` parts along its first axis
  xc_tensor part_;              ///< the first part in there: the dims of all
};

class BodyLoop {
 public:
  /// Which inputs and outputs of the body are its states: `count` in a row from these on.
  struct States {
    size_t input = 0, output = 0, count = 0;
  };
  /// `inputs`: of the first iteration, in the body's order. They are only read.
  BodyLoop(Program& owner, const Node& node, const RunOptions& options, std::vector<Tensor> inputs,
           States states);
  ~BodyLoop();
  BodyLoop(const BodyLoop&) = delete;
  BodyLoop& operator=(const BodyLoop&) = delete;

  /// Output `output` of every iteration becomes a part of a stack: see Stack.
  void stack(size_t output, int64_t axis, bool backwards, std::optional<int64_t> expected);
  /// Input `input` is one slice along `axis` of what was given for it in every iteration: in rising
  /// order, or backwards.
  void slice(size_t input, int64_t axis, bool backwards);
  /// An input whose memory the caller changes between iterations.
  template <class T>
  T& scalar(size_t input) {
    return *inputs_[input].as<T>();
  }

  void iterate();
  /// An output of the last iteration that is neither state nor stacked.
  const Tensor& output(size_t index) const;
  /// States, then stacks in the order they were declared. States of no iteration are copied.
  std::vector<Tensor> finish();

 private:
  struct Result {
    uint32_t output = 0;
    std::optional<size_t> input;  ///< that it is in the next iteration
    xc_tensor* current = nullptr;
    xc_tensor* spare = nullptr;  ///< where the next iteration writes
    bool in_place = false;       ///< unless it may write what it reads
  };
  struct Slice {
    size_t input = 0;
    Tensor whole;
    int64_t offset = 0,
            step = 0;    ///< of the next slice in the whole, and to the one after it: bytes
    Dims dims, strides;  ///< of a slice as it lies in the whole
    Tensor staged;       ///< its row-major copy; undefined where it is row-major already
  };
  void set_input(size_t index, const Tensor& tensor);
  void look_up();
  /// Whether the signature at hand passed through lately, and comes again.
  bool passed_before();
  void move_slices();
  void take_results();
  /// Which states the plan in use updates in place.
  void find_updated();
  /// What the run holds for states from here on.
  void charge_states();

  Program& owner_;
  const Node& node_;
  const RunOptions& options_;
  const Graph& body_;
  std::vector<Tensor> inputs_;
  std::vector<TensorView> views_;
  std::vector<void*> data_;
  std::vector<Result> results_;
  std::deque<Stack> stacks_;
  std::deque<Slice> slices_;       // views_ point into them
  std::vector<xc_tensor*> slots_;  ///< per output; what is not null outside a run is ours
  std::vector<int64_t> offsets_;
  size_t first_result_ = 0;  ///< the body's output that is the node's first
  size_t state_count_ = 0;
  int64_t state_bytes_ = 0;  ///< charged for what was made of them
  bool steady_ = false;      ///< every iteration has the sizes of the last
  bool stays_ = false;       ///< the next one has its signature
  bool known_ = false;       ///< the same, and an entry of the table, where plans are replaced

  std::optional<LeaseScope> lease_;
  Program* program_ = nullptr;
  std::shared_ptr<SignatureEntry> entry_;
  /// Of the signatures met. A loop that meets more than the cache has room for, one per iteration
  /// as where it cuts by its number, would evict those that its next run meets first: the rest
  /// passes through, unless it comes again.
  int64_t met_bytes_ = 0;
  std::vector<uint64_t> passed_;  ///< hashes of the last that did
  size_t passed_count_ = 0;
  const Published* seen_ = nullptr;  ///< what find_updated() last looked at; never read through
  bool updates_ = false;             ///< some state may be updated in place
};

}  // namespace xc
