// xc/tensor.h.

#include <cstring>

#include "capi/handles.h"
#include "runtime/tensor_handle.h"

namespace xc::capi {
namespace {

const xc_tensor& live_tensor(const xc_tensor* tensor, const char* what = "tensor") {
  if (!tensor) fail_null(what);
  if (tensor->magic != TensorHandle::kMagic) fail_foreign("tensor");
  return *tensor;
}

const Tensor* tensor_or_null(const xc_tensor* tensor) {
  return tensor && tensor->magic == TensorHandle::kMagic ? &tensor->tensor : nullptr;
}

DType checked_dtype(xc_dtype dtype) {
  if (dtype <= 0 || dtype >= kDTypeCount || dtype == XC_DTYPE_TENSOR)
    fail(Status::kInvalidArgument, "{} is no element type", dtype);
  return static_cast<DType>(dtype);
}

Dims checked_dims(const int64_t* dims, uint32_t rank) {
  need_array(dims, rank, "dims");
  if (rank > kMaxRank) fail(Status::kLimit, "rank {} is over the limit of {}", rank, kMaxRank);
  for (uint32_t i = 0; i < rank; ++i)
    if (dims[i] < 0) fail(Status::kInvalidArgument, "dim {} is negative: {}", i, dims[i]);
  return Dims(dims, dims + rank);
}

/// Bytes below and above the first element that a strided tensor reaches.
struct Extent {
  int64_t below = 0, above = 0;
};
Extent extent(const Dims& dims, const Dims& strides, int64_t element) {
  Extent out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return {};
    const int64_t reach = checked_mul(checked_mul(dims[i] - 1, strides[i]), element);
    int64_t& side = reach < 0 ? out.below : out.above;
    side = checked_add(side, reach);
  }
  out.above = checked_add(out.above, element);
  return out;
}

/// Element `index` (row-major) of a tensor of strings.
const std::string& string_at(const Tensor& tensor, uint64_t index) {
  return tensor
      .as<std::string>()[offset_at(static_cast<int64_t>(index), tensor.dims(), tensor.strides())];
}

void need_strings(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString)
    fail(Status::kInvalidArgument, "a tensor of {} holds no strings", name(tensor.dtype()));
}
/// So many, for all of which the host has room.
void need_strings(const Tensor& tensor, uint64_t count) {
  need_strings(tensor);
  if (static_cast<uint64_t>(tensor.count()) != count)
    fail(Status::kInvalidArgument, "the tensor has {} elements, not {}", tensor.count(), count);
}

const Tensor& need_sequence(const xc_tensor* sequence) {
  const Tensor& tensor = live_tensor(sequence, "sequence").tensor;
  if (tensor.dtype() != DType::kTensor)
    fail(Status::kInvalidArgument, "a tensor of {} is no sequence", name(tensor.dtype()));
  return tensor;
}

}  // namespace

xc_tensor* make_tensor(Tensor tensor) {
  auto handle = std::make_unique<xc_tensor>();
  handle->tensor = std::move(tensor);
  return handle.release();
}

TensorView view_of(const xc_tensor* tensor, const char* what) {
  return live_tensor(tensor, what).tensor.view();
}

Tensor lasting(const xc_tensor& tensor) {
  return tensor.pool ? tensor.tensor.clone() : tensor.tensor;
}

bool is_aligned(const void* data, DType dtype) {
  if (holds_objects(dtype)) return true;  // made by the library
  const int64_t element = element_size(dtype);
  const bool complex = info(dtype).kind == DTypeKind::kComplex;  // aligned like its parts
  return reinterpret_cast<uintptr_t>(data) %
             static_cast<uintptr_t>(complex ? element / 2 : element) ==
         0;
}

}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

xc_status xc_tensor_create(xc_dtype dtype, uint32_t rank, const int64_t* dims,
                           xc_tensor** out_tensor, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_tensor, "out_tensor");
    Tensor tensor(checked_dtype(dtype), checked_dims(dims, rank));
    if (tensor.dtype() != DType::kString && tensor.count() != 0)
      std::memset(tensor.data(), 0, static_cast<size_t>(tensor.byte_size()));
    *out_tensor = make_tensor(std::move(tensor));
  });
}

xc_status xc_tensor_wrap(const xc_tensor_view* view, xc_destroy_fn release, void* user_data,
                         xc_tensor** out_tensor, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_tensor, "out_tensor");
    const DType dtype = checked_dtype(need(view, "view")->dtype);
    if (dtype == DType::kString)
      fail(Status::kInvalidArgument, "strings cannot be wrapped: use xc_tensor_set_strings");
    Dims dims = checked_dims(view->dims, view->rank);
    Dims strides =
        view->strides ? Dims(view->strides, view->strides + view->rank) : contiguous_strides(dims);
    if (element_count(dims) != 0) need(view->data, "view.data");
    if (!is_aligned(view->data, dtype))
      fail(Status::kInvalidArgument, "data of {} is not aligned to its elements", name(dtype));
    const Extent reach = extent(dims, strides, element_size(dtype));
    auto* base = static_cast<char*>(view->data) + reach.below;
    auto handle = std::make_unique<xc_tensor>();
    // Armed last: a failure up to here leaves the memory with the caller.
    auto armed = std::make_shared<bool>(false);
    auto buffer = Buffer::wrap(base, reach.above - reach.below, [armed, release, user_data] {
      if (*armed && release) release(user_data);
    });
    handle->tensor =
        Tensor(std::move(buffer), -reach.below, dtype, std::move(dims), std::move(strides));
    *armed = true;
    *out_tensor = handle.release();
  });
}

