// MatMulInteger and QLinearMatMul over products of bytes: "onednn.integer_matmul".
//
// The product itself knows no zero points: with signed bytes b (u8 less 128)
//   sum (a - za)(b - zb) = sum a b - za (sum b - k zb) - zb sum a
// whose corrections cost a pass over the sums while they are in cache, together with the way back
// to bytes: one product per element by a_scale * b_scale / y_scale in f32, rounded half to even,
// saturated. onnxruntime computes the same; the standard's quotient of exact sums may round to the
// other side of a tie, one quantum apart.
//
// Constant weights are packed in prepare(), once; products bound afterwards run a primitive per
// number of rows. Before that, and for other right sides, a part's columns are packed as the run
// finds them for own dot products of bytes (vector/packed_bytes_fn.h), without these through f32;
// both take any size without a primitive. Sums are exact: results depend neither on the way nor on
// the split.

#include <algorithm>
#include <mutex>
#include <optional>

#include "backends/cpu/copy.h"
#include "backends/cpu/integer_product.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/vector/packed_bytes_fn.h"

namespace xc::cpu {
namespace {

constexpr uint32_t kAbsent = UINT32_MAX;
constexpr int64_t kRowsAtOnce = 128;  ///< of sums kept in scratch, where parts may have more
/// Weights of fewer columns are packed with zeros beside them: the library's kernels are made for
/// vectors of columns (1 column of 64 terms, 32 rows: 57 us, of 16 columns 3).
constexpr int64_t kLeastColumns = 16;

/// Where the operands of either op are.
struct Roles {
  uint32_t a = 0, a_scale = kAbsent, a_zero = 2;
  uint32_t b = 1, b_scale = kAbsent, b_zero = 3;
  uint32_t y_scale = kAbsent, y_zero = kAbsent, bias = kAbsent;
  bool requantised() const { return y_scale != kAbsent; }
};

Roles roles_of(const StepSpec& spec) {
  Roles out;
  if (spec.op->name == "QLinearMatMul") out = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto keep = [&](uint32_t& i) {
    if (i >= spec.inputs.size() || !spec.inputs[i].present()) i = kAbsent;
  };
  keep(out.a_zero);
  keep(out.b_zero);
  keep(out.bias);
  return out;
}

/// Is every element of the operand known to be `value`?
bool all_equal(const Operand& operand, int64_t value) {
  if (!operand.constant) return false;
  const auto elements = operand.constant.to_int64s();
  return std::all_of(elements.begin(), elements.end(), [&](int64_t v) { return v == value; });
}

/// A vector along one axis of the result, or a scalar: element i is at i * stride.
struct Line {
  uint32_t input = kAbsent;
  DType dtype = DType::kUndefined;
  int64_t stride = 0;
  bool varies = false;
  int64_t integer(void* const* buffers, int64_t i) const {
    return load_int64(buffers[input], dtype, i * stride);
  }
  float real(void* const* buffers, int64_t i) const {
    return static_cast<const float*>(buffers[input])[i * stride];
  }
};

Line line(const StepSpec& spec, const BindContext& context, uint32_t input, int64_t along) {
  Line out;
  if (input == kAbsent) return out;
  out.input = input;
  out.dtype = spec.inputs[input].dtype;
  const BoundOperand& o = context.inputs[input];
  if (element_count(o.dims) == 1) return out;
  for (size_t axis = 0; axis < o.dims.size(); ++axis) {
    if (o.dims[axis] == 1) continue;
    if (o.dims[axis] != along || out.varies)
      fail(Status::kRange, "input {} has dims {}, expected one entry or {}", input,
           to_text(Dims(o.dims.begin(), o.dims.end())), along);
    out.stride = o.strides[axis];
    out.varies = true;
  }
  return out;
}

/// What prepare() makes of constant weights.
struct Prepared {
  std::shared_ptr<const PackedWeights> packed;
  std::vector<int32_t> column_sums;  ///< of the signed bytes
};

class IntegerMatMulBound final : public BoundKernel {
 public:
  IntegerMatMulBound(const StepSpec& spec, const BindContext& context,
                     std::shared_ptr<const Prepared> prepared)
      : roles_(roles_of(spec)),
        output_(static_cast<uint32_t>(spec.inputs.size())),
        threads_(spec.threads),
        prepared_(std::move(prepared)) {
    const BoundOperand operands[2] = {context.inputs[roles_.a], context.inputs[roles_.b]};
    p_ = matmul_problem(operands[0], operands[1], context.outputs[0], false, false);
    a_signed_ = spec.inputs[roles_.a].dtype == DType::kI8;
    b_signed_ = spec.inputs[roles_.b].dtype == DType::kI8;
    a_zero_ = line(spec, context, roles_.a_zero, p_.m);
    a_scale_ = line(spec, context, roles_.a_scale, p_.m);
    b_zero_ = line(spec, context, roles_.b_zero, p_.n);
    b_scale_ = line(spec, context, roles_.b_scale, p_.n);
    bias_ = line(spec, context, roles_.bias, p_.n);
    has_a_zero_ = roles_.a_zero != kAbsent && !all_equal(spec.inputs[roles_.a_zero], 0);
    shifts_b_ =
        roles_.b_zero == kAbsent ? !b_signed_ : !all_equal(spec.inputs[roles_.b_zero], b_shift());
    y_signed_ = spec.outputs[0].dtype == DType::kI8;
    if (library_integers_are_exact()) dots_ = packed_bytes_fns(cpu_info());
    FoldedContext folded;
    const BindContext product{operands, context.outputs};
    if (!a_zero_.varies && !a_scale_.varies) fold_rows(p_, product, 2, folded);
    if (prepared_ && p_.batches == 1 && p_.k > 0) {
      packed_ = prepared_->packed;
      // Creating primitives takes about as long as 30 Mflop: on the caller's path for larger runs.
      provisional = !lay_out(context.background || p_.flops() > 3e8);
    }
    if (!packed_ || provisional) {
      packed_ = nullptr;
      primitives_.clear();
      lay_out(true);
    }
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OneThread guard;
    int64_t row = -1;  // the first of those that are copied and summed
    for (int64_t i = begin; i < std::min(end, static_cast<int64_t>(parts_.size())); ++i) {
      const MatMulPart& part = parts_[static_cast<size_t>(i)];
      const Columns columns = prepare_columns(args, part);
      for (int64_t m0 = part.m0; m0 < part.m1; m0 += rows_at_once()) {
        MatMulPart rows = part;
        rows.m0 = m0;
        rows.m1 = std::min(part.m1, m0 + rows_at_once());
        multiply(args, rows, columns, !packed_ || m0 != row);
        row = m0;
      }
    }
  }

