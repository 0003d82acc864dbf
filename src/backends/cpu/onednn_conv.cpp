// f32 convolution over oneDNN: "onednn.conv"; "onednn.conv bf16" where operands may be rounded to
// that (StepSpec::multiplied_as()).
//
// Activations are channels-last (measured: as fast as blocked channels on every network here, and
// an ordinary strided tensor to everybody else); an operand in another order is converted part by
// part in scratch. Only a 1x1 convolution between row-major operands stays as it is: there the
// library's row-major kernel costs less than two conversions. Weights are packed at the first bind.
//
// A convolution is split over images, then rows of the result; when it has few rows or more weights
// than data, and many channels, over channels, through scratch. No split divides a sum, and the
// library's order of summation does not depend on the split (a test compares the bits), but where
// it multiplies by its sgemm below AVX-512, or sums up several taps along the only axis: then the
// split depends on the shape alone. That it calls its sgemm is known when a primitive has been
// made; what is bound is made anew then.
//
// Where the processor multiplies bf16 and operands may be rounded, weights are packed so, and each
// part's input is rounded to bf16 in scratch where it is not stored so; sums are f32. (In the
// library's bf16 math mode of f32 convolutions: measured 1.3 to 6 times slower.) A result stored in
// bf16 is rounded once: by the library when no post-ops are left or they commute with it (Relu),
// else by the epilogue, from f32 in scratch. Where f32 is multiplied faster, an input that is
// stored in bf16 all the same is widened in scratch.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/cropped_conv.h"
#include "backends/cpu/elementwise_builder.h"
#include "backends/cpu/empty_conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/few_pixel_conv.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_conv.h"
#include "backends/cpu/onednn_post_ops.h"
#include "backends/cpu/plane_conv.h"
#include "backends/cpu/product_conv.h"
#include "backends/cpu/stand_in_conv.h"
#include "backends/cpu/vector/casts_fn.h"

namespace xc::cpu {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

struct PackedSlice {
  int64_t c0;
  dnnl::memory::desc desc;
  std::shared_ptr<Buffer> buffer;
};

/// Weights in the layouts bound convolutions have asked for. Usually one.
class WeightStore {
 public:
  explicit WeightStore(const StepSpec& spec) : weights_(spec.inputs[1].constant) {}
  bool constant() const { return static_cast<bool>(weights_); }

  std::shared_ptr<Buffer> get(int64_t c0, const dnnl::memory::desc& wanted,
                              const dnnl::memory::desc& plain) {
    const std::lock_guard lock(mutex_);
    for (const PackedSlice& slice : slices_)
      if (slice.c0 == c0 && slice.desc == wanted) return slice.buffer;
    const OneThread guard;
    auto buffer = Buffer::allocate(static_cast<int64_t>(wanted.get_size()));
    dnnl::stream stream(onednn_engine());
    const Tensor held = weights_.held(true);
    dnnl::memory from(plain, onednn_engine(),
                      held.as<std::byte>() + c0 * held.strides()[0] * element_size(held.dtype()));
    dnnl::memory to(wanted, onednn_engine(), buffer->data());
    dnnl::reorder(from, to).execute(stream, from, to);
    held.forget();
    slices_.push_back({c0, wanted, buffer});
    packed_ = true;
    return buffer;
  }
  /// Whether there are some. Does not wait for who packs.
  bool packed() const { return packed_; }
  void forget() {
    const std::lock_guard lock(mutex_);
    slices_.clear();
    packed_ = false;
  }

