#pragma once
// Tensors: a strided view over a shared buffer. `Tensor` owns (shares) its memory, `TensorView`
// borrows it. Strides are in elements and may be zero (broadcast) or negative (reversed slices).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "tensor/dim.h"
#include "tensor/dtype.h"

namespace xc {

/// Bytes with an owner. 64-byte aligned when allocated here. Holds std::string objects for strings,
/// Tensor objects for sequences.
///
/// A buffer may be made on demand: weights in a file at an address that is no multiple of their
/// type's size, say. Whoever needs them for a while holds them (held()): there is one copy for all
/// holders at a time, and none when the last has let go. data() makes one that stays.
class Buffer : public std::enable_shared_from_this<Buffer> {
 public:
  /// Uninitialised memory (constructed strings for DType::kString). Fails with kOutOfMemory.
  static std::shared_ptr<Buffer> allocate(int64_t bytes);
  static std::shared_ptr<Buffer> allocate_strings(int64_t count);
  static std::shared_ptr<Buffer> allocate_tensors(int64_t count);
  /// Memory owned by somebody else; `release` runs once when the last user is gone (may be empty),
  /// and when this fails.
  static std::shared_ptr<Buffer> wrap(void* data, int64_t bytes, std::function<void()> release);
  /// The same for a file's pages, which forget() may drop.
  static std::shared_ptr<Buffer> wrap_mapping(void* data, int64_t bytes,
                                              std::function<void()> release);
  /// An aligned copy, on demand, of the bytes of `owner` from `offset` on.
  static std::shared_ptr<Buffer> copy_on_demand(std::shared_ptr<Buffer> owner, int64_t offset,
                                                int64_t bytes);
  /// What `fill` writes, on demand: the same bytes each time, from any thread.
  static std::shared_ptr<Buffer> make_on_demand(int64_t bytes,
                                                std::function<void(std::byte*)> fill);
  /// The same in parts of so many bytes, for who reads a few at a time (read()): `fill` writes
  /// bytes [begin, end), multiples of `part`.
  using FillParts = std::function<void(std::byte* to, int64_t begin, int64_t end)>;
  static std::shared_ptr<Buffer> make_parts_on_demand(int64_t bytes, int64_t part, FillParts fill);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Fails with kOutOfMemory where it has to make them.
  std::byte* data() const { return on_demand_ ? keep() : data_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes of what it is made in on demand; 0: it is there.
  int64_t part() const;
  /// A buffer whose bytes are there for as long as it is held: this one, or a copy. Fails with
  /// kOutOfMemory. Any thread.
  std::shared_ptr<Buffer> held();
  /// Copies bytes [begin, end); of a buffer on demand no others are made where both are multiples
  /// of its part. Any thread.
  void read(int64_t begin, int64_t end, std::byte* to);
  /// These bytes will hardly be read again soon: pages of a mapped file leave this process's memory
  /// until they are. Any thread, readers of the bytes included.
  void forget(int64_t offset, int64_t bytes) const;

 private:
  friend class Tensor;
  struct OnDemand;
  Buffer();
  std::byte* keep() const;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  bool mapped_ = false;
  std::function<void()> release_;
  std::unique_ptr<OnDemand> on_demand_;
};

/// Borrowed view: what kernels see. `data` points at the element with all indices zero.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kUndefined;
  std::span<const int64_t> dims;
  std::span<const int64_t> strides;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t count() const { return element_count(dims); }
  bool contiguous() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  explicit operator bool() const { return dtype != DType::kUndefined; }  ///< false = absent
};

/// True when dims of size > 1 have row-major strides.
bool is_contiguous(std::span<const int64_t> dims, std::span<const int64_t> strides);

/// Whether it is a pair of tensors of rank 1 and one length, the keys and the values of a map.
bool is_map(const TensorView& value);

class Tensor {
 public:
  Tensor() = default;
  /// New row-major memory, uninitialised (empty strings and undefined tensors for objects).
  Tensor(DType dtype, Dims dims);
  Tensor(std::shared_ptr<Buffer> buffer, int64_t byte_offset, DType dtype, Dims dims, Dims strides);
  /// Row-major view of an existing buffer; fails when it does not fit.
  Tensor(std::shared_ptr<Buffer> buffer, int64_t byte_offset, DType dtype, Dims dims);

