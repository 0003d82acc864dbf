// Runs one step through one implementation row and through the op's reference, and compares.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/step.h"
#include "ops/infer.h"
#include "ops/registry.h"

namespace xc::test {

/// Deterministic operands. Floats are uniform in [low, high); integers too, rounded.
class Generator {
 public:
  explicit Generator(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high);  ///< inclusive
  double real(double low, double high);
  Tensor tensor(DType dtype, const Dims& dims, double low = -2, double high = 2);
  /// The same elements under other strides: axes permuted in memory, padding between rows, reversed
  /// axes, as `kind` (0 = row-major) says.
  Tensor strided(const Tensor& tensor, int kind);
  static constexpr int kStrideKinds = 4;

 private:
  std::mt19937_64 engine_;
};

/// The values of f16 or bf16 in f32; f32 as it is.
Tensor widened(const Tensor& stored);

struct Problem {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Tensor> inputs;  ///< undefined = absent
  std::vector<bool> constant;  ///< which inputs are weights; empty = none
  size_t outputs = 1;
  std::vector<PostOp> post_ops;
  std::vector<Tensor> post_inputs;
};

struct RunOptions {
  int64_t pieces = 1;    ///< calls of run() the tasks are spread over; 0 = one per task
  bool at_once = false;  ///< each of them on a thread of its own
  bool prepare = false;  ///< call Kernel::prepare() before bind()
  bool background = false;
  uint32_t replaceable = 0;  ///< BindContext::replaceable; the run itself is in other memory
  int output_kind = 0;       ///< strides of the outputs, as Generator::strided
  int64_t output_row = 0;    ///< elements between rows of an output; 0 = dense
  bool symbolic = false;  ///< dims of non-constant operands are symbols for supports() and create()
  Numerics numerics = Numerics::kTolerant;
  int threads = 1;
};

/// f32 operands of dims `a` and [k, n], the second constant: MatMul; `transposed`: Gemm of [n, k].
Problem matrix_product(Generator& generator, const Dims& a, int64_t n, bool transposed = false);
/// The problem's first result with operands in f64, of their magnitudes if asked.
std::vector<double> exact_result(const Problem& problem, bool magnitudes);

Node node_of(const Problem& problem);
StepSpec spec_of(const Problem& problem, const Node& node, const RunOptions& options);
/// The row of that name for the op; fails the test when there is none.
const Implementation& find_row(std::string_view name, std::string_view op);
/// What the CPU backend would choose; empty when nothing accepts the step.
std::string chosen_row(const Problem& problem, const RunOptions& options = {});
/// What a kernel is bound with; they refer to the tensors.
std::vector<BoundOperand> operands_of(const std::vector<Tensor>& tensors);
/// What the row binds for dense operands, to read what it says of itself: its kernel is gone. Null
/// where the row refuses the step.
std::shared_ptr<const BoundKernel> bind_row(const Implementation& row, const Problem& problem,
                                            const RunOptions& options = {});
/// Whether what the row binds only stands in for want of time (BoundKernel::provisional).
bool is_provisional(const Implementation& row, const Problem& problem, const RunOptions& options);
/// Runs the step. Fails the test when the row refuses it.
std::vector<Tensor> run_row(const Implementation& row, const Problem& problem,
                            const RunOptions& options = {});
/// As run_row, with any implementation object (planted bugs). Kernels that say so run once more
/// with the result in an operand's place.
std::vector<Tensor> run_kernel(Kernel& kernel, const Problem& problem, const RunOptions& options);

/// What differs from `outputs` where the first of them lies in the place of an input, for each that
/// BoundKernel::in_place names and that lies alike; empty when nothing does.
std::string in_place_difference(const BoundKernel& bound, const std::vector<Tensor>& inputs,
                                const std::vector<Tensor>& outputs, const RunOptions& options);
/// How results differ where inputs that BoundKernel::unread names are null, and those that
/// any_address names lie at odd addresses; empty when nothing does.
std::string address_difference(const BoundKernel& bound, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, const RunOptions& options);

struct Bounds {
  double relative = 0;
  double absolute = 0;
};
/// Empty when equal within bounds (NaN equals NaN), else a sentence about the worst element.
std::string difference(const Tensor& got, const Tensor& want, Bounds bounds);
bool same_bits(const Tensor& a, const Tensor& b);

/// Runs row against reference over stride kinds, splits and symbolic dims, and checks. `options`:
/// the rest.
void check_row(std::string_view row, const Problem& problem, Bounds bounds,
               const RunOptions& options = {});
/// Checks that a row gives the same bits for 1 to 4 threads, each task on its own, with the first
/// operand and the result row-major and channels-last. `options`: the rest.
void check_threads(std::string_view row, const Problem& problem, const RunOptions& options = {});
/// Checks functions of one and of two operands behind a step whose operator has three inputs:
/// alone, in chains, bounds first and last; row-major and channels-last, on 1 and 3 threads.
/// `options`: the rest.
void check_functions_behind(std::string_view row, const Problem& problem, Bounds bounds,
                            const RunOptions& options = {});

}  // namespace xc::test
