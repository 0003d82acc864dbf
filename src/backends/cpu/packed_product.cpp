#include "backends/cpu/packed_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "backends/cpu/bf16x3_product.h"
#include "backends/cpu/vector/casts_fn.h"
#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {
namespace {

/// Up to so many rows the primitive is up to 1.7 times faster when its result is dense, which a
/// slice of columns is not (measured; the library then copies through a buffer of its own).
constexpr int64_t kDenseRows = 48;

/// Whether the own kernel for few rows reads these weights, not in narrow panels: no primitive is
/// needed then. The library's for one to three rows keeps too few sums at a time to follow the
/// memory, and for some more it waits for memory and multiplies by turns (bert_base with 16 tokens
/// takes 1.7 times as long); for many rows the own kernel stands in for one that is not made yet.
bool few_rows_reads(const PackedWeights& weights, int64_t rows) {
  return cpu_info().isa >= Isa::kAvx512 && weights.in_panels() &&
         (weights.types.right != DType::kBF16 || rows <= kFewRowsOfPairs);
}

class PackedBound final : public BoundKernel {
 public:
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
    if (weights_->for_units && Bf16x3Product::pays(p_)) units_.emplace(p_.k);
    const int64_t slices = weights_->slices;
    if (units_) {
      const Bf16x3Product::Division division = units_->divided(p_, slices, spec.threads);
      parts_ = split_evenly(p_, division.rows, slices);
      groups_ = division.groups;
      tasks = division.rows * groups_;
    } else {
      parts_ = rounded_ && !own
                   ? split_slices(p_, slices, rows_in_cache(p_.k * left_bytes()), spec.threads)
                   : split_matmul(p_, slices, spec.threads);
      tasks = std::max<int64_t>(1, static_cast<int64_t>(parts_.size()));
    }
    // A slice that is widened serves all its parts, one after another; narrow panels, of which a
    // slice is more than a second-level cache holds, come from the third for all parts but one.
    if (weights_->narrow_panels || (!own && !units_ && weights_->halves()))
      std::stable_sort(parts_.begin(), parts_.end(),
                       [](const MatMulPart& a, const MatMulPart& b) { return a.n0 < b.n0; });
    if (!own && !units_ && !find_products(make)) {
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
    if (units_) return run_on_units(args, first_part(begin), first_part(end));
    end = std::min(end, static_cast<int64_t>(parts_.size()));
    const OneThread guard;
    void* weights = nullptr;  // of the slice of the part before
    int64_t column = -1, row = -1;
    for (int64_t i = begin; i < end; ++i) {
      const MatMulPart& part = parts_[static_cast<size_t>(i)];
      auto* const scratch = static_cast<std::byte*>(args.scratch);
      const Rows target = target_of(args, part);
      const std::byte* const left = left_of(args, part, part.m0 != row);
      row = part.m0;
      if (products_.empty()) {
        by_own_kernel(part, reinterpret_cast<const float*>(left), target);
      } else {
        if (part.n0 != column) weights = weights_->widen(slice_of(part), scratch + widened_at_);
        column = part.n0;
        by_library(products_[part_product_[static_cast<size_t>(i)]], weights, left, target,
                   scratch);
      }
      run_epilogue(args, i, target);
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
    units_at_ = staged + (copies_left() ? align_up(rows * p_.k * 4, 64) : 0);
    scratchpad_bytes_ = units_at_ + (units_ ? align_up(units_->scratch_bytes(rows), 64) : 0);
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

  /// Where a part's result goes.
  Rows target_of(const StepArgs& args, const MatMulPart& part) const {
    if (tiles_in_scratch_)
      return {reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + stage_),
              part.n1 - part.n0};
    return {static_cast<float*>(args.buffers[c_index_]) + part.m0 * p_.c_m + part.n0 * p_.c_n,
            p_.c_m};
  }
  /// A part's rows of the left side as they are multiplied. `anew`: they may not be in scratch yet.
  const std::byte* left_of(const StepArgs& args, const MatMulPart& part, bool anew) const {
    const std::byte* const source =
        static_cast<const std::byte*>(args.buffers[0]) + part.m0 * p_.a_m * element_size(left_);
    return copies_left() ? copied_left(source, part, anew, static_cast<std::byte*>(args.scratch))
                         : source;
  }
  void run_epilogue(const StepArgs& args, int64_t part, const Rows& target) const {
    if (settings_.epilogue.empty()) return;
    settings_.epilogue.run(tiles_, static_cast<size_t>(part), args.buffers,
                           static_cast<std::byte*>(args.scratch) + scratchpad_bytes_, target.first);
  }

  /// Of a task on units: parts of some slices of the same rows.
  int64_t first_part(int64_t task) const {
    const int64_t slices = weights_->slices;
    return task / groups_ * slices + task % groups_ * slices / groups_;
  }

  /// Parts of the same rows together where these are split for all of them in turn.
  void run_on_units(const StepArgs& args, int64_t begin, int64_t end) const {
    constexpr int64_t kMostTogether = 16;
    std::array<FewRows, kMostTogether> slices;
    const int64_t most = units_->one_span() || tiles_in_scratch_ ? 1 : kMostTogether;
    int64_t row = -1;
    for (int64_t i = begin; i < end;) {
      const MatMulPart& first = parts_[static_cast<size_t>(i)];
      const bool anew = first.m0 != row;
      row = first.m0;
      const auto* const left = reinterpret_cast<const float*>(left_of(args, first, anew));
      int64_t count = 0;
      for (; count < most && i + count < end; ++count) {
        const MatMulPart& part = parts_[static_cast<size_t>(i + count)];
        if (part.m0 != row) break;
        slices[static_cast<size_t>(count)] = few_rows_of(part, left, target_of(args, part));
      }
      units_->run({slices.data(), static_cast<size_t>(count)}, !anew,
                  static_cast<std::byte*>(args.scratch) + units_at_);
      for (; count > 0; --count, ++i)
        run_epilogue(args, i, target_of(args, parts_[static_cast<size_t>(i)]));
    }
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
    few_rows_fn()(few_rows_of(part, left, target));
  }
  FewRows few_rows_of(const MatMulPart& part, const float* left, const Rows& target) const {
    const size_t slice = slice_of(part);
    return {.x = left,
            .x_row = copies_left() ? p_.k : p_.a_m,
            .rows = part.m1 - part.m0,
            .k = p_.k,
            .n = part.n1 - part.n0,
            .panels = weights_->slice(slice),
            .format = weights_->format(),
            .panel = *weights_->panel(slice),
            .y = target.first,
            .y_row = target.stride};
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
  std::optional<Bf16x3Product> units_;
  int64_t groups_ = 1;  ///< of slices, on units: a task is one of them for a part of the rows
  std::vector<MatMulPart> parts_;
  std::vector<Product> products_;       ///< none: own kernels
  std::vector<uint32_t> part_product_;  ///< of each part
  int64_t made_ = 0;                    ///< products that nobody else has
  Epilogue::Tiles tiles_;
  /// In scratch.
  int64_t stage_ = 0, left_at_ = 0, units_at_ = 0, widened_at_ = 0, scratchpad_bytes_ = 0;
};

}  // namespace

std::shared_ptr<BoundKernel> bind_packed_product(const StepSpec& spec, const BindContext& context,
                                                 const MatMulSettings& settings,
                                                 std::shared_ptr<const PackedWeights> weights,
                                                 const MatMulProblem& p, bool make) {
  auto bound = std::make_shared<PackedBound>(spec, context, settings, std::move(weights), p, make);
  return bound->complete() ? bound : nullptr;
}

}  // namespace xc::cpu