 private:
  Tensor weights_;
  std::mutex mutex_;
  std::vector<PackedSlice> slices_;
  std::atomic<bool> packed_ = false;
};

/// Whether an image is worth multiplying where it lies row-major: the library's kernel takes
/// vectors of its pixels, and converting costs less than a sixth of them (README).
bool fills_vectors(int64_t pixels) {
  const int64_t lanes = cpu_info().isa == Isa::kAvx512 ? 16 : 8;
  return 6 * pixels >= 5 * align_up(pixels, lanes);
}

/// Where products of bf16 gain although an operand in f32 is rounded for them: so many channels in
/// a sum (256 channels in groups of 16 with 28x28 pixels and 3x3 take 79 us for 289; single ones a
/// fifth more than in f32, while networks of them take 0.85 to 0.97 of the time where the operand
/// is stored in bf16), or terms where there are no groups (three channels 7x7 225 us for 1184, 3x3
/// the same). Single ones along one axis take the library 22 times as long (31 taps, 400 us for
/// 18).
constexpr int64_t kLeastChannels = 8, kLeastTerms = 64;

/// Groups of fewer channels are none for matrix units, and processors that have these multiply bf16
/// in vectors at half of the rate of f32 (112 and 243 GFLOP/s, Intel Xeon): groups of 8, 3x3 over
/// 28x28 pixels, take 250 us and 125; 384 single channels 3x3 over 14x14 pixels 54 and 26.
constexpr int64_t kMatrixChannels = 16;
bool multiplies_f32_faster(const StepSpec& spec) {
  return cpu_info().amx_bf16 && spec.attrs().get_int("group", 1) != 1 &&
         spec.inputs[1].dims[1].constant().value_or(kMatrixChannels) < kMatrixChannels;
}

struct Plan {  // what create() decides
  MappedPostOps mapped;
  Epilogue rest;         ///< after the mapped prefix
  Epilogue whole;        ///< when nothing is mapped
  bool rounded = false;  ///< operands are multiplied as bf16
};

class ConvBound final : public BoundKernel {
 public:
  ConvBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& squeezed,
            const Plan& plan, WeightStore& store)
      : inputs_(static_cast<uint32_t>(spec.inputs.size())),
        rounded_(plan.rounded),
        x_type_(spec.inputs[0].dtype),
        y_type_(spec.outputs[0].dtype) {
    const BoundOperand x = squeezed.x.operand(), w = squeezed.w.operand(), y = squeezed.y.operand();
    const ConvProblem& s = squeezed.problem;
    if (store.constant()) unread = 1u << 1;
    if (x_type_ != multiplied_as()) cast_ = cast_fn(x_type_, multiplied_as(), cpu_info().isa);
    has_bias_ = spec.inputs.size() > 2 && spec.inputs[2].present();
    if (element_count(y.dims) == 0) return;
    if (element_count(w.dims) == 0)
      fail(Status::kUnsupported, "unsupported: convolution by empty weights");

    x_last_ = same_strides(x.dims, x.strides, channels_last_strides(squeezed.x.dims));
    y_last_ = same_strides(y.dims, y.strides, channels_last_strides(squeezed.y.dims));
    row_major_ = s.pointwise() && fills_vectors(s.plane()) && !rounded_ && !plan.whole.staged() &&
                 !x_last_ && !y_last_ && is_contiguous(x.dims, x.strides) &&
                 is_contiguous(y.dims, y.strides);
    stage_x_ = !x_last_ && !row_major_;
    cut_alike_ = products_cut_alike() || !store.constant();
    // The order of such sums depends on how many columns there are and on their padding: on the
    // blocks the library makes of columns and channels, which no description tells.
    order_untold_ = s.axes.size() == 1 && s.taps() > 1 && store.constant();
    onednn_call("a convolution", [&] {
      for (;; ++division_) {
        if (!build(spec, context, plan, squeezed, store)) {
          by_sgemm_ = true;
          build(spec, context, plan, squeezed, store);
        }
        if (regions_.size() == 1 || by_shape_ || by_rows || multiplies_alike(spec, s)) break;
      }
    });
  }

