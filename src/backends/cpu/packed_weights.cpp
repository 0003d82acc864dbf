#include "backends/cpu/packed_weights.h"

#include <algorithm>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/vector/few_rows_fn.h"

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

}  // namespace

size_t PackedWeights::slice_at(int64_t n0) const {
  for (int64_t s = 0; s < slices; ++s)
    if (slice_begin(n, slices, s) == n0) return static_cast<size_t>(s);
  fail(Status::kInternal, "no slice begins at column {}", n0);
}

std::optional<int64_t> PackedWeights::panel(size_t index) const {
  const dnnl::memory::desc& desc = descs[index];
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

std::shared_ptr<const PackedWeights> pack_weights(const Tensor& weights, bool transposed,
                                                  const ProductTypes& types, int threads) {
  const Tensor held = weights.held(true);
  auto out = std::make_shared<PackedWeights>();
  out->types = types;
  const size_t k_axis = transposed ? 1 : 0, n_axis = transposed ? 0 : 1;
  out->k = weights.dims()[k_axis];
  out->n = weights.dims()[n_axis];
  const int64_t k_stride = weights.strides()[k_axis], n_stride = weights.strides()[n_axis];
  // f32 in slices of about 384 columns: up to 8 % faster than whole. Other types are up to 20 %
  // slower for a result with gaps (measured, README.md). Two at least where there are threads, so
  // that one row occupies two of them.
  const int64_t wanted = types.right == DType::kF32 ? (out->n + 64) / 384
                         : threads == 1             ? 1
                                                    : (out->n + 384) / 768;
  out->slices = std::clamp<int64_t>(wanted, threads == 1 || out->n < 256 ? 1 : 2, 64);
  const OneThread guard;
  onednn_call("packing of weights", [&] {
    dnnl::stream stream(onednn_engine());
    const auto columns = [&](int64_t s) { return slice_begin(out->n, out->slices, s); };
    int64_t bytes = 0;
    for (int64_t s = 0; s < out->slices; ++s) {
      const int64_t n = columns(s + 1) - columns(s);
      // The packed layout is the same for every number of rows above a few.
      const auto pd =
          slice_primitive(types, 64, out->k, n, out->k, out->n,
                          dnnl::memory::desc({out->k, n}, onednn_type(types.right), Tag::any));
      out->descs.push_back(pd.weights_desc());
      out->offsets.push_back(bytes);
      bytes += align_up(static_cast<int64_t>(out->descs.back().get_size()), 64);
    }
    out->buffer = Buffer::allocate(bytes);
    for (int64_t s = 0; s < out->slices; ++s) {
      const int64_t n0 = columns(s), n = columns(s + 1) - n0;
      const Dims dims{out->k, n}, strides{k_stride, n_stride};
      const DType stored = weights.dtype();
      dnnl::memory from(strided_desc(dims, strides, stored), onednn_engine(),
                        held.as<std::byte>() + n0 * n_stride * element_size(stored));
      const auto slice = static_cast<size_t>(s);
      dnnl::memory to(out->descs[slice], onednn_engine(), out->slice(slice));
      dnnl::reorder(from, to).execute(stream, from, to);
    }
  });
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
