// Products of whole steps: operands that a product cannot read as they lie go through scratch,
// parts that depend on the shape alone are the tasks, an epilogue follows each. "xc.matmul" is
// f64's.

#include "backends/cpu/gemm_step.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/copy.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/rounded_product.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

/// Columns of a result that are worked on as rows, for a left side in rows / in columns (measured).
constexpr int64_t kFewColumns = 4, kFewOfTransposed = 7;
constexpr int64_t kMergedElements = 16 << 10;  ///< of a result computed whole before its epilogue
constexpr int64_t kTile = 64 << 10;            ///< of a part whose epilogue follows
constexpr TypeSet kWideIntegers = type_set({DType::kI32, DType::kI64, DType::kU32, DType::kU64});

/// How one operand is handed to a product: in place, or packed into scratch first.
struct GemmOperand {
  bool transposed = false;
  bool copied = false;
  int64_t leading = 1;
};

/// `rows` and `cols` with their strides, as a product sees it (row-major, not transposed).
GemmOperand gemm_operand(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  // A stride over one element is never used.
  if (rows == 1) row_stride = col_stride == 1 || cols == 1 ? cols : 1;
  if (cols == 1) col_stride = row_stride == 1 ? rows : 1;
  if (col_stride == 1 && row_stride >= cols) return {false, false, row_stride};
  if (row_stride == 1 && col_stride >= rows) return {true, false, col_stride};
  return {false, true, cols};
}

