#include "backends/cpu/packed_weights.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/own_product.h"
#include "backends/cpu/vector/casts_fn.h"

namespace xc::cpu {
namespace {

using Tag = dnnl::memory::format_tag;

dnnl::matmul::primitive_desc slice_primitive(const ProductTypes& types, int64_t m, int64_t k,
                                             int64_t n, int64_t lda, int64_t ldc,
                                             const dnnl::memory::desc& weights) {
  const auto rows = [](DType type, int64_t count, int64_t columns, int64_t stride) {
    return dnnl::memory::desc({count, columns}, onednn_type(type), dnnl::memory::dims{stride, 1});
  };
  return {onednn_engine(), rows(types.left, m, k, lda), weights, rows(types.result, m, n, ldc),
          onednn_attributes()};
}

PackedProduct prepared(const dnnl::matmul::primitive_desc& pd) {
  return {
      std::make_shared<const PreparedPrimitive>(
          dnnl::matmul(pd),
          std::vector<PreparedPrimitive::Argument>{{DNNL_ARG_SRC, pd.src_desc()},
                                                   {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                   {DNNL_ARG_DST, pd.dst_desc()},
                                                   {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}}),
      static_cast<int64_t>(pd.scratchpad_desc().get_size()), true};
}

constexpr int64_t kMostSlices = 64;

void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count) {
  cast_fn(from_type, to_type, cpu_info().isa)({{from}, {1}, to, count, nullptr});
}

/// The halves that f32 weights are held as.
DType held_as(const Tensor& weights) {
  if (weights.dtype() == DType::kF32 && weights.contiguous() && widens_halves(cpu_info().isa))
    for (const DType type : {DType::kF16, DType::kBF16})
      if (holds_exactly(type, weights.as<float>(), weights.count())) return type;
  return DType::kF32;
}

/// Of weights of f32 with n columns, on one thread.
int64_t slices_of_f32(int64_t n) {
  return (n + 64) / 384;
}

/// Of weights [k, n] in narrow panels.
int64_t panel_elements(int64_t k, int64_t n) {
  return align_up(n, panel_columns(cpu_info().isa)) * k;
}

/// f32 weights [k, n] as narrow panels, zeros behind the last column.
void to_panels(const float* from, const Dims& dims, const Dims& strides, float* to) {
  const int64_t k = dims[0], width = panel_columns(cpu_info().isa);
  if (dims[1] % width != 0) std::fill_n(to + dims[1] / width * k * width, k * width, 0.0f);
  lay_out(from, {k, dims[1]}, {strides[0], strides[1]}, k, width, 0, 0, to);
}

/// The larger of `most` and the largest bits of magnitudes: those of infinities and NaN are above
/// those of numbers.
uint32_t largest_bits(const float* from, int64_t count, uint32_t most) {
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(from[i]) & 0x7fffffffu);
  return most;
}

}  // namespace

bool PackedWeights::in_panels() const {
  return !narrow_panels && std::all_of(panels_.begin(), panels_.end(),
                                       [](const auto& panel) { return panel.has_value(); });
}

bool PackedWeights::dense_slices() const {
  return types.right == DType::kBF16 || (types.right == DType::kI8 && cpu_info().amx_int8);
}

WeightFormat PackedWeights::format() const {
  if (types.right == DType::kBF16) return WeightFormat::kBF16Pairs;
  return stored == DType::kF16    ? WeightFormat::kF16
         : stored == DType::kBF16 ? WeightFormat::kBF16
                                  : WeightFormat::kF32;
}

int64_t PackedWeights::elements(size_t index) const {
  if (narrow_panels) {
    const auto s = static_cast<int64_t>(index);
    return panel_elements(k, slice_begin(n, slices, s + 1) - slice_begin(n, slices, s));
  }
  return static_cast<int64_t>(descs[index].get_size()) / element_size(types.right);
}

int64_t PackedWeights::widened_bytes(size_t index) const {
  return halves() ? align_up(elements(index) * element_size(types.right), 64) : 0;
}

void* PackedWeights::widen(size_t index, void* memory) const {
  if (!halves()) return slice(index);
  convert(slice(index), stored, memory, types.right, elements(index));
  return memory;
}

void PackedWeights::pack(const Tensor& weights, int64_t k_stride, int64_t n_stride) {
  const auto columns = [&](int64_t s) { return slice_begin(n, slices, s); };
  stored = types.right == DType::kF32 ? held_as(weights) : types.right;
  narrow_panels =
      types.right == DType::kF32 && weights.dtype() == DType::kF32 && cpu_info().isa < Isa::kAvx512;
  // Weights that one thread takes whole are laid out as for that: for a result with gaps the
  // library adds up long sums in parts, and threads would change bits.
  constexpr int64_t kLongSum = 256;
  const bool gaps =
      !dense_slices() && (types.right != DType::kF32 || slices_of_f32(n) > 1 || k <= kLongSum);
  dnnl::stream stream(onednn_engine());
  int64_t bytes = 0, largest = 0;
  for (int64_t s = 0; s < slices; ++s) {
    const int64_t width = columns(s + 1) - columns(s);
    // The library's layout is the same for every number of rows above a few.
    if (!narrow_panels) {
      descs.push_back(slice_primitive(types, 64, k, width, k, gaps ? n : width,
                                      {{k, width}, onednn_type(types.right), Tag::any})
                          .weights_desc());
      panels_.push_back(panel_of(descs.back()));
    }
    offsets_.push_back(bytes);
    const auto index = static_cast<size_t>(s);
    bytes += align_up(elements(index) * element_size(stored), 64);
    largest = std::max(largest, widened_bytes(index));
  }
  buffer_ = Buffer::allocate(bytes);
  const auto staged = largest > 0 ? Buffer::allocate(largest) : nullptr;
  for_units = types.right == DType::kF32 && in_panels() && bf16x3_fns() != nullptr;
  uint32_t most = 0;
  for (int64_t s = 0; s < slices; ++s) {
    const int64_t n0 = columns(s);
    const Dims dims{k, columns(s + 1) - n0}, strides{k_stride, n_stride};
    const DType type = weights.dtype();
    std::byte* const source = weights.as<std::byte>() + n0 * n_stride * element_size(type);
    const auto index = static_cast<size_t>(s);
    std::byte* const target = buffer_->data() + offsets_[index];
    std::byte* const packed = staged ? staged->data() : target;
    if (narrow_panels) {
      to_panels(reinterpret_cast<const float*>(source), dims, strides,
                reinterpret_cast<float*>(packed));
    } else {
      dnnl::memory from(strided_desc(dims, strides, type), onednn_engine(), source);
      dnnl::memory to(descs[index], onednn_engine(), packed);
      dnnl::reorder(from, to).execute(stream, from, to);
    }
    if (for_units) most = largest_bits(reinterpret_cast<float*>(packed), elements(index), most);
    if (staged) convert(staged->data(), types.right, target, stored, elements(index));
  }
  for_units = for_units && in_bf16x3_range(std::bit_cast<float>(most));
}

