// f32 matrix products over oneDNN: "onednn.matmul"; "onednn.matmul bf16" where operands may be
// rounded to that (StepSpec::multiplied_as()).
//
// Two ways. The own product takes any sizes and strides without a primitive, so a new shape costs
// nothing. A constant right side is packed in prepare(), once, in column slices fixed by its shape.
// With AVX-512, products bound afterwards run a primitive made for their number of rows (up to 15 %
// faster, and the only way whose weights need no repacking per call), or an own kernel for few
// rows; until that primitive is made, the own kernel reads the packed weights for more rows, too.
// Below, the library packs nothing and copies the weights at every call: an own kernel multiplies
// any number of rows with narrow panels (vector/panel_product.inc). In strict mode only the own
// product is used, one call per part, so that results never change.
//
// Where the processor multiplies bf16 and operands may be rounded, weights are packed as bf16, half
// the bytes, and each part's rows of the left side are rounded to bf16 in scratch where they are
// not stored so; sums are f32, and rounded once where the result is stored in bf16. The library has
// a reference kernel only for results with gaps, so that of a slice is written to scratch. (The
// library's own way, primitives of f32 in its bf16 math mode, rounds the weights at every call and
// keeps them in f32: measured 1.3 to 4 times slower, and as slow as f32 for one row.) Without
// packed weights both sides are (rounded_product.h), where the model holds them so.

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/cpu/between_casts.h"
#include "backends/cpu/dense_left.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/gemm_step.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/packed_weights.h"
#include "backends/cpu/sparse_matmul.h"
#include "backends/cpu/vector/few_rows_fn.h"
#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {

namespace {

constexpr int64_t kPackSmallest = 64 << 10;  ///< bytes of weights worth packing
constexpr int64_t kHeldSmallest = 4 << 10;   ///< and where the model holds them in bf16
/// Up to so many rows the primitive is up to 1.7 times faster when its result is dense, which a
/// slice of columns is not (measured; the library then copies through a buffer of its own).
constexpr int64_t kDenseRows = 48;

// ---- packed weights -----------------------------------------------------------------------------

/// Whether the own kernel for few rows reads these weights, not in narrow panels: no primitive is
/// needed then. The library's for one to three rows keeps too few sums at a time to follow the
/// memory, and for some more it waits for memory and multiplies by turns (bert_base with 16 tokens
/// takes 1.7 times as long); for many rows the own kernel stands in for one that is not made yet.
bool few_rows_reads(const PackedWeights& weights, int64_t rows) {
  if (cpu_info().isa < Isa::kAvx512) return false;
  for (size_t slice = 0; slice < weights.descs.size(); ++slice)
    if (!weights.panel(slice) || (weights.types.right == DType::kBF16 && rows > kFewRowsOfPairs))
      return false;
  return true;
}

class PackedBound final : public BoundKernel {
 public:
  /// `p` and `context` are folded: one batch, a result [m, n]. Rows of both sides are contiguous.
  /// Without `make` it may stand in for a better one, or be incomplete, and must not run then.
  PackedBound(const StepSpec& spec, const BindContext& context, const MatMulSettings& settings,
              std::shared_ptr<const PackedWeights> weights, const MatMulProblem& p, bool make)
      : settings_(settings),
        weights_(std::move(weights)),
        p_(p),
        c_index_(static_cast<uint32_t>(spec.inputs.size())),
        left_(spec.inputs[0].dtype) {
    unread = 1u << 1;
    rounded_ = weights_->types.left == DType::kBF16;
    const bool own =
        weights_->narrow_panels || (p_.m <= kFewRows && few_rows_reads(*weights_, p_.m));
    parts_ = rounded_ && !own ? split_slices(p_, weights_->slices, left_bytes(), spec.threads)
                              : split_matmul(p_, weights_->slices, spec.threads);
    tasks = std::max<int64_t>(1, static_cast<int64_t>(parts_.size()));
    // A slice that is widened serves all its parts, one after another; narrow panels, of which a
    // slice is more than a second-level cache holds, come from the third for all parts but one.
    if (weights_->narrow_panels || (!own && weights_->halves()))
      std::stable_sort(parts_.begin(), parts_.end(),
                       [](const MatMulPart& a, const MatMulPart& b) { return a.n0 < b.n0; });
    if (!own && !find_products(make)) {
      products_.clear();
      provisional = complete_ = few_rows_reads(*weights_, p_.m);
      if (!complete_) return;
    }
    if (products_.empty()) place_own_operands();
    tiles_ = folded_tiles(settings_.epilogue, context, parts_, tiles_in_scratch_);
    scratch_bytes = scratchpad_bytes_ + settings_.epilogue.scratch_bytes();
    // A primitive holds its generated code: some 30 KiB.
    held_bytes = 1024 + made_ * (32 << 10) + static_cast<int64_t>(parts_.size()) * 256;
  }