 private:
  /// What a part's columns need, in scratch.
  struct Columns {
    const int8_t* b = nullptr;  ///< [k, n]; null: packed, or with dots_ packed in scratch
    int64_t stride = 0;
    const int32_t* sums = nullptr;   ///< of b, less k times the zero point
    const int32_t* zeros = nullptr;  ///< of b
    const float* scales = nullptr;
    int32_t* add = nullptr;
  };

  /// Signed rows that are read as unsigned ones, 128 more.
  bool a_turned() const { return packed_ && a_signed_; }
  /// Columns are packed for each part.
  bool by_dots() const { return !packed_ && dots_; }
  bool shifts_a() const { return has_a_zero_ || a_turned(); }
  /// What u8 weights lose when they become signed.
  int64_t b_shift() const { return b_signed_ ? 0 : 128; }

  bool many_rows() const { return packed_ && packed_->dense_slices(); }
  int64_t rows_at_once() const { return many_rows() ? p_.m : kRowsAtOnce; }
  /// Columns of the sums of n columns: packed weights may have more.
  int64_t sums_width(int64_t n) const { return packed_ && packed_->n > p_.n ? packed_->n : n; }

  /// False: a primitive is missing that was not to be made.
  bool lay_out(bool make) {
    parts_ = many_rows() ? split_slices(p_, packed_->slices, 1, threads_)
                         : split_matmul(p_, packed_ ? packed_->slices : 0);
    tasks = std::max<int64_t>(1, static_cast<int64_t>(parts_.size()));
    int64_t widest = 0, tallest = 0;
    for (const MatMulPart& part : parts_) {
      widest = std::max(widest, part.n1 - part.n0);
      tallest = std::max(tallest, std::min(part.m1 - part.m0, rows_at_once()));
    }
    // The library wants rows that are dense and do not overlap. For signed ones in packed weights
    // it has a slow reference at some numbers of rows: there they are unsigned, 128 more.
    a_copied_ =
        a_turned() || (p_.a_k != 1 && p_.k > 1) || (!by_dots() && p_.a_m < p_.k && p_.m > 1);
    b_copied_ = !packed_ && !dots_ &&
                (!b_signed_ || (p_.b_n != 1 && p_.n > 1) || (p_.b_k < p_.n && p_.k > 1));
    dense_ = (p_.c_n == 1 || p_.n == 1) && (p_.c_m >= p_.n || p_.m == 1);
    sums_in_place_ = !roles_.requantised() && dense_ && sums_width(p_.n) == p_.n &&
                     (p_.m == 1 || !packed_ || (p_.c_m == p_.n && packed_->slices == 1) ||
                      !packed_->dense_only(0));
    int64_t at = 0;
    const auto place = [&](int64_t bytes) {
      const int64_t here = at;
      at = checked_add(at, align_up(bytes, 64));
      return here;
    };
    const int64_t vectors = checked_mul(widest, 4);
    sums_at_ = place(vectors);
    zeros_at_ = place(vectors);
    scales_at_ = place(vectors);
    add_at_ = place(vectors);
    row_sums_at_ = place(tallest * 4);
    a_at_ = place(a_copied_ ? checked_mul(tallest, p_.k) : 0);
    b_at_ = place(by_dots()   ? packed_bytes(p_.k, widest)
                  : b_copied_ ? checked_mul(p_.k, widest)
                              : 0);
    c_at_ = place(sums_in_place_ ? 0 : checked_mul(tallest, sums_width(widest)) * 4);
    bytes_at_ = place(roles_.requantised() && !dense_ ? checked_mul(tallest, widest) : 0);
    int64_t rest = 0;
    if (packed_ && !find_primitives(make, rest)) return false;
    if (!packed_ && !dots_) rest = integer_product_scratch(tallest, widest, p_.k, false);
    library_at_ = place(rest);
    scratch_bytes = at;
    held_bytes = 1024 + static_cast<int64_t>(parts_.size() * sizeof(MatMulPart)) +
                 primitives_made_ * (16 << 10);
    return true;
  }