size_t PackedWeights::slice_at(int64_t n0) const {
  // Columns are multiples of 64 (slice_begin()): no slice before this one begins there.
  for (int64_t s = n0 * slices / align_up(n, 64); s < slices; ++s)
    if (slice_begin(n, slices, s) == n0) return static_cast<size_t>(s);
  fail(Status::kInternal, "no slice begins at column {}", n0);
}

std::optional<int64_t> PackedWeights::panel(size_t index) const {
  return panels_[index];
}

std::optional<int64_t> PackedWeights::panel_of(const dnnl::memory::desc& desc) const {
  const bool pairs = types.right == DType::kBF16;
  if ((types.right != DType::kF32 && !pairs) ||
      desc.get_format_kind() != dnnl::memory::format_kind::blocked)
    return std::nullopt;
  const auto strides = desc.get_strides();
  if (desc.get_inner_nblks() == 0 && !pairs && strides[1] == 1 && strides[0] == desc.get_dims()[1])
    return 0;
  if (desc.get_inner_nblks() != (pairs ? 3 : 2)) return std::nullopt;
  // Blocks of some rows, or pairs of rows, by 64 columns, those of one panel adjacent.
  const auto blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs(),
             padded = desc.get_padded_dims();
  const int64_t rows = pairs ? 2 * blocks[0] : blocks[0];
  if (axes[0] != 0 || axes[1] != 1 || blocks[1] != kFewColumns ||
      (pairs && (axes[2] != 0 || blocks[2] != 2)) || strides[0] != rows * kFewColumns ||
      strides[1] != padded[0] * kFewColumns)
    return std::nullopt;
  return strides[1];
}

// f32 weights are sliced: up to 8 % faster than whole. So are bf16's, and bytes for matrix units,
// into results without gaps: such units (AMX) want many rows for weights that come from memory, and
// then slices of which the result stays in the second-level cache. Other bytes are up to 20 %
// slower for a result with gaps, and bf16 has a reference kernel for it (measured, README.md).
std::shared_ptr<const PackedWeights> pack_weights(const Tensor& weights, bool transposed,
                                                  const ProductTypes& types, int threads) {
  const Tensor held = weights.held(true);
  auto out = std::make_shared<PackedWeights>();
  out->types = types;
  const size_t k_axis = transposed ? 1 : 0, n_axis = transposed ? 0 : 1;
  out->k = weights.dims()[k_axis];
  out->n = weights.dims()[n_axis];
  const int64_t k_stride = weights.strides()[k_axis], n_stride = weights.strides()[n_axis];
  // Two at least where there are threads, so that one row occupies two of them.
  const int64_t least = threads == 1 || out->n < 256 ? 1 : 2;
  const int64_t sought = types.right == DType::kF32 ? slices_of_f32(out->n)
                         : out->dense_slices()      ? (out->n + 128) / 256
                         : threads == 1             ? 1
                                                    : (out->n + 384) / 768;
  out->slices = std::clamp(sought, least, kMostSlices);
  const OneThread guard;
  onednn_call("packing of weights", [&] { out->pack(held, k_stride, n_stride); });
  held.forget();
  return out;
}

PackedProduct PackedProducts::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  return {found->second.primitive.lock(), found->second.scratchpad};
}

void PackedProducts::add(const Key& key, const PackedProduct& product) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.primitive.expired(); });
  entries_[key] = {product.primitive, product.scratchpad};
}

PackedProduct packed_product(const PackedWeights& weights, size_t slice, int64_t m, int64_t lda,
                             int64_t ldc, bool make) {
  const auto& packed = weights.descs[slice];
  const PackedProducts::Key key{m, packed.get_dims()[1], lda, ldc};
  PackedProduct out = weights.products->find(key);
  if (out.primitive || !make) return out;
  out = prepared(
      slice_primitive(weights.types, m, weights.k, packed.get_dims()[1], lda, ldc, packed));
  weights.products->add(key, out);
  return out;
}

PackedProduct plain_product(const ProductTypes& types, int64_t m, int64_t k, int64_t n,
                            bool transposed) {
  const dnnl::memory::desc weights({k, n}, onednn_type(types.right),
                                   transposed ? Tag::ba : Tag::ab);
  return prepared(slice_primitive(types, m, k, n, k, n, weights));
}

}  // namespace xc::cpu
