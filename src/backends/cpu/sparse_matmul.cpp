// Products that leave out the zeros of their left side. The tier asks for one where sampled runs
// saw mostly zeros (tier/zeros.cpp): inputs in which one of many is set, what a Relu left, the rows
// of an adjacency matrix. Weights are read as the library packed them, so they need no memory
// again.
//
// 0 * inf is NaN: constant weights are looked through once, others in every run (start()).

#include "backends/cpu/sparse_matmul.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/vector/nonzero_rows_fn.h"
#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {
namespace {

bool all_finite(const float* values, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i)
    finite &= (std::bit_cast<uint32_t>(values[i]) & 0x7f800000u) != 0x7f800000u;
  return finite;
}

/// Where the columns of a part's right side lie (NonzeroRows).
struct Columns {
  const void* at;
  WeightFormat format;
  int64_t panel, panel_columns, row;
};

class SparseBound final : public BoundKernel {
 public:
  /// `p` and `context` are folded: one batch, a result [m, n].
  SparseBound(const StepSpec& spec, const BindContext& context, const MatMulSettings& settings,
              std::shared_ptr<const PackedWeights> packed, const MatMulProblem& p, bool known)
      : settings_(settings),
        packed_(std::move(packed)),
        p_(p),
        c_index_(static_cast<uint32_t>(spec.inputs.size())) {
    parts_ = split_matmul(p_, packed_ ? packed_->slices : 0, spec.threads);
    tasks = std::max<int64_t>(1, static_cast<int64_t>(parts_.size()));
    tiles_ = folded_tiles(settings_.epilogue, context, parts_, settings_.epilogue.staged());
    list_bytes_ = align_up(nonzero_capacity(p_.k) * 4, 64);
    scratch_bytes = 2 * list_bytes_ + settings_.epilogue.scratch_bytes();
    if (!known) shared_bytes = sizeof(bool);
    held_bytes = 1024 + static_cast<int64_t>(parts_.size()) * 256 + tiles_.bytes();
  }

  /// Whether the right side is finite, where only the run can tell.
  void start(const StepArgs& args) const override {
    const auto* b = static_cast<const float*>(args.buffers[1]);
    bool finite = true;
    for (int64_t k = 0; k < p_.k && finite; ++k) finite = all_finite(b + k * p_.b_k, p_.n);
    *static_cast<bool*>(args.shared) = finite;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* a = static_cast<const float*>(args.buffers[0]);
    auto* c = static_cast<float*>(args.buffers[c_index_]);
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    const bool all = shared_bytes > 0 && !*static_cast<const bool*>(args.shared);
    for (int64_t i = begin; i < std::min(end, static_cast<int64_t>(parts_.size())); ++i) {
      const MatMulPart& part = parts_[static_cast<size_t>(i)];
      const Columns columns = columns_of(part, args.buffers[1]);
      nonzero_rows_fn(cpu_info().isa)(
          {.x = a + part.m0 * p_.a_m,
           .x_row = p_.a_m,
           .rows = part.m1 - part.m0,
           .k = p_.k,
           .n = part.n1 - part.n0,
           .w = columns.at,
           .format = columns.format,
           .panel = columns.panel,
           .panel_columns = columns.panel_columns,
           .w_row = columns.row,
           .y = c + part.m0 * p_.c_m + part.n0,
           .y_row = p_.c_m,
           .all = all,
           .values = reinterpret_cast<float*>(scratch),
           .columns = reinterpret_cast<int32_t*>(scratch + list_bytes_)});
      if (!settings_.epilogue.empty())
        settings_.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers,
                               scratch + 2 * list_bytes_);
    }
  }

 private:
  Columns columns_of(const MatMulPart& part, const void* right) const {
    if (!packed_)
      return {static_cast<const float*>(right) + part.n0, WeightFormat::kF32, 0, 0, p_.b_k};
    const size_t slice = packed_->slice_at(part.n0);
    const int64_t narrow = panel_columns(cpu_info().isa);
    if (packed_->narrow_panels)
      return {packed_->slice(slice), packed_->format(), p_.k * narrow, narrow, narrow};
    const int64_t panel = *packed_->panel(slice), row = panel > 0 ? kFewColumns : part.n1 - part.n0;
    return {packed_->slice(slice), packed_->format(), panel, kFewColumns, row};
  }

  MatMulSettings settings_;
  std::shared_ptr<const PackedWeights> packed_;
  MatMulProblem p_;
  uint32_t c_index_;
  std::vector<MatMulPart> parts_;
  Epilogue::Tiles tiles_;
  int64_t list_bytes_ = 0;  ///< of the values, and of the columns
};

class SparseKernel final : public Kernel {
 public:
  SparseKernel(const StepSpec& spec, const MatMulSettings& settings,
               std::shared_ptr<const PackedWeights> packed, bool known)
      : spec_(spec), settings_(settings), packed_(std::move(packed)), known_(known) {}

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    const BoundProduct product = bound_product(context, settings_);
    const MatMulProblem& p = product.p;
    const bool right = packed_ || ((p.b_n == 1 || p.n == 1) && (p.b_k >= p.n || p.k == 1));
    if (!product.folded || !right || (p.a_k != 1 && p.k != 1) || (p.c_n != 1 && p.n != 1))
      return bind_gemm(spec_, context, settings_, product);
    return std::make_shared<SparseBound>(spec_, product.flat.context(), settings_, packed_, p,
                                         known_);
  }

 private:
  StepSpec spec_;
  MatMulSettings settings_;
  std::shared_ptr<const PackedWeights> packed_;
  bool known_;  ///< that the right side is finite
};

}  // namespace

std::shared_ptr<Kernel> create_sparse_matmul(const StepSpec& spec, const MatMulSettings& settings,
                                             std::shared_ptr<const PackedWeights> packed) {
  if (settings.strict || settings.transpose_a || settings.alpha != 1) return nullptr;
  const Tensor& weights = spec.inputs[1].constant;
  if (weights) {
    const Tensor dense = weights.held().to_contiguous();
    if (!all_finite(dense.as<float>(), dense.count())) return nullptr;
  }
  if (packed && !packed->narrow_panels)
    for (size_t slice = 0; slice < packed->descs.size(); ++slice)
      if (packed->types.right != DType::kF32 || !packed->panel(slice)) return nullptr;
  // In columns, as Gemm has them transposed, nothing can be left out.
  if (settings.transpose_b && !packed) return nullptr;
  return std::make_shared<SparseKernel>(spec, settings, std::move(packed), bool(weights));
}

}  // namespace xc::cpu