  struct Primitive {
    int64_t m, n;
    std::shared_ptr<const PreparedPrimitive> run;
  };
  const PreparedPrimitive* primitive(int64_t m, int64_t n) const {
    for (const Primitive& p : primitives_)
      if (p.m == m && p.n == n) return p.run.get();
    return nullptr;
  }
  bool find_primitives(bool make, int64_t& scratchpad) {
    return onednn_call("an integer product", [&] {
      for (const MatMulPart& part : parts_)
        for (int64_t m0 = part.m0; m0 < part.m1; m0 += rows_at_once()) {
          const int64_t m = std::min(part.m1 - m0, rows_at_once()), n = part.n1 - part.n0;
          if (primitive(m, n)) continue;
          auto made = packed_product(*packed_, packed_->slice_at(part.n0), m,
                                     a_copied_ || p_.m == 1 ? p_.k : p_.a_m,
                                     sums_in_place_ && p_.m > 1 ? p_.c_m : sums_width(n), make);
          if (!made.primitive) return false;
          scratchpad = std::max(scratchpad, made.scratchpad);
          primitives_made_ += made.made ? 1 : 0;
          primitives_.push_back({m, n, std::move(made.primitive)});
        }
      return true;
    });
  }

  template <class T>
  static T* at(const StepArgs& args, int64_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(args.scratch) + offset);
  }