  /// Whether it may run.
  bool complete() const { return complete_; }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OneThread guard;
    const auto* a = static_cast<const std::byte*>(args.buffers[0]);
    void* weights = nullptr;  // of the slice of the part before
    int64_t column = -1, row = -1;
    for (int64_t i = begin; i < std::min(end, static_cast<int64_t>(parts_.size())); ++i) {
      const MatMulPart& part = parts_[static_cast<size_t>(i)];
      auto* const scratch = static_cast<std::byte*>(args.scratch);
      const Rows target = tiles_in_scratch_
                              ? Rows{reinterpret_cast<float*>(scratch + stage_), part.n1 - part.n0}
                              : Rows{static_cast<float*>(args.buffers[c_index_]) +
                                         part.m0 * p_.c_m + part.n0 * p_.c_n,
                                     p_.c_m};
      const std::byte* const source = a + part.m0 * p_.a_m * element_size(left_);
      const std::byte* const left =
          copies_left() ? copied_left(source, part, part.m0 != row, scratch) : source;
      row = part.m0;
      if (products_.empty()) {
        by_own_kernel(part, reinterpret_cast<const float*>(left), target);
      } else {
        if (part.n0 != column) weights = weights_->widen(slice_of(part), scratch + widened_at_);
        column = part.n0;
        by_library(products_[part_product_[static_cast<size_t>(i)]], weights, left, target,
                   scratch);
      }
      if (!settings_.epilogue.empty())
        settings_.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers,
                               scratch + scratchpad_bytes_, target.first);
    }
  }

 private:
  struct Product {
    int64_t m, n;
    bool in_scratch;  ///< where the library writes the result, without gaps
    std::shared_ptr<const PreparedPrimitive> primitive;
  };
  struct Rows {
    float* first;
    int64_t stride;
  };

  /// The left side is stored wider than it is multiplied.
  bool rounds_left() const { return rounded_ && left_ == DType::kF32; }
  /// The library reads a part's rows of the left side from scratch: rounded, or as they are where
  /// they overlap (frames of a signal) or lie backwards, which a descriptor cannot say.
  bool library_copies_left() const { return rounds_left() || (p_.m > 1 && p_.a_m < p_.k); }
  /// So does the own kernel what it has to widen.
  bool copies_left() const {
    return products_.empty() ? left_ != DType::kF32 : library_copies_left();
  }
  /// Of an element as the library reads it.
  int64_t left_bytes() const { return rounds_left() ? 2 : element_size(left_); }

  /// What the own kernel reads and writes in scratch.
  void place_own_operands() {
    int64_t staged = 0, rows = 0;
    tiles_in_scratch_ = settings_.epilogue.staged();
    for (const MatMulPart& part : parts_) {
      rows = std::max(rows, part.m1 - part.m0);
      if (tiles_in_scratch_)
        staged = std::max(staged, align_up((part.m1 - part.m0) * (part.n1 - part.n0) * 4, 64));
    }
    stage_ = 0;
    left_at_ = staged;
    scratchpad_bytes_ = staged + (copies_left() ? align_up(rows * p_.k * 4, 64) : 0);
  }

  /// False: one is missing that was not to be made.
  bool find_products(bool make) {
    const int64_t lda = p_.m == 1 ? p_.k : p_.a_m, ldc = p_.m == 1 ? p_.n : p_.c_m;
    int64_t scratchpad = 0, staged = 0, left = 0, widened = 0;
    const bool copies = library_copies_left();
    tiles_in_scratch_ = settings_.epilogue.staged();
    const bool all = onednn_call("a matrix product", [&] {
      for (const MatMulPart& part : parts_) {
        const int64_t m = part.m1 - part.m0, n = part.n1 - part.n0;
        const auto same = std::find_if(products_.begin(), products_.end(),
                                       [&](const Product& p) { return p.m == m && p.n == n; });
        part_product_.push_back(static_cast<uint32_t>(same - products_.begin()));
        const size_t slice = slice_of(part);
        widened = std::max(widened, weights_->widened_bytes(slice));
        if (same != products_.end()) continue;
        const bool in_scratch =
            tiles_in_scratch_ ||
            (m > 1 && ldc != n && (m <= kDenseRows || weights_->dense_only(slice)));
        if (in_scratch) staged = std::max(staged, align_up(m * n * 4, 64));
        if (copies) left = std::max(left, align_up(m * p_.k * left_bytes(), 64));
        auto product = packed_product(*weights_, slice, m, copies ? p_.k : lda,
                                      in_scratch || m == 1 ? n : ldc, make);
        if (!product.primitive) return false;
        made_ += product.made ? 1 : 0;
        scratchpad = std::max(scratchpad, product.scratchpad);
        products_.push_back({m, n, in_scratch, std::move(product.primitive)});
      }
      return true;
    });
    if (!all) return false;
    // What all parts write there the epilogue reads there.
    tiles_in_scratch_ |= !settings_.epilogue.empty() &&
                         std::all_of(products_.begin(), products_.end(),
                                     [](const Product& product) { return product.in_scratch; });
    stage_ = align_up(scratchpad, 64);
    left_at_ = stage_ + staged;
    widened_at_ = left_at_ + left;
    scratchpad_bytes_ = widened_at_ + widened;
    return true;
  }

  size_t slice_of(const MatMulPart& part) const { return weights_->slice_at(part.n0); }

  /// The part's rows of the left side in scratch. `anew`: they may not be there yet.
  const std::byte* copied_left(const std::byte* source, const MatMulPart& part, bool anew,
                               std::byte* scratch) const {
    std::byte* const left = scratch + left_at_;
    if (!anew) return left;
    const int64_t rows = part.m1 - part.m0;
    const int64_t step = p_.a_m * element_size(left_);
    if (products_.empty()) {
      const ElementwiseFn widen = cast_fn(left_, DType::kF32, cpu_info().isa);
      for (int64_t row = 0; row < rows; ++row)
        widen({{source + row * step}, {1}, left + row * p_.k * 4, p_.k, nullptr});
    } else if (rounds_left()) {
      round_rows_to_bf16(reinterpret_cast<const float*>(source), left, rows, p_.k, p_.a_m);
    } else {
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(left + row * p_.k * left_bytes(), source + row * step,
                    static_cast<size_t>(p_.k * left_bytes()));
    }
    return left;
  }

  void by_own_kernel(const MatMulPart& part, const float* left, const Rows& target) const {
    const int64_t rows = part.m1 - part.m0;
    const size_t slice = slice_of(part);
    const int64_t left_row = copies_left() ? p_.k : p_.a_m;
    if (weights_->narrow_panels)
      return panel_product_fn(cpu_info().isa)({.x = left,
                                               .x_row = left_row,
                                               .rows = rows,
                                               .k = p_.k,
                                               .n = part.n1 - part.n0,
                                               .panels = weights_->slice(slice),
                                               .format = weights_->format(),
                                               .y = target.first,
                                               .y_row = target.stride});
    const int64_t panel = *weights_->panel(slice);
    few_rows_fn()({.x = left,
                   .x_row = left_row,
                   .rows = rows,
                   .k = p_.k,
                   .n = part.n1 - part.n0,
                   .panels = weights_->slice(slice),
                   .format = weights_->format(),
                   .panel = panel,
                   .y = target.first,
                   .y_row = target.stride});
  }

  void by_library(const Product& product, void* weights, const std::byte* left, const Rows& target,
                  std::byte* scratch) const {
    float* const result =
        product.in_scratch ? reinterpret_cast<float*>(scratch + stage_) : target.first;
    void* const pointers[4] = {const_cast<std::byte*>(left), weights, result, scratch};
    product.primitive->execute(pointers);
    if (result == target.first) return;
    for (int64_t row = 0; row < product.m; ++row)
      std::copy_n(result + row * product.n, product.n, target.first + row * target.stride);
  }

  MatMulSettings settings_;
  std::shared_ptr<const PackedWeights> weights_;
  MatMulProblem p_;
  uint32_t c_index_;
  DType left_;                     ///< as it is stored
  bool rounded_ = false;           ///< both sides are multiplied as bf16
  bool tiles_in_scratch_ = false;  ///< what the epilogue reads
  bool complete_ = true;
  std::vector<MatMulPart> parts_;
  std::vector<Product> products_;       ///< none: the own kernel
  std::vector<uint32_t> part_product_;  ///< of each part
  int64_t made_ = 0;                    ///< products that nobody else has
  Epilogue::Tiles tiles_;
  int64_t stage_ = 0, left_at_ = 0, widened_at_ = 0, scratchpad_bytes_ = 0;  ///< in scratch
};