xc_tensor* xc_tensor_retain(xc_tensor* tensor) {
  if (tensor_or_null(tensor)) tensor->retain();
  return tensor;
}
void xc_tensor_release(xc_tensor* tensor) {
  // The last tensor may be the last owner of its engine, whose threads end with it.
  const NoCancellation whole;
  const DefaultFloatEnvironment environment;
  if (tensor_or_null(tensor)) tensor->release();
}

xc_dtype xc_tensor_dtype(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  return t ? static_cast<xc_dtype>(t->dtype()) : XC_DTYPE_UNDEFINED;
}
uint32_t xc_tensor_rank(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  return t ? static_cast<uint32_t>(t->rank()) : 0;
}
const int64_t* xc_tensor_dims(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  return t ? t->dims().data() : nullptr;
}
const int64_t* xc_tensor_strides(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  return t ? t->strides().data() : nullptr;
}
void* xc_tensor_data(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  return t && !holds_objects(t->dtype()) && t->buffer() ? t->data() : nullptr;
}
int64_t xc_tensor_element_count(const xc_tensor* tensor) {
  const Tensor* t = tensor_or_null(tensor);
  if (!t || !*t) return 0;
  int64_t count = 1;  // the dims were checked when the tensor was made
  for (int64_t dim : t->dims()) count *= dim;
  return count;
}

xc_status xc_tensor_get_view(const xc_tensor* tensor, xc_tensor_view* out_view) {
  return guard(nullptr, [&] { *need(out_view, "out_view") = to_view(view_of(tensor, "tensor")); });
}

xc_status xc_tensor_copy_out(const xc_tensor* tensor, void* out_data, uint64_t bytes,
                             xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& from = live_tensor(tensor).tensor;
    if (from.dtype() == DType::kString)
      fail(Status::kInvalidArgument, "strings are read with xc_tensor_string");
    if (from.dtype() == DType::kTensor)
      fail(Status::kInvalidArgument, "a sequence is read with xc_sequence_element");
    const int64_t size = from.byte_size();
    if (static_cast<uint64_t>(size) != bytes)
      fail(Status::kInvalidArgument, "the tensor has {} bytes, the buffer {}", size, bytes);
    if (size == 0) return;
    need(out_data, "out_data");
    const Dims strides = contiguous_strides(from.dims());
    copy_elements(from.view(), {out_data, from.dtype(), from.dims(), strides});
  });
}

xc_status xc_tensor_set_strings(xc_tensor* tensor, const xc_string_view* values, uint64_t count,
                                xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& to = live_tensor(tensor).tensor;
    need_strings(to, count);
    if (!to.contiguous()) fail(Status::kUnsupported, "this string tensor is not row-major");
    need_array(values, count, "values");
    std::vector<std::string> copies;  // all or nothing
    copies.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      need_array(values[i].data, values[i].size, "values[].data");
      copies.emplace_back(values[i].data ? values[i].data : "", values[i].size);
    }
    for (uint64_t i = 0; i < count; ++i) to.as<std::string>()[i].swap(copies[i]);
  });
}

xc_status xc_tensor_string(const xc_tensor* tensor, uint64_t index, xc_string_view* out_value,
                           xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& from = live_tensor(tensor).tensor;
    need(out_value, "out_value");
    need_strings(from);
    if (index >= static_cast<uint64_t>(from.count()))
      fail(Status::kInvalidArgument, "no element {} in {} elements", index, from.count());
    *out_value = to_view(string_at(from, index));
  });
}

xc_status xc_tensor_strings(const xc_tensor* tensor, xc_string_view* out_values, uint64_t count,
                            xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& from = live_tensor(tensor).tensor;
    need_strings(from, count);
    need_array(out_values, count, "out_values");
    const std::string* const dense = from.contiguous() ? from.as<std::string>() : nullptr;
    for (uint64_t i = 0; i < count; ++i)
      out_values[i] = to_view(dense ? dense[i] : string_at(from, i));
  });
}

xc_status xc_sequence_create(const xc_tensor* const* elements, uint64_t count,
                             xc_tensor** out_sequence, xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_sequence, "out_sequence");
    need_array(elements, count, "elements");
    Tensor sequence(DType::kTensor, {static_cast<int64_t>(count)});
    for (uint64_t i = 0; i < count; ++i) {
      sequence.as<Tensor>()[i] = lasting(live_tensor(elements[i], "elements[]"));
    }
    *out_sequence = make_tensor(std::move(sequence));
  });
}

xc_status xc_sequence_element(const xc_tensor* sequence, uint64_t index, xc_tensor** out_tensor,
                              xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& from = need_sequence(sequence);
    need(out_tensor, "out_tensor");
    if (index >= static_cast<uint64_t>(from.count()))
      fail(Status::kInvalidArgument, "no element {} in {} elements", index, from.count());
    *out_tensor = make_tensor(from.as<Tensor>()[index]);
  });
}

xc_status xc_sequence_maps(const xc_tensor* sequence, xc_tensor_view* out_keys,
                           xc_tensor_view* out_values, uint64_t count, xc_error** out_error) {
  return guard(out_error, [&] {
    const Tensor& from = need_sequence(sequence);
    need_array(out_keys, count, "out_keys");
    need_array(out_values, count, "out_values");
    if (static_cast<uint64_t>(from.count()) != count)
      fail(Status::kInvalidArgument, "the sequence has {} elements, not {}", from.count(), count);
    const Tensor* const maps = from.as<Tensor>();
    for (uint64_t i = 0; i < count; ++i)
      if (!is_map(maps[i].view())) fail(Status::kInvalidArgument, "element {} is no map", i);
    for (uint64_t i = 0; i < count; ++i) {
      const Tensor* const parts = maps[i].as<Tensor>();
      out_keys[i] = to_view(parts[0].view());
      out_values[i] = to_view(parts[maps[i].strides()[0]].view());
    }
  });
}