  /// Whether the library multiplies by its sgemm.
  bool by_sgemm() const {
    return std::ranges::any_of(variants_, [](const Variant& v) { return v.by_sgemm; });
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OneThread guard;
    auto* scratch = static_cast<std::byte*>(args.scratch);
    const auto* x = static_cast<const std::byte*>(args.buffers[0]);
    auto* y = static_cast<std::byte*>(args.buffers[inputs_]);
    void* pointers[16];
    for (int64_t i = begin; i < end && i < static_cast<int64_t>(parts_.size()); ++i) {
      const Part& part = parts_[static_cast<size_t>(i)];
      const Variant& variant = variants_[part.variant];
      const std::byte* source = x + part.x_at * element_size(x_type_);
      std::byte* const result = y + part.y_at * element_size(y_type_);
      std::byte* const target = staged(variant) ? scratch + y_stage_ : result;
      if (variant.load) {
        variant.load->run(source, scratch + x_stage_);
        source = scratch + x_stage_;
      }
      if (cast_) {
        cast_({{source}, {1}, scratch + cast_at_, element_count(variant.x_dims), nullptr});
        source = scratch + cast_at_;
      }
      size_t n = 0;
      pointers[n++] = const_cast<std::byte*>(source);
      if (part.weights) {
        pointers[n++] = part.weights->data();
      } else {
        void* plain = static_cast<float*>(args.buffers[1]) + part.w_at;
        if (variant.gather) {
          variant.gather->run(plain, scratch + gathered_at_);
          plain = scratch + gathered_at_;
        }
        void* const pack[2] = {plain, scratch + w_stage_};
        variant.pack->execute(pack);
        pointers[n++] = scratch + w_stage_;
      }
      pointers[n++] = target;
      pointers[n++] = scratch;
      if (has_bias_) pointers[n++] = static_cast<float*>(args.buffers[2]) + part.bias_at;
      for (const auto& binary : mapped_.binaries)
        pointers[n++] = static_cast<std::byte*>(args.buffers[binary.input]) +
                        (binary.per_channel ? 0 : part.y_at * element_size(binary.dtype));
      // Whoever bound it without asking for the result's place.
      if (mapped_.in_place && args.buffers[summed_] != args.buffers[inputs_])
        std::copy_n(static_cast<const float*>(args.buffers[summed_]) + part.y_at,
                    element_count(variant.y_dims), reinterpret_cast<float*>(target));
      variant.primitive->execute(pointers);
      if (variant.store) variant.store->run(target, result);
      if (!epilogue_.empty())
        epilogue_.run(tiles_, static_cast<size_t>(i), args.buffers, scratch + epilogue_stage_,
                      target);
    }
  }

 private:
  DType multiplied_as() const { return rounded_ ? DType::kBF16 : DType::kF32; }

  struct Variant {
    Dims x_dims, y_dims;
    int64_t pad_begin, pad_end;
    std::unique_ptr<PreparedPrimitive> primitive = nullptr;
    dnnl::memory::desc weights = {};
    std::optional<CopyPlan> load = {}, store = {};
    std::unique_ptr<PreparedPrimitive> pack = nullptr;  ///< of weights that the run makes
    std::optional<CopyPlan> gather = {};                ///< in front of it
    std::string kind = {};                              ///< the library's name of what it does
    bool by_sgemm = false;
  };
  /// Whether the library writes its part to scratch.
  bool staged(const Variant& variant) const { return variant.store || epilogue_.staged(); }

  struct Part {
    uint32_t variant;
    int64_t x_at, y_at, bias_at, w_at;  // elements
    std::shared_ptr<Buffer> weights;
  };

  static ConvRegions wanted_rows(std::span<const RowRange> rows, const ConvProblem& s) {
    ConvRegions out;
    for (int64_t n = 0; n < s.batch; ++n)
      for (const RowRange& r : rows) out.push_back({n, n + 1, r.begin, r.end, 0, s.out_channels});
    return out;
  }

  void divide(const StepSpec& spec, const BindContext& context, const Plan& plan,
              const ConvProblem& s) {
    const bool cut_alike = cut_alike_ || !(row_major_ || by_sgemm_);
    by_shape_ = spec.numerics == Numerics::kStrict || !cut_alike || order_untold_;
    auto ways = conv_divisions(s, spec.threads, by_shape_,
                               !row_major_ && !(x_last_ && y_last_ && !plan.rest.staged()), 4,
                               row_major_);  // of which some rows are no dense tensor
    regions_ = std::move(ways[std::min(division_, ways.size() - 1)]);
    by_rows = !context.rows.empty() && s.axes.size() == 2 && !row_major_ && cut_alike;
    if (by_rows) regions_ = wanted_rows(context.rows, s);
    tasks = static_cast<int64_t>(regions_.size());
  }