  Columns prepare_columns(const StepArgs& args, const MatMulPart& part) const {
    const int64_t n = part.n1 - part.n0;
    Columns out;
    const auto* b = static_cast<const int8_t*>(args.buffers[roles_.b]) +
                    batch_offsets(p_, part.batch).b + part.n0 * p_.b_n;
    if (by_dots()) {
      dots_->pack({b, b_signed_, p_.k, n, p_.b_k, p_.n == 1 ? 1 : p_.b_n}, a_signed_,
                  at<uint8_t>(args, b_at_), shifts_a() ? at<int32_t>(args, sums_at_) : nullptr);
    } else if (!packed_) {
      out.b = b_copied_ ? signed_columns(args, b, n) : b;
      out.stride = b_copied_ || p_.k == 1 ? n : p_.b_k;
    }
    if (shifts_b_) {
      auto* zeros = at<int32_t>(args, zeros_at_);
      const auto zero = [&](int64_t j) {
        const int64_t given = roles_.b_zero == kAbsent ? 0 : b_zero_.integer(args.buffers, j);
        return static_cast<int32_t>(given - b_shift());
      };
      if (b_zero_.varies)
        for (int64_t j = 0; j < n; ++j) zeros[j] = zero(part.n0 + j);
      else
        std::fill_n(zeros, n, zero(0));
      out.zeros = zeros;
    }
    if (shifts_a()) {
      auto* sums = at<int32_t>(args, sums_at_);
      if (packed_)
        std::copy_n(prepared_->column_sums.data() + part.n0, n, sums);
      else if (!by_dots())
        integer_fns().column_sums(out.b, p_.k, n, out.stride, sums);
      if (out.zeros)
        for (int64_t j = 0; j < n; ++j) sums[j] -= static_cast<int32_t>(p_.k) * out.zeros[j];
      out.sums = sums;
    }
    if (shifts_a() || bias_.input != kAbsent) out.add = at<int32_t>(args, add_at_);
    if (out.add && !a_zero_.varies) fill_add(args, part, out, 0);
    if (roles_.requantised()) {
      auto* scales = at<float>(args, scales_at_);
      out.scales = scales;
      if (!a_scale_.varies) fill_scales(args, part, scales, 0);
    }
    return out;
  }

  /// Columns as signed bytes [k, n].
  const int8_t* signed_columns(const StepArgs& args, const int8_t* b, int64_t n) const {
    auto* to = at<int8_t>(args, b_at_);
    copy_matrix({p_.k, n, p_.b_k, p_.b_n, n, 1, 1}, b, to);
    if (!b_signed_) integer_fns().to_signed(reinterpret_cast<const uint8_t*>(to), p_.k * n, to);
    return to;
  }

  /// Everything added to a row's sums that depends on columns alone.
  void fill_add(const StepArgs& args, const MatMulPart& part, const Columns& columns,
                int64_t row) const {
    const int64_t n = part.n1 - part.n0;
    const auto zero = static_cast<uint32_t>((has_a_zero_ ? a_zero_.integer(args.buffers, row) : 0) +
                                            (a_turned() ? 128 : 0));
    for (int64_t j = 0; j < n; ++j) {
      uint32_t v = 0;
      if (bias_.input != kAbsent)
        v = static_cast<uint32_t>(bias_.integer(args.buffers, part.n0 + j));
      if (columns.sums) v -= zero * static_cast<uint32_t>(columns.sums[j]);
      columns.add[j] = static_cast<int32_t>(v);
    }
  }
  void fill_scales(const StepArgs& args, const MatMulPart& part, float* scales, int64_t row) const {
    const float a = a_scale_.real(args.buffers, row);
    const float y = static_cast<const float*>(args.buffers[roles_.y_scale])[0];
    for (int64_t j = 0; j < part.n1 - part.n0; ++j)
      scales[j] = a * b_scale_.real(args.buffers, part.n0 + j) / y;
  }