// ---- the kernel ---------------------------------------------------------------------------------

Verdict supports(const StepSpec& spec) {
  return supports_gemm(spec, DType::kF32);
}

/// Why the right side is not packed; empty when it is.
std::string why_not_packed(const StepSpec& spec, const MatMulSettings& settings) {
  const Tensor& weights = spec.inputs[1].constant;
  if (!weights) return "the right side is not constant";
  if (weights.rank() != 2) return "the right side has batches";
  if (settings.strict) return "packed weights change the order of sums";
  if (settings.transpose_a) return "the left side is transposed";
  if (settings.alpha != 1) return "the product is scaled";
  if (weights.byte_size() < (spec.held_in() == DType::kBF16 ? kHeldSmallest : kPackSmallest))
    return "the right side is small";
  return {};
}

bool stored_in_f32(const StepSpec& spec) {
  return spec.inputs[0].dtype == DType::kF32 && !spec.narrows();
}

Verdict supports_bf16(const StepSpec& spec) {
  if (!has_bf16_products()) return Verdict::no("the processor has no bf16 products");
  for (const Operand& operand : {spec.inputs[0], spec.outputs[0]})
    if (operand.dtype != DType::kF32 && operand.dtype != DType::kBF16)
      return Verdict::no(fmt::format("an operand of {}", name(operand.dtype)));
  if (const Verdict plain = supports(in_f32(spec)); !plain.yes()) return plain;
  // Where the model does not ask for it, only what reads weights at half the bytes is worth the
  // digits.
  if (spec.held_in() == DType::kBF16 && stored_in_f32(spec)) return Verdict::ok();
  std::string reason;
  const auto settings = matmul_settings(spec, reason, true);
  return {settings ? why_not_packed(spec, *settings) : reason};
}