  /// Whether the library does the functions behind its sums.
  bool maps(const StepSpec& spec, const BindContext& context, const Plan& plan,
            const SqueezedConv& squeezed) const {
    const BoundOperand y = squeezed.y.operand();
    // Functions of one operand go along anywhere; other operands must lie like the result.
    // (Behind its row-major kernel the library does them slowly: there the epilogue is faster.)
    bool out = spec.numerics != Numerics::kStrict && !row_major_;
    if (!plan.mapped.binaries.empty()) {
      out &= y_last_;
      for (const ConvRegion& r : regions_) out &= r.c1 - r.c0 == squeezed.problem.out_channels;
    }
    for (const auto& binary : plan.mapped.binaries) {
      const BoundOperand& b = context.inputs[binary.input];
      out &= binary.per_channel
                 ? is_contiguous(b.dims, b.strides)
                 : b.dims.size() == y.dims.size() &&
                       same_strides(b.dims, b.strides,
                                    channels_last_strides(Dims(b.dims.begin(), b.dims.end())));
    }
    return out;
  }

  void map(const StepSpec& spec, const BindContext& context, const Plan& plan, bool mapped) {
    mapped_ = mapped ? plan.mapped : MappedPostOps{};
    epilogue_ = mapped ? plan.rest : plan.whole;
    written_ = epilogue_.staged() ? DType::kF32 : y_type_;
    in_place = 0;
    if (const auto summed = summed_in_place(spec, mapped_);
        summed && written_ == DType::kF32 && y_type_ == DType::kF32 && !epilogue_.staged() &&
        *summed < 32 && (context.replaceable >> *summed & 1) != 0) {
      summed_ = *summed;
      in_place = 1u << summed_;
      mapped_.in_place = true;
      mapped_.binaries.erase(mapped_.binaries.begin());
    }
    if (!epilogue_.empty()) tiles_ = Epilogue::Tiles(epilogue_, context);
  }

  /// Whether regions may be what they are where the library multiplies by its sgemm.
  bool suits_sgemm() const { return by_sgemm_ || cut_alike_ || (by_shape_ && !by_rows); }

