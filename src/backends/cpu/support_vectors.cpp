// SVMRegressor and SVMClassifier: "xc.svm". Attributes are read once, when the kernel is made. A
// row is held against all support vectors at once, in f32; what follows is the reference's, in
// double.

#include <algorithm>
#include <cmath>

#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/distances_fn.h"
#include "ops/svm.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskSums = 64 << 10;

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const Operand& output : spec.outputs)
    if (output.dtype == DType::kString) return Verdict::no("labels are texts");
  return Verdict::ok();
}

/// A model and its terms, one a column.
struct Machine {
  explicit Machine(const StepSpec& spec) : model(*spec.node) {
    const auto terms = static_cast<int64_t>(model.term_count());
    features = static_cast<int64_t>(model.features());
    columns = align_up(terms, kDistanceGroup);
    table.assign(static_cast<size_t>(checked_mul(columns, features)), 0.0f);
    for (int64_t k = 0; k < terms; ++k) {
      const auto term = model.term(static_cast<size_t>(k));
      for (int64_t f = 0; f < features; ++f)
        table[static_cast<size_t>(f * columns + k)] =
            static_cast<float>(term[static_cast<size_t>(f)]);
    }
  }
  SvmModel model;
  int64_t features = 0, columns = 0;
  std::vector<float> table;  ///< [features, columns], zeros behind the last term
};

class MachineBound final : public BoundKernel {
 public:
  MachineBound(const StepSpec& spec, const BindContext& context,
               std::shared_ptr<const Machine> machine)
      : views_(spec, context), machine_(std::move(machine)), fns_(distance_fns(cpu_info().isa)) {
    const OperandView& x = views_.inputs[0];
    if (x.dims.back() != machine_->features)
      fail(Status::kRange, "the input has {} features, the model {}", x.dims.back(),
           machine_->features);
    feature_step_ = x.strides.back();
    if (x.dims.size() == 2) {
      rows_ = x.dims[0];
      row_step_ = x.strides[0];
    }
    const int64_t terms = machine_->columns;
    tasks =
        std::clamp<int64_t>(checked_mul(rows_, checked_mul(terms, machine_->features)) / kTaskSums,
                            1, std::max<int64_t>(1, rows_));
    row_bytes_ = align_up(checked_mul(machine_->features, 4), 64);
    scratch_bytes = checked_add(row_bytes_, checked_mul(terms, 4 + 8));
    allocates = true;  // SvmModel::finish() does
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    auto* scratch = static_cast<std::byte*>(args.scratch);
    auto* stage = reinterpret_cast<float*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + row_bytes_);
    const std::span kernels(reinterpret_cast<double*>(scratch + row_bytes_ + machine_->columns * 4),
                            machine_->model.term_count());
    std::vector<double> scores;
    for (int64_t r = rows_ * begin / tasks; r < rows_ * end / tasks; ++r) {
      find_kernels(features_of(args, r, stage), sums, kernels);
      scores.clear();
      const size_t chosen = machine_->model.finish(kernels, scores);
      write(args, r, chosen, scores);
    }
  }

 private:
  /// Row `row` as f32: its own memory, or a copy in `stage`.
  const float* features_of(const StepArgs& args, int64_t row, float* stage) const {
    const DType type = views_.inputs[0].dtype;
    if (type == DType::kF32 && feature_step_ == 1)
      return static_cast<const float*>(args.buffers[0]) + row * row_step_;
    for (int64_t f = 0; f < machine_->features; ++f)
      stage[f] = static_cast<float>(
          load_double(args.buffers[0], type, row * row_step_ + f * feature_step_));
    return stage;
  }

  void find_kernels(const float* row, float* sums, std::span<double> out) const {
    const SvmKernel& kernel = machine_->model.kernel();
    const int64_t columns = machine_->columns;
    const auto gamma = static_cast<float>(kernel.gamma), shift = static_cast<float>(kernel.coef0);
    const bool rbf = kernel.kind == SvmKernel::Kind::kRbf;
    (rbf ? fns_.squares : fns_.products)(row, machine_->table.data(), machine_->features, columns,
                                         sums);
    if (rbf)
      fns_.exponentials(sums, columns, -gamma);
    else if (kernel.kind == SvmKernel::Kind::kSigmoid)
      fns_.tangents(sums, columns, gamma, shift);
    else if (kernel.kind == SvmKernel::Kind::kPoly && multiplied(kernel.degree))
      fns_.powers(sums, columns, gamma, shift, static_cast<int>(kernel.degree));
    else if (kernel.kind == SvmKernel::Kind::kPoly)
      for (size_t k = 0; k < out.size(); ++k)
        sums[k] = static_cast<float>(kernel.of(static_cast<double>(sums[k])));
    std::copy_n(sums, out.size(), out.begin());
  }

  /// Degrees whose powers are worth multiplying out.
  static bool multiplied(double degree) {
    return degree >= 0 && degree <= 8 && degree == std::floor(degree);
  }

  void write(const StepArgs& args, int64_t row, size_t chosen,
             const std::vector<double>& scores) const {
    const size_t inputs = views_.inputs.size();
    const Tensor& labels = machine_->model.labels();
    if (labels && views_.outputs[0].present())
      static_cast<int64_t*>(args.buffers[inputs])[row * views_.outputs[0].strides[0]] =
          labels.as<int64_t>()[chosen];
    const size_t output = labels ? 1 : 0;
    if (output >= views_.outputs.size() || !views_.outputs[output].present()) return;
    const OperandView& y = views_.outputs[output];
    auto* to = static_cast<float*>(args.buffers[inputs + output]) + row * y.strides[0];
    for (size_t k = 0; k < scores.size(); ++k)
      to[static_cast<int64_t>(k) * y.strides[1]] = static_cast<float>(scores[k]);
  }

  OperandViews views_;
  std::shared_ptr<const Machine> machine_;
  const DistanceFns& fns_;
  int64_t rows_ = 1, row_step_ = 0, feature_step_ = 1;
  int64_t row_bytes_ = 0;
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Machine>& machine) {
  return std::make_shared<MachineBound>(spec, context, machine);
}

}  // namespace

void add_support_vectors(Rows& rows) {
  for (const char* op : {"SVMRegressor", "SVMClassifier"})
    rows.push_back({"xc.svm", op, supports, create_prepared<Machine, bind>});
}

}  // namespace xc::cpu