  /// A 1-D tensor (or `dims`) of given values.
  template <class T>
  static Tensor of(const std::vector<T>& values, std::vector<int64_t> dims);
  template <class T>
  static Tensor of(const std::vector<T>& values) {
    return of(values, {static_cast<int64_t>(values.size())});
  }
  template <class T>
  static Tensor scalar(T value) {
    return of(std::vector<T>{value}, {});
  }

  explicit operator bool() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t count() const { return element_count(dims_); }
  int64_t byte_size() const { return checked_mul(count(), element_size(dtype_)); }
  bool contiguous() const { return is_contiguous(dims_, strides_); }
  void* data() const;
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  int64_t byte_offset() const { return byte_offset_; }

  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  TensorView view() const { return {data(), dtype_, dims_, strides_}; }
  /// The same elements, in memory that is there for as long as the result is held (Buffer::held()).
  /// `any_address`: for readers of bytes, who need no copy of what is merely not aligned.
  Tensor held(bool any_address = false) const;
  /// The address of those elements, which are there for as long as it is held.
  std::shared_ptr<void> held_data(bool any_address = false) const;
  /// Buffer::forget() of the elements, where they are row-major.
  void forget() const;
  /// A row-major copy, or *this when it already is row-major.
  Tensor to_contiguous() const;
  /// The same elements in row-major memory of their own; tensors within are copied too.
  Tensor clone() const;
  /// The same elements under other dims (of equal count); needs row-major.
  Tensor reshaped(Dims dims) const;

  /// Gives the buffer other row-major dims of the same dtype, without allocating when the rank does
  /// not grow; the buffer must be large enough.
  void set_dims(std::span<const int64_t> dims);

  /// Elements of any integer or bool tensor as int64, in row-major order.
  std::vector<int64_t> to_int64s() const;
  /// Elements of any numeric tensor as double, in row-major order.
  std::vector<double> to_doubles() const;

 private:
  std::shared_ptr<Buffer> buffer_;
  int64_t byte_offset_ = 0;
  DType dtype_ = DType::kUndefined;
  Dims dims_;
  Dims strides_;
};

/// Where the element with this row-major number lies, in elements.
int64_t offset_at(int64_t index, std::span<const int64_t> dims, std::span<const int64_t> strides);

/// Visits every element in row-major order: body(flat index, element offset of each operand).
/// `strides[k]` are those of operand k over `dims`.
void for_each_index(std::span<const int64_t> dims,
                    const std::vector<std::span<const int64_t>>& strides,
                    const std::function<void(int64_t, const int64_t*)>& body);

/// A matrix with its axes swapped, in row-major memory that is made on demand (Buffer).
Tensor turned_on_demand(const Tensor& matrix);

/// Copies elements between views of equal dims and dtype, any strides.
void copy_elements(const TensorView& from, const TensorView& to);

/// One element of any numeric type as double / int64 and back (saturating for integers).
double load_double(const void* data, DType dtype, int64_t index);
int64_t load_int64(const void* data, DType dtype, int64_t index);
void store_double(void* data, DType dtype, int64_t index, double value);
void store_int64(void* data, DType dtype, int64_t index, int64_t value);

template <class T>
Tensor Tensor::of(const std::vector<T>& values, std::vector<int64_t> dims) {
  static_assert(kDTypeOf<T> != DType::kUndefined || std::is_same_v<T, std::string>);
  constexpr DType type = std::is_same_v<T, std::string> ? DType::kString : kDTypeOf<T>;
  Tensor out(type, std::move(dims));
  XC_CHECK(out.count() == static_cast<int64_t>(values.size()));
  T* to = out.as<T>();
  for (size_t i = 0; i < values.size(); ++i) to[i] = values[i];
  return out;
}

}  // namespace xc