  /// False: the library multiplies by its sgemm, and that was not known.
  bool build(const StepSpec& spec, const BindContext& context, const Plan& plan,
             const SqueezedConv& squeezed, WeightStore& store) {
    const ConvProblem& s = squeezed.problem;
    divide(spec, context, plan, s);
    map(spec, context, plan, maps(spec, context, plan, squeezed));
    variants_.clear();
    parts_.clear();
    const BoundOperand x = squeezed.x.operand(), y = squeezed.y.operand();
    int64_t scratchpad = 0, x_bytes = 0, y_bytes = 0, cast_bytes = 0;
    for (const ConvRegion& r : regions_) {
      const auto [in0, in1, pad_begin, pad_end] = rows_of(s, r);
      Dims x_dims = s.x_dims, y_dims = s.y_dims;
      x_dims[0] = y_dims[0] = r.n1 - r.n0;
      x_dims[2] = in1 - in0;
      y_dims[1] = r.c1 - r.c0;
      y_dims[2] = r.r1 - r.r0;
      uint32_t v = 0;
      for (; v < variants_.size(); ++v)
        if (variants_[v].x_dims == x_dims && variants_[v].y_dims == y_dims &&
            variants_[v].pad_begin == pad_begin && variants_[v].pad_end == pad_end)
          break;
      if (v == variants_.size()) {
        const bool partial = y_dims[1] != s.out_channels;
        Variant variant{x_dims, y_dims, pad_begin, pad_end};
        if (stage_x_) {
          const int64_t bytes = element_size(x_type_);
          variant.load.emplace(x_dims, x.strides, channels_last_strides(x_dims), bytes);
          x_bytes = std::max(x_bytes, element_count(x_dims) * bytes);
        }
        if (cast_)
          cast_bytes = std::max(cast_bytes, element_count(x_dims) * element_size(multiplied_as()));
        if (!row_major_ && (!y_last_ || partial) && !epilogue_.staged())
          variant.store.emplace(y_dims, channels_last_strides(y_dims), y.strides,
                                element_size(written_));
        if (staged(variant))
          y_bytes = std::max(y_bytes, element_count(y_dims) * element_size(written_));
        scratchpad = std::max(scratchpad, make_primitive(spec, s, variant));
        if (variant.by_sgemm && !suits_sgemm()) return false;
        variants_.push_back(std::move(variant));
      }
      Variant& variant = variants_[v];
      Part part{v,
                r.n0 * x.strides[0] + in0 * x.strides[2],
                r.n0 * y.strides[0] + r.c0 * y.strides[1] + r.r0 * y.strides[2],
                r.c0,
                r.c0 * squeezed.w.strides[0],
                nullptr};
      if (store.constant())
        part.weights =
            store.get(r.c0, variant.weights,
                      plain_conv_weights(squeezed.w.operand(), s, r.c1 - r.c0, DType::kF32));
      else if (!variant.pack)
        pack_in_run(squeezed, variant);
      if (!epilogue_.empty()) {
        const auto whole = context.outputs[0].dims;
        const size_t rows_axis = 2 + squeezed.kept.front();
        Dims begin(whole.size(), 0), end(whole.begin(), whole.end());
        begin[0] = r.n0;
        end[0] = r.n1;
        begin[1] = r.c0;
        end[1] = r.c1;
        begin[rows_axis] = r.r0;
        end[rows_axis] = r.r1;
        Dims tile;  // over the axes of the result
        if (epilogue_.staged()) {
          const Dims dense = channels_last_strides(y_dims);
          tile.assign(whole.size(), 0);
          std::copy_n(dense.begin(), 2, tile.begin());
          for (size_t axis = 0; axis < squeezed.kept.size(); ++axis)
            tile[2 + squeezed.kept[axis]] = dense[2 + axis];
        }
        tiles_.add(begin, end, tile);
      }
      parts_.push_back(std::move(part));
    }
    x_stage_ = align_up(scratchpad, 64);
    y_stage_ = x_stage_ + align_up(x_bytes, 64);
    w_stage_ = y_stage_ + align_up(y_bytes, 64);
    gathered_at_ = w_stage_;
    int64_t gathered_bytes = 0;
    for (const Variant& variant : variants_) {
      if (variant.pack) gathered_at_ = std::max(gathered_at_, w_stage_ + packed_bytes(variant));
      if (variant.gather) gathered_bytes = std::max(gathered_bytes, variant.gather->bytes());
    }
    cast_at_ = gathered_at_ + align_up(gathered_bytes, 64);
    epilogue_stage_ = cast_at_ + align_up(cast_bytes, 64);
    scratch_bytes = epilogue_stage_ + epilogue_.scratch_bytes();
    // A primitive holds its generated code: some 64 KiB.
    held_bytes = 1024 + static_cast<int64_t>(variants_.size()) * (64 << 10) +
                 static_cast<int64_t>(parts_.size()) * 512;
    return true;
  }

  static int64_t packed_bytes(const Variant& variant) {
    return align_up(static_cast<int64_t>(variant.weights.get_size()), 64);
  }

  /// Weights that are not constant are packed by each task: from where they lie if the library can
  /// be told how, else from a row-major copy.
  static void pack_in_run(const SqueezedConv& squeezed, Variant& variant) {
    SqueezedConv::Part w = squeezed.w;
    w.dims[0] = variant.y_dims[1];
    if (!has_strided_desc(w.dims, w.strides)) {
      const Dims dense = contiguous_strides(w.dims);
      variant.gather.emplace(w.dims, w.strides, dense, 4);
      w.strides = dense;
    }
    const auto plain = plain_conv_weights(w.operand(), squeezed.problem, w.dims[0], DType::kF32);
    const dnnl::reorder::primitive_desc pd(onednn_engine(), plain, onednn_engine(),
                                           variant.weights);
    variant.pack = std::make_unique<PreparedPrimitive>(
        dnnl::reorder(pd), std::vector<PreparedPrimitive::Argument>{
                               {DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, variant.weights}});
  }

  using Described = dnnl::convolution_forward::primitive_desc;