  /// `anew`: the part's rows are not yet copied and summed.
  void multiply(const StepArgs& args, const MatMulPart& part, const Columns& columns,
                bool anew) const {
    const int64_t m = part.m1 - part.m0, n = part.n1 - part.n0;
    const BatchOffsets offsets = batch_offsets(p_, part.batch);
    const auto* a =
        static_cast<const std::byte*>(args.buffers[roles_.a]) + offsets.a + part.m0 * p_.a_m;
    int64_t a_stride = p_.m == 1 ? p_.k : p_.a_m;
    if (a_copied_) {
      auto* rows = at<uint8_t>(args, a_at_);
      if (anew) copy_matrix({m, p_.k, p_.a_m, p_.a_k, p_.k, 1, 1}, a, rows);
      if (anew && a_turned())  // the same bit turns both ways
        integer_fns().to_signed(rows, m * p_.k, reinterpret_cast<int8_t*>(rows));
      a = reinterpret_cast<const std::byte*>(rows);
      a_stride = p_.k;
    }
    const int64_t c_offset = offsets.c + part.m0 * p_.c_m + part.n0 * p_.c_n;
    int32_t* sums = sums_in_place_ ? static_cast<int32_t*>(args.buffers[output_]) + c_offset
                                   : at<int32_t>(args, c_at_);
    const int64_t sums_stride = sums_in_place_ && p_.m > 1 ? p_.c_m : sums_width(n);
    if (packed_) {
      void* const pointers[4] = {const_cast<std::byte*>(a),
                                 packed_->slice(packed_->slice_at(part.n0)), sums,
                                 at<void>(args, library_at_)};
      primitive(m, n)->execute(pointers);
    } else if (dots_) {
      dots_->multiply(
          {m, n, p_.k, a, a_signed_, a_stride, at<uint8_t>(args, b_at_), sums, sums_stride});
    } else {
      integer_product(
          {m, n, p_.k, a, a_signed_, a_stride, columns.b, columns.stride, sums, sums_stride},
          at<void>(args, library_at_), false);
    }
    if (columns.zeros && anew)
      integer_fns().row_sums(a, a_signed_ && !a_turned(), m, p_.k, a_stride,
                             at<int32_t>(args, row_sums_at_));
    finish_rows(args, part, columns, {sums, sums_stride, c_offset});
  }

  struct Rows {
    int32_t* sums;
    int64_t sums_stride;
    int64_t c_offset;
  };
  void finish_rows(const StepArgs& args, const MatMulPart& part, const Columns& columns,
                   const Rows& rows) const {
    const int64_t m = part.m1 - part.m0, n = part.n1 - part.n0;
    const IntegerFns& fns = integer_fns();
    const auto* row_sums = at<int32_t>(args, row_sums_at_);
    FinishRow row{};
    row.n = n;
    row.add = columns.add;
    row.zeros = columns.zeros;
    row.scales = columns.scales;
    auto* out = static_cast<std::byte*>(args.buffers[output_]);
    std::byte* bytes = out + rows.c_offset;
    int64_t bytes_stride = p_.c_m;
    if (roles_.requantised()) {
      row.out_zero = static_cast<int32_t>(
          load_int64(args.buffers[roles_.y_zero], y_signed_ ? DType::kI8 : DType::kU8, 0));
      row.low = static_cast<float>((y_signed_ ? -128 : 0) - row.out_zero);
      row.high = row.low + 255;
      if (!dense_) {
        bytes = at<std::byte>(args, bytes_at_);
        bytes_stride = n;
      }
    }
    if (row.add || row.zeros || row.scales)
      for (int64_t i = 0; i < m; ++i) {
        if (columns.add && a_zero_.varies) fill_add(args, part, columns, part.m0 + i);
        if (columns.scales && a_scale_.varies)
          fill_scales(args, part, const_cast<float*>(columns.scales), part.m0 + i);
        row.sums = row.out32 = rows.sums + i * rows.sums_stride;
        row.row_sum = columns.zeros ? row_sums[i] : 0;
        row.out8 = reinterpret_cast<uint8_t*>(bytes + i * bytes_stride);
        fns.finish(row);
      }
    if (roles_.requantised()) {
      if (!dense_) copy_matrix({m, n, n, 1, p_.c_m, p_.c_n, 1}, bytes, out + rows.c_offset);
    } else if (!sums_in_place_) {
      copy_matrix({m, n, rows.sums_stride, 1, p_.c_m, p_.c_n, 4}, rows.sums,
                  out + rows.c_offset * 4);
    }
  }

