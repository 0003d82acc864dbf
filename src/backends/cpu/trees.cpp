// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: "xc.trees". Attributes are read
// once, when the kernel is made. Tasks are rows; sums run over the trees in order, in double, as in
// the reference.

#include <algorithm>
#include <array>
#include <cstring>
#include <variant>

#include "backends/cpu/compact_forest.h"
#include "backends/cpu/simple_kernel.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskWalks = 4096;
constexpr int64_t kBlockBytes = 512 << 10;  ///< of features or scores of the rows at hand
constexpr int64_t kMaxBlock = 512;          ///< rows at a time
constexpr int64_t kLeastRows = 16;          ///< of a task, and from there on tree by tree

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (const Operand& output : spec.outputs)
    if (output.dtype == DType::kString) return Verdict::no("labels are texts");
  return Verdict::ok();
}

struct Model {
  explicit Model(const StepSpec& spec) : trees(tree_model(*spec.node)) {
    const DType type = spec.inputs[0].dtype;
    if ((type == DType::kF32 || type == DType::kF16) && holds_splits<float>(trees.forest))
      forest.emplace<CompactForest<float>>(trees.forest);
    else
      forest.emplace<CompactForest<double>>(trees.forest);
    targets = static_cast<int64_t>(trees.forest.targets);
    trees.forest = {};
  }
  TreeModel trees;  ///< without its forest
  int64_t targets = 0;
  std::variant<std::monostate, CompactForest<float>, CompactForest<double>> forest;
};

template <class T>
class TreesBound final : public BoundKernel {
  using Compact = CompactForest<T>;

 public:
  TreesBound(const StepSpec& spec, const BindContext& context, std::shared_ptr<const Model> model)
      : views_(spec, context),
        model_(std::move(model)),
        forest_(std::get<Compact>(model_->forest)) {
    const OperandView& x = views_.inputs[0];
    features_ = x.dims.back();
    feature_step_ = x.strides.back();
    if (x.dims.size() == 2) {
      rows_ = x.dims[0];
      row_step_ = x.strides[0];
    }
    if (rows_ > 0 && forest_.feature_count() > features_)
      fail(Status::kRange, "feature {} of {}", forest_.feature_count() - 1, features_);
    const int64_t row_bytes = checked_mul(features_, static_cast<int64_t>(sizeof(T)));
    const int64_t widest = std::max<int64_t>({row_bytes, checked_mul(model_->targets, 8), 1});
    block_ = std::clamp<int64_t>(kBlockBytes / widest, 1, kMaxBlock);
    stage_ = feature_step_ != 1 || x.dtype != kDTypeOf<T>;
    scores_at_ = stage_ ? align_up(checked_mul(block_, row_bytes), 64) : 0;
    reached_at_ = checked_add(scores_at_, checked_mul(checked_mul(block_, model_->targets), 8));
    leaves_at_ = align_up(checked_add(reached_at_, checked_mul(block_, model_->targets)), 64);
    const auto trees = static_cast<int64_t>(forest_.tree_count());
    scratch_bytes = checked_add(leaves_at_, 4 * std::max(trees, block_));
    tasks = std::clamp<int64_t>(checked_mul(rows_, trees) / kTaskWalks, 1,
                                std::max<int64_t>(1, rows_ / kLeastRows));
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const int64_t last = rows_ * end / tasks;
    for (int64_t row = rows_ * begin / tasks; row < last; row += block_)
      run_block(args, row, std::min(block_, last - row));
  }