  /// What the library offers for a part with the dims and padding of `variant`.
  Described describe(const StepSpec& spec, const ConvProblem& s, const Variant& variant) const {
    const DType operands = multiplied_as();
    const dnnl::memory::desc src = conv_activations(s, variant.x_dims, operands, row_major_),
                             dst = conv_activations(s, variant.y_dims, written_, row_major_);
    const ConvWindow window = conv_window(s, variant.y_dims[1], variant.pad_begin, variant.pad_end);
    const dnnl::memory::desc weights(window.weights, onednn_type(operands), Tag::any);
    const dnnl::memory::desc bias = has_bias_
                                        ? dnnl::memory::desc({variant.y_dims[1]}, Type::f32, Tag::a)
                                        : dnnl::memory::desc();
    dnnl::primitive_attr attributes = onednn_attributes();
    append_post_ops(spec, mapped_, dst, attributes);
    const auto choose = [&] {
      return Described(onednn_engine(), dnnl::prop_kind::forward_inference,
                       dnnl::algorithm::convolution_direct, src, weights, bias, dst, window.strides,
                       window.dilations, window.pad_begin, window.pad_end, attributes);
    };
    Described pd = choose();
    // Its first choice takes 1.05 to 1.3 times as long as its second one (README), which it has for
    // all regions only where windows are neither apart nor reach over the edges.
    const bool every_pixel = std::ranges::all_of(s.axes, [](const WindowAxis& axis) {
      return axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
    });
    if (every_pixel && std::string_view(pd.impl_info_str()) == "brgconv_1x1:avx2" &&
        !(pd.next_impl() && std::string_view(pd.impl_info_str()) == "jit_1x1:avx2"))
      pd = choose();
    return pd;
  }

  /// Whether all parts are multiplied as the whole would be by one thread. The library may choose
  /// another kernel for fewer rows, or other blocks of the weights, with which sums of many
  /// channels by several taps go back and forth between these. Sums by one tap add up channel by
  /// channel with any: 14,500 parts of 4,000 of f32 (AVX-512, AVX2) and 5,400 of 1,500 of bf16 by
  /// vectors have the same bits; nothing is known of matrix units.
  bool multiplies_alike(const StepSpec& spec, const ConvProblem& s) const {
    const OneThread guard;
    const Variant whole{s.x_dims, s.y_dims, s.axes[0].pad_begin, s.axes[0].pad_end};
    const Described pd = describe(spec, s, whole);
    const dnnl::memory::desc weights = pd.weights_desc();
    const bool any_blocks = s.taps() == 1 && !(rounded_ && cpu_info().amx_bf16);
    return std::ranges::all_of(variants_, [&](const Variant& variant) {
      return variant.kind == pd.impl_info_str() &&
             (any_blocks || (variant.weights.get_inner_blks() == weights.get_inner_blks() &&
                             variant.weights.get_inner_idxs() == weights.get_inner_idxs()));
    });
  }

  /// Returns the bytes of scratchpad it wants.
  int64_t make_primitive(const StepSpec& spec, const ConvProblem& s, Variant& variant) {
    const OneThread guard;
    const Described pd = describe(spec, s, variant);
    variant.weights = pd.weights_desc();
    variant.kind = pd.impl_info_str();
    variant.by_sgemm = calls_sgemm(variant.kind);
    std::vector<PreparedPrimitive::Argument> arguments{{DNNL_ARG_SRC, pd.src_desc()},
                                                       {DNNL_ARG_WEIGHTS, variant.weights},
                                                       {DNNL_ARG_DST, pd.dst_desc()},
                                                       {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}};
    if (has_bias_) arguments.push_back({DNNL_ARG_BIAS, pd.bias_desc()});
    for (auto& argument : post_op_arguments(mapped_, pd.dst_desc()))
      arguments.push_back(std::move(argument));
    XC_CHECK(arguments.size() <= 16);
    variant.primitive =
        std::make_unique<PreparedPrimitive>(dnnl::convolution_forward(pd), std::move(arguments));
    return static_cast<int64_t>(pd.scratchpad_desc().get_size());
  }

  uint32_t inputs_;
  bool rounded_;                  ///< operands are multiplied as bf16
  DType x_type_, y_type_;         ///< as they are stored
  DType written_ = y_type_;       ///< by the library
  ElementwiseFn cast_ = nullptr;  ///< of x, where it is stored otherwise than it is multiplied
  bool has_bias_ = false, x_last_ = false, y_last_ = false, row_major_ = false, stage_x_ = false;
  bool by_sgemm_ = false;  ///< as the library turned out to multiply
  /// Regions of the sgemm's products may depend on the number of threads: those of weights that
  /// change do not.
  bool cut_alike_ = false;
  bool order_untold_ = false;
  bool by_shape_ = false;  ///< regions do not depend on it
  uint32_t summed_ = 0;    ///< the input that the result takes the place of, where mapped_ says so
  ConvRegions regions_;
  size_t division_ = 0;  ///< of conv_divisions() the first whose parts multiply as the whole would
  std::vector<Variant> variants_;
  std::vector<Part> parts_;
  MappedPostOps mapped_;
  Epilogue epilogue_;
  Epilogue::Tiles tiles_;  ///< as parts_
  int64_t x_stage_ = 0, y_stage_ = 0, w_stage_ = 0, gathered_at_ = 0, cast_at_ = 0,
          epilogue_stage_ = 0;
};

