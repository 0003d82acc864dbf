#include "tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/large_memory.h"
#include "tensor/copy_matrix.h"
#include "tensor/half.h"
#include "tensor/small_float.h"

namespace xc {

std::shared_ptr<Buffer> Buffer::allocate(int64_t bytes) {
  XC_CHECK(bytes >= 0);
  void* const data = allocate_large(bytes);
  if (!data) fail(Status::kOutOfMemory, "cannot allocate {} bytes", bytes);
  return wrap(data, bytes, [data] { std::free(data); });
}

std::shared_ptr<Buffer> Buffer::allocate_strings(int64_t count) {
  auto* strings = new std::string[static_cast<size_t>(count)];
  return wrap(strings, checked_mul(count, sizeof(std::string)), [strings] { delete[] strings; });
}

std::shared_ptr<Buffer> Buffer::allocate_tensors(int64_t count) {
  auto* tensors = new Tensor[static_cast<size_t>(count)];
  return wrap(tensors, checked_mul(count, sizeof(Tensor)), [tensors] { delete[] tensors; });
}

std::shared_ptr<Buffer> Buffer::wrap(void* data, int64_t bytes, std::function<void()> release) {
  struct Made final : Buffer {};  // one allocation for it and its owners
  std::shared_ptr<Buffer> out;
  try {
    out = std::make_shared<Made>();
  } catch (...) {
    if (release) release();
    throw;
  }
  out->data_ = static_cast<std::byte*>(data);
  out->bytes_ = bytes;
  out->release_ = std::move(release);
  return out;
}

std::shared_ptr<Buffer> Buffer::wrap_mapping(void* data, int64_t bytes,
                                             std::function<void()> release) {
  auto out = wrap(data, bytes, std::move(release));
  out->mapped_ = true;
  return out;
}

/// How to make the bytes of a buffer, and those that are made.
struct Buffer::OnDemand {
  FillParts fill;
  int64_t part = 0;
  std::shared_ptr<Buffer> source;  ///< has the same bytes from `offset` on; null: nobody has
  int64_t offset = 0;
  std::mutex mutex;
  std::weak_ptr<Buffer> made;
  std::shared_ptr<Buffer> kept;
};

Buffer::Buffer() = default;

Buffer::~Buffer() {
  if (release_) release_();
}

std::shared_ptr<Buffer> Buffer::make_on_demand(int64_t bytes,
                                               std::function<void(std::byte*)> fill) {
  return make_parts_on_demand(
      bytes, bytes, [fill = std::move(fill)](std::byte* to, int64_t, int64_t) { fill(to); });
}

std::shared_ptr<Buffer> Buffer::make_parts_on_demand(int64_t bytes, int64_t part, FillParts fill) {
  auto out = wrap(nullptr, bytes, {});
  out->on_demand_ = std::make_unique<OnDemand>();
  out->on_demand_->fill = std::move(fill);
  out->on_demand_->part = std::max<int64_t>(1, part);
  return out;
}

std::shared_ptr<Buffer> Buffer::copy_on_demand(std::shared_ptr<Buffer> owner, int64_t offset,
                                               int64_t bytes) {
  XC_CHECK(offset >= 0 && checked_add(offset, bytes) <= owner->bytes());
  const std::byte* from = owner->data() + offset;
  auto out = make_on_demand(
      bytes, [from, bytes](std::byte* to) { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  out->on_demand_->source = std::move(owner);
  out->on_demand_->offset = offset;
  return out;
}

std::shared_ptr<Buffer> Buffer::held() {
  if (!on_demand_) return shared_from_this();
  const std::lock_guard lock(on_demand_->mutex);
  std::shared_ptr<Buffer> out = on_demand_->made.lock();
  if (!out) {
    out = allocate(bytes_);
    on_demand_->fill(out->data(), 0, bytes_);
    on_demand_->made = out;
  }
  return out;
}

int64_t Buffer::part() const {
  return on_demand_ ? on_demand_->part : 0;
}

void Buffer::read(int64_t begin, int64_t end, std::byte* to) {
  XC_CHECK(begin >= 0 && begin <= end && end <= bytes_);
  if (on_demand_ && begin % on_demand_->part == 0 && end % on_demand_->part == 0) {
    const bool made = [&] {
      const std::lock_guard lock(on_demand_->mutex);
      return !on_demand_->made.expired();
    }();
    if (!made) return on_demand_->fill(to, begin, end);
  }
  std::memcpy(to, held()->data() + begin, static_cast<size_t>(end - begin));
}

std::byte* Buffer::keep() const {
  std::shared_ptr<Buffer> out = const_cast<Buffer*>(this)->held();
  const std::lock_guard lock(on_demand_->mutex);
  if (!on_demand_->kept) on_demand_->kept = std::move(out);
  return on_demand_->kept->data();
}

void Buffer::forget(int64_t offset, int64_t bytes) const {
  if (on_demand_ && on_demand_->source)
    return on_demand_->source->forget(on_demand_->offset + offset, bytes);
#ifdef __linux__
  if (!mapped_) return;
  XC_CHECK(offset >= 0 && checked_add(offset, bytes) <= bytes_);
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto start = reinterpret_cast<intptr_t>(data_) + offset;
  const int64_t first = align_up(start, page) - start;
  const int64_t whole = (bytes - first) / page * page;
  if (whole > 0) (void)madvise(data_ + offset + first, static_cast<size_t>(whole), MADV_DONTNEED);
#endif
}

bool is_contiguous(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 0) return true;
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

bool TensorView::contiguous() const {
  return is_contiguous(dims, strides);
}

bool is_map(const TensorView& value) {
  if (value.dtype != DType::kTensor || value.rank() != 1 || value.dims[0] != 2) return false;
  const auto* parts = value.as<const Tensor>();
  const Tensor &keys = parts[0], &values = parts[value.strides[0]];
  return keys.rank() == 1 && keys.dims() == values.dims();
}

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {
  strides_ = contiguous_strides(dims_);
  const int64_t n = element_count(dims_);
  buffer_ = dtype == DType::kString   ? Buffer::allocate_strings(n)
            : dtype == DType::kTensor ? Buffer::allocate_tensors(n)
                                      : Buffer::allocate(checked_mul(n, element_size(dtype)));
}

Tensor::Tensor(std::shared_ptr<Buffer> buffer, int64_t byte_offset, DType dtype, Dims dims,
               Dims strides)
    : buffer_(std::move(buffer)),
      byte_offset_(byte_offset),
      dtype_(dtype),
      dims_(std::move(dims)),
      strides_(std::move(strides)) {}

Tensor::Tensor(std::shared_ptr<Buffer> buffer, int64_t byte_offset, DType dtype, Dims dims)
    : buffer_(std::move(buffer)), byte_offset_(byte_offset), dtype_(dtype), dims_(std::move(dims)) {
  strides_ = contiguous_strides(dims_);
  if (byte_offset < 0 || checked_add(byte_offset, byte_size()) > buffer_->bytes())
    fail(Status::kInvalidArgument, "tensor {}{} needs {} bytes at offset {}, the buffer has {}",
         name(dtype), to_text(dims_), byte_size(), byte_offset, buffer_->bytes());
}

void* Tensor::data() const {
  return buffer_ ? buffer_->data() + byte_offset_ : nullptr;
}

Tensor Tensor::held(bool any_address) const {
  if (!buffer_ || !buffer_->on_demand_) return *this;
  const Buffer::OnDemand& made = *buffer_->on_demand_;
  if (any_address && made.source)
    return Tensor(made.source, made.offset + byte_offset_, dtype_, dims_, strides_);
  return Tensor(buffer_->held(), byte_offset_, dtype_, dims_, strides_);
}

std::shared_ptr<void> Tensor::held_data(bool any_address) const {
  if (!buffer_) return nullptr;
  if (!buffer_->on_demand_) return {buffer_, buffer_->data_ + byte_offset_};
  const Tensor there = held(any_address);
  return {there.buffer_, there.data()};
}

void Tensor::forget() const {
  if (buffer_ && contiguous()) buffer_->forget(byte_offset_, byte_size());
}

Tensor Tensor::to_contiguous() const {
  if (contiguous()) return *this;
  Tensor out(dtype_, dims_);
  copy_elements(view(), out.view());
  return out;
}

Tensor Tensor::clone() const {
  if (!*this) return {};
  Tensor out(dtype_, dims_);
  copy_elements(view(), out.view());
  if (dtype_ == DType::kTensor)
    for (int64_t i = 0; i < out.count(); ++i) out.as<Tensor>()[i] = out.as<Tensor>()[i].clone();
  return out;
}

Tensor Tensor::reshaped(Dims dims) const {
  XC_CHECK(contiguous() && element_count(dims) == count());
  Tensor out = *this;
  out.strides_ = contiguous_strides(dims);
  out.dims_ = std::move(dims);
  return out;
}

void for_each_index(std::span<const int64_t> dims,
                    const std::vector<std::span<const int64_t>>& strides,
                    const std::function<void(int64_t, const int64_t*)>& body) {
  const int64_t n = element_count(dims);
  std::vector<int64_t> index(dims.size(), 0), offsets(strides.size(), 0);
  if (dims.empty()) return body(0, offsets.data());
  const size_t last = dims.size() - 1;
  const int64_t inner = dims[last];
  for (int64_t flat = 0; flat < n;) {
    for (int64_t i = 0; i < inner; ++i, ++flat) {
      body(flat, offsets.data());
      for (size_t k = 0; k < strides.size(); ++k) offsets[k] += strides[k][last];
    }
    for (size_t k = 0; k < strides.size(); ++k) offsets[k] -= strides[k][last] * inner;
    for (size_t axis = last; axis-- > 0;) {
      ++index[axis];
      for (size_t k = 0; k < strides.size(); ++k) offsets[k] += strides[k][axis];
      if (index[axis] < dims[axis]) break;
      for (size_t k = 0; k < strides.size(); ++k) offsets[k] -= strides[k][axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

int64_t offset_at(int64_t index, std::span<const int64_t> dims, std::span<const int64_t> strides) {
  if (dims.empty()) return 0;
  int64_t offset = 0;
  for (size_t axis = dims.size(); axis-- > 1;) {
    offset += index % dims[axis] * strides[axis];
    index /= dims[axis];
  }
  return offset + index * strides[0];
}

void copy_elements(const TensorView& from, const TensorView& to) {
  XC_CHECK(from.dtype == to.dtype &&
           std::equal(from.dims.begin(), from.dims.end(), to.dims.begin(), to.dims.end()));
  const int64_t size = element_size(from.dtype);
  if (from.dtype == DType::kString) {
    for_each_index(from.dims, {from.strides, to.strides}, [&](int64_t, const int64_t* at) {
      to.as<std::string>()[at[1]] = from.as<std::string>()[at[0]];
    });
    return;
  }
  if (from.dtype == DType::kTensor) {
    for_each_index(from.dims, {from.strides, to.strides}, [&](int64_t, const int64_t* at) {
      to.as<Tensor>()[at[1]] = from.as<Tensor>()[at[0]];
    });
    return;
  }
  const int64_t n = from.count();
  if (n == 0) return;
  if (from.contiguous() && to.contiguous()) {
    std::memcpy(to.data, from.data, static_cast<size_t>(n * size));
    return;
  }
  // Inner axes that both have side by side are one run of bytes.
  size_t outer = from.dims.size();
  int64_t run = 1;
  for (; outer > 0; --outer) {
    const size_t axis = outer - 1;
    if (from.dims[axis] != 1 && (from.strides[axis] != run || to.strides[axis] != run)) break;
    run *= from.dims[axis];
  }
  const auto* src = static_cast<const std::byte*>(from.data);
  auto* dst = static_cast<std::byte*>(to.data);
  if (const CopyMatrix copy = copy_matrix_of(size); run == 1 && outer >= 2 && copy) {
    outer -= 2;
    for_each_index(from.dims.first(outer), {from.strides.first(outer), to.strides.first(outer)},
                   [&](int64_t, const int64_t* at) {
                     copy(src + at[0] * size, dst + at[1] * size, from.dims.subspan(outer, 2),
                          from.strides.subspan(outer, 2), to.strides.subspan(outer, 2));
                   });
    return;
  }
  for_each_index(from.dims.first(outer), {from.strides.first(outer), to.strides.first(outer)},
                 [&](int64_t, const int64_t* at) {
                   std::memcpy(dst + at[1] * size, src + at[0] * size,
                               static_cast<size_t>(run * size));
                 });
}

Tensor turned_on_demand(const Tensor& matrix) {
  XC_CHECK(matrix.rank() == 2 && !holds_objects(matrix.dtype()));
  const Dims dims{matrix.dims()[1], matrix.dims()[0]};
  const auto fill = [matrix, dims](std::byte* bytes) {
    const auto turn = [&](const void* rows, const Dims& strides, int64_t first, int64_t count) {
      const Dims some{dims[0], count}, to_strides{dims[1], 1};
      std::byte* const to = bytes + first * element_size(matrix.dtype());
      copy_elements({const_cast<void*>(rows), matrix.dtype(), some, strides},
                    {to, matrix.dtype(), some, to_strides});
    };
    // Of a matrix that is made on demand itself, what the second-level cache holds at a time.
    const int64_t row_bytes = checked_mul(dims[0], element_size(matrix.dtype()));
    if (matrix.contiguous() && matrix.buffer()->part() == row_bytes && row_bytes > 0) {
      constexpr int64_t kPartBytes = 256 << 10;
      const int64_t at_once = std::clamp<int64_t>(kPartBytes / row_bytes / 16 * 16, 16, dims[1]);
      std::vector<std::byte> rows(static_cast<size_t>(checked_mul(at_once, row_bytes)));
      for (int64_t first = 0; first < dims[1]; first += at_once) {
        const int64_t end = std::min(dims[1], first + at_once), at = matrix.byte_offset();
        matrix.buffer()->read(at + first * row_bytes, at + end * row_bytes, rows.data());
        turn(rows.data(), {1, dims[0]}, first, end - first);
      }
      return;
    }
    const Tensor from = matrix.held(true);
    turn(from.data(), {from.strides()[1], from.strides()[0]}, 0, dims[1]);
    from.forget();
  };
  return Tensor(Buffer::make_on_demand(matrix.byte_size(), fill), 0, matrix.dtype(), dims);
}

double load_double(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kF64:
      return static_cast<const double*>(data)[i];
    case DType::kF16:
      return f16_to_float(static_cast<const uint16_t*>(data)[i]);
    case DType::kBF16:
      return bf16_to_float(static_cast<const uint16_t*>(data)[i]);
    case DType::kU64:
      return static_cast<double>(static_cast<const uint64_t*>(data)[i]);
    default:
      if (is_small_float(dtype))
        return small_float_value(dtype, static_cast<const uint8_t*>(data)[i]);
      return static_cast<double>(load_int64(data, dtype, i));
  }
}

int64_t load_int64(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI4:
    case DType::kI2:
      return static_cast<const int8_t*>(data)[i];
    case DType::kI16:
      return static_cast<const int16_t*>(data)[i];
    case DType::kI32:
      return static_cast<const int32_t*>(data)[i];
    case DType::kI64:
      return static_cast<const int64_t*>(data)[i];
    case DType::kU8:
    case DType::kU4:
    case DType::kU2:
      return static_cast<const uint8_t*>(data)[i];
    case DType::kU16:
      return static_cast<const uint16_t*>(data)[i];
    case DType::kU32:
      return static_cast<const uint32_t*>(data)[i];
    case DType::kU64:
      return static_cast<int64_t>(static_cast<const uint64_t*>(data)[i]);
    case DType::kBool:
      return static_cast<const uint8_t*>(data)[i] != 0;
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
    case DType::kF4E2M1:
    case DType::kF6E2M3:
    case DType::kF6E3M2: {
      const double v = load_double(data, dtype, i);
      if (std::isnan(v)) return 0;
      if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
      if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
      return static_cast<int64_t>(v);
    }
    default:
      fail(Status::kUnsupported, "elements of type {} are not numbers here", name(dtype));
  }
}

namespace {
template <class T>
void store_saturated(void* data, int64_t i, int64_t v) {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_signed_v<T>) {
    if (v < static_cast<int64_t>(L::min())) v = static_cast<int64_t>(L::min());
    if (v > static_cast<int64_t>(L::max())) v = static_cast<int64_t>(L::max());
  } else {
    if (v < 0) v = 0;
    if (static_cast<uint64_t>(v) > static_cast<uint64_t>(L::max()))
      v = static_cast<int64_t>(L::max());
  }
  static_cast<T*>(data)[i] = static_cast<T>(v);
}
}  // namespace

void store_int64(void* data, DType dtype, int64_t i, int64_t v) {
  switch (dtype) {
    case DType::kI8:
      store_saturated<int8_t>(data, i, v);
      return;
    case DType::kI16:
      store_saturated<int16_t>(data, i, v);
      return;
    case DType::kI32:
      store_saturated<int32_t>(data, i, v);
      return;
    case DType::kI64:
      static_cast<int64_t*>(data)[i] = v;
      return;
    case DType::kU8:
      store_saturated<uint8_t>(data, i, v);
      return;
    case DType::kU16:
      store_saturated<uint16_t>(data, i, v);
      return;
    case DType::kU32:
      store_saturated<uint32_t>(data, i, v);
      return;
    case DType::kU64:
      static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(v);
      return;
    case DType::kBool:
      static_cast<uint8_t*>(data)[i] = v != 0;
      return;
    case DType::kI4:
      store_saturated<int8_t>(data, i, std::clamp<int64_t>(v, -8, 7));
      return;
    case DType::kI2:
      store_saturated<int8_t>(data, i, std::clamp<int64_t>(v, -2, 1));
      return;
    case DType::kU4:
      store_saturated<uint8_t>(data, i, std::clamp<int64_t>(v, 0, 15));
      return;
    case DType::kU2:
      store_saturated<uint8_t>(data, i, std::clamp<int64_t>(v, 0, 3));
      return;
    default:
      store_double(data, dtype, i, static_cast<double>(v));
      return;
  }
}

void store_double(void* data, DType dtype, int64_t i, double v) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = static_cast<float>(v);
      return;
    case DType::kF64:
      static_cast<double*>(data)[i] = v;
      return;
    case DType::kF16:
      static_cast<uint16_t*>(data)[i] = float_to_f16(static_cast<float>(v));
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(data)[i] = float_to_bf16(static_cast<float>(v));
      return;
    case DType::kBool:
      static_cast<uint8_t*>(data)[i] = v != 0;
      return;
    case DType::kU64:
      static_cast<uint64_t*>(data)[i] = !(v > 0)      ? 0
                                        : v >= 0x1p64 ? std::numeric_limits<uint64_t>::max()
                                                      : static_cast<uint64_t>(v);
      return;
    default:
      if (is_small_float(dtype)) {
        static_cast<uint8_t*>(data)[i] = small_float_code(dtype, v);
        return;
      }
      if (!is_integer(dtype))
        fail(Status::kUnsupported, "elements of type {} are not numbers here", name(dtype));
      store_int64(data, dtype, i,
                  std::isnan(v) ? 0
                  : v >= 0x1p63 ? std::numeric_limits<int64_t>::max()
                  : v < -0x1p63 ? std::numeric_limits<int64_t>::min()
                                : static_cast<int64_t>(v));
  }
}

void Tensor::set_dims(std::span<const int64_t> dims) {
  XC_CHECK(checked_mul(element_count(dims), element_size(dtype_)) + byte_offset_ <=
           buffer_->bytes());
  dims_.assign(dims.begin(), dims.end());
  strides_.resize(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
}

std::vector<int64_t> Tensor::to_int64s() const {
  if (!contiguous()) return to_contiguous().to_int64s();
  std::vector<int64_t> out(static_cast<size_t>(count()));
  const void* const elements = data();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = load_int64(elements, dtype_, static_cast<int64_t>(i));
  return out;
}

std::vector<double> Tensor::to_doubles() const {
  const Tensor t = to_contiguous();
  std::vector<double> out(static_cast<size_t>(t.count()));
  if (dtype_ == DType::kF32)
    std::copy_n(t.as<float>(), out.size(), out.begin());
  else
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = load_double(t.data(), dtype_, static_cast<int64_t>(i));
  return out;
}

}  // namespace xc