 private:
  void run_block(const StepArgs& args, int64_t first, int64_t count) const {
    auto* scratch = static_cast<std::byte*>(args.scratch);
    auto* scores = reinterpret_cast<double*>(scratch + scores_at_);
    auto* reached = reinterpret_cast<uint8_t*>(scratch + reached_at_);
    std::fill_n(scores, count * model_->targets, 0.0);
    std::fill_n(reached, count * model_->targets, uint8_t{0});
    std::array<const T*, kMaxBlock> rows;
    for (int64_t r = 0; r < count; ++r)
      rows[static_cast<size_t>(r)] =
          features_of(args, first + r, reinterpret_cast<T*>(scratch) + r * features_);
    const size_t trees = forest_.tree_count();
    const std::span<const T* const> block(rows.data(), static_cast<size_t>(count));
    const bool nan = forest_.heeds_nan() && std::ranges::any_of(block, [&](const T* row) {
                       return std::any_of(row, row + features_, [](T x) { return x != x; });
                     });
    // Many rows down one tree after the other, or each row down many trees.
    auto* leaves = reinterpret_cast<uint32_t*>(scratch + leaves_at_);
    if (count >= kLeastRows) {
      for (size_t t = 0; t < trees; ++t) {
        forest_.walk_rows(t, block, nan, leaves);
        for (int64_t r = 0; r < count; ++r) vote(leaves[r], r, scores, reached);
      }
    } else {
      for (int64_t r = 0; r < count; ++r) {
        forest_.walk_trees(block[static_cast<size_t>(r)], nan, leaves);
        for (size_t t = 0; t < trees; ++t) vote(leaves[t], r, scores, reached);
      }
    }
    for (int64_t r = 0; r < count; ++r) write(args, first + r, scores + r * model_->targets);
  }

  /// Row `row` as T: its own memory, or a copy in `stage`.
  const T* features_of(const StepArgs& args, int64_t row, T* stage) const {
    const DType type = views_.inputs[0].dtype;
    if (!stage_) return static_cast<const T*>(args.buffers[0]) + row * row_step_;
    for (int64_t k = 0; k < features_; ++k)
      stage[k] =
          static_cast<T>(load_double(args.buffers[0], type, row * row_step_ + k * feature_step_));
    return stage;
  }

  void vote(uint32_t leaf, int64_t row, double* scores, uint8_t* reached) const {
    const Aggregate aggregate = model_->trees.aggregate;
    for (const Vote& vote : forest_.votes(leaf)) {
      const int64_t at = row * model_->targets + static_cast<int64_t>(vote.target);
      if (aggregate == Aggregate::kSum || aggregate == Aggregate::kAverage) {
        scores[at] += vote.weight;
        continue;
      }
      scores[at] = !reached[at]                   ? vote.weight
                   : aggregate == Aggregate::kMin ? std::min(scores[at], vote.weight)
                                                  : std::max(scores[at], vote.weight);
      reached[at] = 1;
    }
  }

  void write(const StepArgs& args, int64_t row, double* scores) const {
    const std::span of_row(scores, static_cast<size_t>(model_->targets));
    if (model_->trees.aggregate == Aggregate::kAverage)
      for (double& score : of_row) score /= static_cast<double>(forest_.tree_count());
    const size_t chosen = model_->trees.finish(of_row);
    const size_t inputs = views_.inputs.size();
    if (model_->trees.labels && views_.outputs[0].present())
      static_cast<int64_t*>(args.buffers[inputs])[row * views_.outputs[0].strides[0]] =
          model_->trees.labels.template as<int64_t>()[chosen];
    const size_t output = model_->trees.labels ? 1 : 0;
    if (output >= views_.outputs.size() || !views_.outputs[output].present()) return;
    const OperandView& y = views_.outputs[output];
    for (int64_t k = 0; k < model_->targets; ++k)
      store_double(args.buffers[inputs + output], y.dtype, row * y.strides[0] + k * y.strides[1],
                   scores[k]);
  }

  OperandViews views_;
  std::shared_ptr<const Model> model_;
  const Compact& forest_;
  int64_t rows_ = 1, features_ = 0, row_step_ = 0, feature_step_ = 1;
  int64_t block_ = 1;  ///< rows at a time
  bool stage_ = false;
  int64_t scores_at_ = 0, reached_at_ = 0, leaves_at_ = 0;  ///< in scratch, behind the staged rows
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Model>& model) {
  if (std::holds_alternative<CompactForest<float>>(model->forest))
    return std::make_shared<TreesBound<float>>(spec, context, model);
  return std::make_shared<TreesBound<double>>(spec, context, model);
}

}  // namespace

void add_trees(Rows& rows) {
  for (const char* op : {"TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"})
    rows.push_back({"xc.trees", op, supports, create_prepared<Model, bind>});
}

}  // namespace xc::cpu