std::optional<Plan> plan_for(const StepSpec& spec, bool rounded, std::string& reason) {
  Plan out;
  auto whole = Epilogue::build(spec, {}, reason, true);
  if (!whole) return std::nullopt;
  out.whole = std::move(*whole);
  out.mapped = map_post_ops(spec, rounded);
  StepSpec rest = spec;
  rest.post_ops.erase(rest.post_ops.begin(),
                      rest.post_ops.begin() + static_cast<ptrdiff_t>(out.mapped.count));
  // The library rounds in front of them.
  if (rounded && rest.narrows() && spec.outputs[0].dtype == DType::kBF16 &&
      std::ranges::all_of(rest.functions(), commutes_with_rounding))
    rest.post_ops.pop_back();
  auto after = Epilogue::build(rest, {}, reason, true);
  if (!after) return std::nullopt;
  out.rest = std::move(*after);
  return out;
}

/// `halves`: operand 0 may be stored in bf16.
Verdict supports_as(const StepSpec& spec, bool rounded, bool halves) {
  for (size_t i = 0; i < 3 && i < spec.inputs.size(); ++i)
    if (spec.inputs[i].present() && spec.inputs[i].dtype != DType::kF32 &&
        !(halves && i == 0 && spec.inputs[i].dtype == DType::kBF16))
      return Verdict::no(fmt::format("operand {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  const size_t rank = spec.inputs[0].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  for (const Dim& dim : spec.inputs[1].dims)
    if (dim == Dim(0)) return Verdict::no("empty weights");
  for (const Dim& dim : spec.inputs[0].dims)
    if (dim == Dim(0)) return Verdict::no("an empty input");
  if (spec.inputs.size() > 2 && spec.inputs[2].present() && !spec.inputs[2].contiguous())
    return Verdict::no("a bias that is not dense");
  std::string reason;
  return plan_for(spec, rounded, reason) ? Verdict::ok() : Verdict::no(reason);
}

Verdict supports_bf16(const StepSpec& spec) {
  if (!has_bf16_products()) return Verdict::no("the processor has no bf16 products");
  if (!spec.inputs[1].constant) return Verdict::no("the weights are not constant");
  const std::span<const Dim> weights = spec.inputs[1].dims;
  const int64_t channels = weights[1].constant().value_or(0);
  int64_t terms = channels;
  for (const Dim& taps : weights.subspan(2)) terms *= taps.constant().value_or(0);
  const bool grouped = spec.attrs().get_int("group", 1) != 1;
  const auto axes = std::count_if(weights.begin() + 2, weights.end(),
                                  [](const Dim& taps) { return !(taps == Dim(1)); });
  if (channels < kLeastChannels && (grouped || terms < kLeastTerms) &&
      (spec.inputs[0].dtype == DType::kF32 || (grouped && axes < 2)))
    return Verdict::no("its sums are too short to gain");
  if (multiplies_f32_faster(spec)) return Verdict::no("vectors multiply f32 faster");
  return supports_as(spec, true, true);
}

std::unique_ptr<Kernel> create(const StepSpec& spec);
std::unique_ptr<Kernel> create_bf16(const StepSpec& spec);

class ConvKernel : public Kernel {
 public:
  ConvKernel(const StepSpec& spec, bool rounded) : spec_(spec), attrs_(spec), store_(spec) {
    std::string reason;
    auto plan = plan_for(spec, rounded, reason);
    if (!plan) fail(Status::kInternal, "onednn.conv: {}", reason);
    plan_ = std::move(*plan);
    plan_.rounded = rounded;
    const bool f32 = !rounded && spec.inputs[0].dtype == DType::kF32;
    if (f32) product_ = ProductConv::create(spec);
    if (f32) few_pixels_.emplace(spec, plan_.whole);
    if (f32) stand_in_.emplace(spec);
    if (f32 && spec.attrs().get_int("group", 1) > 1) planes_.emplace(spec);
    if (store_.constant()) cropped_.emplace(spec, rounded ? create_bf16 : create);
    // Weights that change are packed by each task: one task then.
    if (!store_.constant()) spec_.threads = 1;
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    return bind(context, false);
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context, bool provisional) const {
    if (element_count(context.inputs[0].dims) == 0 && element_count(context.outputs[0].dims) > 0)
      return bind_empty_conv(spec_, context, plan_.whole);
    const SqueezedConv conv(attrs_, context.inputs[0], context.inputs[1], context.outputs[0]);
    if (auto bound = planes_ ? planes_->bind(context, conv) : nullptr) return bound;
    if (cropped_ && has_idle_taps(conv.problem)) {
      // Fewer weights than the library would pack, where it has none.
      const bool pack =
          context.background || spec_.numerics == Numerics::kStrict || !store_.packed();
      if (auto bound = cropped_->bind(context, pack)) return bound;
      provisional = true;
    }
    std::shared_ptr<BoundKernel> bound;
    if (product_) bound = product_->bind(context, conv);
    if (!bound && few_pixels_ && few_pixels_->suits(conv)) {
      // Weights that the library has are packed again when there is time.
      const bool later = !context.background && spec_.numerics != Numerics::kStrict &&
                         store_.packed() && !few_pixels_->packed();
      if (!later) bound = few_pixels_->bind(context, conv);
      provisional |= later;
    }
    if (!bound && stand_in_) bound = stand_in_->bind(context, conv, store_.packed());
    if (!bound) {
      auto made = std::make_shared<ConvBound>(spec_, context, conv, plan_, store_);
      // The library has no kernel for results narrower than their padding (3.2), and multiplies
      // each channel alone by its sgemm: 25 taps with gaps of 672 channels of 14x2 pixels take it
      // 3.4 ms, the own kernel 0.1.
      if (made->by_sgemm() && stand_in_) bound = stand_in_->bind_depthwise(context, conv);
      if (!bound) bound = std::move(made);
    }
    bound->provisional |= provisional;
    return bound;
  }
  bool takes_rows() const override { return store_.constant(); }
  void forget_weights() {
    store_.forget();
    if (product_) product_->forget_weights();
    if (few_pixels_) few_pixels_->forget_weights();
    if (cropped_) cropped_->forget_weights();
  }

 private:
  StepSpec spec_;
  ConvAttrs attrs_;
  Plan plan_;
  std::unique_ptr<ProductConv> product_;
  std::optional<FewPixelConv> few_pixels_;
  std::optional<StandInConv> stand_in_;
  std::optional<PlaneConv> planes_;
  std::optional<CroppedConv> cropped_;
  mutable WeightStore store_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<ConvKernel>(spec, false);
}
std::unique_ptr<Kernel> create_bf16(const StepSpec& spec) {
  return std::make_unique<ConvKernel>(spec, true);
}

}  // namespace

class OnednnConv::Impl final : public ConvKernel {
 public:
  explicit Impl(const StepSpec& spec) : ConvKernel(spec, false) {}
};
Verdict OnednnConv::supports(const StepSpec& spec) {
  return supports_as(spec, false, multiplies_f32_faster(spec));
}
OnednnConv::OnednnConv(const StepSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}
OnednnConv::~OnednnConv() = default;
std::shared_ptr<const BoundKernel> OnednnConv::bind(const BindContext& context,
                                                    bool provisional) const {
  return impl_->bind(context, provisional);
}
void OnednnConv::forget_weights() {
  impl_->forget_weights();
}

void add_bf16_conv(Rows& rows) {
  rows.push_back(
      {"onednn.conv bf16", "Conv", supports_bf16, create_bf16, conv_orders, DType::kBF16});
}
void add_onednn_conv(Rows& rows) {
  rows.push_back({"onednn.conv", "Conv", OnednnConv::supports, create, conv_orders});
}

}  // namespace xc::cpu