template <class T>
class GemmBound final : public BoundKernel {
 public:
  GemmBound(const StepSpec& spec, const BindContext& context, const MatMulSettings& settings,
            const MatMulProblem& p, bool has_rows, bool has_columns)
      : settings_(settings), c_index_(static_cast<uint32_t>(spec.inputs.size())), p_(p) {
    // A column-major result is the row-major result of the transposed product, and a column is a
    // row, over which products go a vector at a time. So do some columns: a vector has room for
    // more of them, and of a transposed left side rows are read in the order of memory then.
    const bool column = p_.n == 1 && p_.m > 1 && p_.c_m == 1;
    const bool narrow = p_.a_k == 1 && p_.a_m == p_.k && p_.c_n == 1 && p_.c_m == p_.n &&
                        gemm_narrow<T>(p_.m, p_.n, p_.k);
    const bool columns =
        !narrow && p_.n > 1 && p_.n <= (p_.a_k == 1 ? kFewColumns : kFewOfTransposed) && p_.m >= 32;
    swapped_ = column || columns || (p_.c_n != 1 && p_.n != 1 && (p_.c_m == 1 || p_.m == 1));
    if (swapped_) {
      std::swap(p_.m, p_.n);
      std::swap(p_.c_m, p_.c_n);
      std::swap(p_.a_batch, p_.b_batch);
      std::swap(p_.a_m, p_.b_n);
      std::swap(p_.a_k, p_.b_k);
    }
    a_ = gemm_operand(p_.m, p_.k, p_.a_m, p_.a_k);
    b_ = gemm_operand(p_.k, p_.n, p_.b_k, p_.b_n);
    c_ = gemm_operand(p_.m, p_.n, p_.c_m, p_.c_n);
    if (c_.transposed) c_ = {false, true, p_.n};
    // Sums of dot products read both sides along k.
    if (columns && b_.transposed && a_.transposed) a_ = {false, true, p_.k};
    if constexpr (std::is_same_v<T, float>) round(context.background);
    if (parts_.empty())
      parts_ = split_copying(p_, spec.threads, settings_.epilogue.empty() ? INT64_MAX : kTile);
    tasks = std::max<int64_t>(1, static_cast<int64_t>(parts_.size()));
    // A result that leaves the first-level cache before its epilogue costs more than small calls.
    merge_ = !rounded_ && (settings_.epilogue.empty() || p_.m * p_.n <= kMergedElements);
    if (!settings_.epilogue.empty()) add_tiles(context, has_rows, has_columns);
    const auto bytes = [](int64_t count) { return align_up(checked_mul(count, sizeof(T)), 64); };
    if (a_.copied) a_bytes_ = bytes(p_.m * p_.k);
    if (b_.copied) b_bytes_ = bytes(p_.k * p_.n);
    if (c_.copied) c_bytes_ = bytes(p_.m * p_.n);
    if (!rounded_) room_ = gemm_room<T>(p_.m, p_.n, p_.k);
    product_at_ = a_bytes_ + b_bytes_ + c_bytes_;
    epilogue_at_ =
        product_at_ + (rounded_ ? align_up(rounded_->scratch_bytes(), 64) : bytes(room_));
    scratch_bytes = epilogue_at_ + settings_.epilogue.scratch_bytes();
    // Until they are packed, weights are read where they lie: as a right side, by whole vectors.
    if (!swapped_ && !b_.copied && !b_.transposed && !rounded_) any_address = 1u << 1;
    held_bytes = 512 + static_cast<int64_t>(parts_.size() * sizeof(MatMulPart)) + tiles_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    std::optional<OneThread> guard;
    if (rounded_) guard.emplace();  // by the library
    const auto count = static_cast<int64_t>(parts_.size());
    for (int64_t i = begin; i < std::min(end, count);) {
      MatMulPart part = parts_[static_cast<size_t>(i)];
      int64_t next = i + 1;
      if (merge_) {
        // Neighbouring parts go in one call: the order of summation over k does not depend on the
        // sizes of the result (a test compares the bits).
        part = band(i, std::min(end, count), next);
        while (next < std::min(end, count) && part.n0 == 0 && part.n1 == p_.n) {
          int64_t behind = next;
          const MatMulPart below = band(next, std::min(end, count), behind);
          if (below.batch != part.batch || below.m0 != part.m1 || below.n1 != p_.n) break;
          part.m1 = below.m1;
          next = behind;
        }
      }
      multiply(args, part);
      for (; i < next; ++i)
        if (!settings_.epilogue.empty())
          settings_.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers,
                                 static_cast<std::byte*>(args.scratch) + epilogue_at_);
    }
  }

 private:
  /// The parts from `i` on that have its rows, one behind the other; `next`: the first behind them.
  MatMulPart band(int64_t i, int64_t end, int64_t& next) const {
    MatMulPart out = parts_[static_cast<size_t>(i)];
    for (next = i + 1; next < end; ++next) {
      const MatMulPart& other = parts_[static_cast<size_t>(next)];
      if (other.batch != out.batch || other.m0 != out.m0 || other.n0 != out.n1) break;
      out.n1 = other.n1;
    }
    return out;
  }

  /// Goes over to products of bf16 where the step allows them, they are faster, and there is time
  /// to make them; else what is bound may stand in for that.
  void round(bool background) {
    if (settings_.operands != DType::kBF16 || settings_.alpha != 1 || !RoundedProduct::pays(p_))
      return;
    if (!background && p_.flops() <= kHurryFlops) {
      provisional = true;
      return;
    }
    parts_ = RoundedProduct::parts(p_);
    rounded_.emplace(p_, parts_, b_.transposed);
    // As the library reads and writes them.
    if (a_.transposed) a_ = {false, true, p_.k};
    if (c_.leading != p_.n) c_ = {false, true, p_.n};
  }

  /// `context` gives the operands over the result, which has rows and columns or not.
  void add_tiles(const BindContext& context, bool has_rows, bool has_columns) {
    const auto dims = context.outputs[0].dims;
    const size_t batch_rank = p_.batch.size();
    tiles_ = Epilogue::Tiles(settings_.epilogue, context);
    Dims begin(dims.size(), 0), end(dims.begin(), dims.end());
    for (const MatMulPart& part : parts_) {
      int64_t rest = part.batch;
      for (size_t axis = batch_rank; axis-- > 0;) {
        begin[axis] = rest % p_.batch[axis];
        end[axis] = begin[axis] + 1;
        rest /= p_.batch[axis];
      }
      const int64_t rows[2] = {swapped_ ? part.n0 : part.m0, swapped_ ? part.n1 : part.m1};
      const int64_t cols[2] = {swapped_ ? part.m0 : part.n0, swapped_ ? part.m1 : part.n1};
      size_t axis = batch_rank;
      if (has_rows) {
        begin[axis] = rows[0];
        end[axis++] = rows[1];
      }
      if (has_columns) {
        begin[axis] = cols[0];
        end[axis] = cols[1];
      }
      tiles_.add(begin, end);
    }
  }

  void multiply(const StepArgs& args, const MatMulPart& part) const {
    const auto [a_at, b_at, c_at] = batch_offsets(p_, part.batch);
    const T* a = static_cast<const T*>(args.buffers[swapped_ ? 1 : 0]) + a_at + part.m0 * p_.a_m;
    const T* b = static_cast<const T*>(args.buffers[swapped_ ? 0 : 1]) + b_at + part.n0 * p_.b_n;
    T* c = static_cast<T*>(args.buffers[c_index_]) + c_at + part.m0 * p_.c_m + part.n0 * p_.c_n;
    const int64_t m = part.m1 - part.m0, n = part.n1 - part.n0, k = p_.k;
    auto* scratch = static_cast<std::byte*>(args.scratch);
    int64_t lda = a_.leading, ldb = b_.leading, ldc = c_.leading;
    T* result = c;
    if (k == 0) {
      fill_zero(c, m, n);
      return;
    }
    if (a_.copied) {
      a = packed(a, scratch, m, k, p_.a_m, p_.a_k);
      lda = k;
    }
    if (b_.copied) {
      b = packed(b, scratch + a_bytes_, k, n, p_.b_k, p_.b_n);
      ldb = n;
    }
    if (c_.copied) {
      result = reinterpret_cast<T*>(scratch + a_bytes_ + b_bytes_);
      ldc = n;
    }
    const Gemm<T> product{
        .transpose_a = a_.transposed,
        .transpose_b = b_.transposed,
        .m = m,
        .n = n,
        .k = k,
        .alpha = static_cast<T>(settings_.alpha),
        .a = a,
        .lda = lda,
        .b = b,
        .ldb = ldb,
        .beta = T{0},
        .c = result,
        .ldc = ldc,
        .all_rows = p_.m,
        .room = rounded_ ? nullptr : reinterpret_cast<T*>(scratch + product_at_),
        .room_elements = room_,
    };
    if constexpr (std::is_same_v<T, float>)
      rounded_ ? rounded_->run(product, scratch + product_at_) : own_gemm(product);
    else
      own_gemm(product);
    if (c_.copied) copy_matrix({m, n, n, 1, p_.c_m, p_.c_n, sizeof(T)}, result, c);
  }

  static const T* packed(const T* from, std::byte* to, int64_t rows, int64_t cols,
                         int64_t row_stride, int64_t col_stride) {
    copy_matrix({rows, cols, row_stride, col_stride, cols, 1, sizeof(T)}, from, to);
    return reinterpret_cast<const T*>(to);
  }
  void fill_zero(T* c, int64_t m, int64_t n) const {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * p_.c_m + j * p_.c_n] = 0;
  }

  MatMulSettings settings_;
  uint32_t c_index_;
  MatMulProblem p_;
  bool swapped_ = false;
  bool merge_ = false;
  std::optional<RoundedProduct> rounded_;
  std::vector<MatMulPart> parts_;
  Epilogue::Tiles tiles_;
  GemmOperand a_, b_, c_;
  int64_t a_bytes_ = 0, b_bytes_ = 0, c_bytes_ = 0, product_at_ = 0, epilogue_at_ = 0;
  int64_t room_ = 0;  ///< elements, at product_at_
};

}  // namespace