/// Of a product worth a copy of its left side.
constexpr int64_t kLeastColumns = 16;

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const StepSpec& spec, DType operands) : spec_(spec) {
    settings_ = matmul_settings(spec, operands == DType::kBF16);
    settings_.operands = operands;
    packable_ = why_not_packed(spec, settings_).empty();
    if (stored_in_f32(spec)) return;
    wide_spec_ = in_f32(spec);
    wide_settings_ = matmul_settings(wide_spec_);
    wide_settings_.operands = operands;
  }

  bool wants_prepare() const override { return packable_; }
  void prepare() override {
    if (!packable_) return;
    auto packed = pack_weights(spec_.inputs[1].constant, settings_.transpose_b,
                               {settings_.operands, settings_.operands, DType::kF32},
                               settings_.operands == DType::kBF16 ? 1 : spec_.threads);
    const std::lock_guard lock(mutex_);
    packed_ = std::move(packed);
  }

  bool may_skip_zeros() const override {
    return settings_.operands == DType::kF32 && !settings_.strict;
  }
  std::shared_ptr<Kernel> skipping_zeros() const override {
    return may_skip_zeros() ? create_sparse_matmul(spec_, settings_, packed()) : nullptr;
  }

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    std::shared_ptr<const PackedWeights> packed = this->packed();
    const BoundProduct product = bound_product(context, settings_);
    bool fits = packed && takes_packed(product);
    if (fits) {
      if (auto bound = bind_packed(context, product, packed)) return bound;
    } else if (packed && !product.folded && product.p.n >= kLeastColumns &&
               context.inputs.size() + 1 <= DenseLeft::kMostOperands) {
      // Rows that are not evenly apart (those of a transposed view) are where they are copied.
      const BoundOperand& left = context.inputs[0];
      const Dims strides = contiguous_strides(Dims(left.dims.begin(), left.dims.end()));
      std::vector<BoundOperand> inputs(context.inputs.begin(), context.inputs.end());
      inputs[0].strides = strides;
      const BindContext dense{inputs, context.outputs, context.background};
      const BoundProduct even = bound_product(dense, settings_);
      fits = takes_packed(even);
      if (fits)
        if (auto bound = bind_packed(dense, even, packed))
          return std::make_shared<DenseLeft>(left, element_size(spec_.inputs[0].dtype),
                                             context.inputs.size() + 1, std::move(bound));
    }
    auto bound = bind_unpacked(context, product);
    bound->provisional |= fits;
    return bound;
  }

 private:
  static bool takes_packed(const BoundProduct& product) {
    const MatMulProblem& p = product.p;
    return product.folded && p.k > 0 && (p.m == 1 || p.c_m >= p.n) && (p.a_k == 1 || p.k == 1) &&
           (p.c_n == 1 || p.n == 1);
  }

  /// Null where that takes too long on the caller's path.
  std::shared_ptr<BoundKernel> bind_packed(const BindContext& context, const BoundProduct& product,
                                           std::shared_ptr<const PackedWeights> packed) const {
    const bool make = context.background || product.p.flops() > kHurryFlops;
    auto bound = std::make_shared<PackedBound>(spec_, product.flat.context(), settings_,
                                               std::move(packed), product.p, make);
    return bound->complete() ? bound : nullptr;
  }

  std::shared_ptr<const PackedWeights> packed() const {
    const std::lock_guard lock(mutex_);
    return packed_;
  }

  std::shared_ptr<BoundKernel> bind_unpacked(const BindContext& context,
                                             const BoundProduct& product) const {
    if (stored_in_f32(spec_)) return bind_gemm(spec_, context, settings_, product);
    return std::make_shared<BetweenCasts>(spec_, context, [&](const BindContext& wide) {
      return bind_gemm(wide_spec_, wide, wide_settings_, bound_product(wide, wide_settings_));
    });
  }

  StepSpec spec_;
  MatMulSettings settings_;
  StepSpec wide_spec_;  ///< in_f32(), where operands are stored otherwise, with settings of its own
  MatMulSettings wide_settings_;
  bool packable_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const PackedWeights> packed_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<MatMulKernel>(spec, DType::kF32);
}
std::unique_ptr<Kernel> create_bf16(const StepSpec& spec) {
  return std::make_unique<MatMulKernel>(spec, DType::kBF16);
}

}  // namespace

void add_onednn_matmul(Rows& rows) {
  for (const std::string_view op : {"MatMul", "Gemm"}) {
    rows.push_back({"onednn.matmul bf16", op, supports_bf16, create_bf16, nullptr, DType::kBF16});
    rows.push_back({"onednn.matmul", op, supports, create});
  }
}

}  // namespace xc::cpu
