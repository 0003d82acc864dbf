#include "ops/dense.h"

#include "ops/support.h"

namespace xc {

namespace {
template <class T, class Store>
void write(const TensorView& view, const std::vector<T>& values, Store store) {
  if (!view) return;
  XC_CHECK(view.count() == static_cast<int64_t>(values.size()));
  size_t next = 0;
  for_each_offset<1>(view.dims, {view.strides},
                     [&](const auto& at) { store(view.data, view.dtype, at[0], values[next++]); });
}

/// Calls body with a complex tensor seen as one of floats with a last axis of 2, any other as it
/// is.
template <class Body>
void with_parts(const TensorView& view, Body body) {
  if (info(view.dtype).kind != DTypeKind::kComplex) return body(view);
  Dims dims = dims_of(view), strides(view.strides.begin(), view.strides.end());
  for (int64_t& stride : strides) stride *= 2;
  dims.push_back(2);
  strides.push_back(1);
  body(TensorView{view.data, view.dtype == DType::kC64 ? DType::kF32 : DType::kF64, dims, strides});
}
}  // namespace

std::vector<double> read_parts(const TensorView& view) {
  std::vector<double> out;
  with_parts(view, [&](const TensorView& parts) { out = double_values(parts); });
  return out;
}
void write_parts(const TensorView& view, const std::vector<double>& values) {
  with_parts(view, [&](const TensorView& parts) { write_dense(parts, values); });
}

void write_dense(const TensorView& view, const std::vector<double>& values) {
  write(view, values, store_double);
}
void write_ints(const TensorView& view, const std::vector<int64_t>& values) {
  write(view, values, store_int64);
}

std::vector<uint64_t> read_wrapped(const TensorView& view) {
  const auto values = int_values(view);
  return std::vector<uint64_t>(values.begin(), values.end());
}
void write_wrapped(const TensorView& view, const std::vector<uint64_t>& values) {
  write(view, values, [](void* data, DType type, int64_t at, uint64_t value) {
    store_wrapped(data, type, at, static_cast<int64_t>(value));
  });
}

}  // namespace xc