std::optional<MatMulSettings> matmul_settings(const StepSpec& spec, std::string& reason,
                                              bool staged) {
  MatMulSettings out;
  std::vector<Epilogue::Addend> addends;
  if (spec.op->name == "Gemm") {
    out.transpose_a = spec.attrs().get_int("transA", 0) != 0;
    out.transpose_b = spec.attrs().get_int("transB", 0) != 0;
    out.alpha = static_cast<float>(spec.attrs().get_float("alpha", 1));
    const double beta = spec.attrs().get_float("beta", 1);
    if (spec.inputs.size() > 2 && spec.inputs[2].present() && beta != 0)
      addends.push_back({2, beta});
  }
  out.strict = spec.numerics == Numerics::kStrict;
  auto epilogue = Epilogue::build(spec, addends, reason, staged);
  if (!epilogue) return std::nullopt;
  out.epilogue = std::move(*epilogue);
  return out;
}

MatMulSettings matmul_settings(const StepSpec& spec, bool staged) {
  std::string reason;
  auto settings = matmul_settings(spec, reason, staged);
  if (!settings) fail(Status::kInternal, "a product that is not supported: {}", reason);
  return std::move(*settings);
}

Verdict supports_gemm(const StepSpec& spec, DType type) {
  if (spec.inputs.size() < 2 || !spec.inputs[0].present() || !spec.inputs[1].present())
    return Verdict::no("two operands are needed");
  for (size_t i = 0; i < 2; ++i)
    if (spec.inputs[i].dtype != type)
      return Verdict::no(
          fmt::format("operand {} is {}, not {}", i, name(spec.inputs[i].dtype), name(type)));
  std::string reason;
  return matmul_settings(spec, reason) ? Verdict::ok() : Verdict::no(reason);
}