  Roles roles_;
  uint32_t output_;
  int threads_;
  std::shared_ptr<const Prepared> prepared_;
  std::shared_ptr<const PackedWeights> packed_;
  MatMulProblem p_;
  bool a_signed_ = false, b_signed_ = false, y_signed_ = false;
  bool has_a_zero_ = false, shifts_b_ = false;  ///< zero points that are not known to be 0
  bool a_copied_ = false, b_copied_ = false, dense_ = false, sums_in_place_ = false;
  const PackedBytesFns* dots_ = nullptr;
  Line a_zero_, a_scale_, b_zero_, b_scale_, bias_;
  std::vector<MatMulPart> parts_;
  std::vector<Primitive> primitives_;
  int64_t primitives_made_ = 0;
  int64_t sums_at_ = 0, zeros_at_ = 0, scales_at_ = 0, add_at_ = 0, row_sums_at_ = 0, a_at_ = 0,
          b_at_ = 0, c_at_ = 0, bytes_at_ = 0, library_at_ = 0;
};

/// [k, n] with columns of zeros up to so many.
Tensor with_columns(const Tensor& dense, int64_t columns) {
  const int64_t k = dense.dims()[0], n = dense.dims()[1];
  if (n >= columns) return dense;
  Tensor out(DType::kI8, {k, columns});
  std::fill_n(out.as<int8_t>(), out.count(), int8_t{0});
  for (int64_t i = 0; i < k; ++i)
    std::copy_n(dense.as<int8_t>() + i * n, n, out.as<int8_t>() + i * columns);
  return out;
}

class IntegerMatMulKernel final : public Kernel {
 public:
  explicit IntegerMatMulKernel(const StepSpec& spec) : spec_(spec) {
    const Roles roles = roles_of(spec);
    const Tensor& weights = spec.inputs[roles.b].constant;
    if (weights && weights.rank() == 2 && weights.count() > 0 && library_integers_are_exact())
      weights_ = weights;
  }
  bool wants_prepare() const override { return weights_ && !prepared(); }
  void prepare() override {
    if (!weights_) return;
    auto made = std::make_shared<Prepared>();
    const Tensor dense = signed_weights(weights_);
    made->packed = pack_weights(with_columns(dense, kLeastColumns), false,
                                {DType::kU8, DType::kI8, DType::kI32}, spec_.threads);
    made->column_sums.resize(static_cast<size_t>(dense.dims()[1]));
    integer_fns().column_sums(dense.as<int8_t>(), dense.dims()[0], dense.dims()[1], dense.dims()[1],
                              made->column_sums.data());
    const std::lock_guard lock(mutex_);
    prepared_ = std::move(made);
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    return std::make_shared<IntegerMatMulBound>(spec_, context, prepared());
  }

 private:
  std::shared_ptr<const Prepared> prepared() const {
    const std::lock_guard lock(mutex_);
    return prepared_;
  }

  StepSpec spec_;
  Tensor weights_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Prepared> prepared_;
};

/// One entry, or entries along one axis only: the rows (of a), or the columns (of b).
bool is_line(const Operand& operand, bool rows, size_t matrix_rank) {
  const size_t rank = operand.dims.size();
  if (rank == 1 && rows) return matrix_rank <= 2 || operand.dims[0] == Dim(1);
  for (size_t axis = 0; axis < rank; ++axis)
    if (!(operand.dims[axis] == Dim(1)) && axis != rank - (rows ? 2 : 1)) return false;
  return true;
}

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("no post-ops");
  const Roles roles = roles_of(spec);
  for (const DType type :
       {spec.inputs[roles.a].dtype, spec.inputs[roles.b].dtype, spec.outputs[0].dtype})
    if (!is_integer(type)) return Verdict::no(fmt::format("{} is no integer", name(type)));
  for (uint32_t i : {roles.a_scale, roles.b_scale, roles.y_scale})
    if (i != kAbsent && spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("scale {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  for (uint32_t i : {roles.a_scale, roles.a_zero})
    if (i != kAbsent && !is_line(spec.inputs[i], true, spec.inputs[roles.a].dims.size()))
      return Verdict::no(fmt::format("input {} varies along other axes than the rows", i));
  for (uint32_t i : {roles.b_scale, roles.b_zero})
    if (i != kAbsent && !is_line(spec.inputs[i], false, spec.inputs[roles.b].dims.size()))
      return Verdict::no(fmt::format("input {} varies along other axes than the columns", i));
  return Verdict::ok();
}

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<IntegerMatMulKernel>(spec);
}

}  // namespace

void add_integer_matmul(Rows& rows) {
  rows.push_back({"onednn.integer_matmul", "MatMulInteger", supports, create});
  rows.push_back({"onednn.integer_matmul", "QLinearMatMul", supports, create});
}

}  // namespace xc::cpu