BoundProduct bound_product(const BindContext& context, const MatMulSettings& settings) {
  BoundProduct out;
  out.p = matmul_problem(context.inputs[0], context.inputs[1], context.outputs[0],
                         settings.transpose_a, settings.transpose_b);
  out.flat.background = context.background;
  out.folded = fold_rows(out.p, context, 2, out.flat);
  return out;
}

Epilogue::Tiles folded_tiles(const Epilogue& epilogue, const BindContext& context,
                             std::span<const MatMulPart> parts, bool staged) {
  if (epilogue.empty()) return {};
  Epilogue::Tiles out(epilogue, context);
  for (const MatMulPart& part : parts) {
    const int64_t begin[] = {part.m0, part.n0}, end[] = {part.m1, part.n1};
    const int64_t tile[] = {part.n1 - part.n0, 1};
    out.add(begin, end, staged ? std::span(tile) : std::span<const int64_t>());
  }
  return out;
}

namespace {

/// A vector operand leaves its axis, rows or columns, out of the result.
std::shared_ptr<BoundKernel> bound_over(const StepSpec& spec, const BindContext& context,
                                        const MatMulSettings& settings, const MatMulProblem& p,
                                        bool has_rows, bool has_columns) {
  const auto make = [&]<class T>() -> std::shared_ptr<BoundKernel> {
    return std::make_shared<GemmBound<T>>(spec, context, settings, p, has_rows, has_columns);
  };
  switch (spec.inputs[0].dtype) {
    case DType::kF64:
      return make.template operator()<double>();
    case DType::kI32:
    case DType::kU32:
      return make.template operator()<uint32_t>();
    case DType::kI64:
    case DType::kU64:
      return make.template operator()<uint64_t>();
    default:
      return make.template operator()<float>();
  }
}

}  // namespace

std::shared_ptr<BoundKernel> bind_gemm(const StepSpec& spec, const BindContext& context,
                                       const MatMulSettings& settings,
                                       const BoundProduct& product) {
  if (product.folded)
    return bound_over(spec, product.flat.context(), settings, product.p, true, true);
  MatMulProblem shared = product.p;
  FoldedContext over;
  over.background = context.background;
  if (fold_shared_rows(shared, context, 2, over))
    return bound_over(spec, over.context(), settings, shared, true, true);
  return bound_over(spec, context, settings, product.p, context.inputs[0].dims.size() > 1,
                    context.inputs[1].dims.size() > 1);
}

namespace {

Verdict supports_wide(const StepSpec& spec) {
  const DType type = spec.inputs.empty() ? DType::kUndefined : spec.inputs[0].dtype;
  if (!contains(kWideIntegers, type)) return supports_gemm(spec, DType::kF64);
  if (spec.op->name != "MatMul") return Verdict::no("scales of integers");
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  return supports_gemm(spec, type);
}

struct Prepared : MatMulSettings {
  explicit Prepared(const StepSpec& spec) : MatMulSettings(matmul_settings(spec)) {}
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Prepared>& settings) {
  return bind_gemm(spec, context, *settings, bound_product(context, *settings));
}

}  // namespace

void add_matmul(Rows& rows) {
  for (const std::string_view op : {"MatMul", "Gemm"})
    rows.push_back({"xc.matmul", op, supports_wide, create_prepared<Prepared, bind>});
}

}  // namespace xc::cpu
