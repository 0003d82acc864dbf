// Tensors; see xc.hpp, and tensor.h for ownership and threads.
#pragma once

#include <xc/tensor.h>
#include <xc/error.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace xcrt {

/// The dtype of a C++ type; 0 for types that have none.
template <class T>
inline constexpr xc_dtype dtype_of = [] {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return XC_DTYPE_F32;
  else if constexpr (std::is_same_v<U, double>)
    return XC_DTYPE_F64;
  else if constexpr (std::is_same_v<U, bool>)
    return XC_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::complex<float>>)
    return XC_DTYPE_C64;
  else if constexpr (std::is_same_v<U, std::complex<double>>)
    return XC_DTYPE_C128;
  else if constexpr (std::is_integral_v<U> && std::is_signed_v<U>)
    return sizeof(U) == 1   ? XC_DTYPE_I8
           : sizeof(U) == 2 ? XC_DTYPE_I16
           : sizeof(U) == 4 ? XC_DTYPE_I32
                            : XC_DTYPE_I64;
  else if constexpr (std::is_integral_v<U>)
    return sizeof(U) == 1   ? XC_DTYPE_U8
           : sizeof(U) == 2 ? XC_DTYPE_U16
           : sizeof(U) == 4 ? XC_DTYPE_U32
                            : XC_DTYPE_U64;
  else
    return XC_DTYPE_UNDEFINED;
}();

using Dims = std::span<const int64_t>;

/// A typed array with a reference count, or none.
class Tensor {
 public:
  Tensor() = default;  ///< none: an absent optional input
  /// New row-major memory, zeroed.
  Tensor(xc_dtype dtype, Dims dims) {
    xc_tensor* handle = nullptr;
    detail::call(&xc_tensor_create, dtype, static_cast<uint32_t>(dims.size()), dims.data(),
                 &handle);
    handle_.reset(handle);
  }
  template <class T>
  static Tensor of(std::initializer_list<int64_t> dims) {
    static_assert(dtype_of<T> != XC_DTYPE_UNDEFINED);
    return Tensor(dtype_of<T>, Dims(dims.begin(), dims.size()));
  }
  /// A copy of values under these dims.
  template <class T>
  static Tensor of(std::initializer_list<int64_t> dims, std::span<const T> values) {
    Tensor out = of<T>(dims);
    if (static_cast<size_t>(out.size()) != values.size())
      throw Error(XC_INVALID_ARGUMENT, "INVALID_ARGUMENT: values do not fill the dims", {});
    std::copy(values.begin(), values.end(), out.values<T>().begin());
    return out;
  }
  /// Row-major memory of the caller's, which must outlive the tensor.
  template <class T>
  static Tensor borrow(std::initializer_list<int64_t> dims, T* data) {
    const xc_tensor_view view{const_cast<std::remove_const_t<T>*>(data), dims.begin(), nullptr,
                              dtype_of<T>, static_cast<uint32_t>(dims.size())};
    return wrap(view, nullptr, nullptr);
  }
  /// Memory of the caller's of any strides, given back by `release`; see xc_tensor_wrap().
  static Tensor wrap(const xc_tensor_view& view, xc_destroy_fn release, void* user_data) {
    xc_tensor* handle = nullptr;
    detail::call(&xc_tensor_wrap, &view, release, user_data, &handle);
    return adopt(handle);
  }
  /// A sequence of these tensors; see xc_sequence_create().
  static Tensor sequence(std::span<const Tensor> elements) {
    std::vector<const xc_tensor*> handles;
    for (const Tensor& element : elements) handles.push_back(element.handle());
    xc_tensor* handle = nullptr;
    detail::call(&xc_sequence_create, handles.data(), handles.size(), &handle);
    return adopt(handle);
  }
  /// Element `index` of a sequence.
  Tensor element(uint64_t index) const {
    xc_tensor* out = nullptr;
    detail::call(&xc_sequence_element, handle(), index, &out);
    return adopt(out);
  }
  /// Keys and values of all maps of a sequence of maps; see xc_sequence_maps().
  std::pair<std::vector<xc_tensor_view>, std::vector<xc_tensor_view>> maps() const {
    const auto count = static_cast<size_t>(size());
    std::vector<xc_tensor_view> keys(count), values(count);
    detail::call(&xc_sequence_maps, handle(), keys.data(), values.data(),
                 static_cast<uint64_t>(count));
    return {std::move(keys), std::move(values)};
  }
  /// Takes over a reference that a C function gave.
  static Tensor adopt(xc_tensor* handle) {
    Tensor out;
    out.handle_.reset(handle);
    return out;
  }
  /// Gives the reference away: the caller releases it.
  xc_tensor* release() { return handle_.release(); }
  /// Another owner of the same tensor.
  Tensor share() const { return adopt(xc_tensor_retain(handle())); }

  xc_dtype dtype() const { return xc_tensor_dtype(handle()); }
  Dims dims() const { return {xc_tensor_dims(handle()), xc_tensor_rank(handle())}; }
  int64_t size() const { return xc_tensor_element_count(handle()); }
  void* data() const { return xc_tensor_data(handle()); }
  /// All of the above; its pointers live as long as the tensor.
  xc_tensor_view view() const {
    xc_tensor_view out{};
    detail::check(xc_tensor_get_view(handle(), &out));
    return out;
  }
  /// Copies all elements, row-major, to memory of exactly their size.
  void copy_out(std::span<std::byte> to) const {
    detail::call(&xc_tensor_copy_out, static_cast<const xc_tensor*>(handle()),
                 static_cast<void*>(to.data()), static_cast<uint64_t>(to.size()));
  }
  /// The elements of a row-major tensor of this type; fails with XC_INVALID_ARGUMENT for another.
  template <class T>
  std::span<T> values() const {
    if (dtype() != dtype_of<T> || !row_major())
      throw Error(XC_INVALID_ARGUMENT,
                  "INVALID_ARGUMENT: the tensor has another type or is not row-major", {});
    return {static_cast<T*>(data()), static_cast<size_t>(size())};
  }
  std::string_view string(uint64_t index) const {
    xc_string_view out{};
    detail::call(&xc_tensor_string, handle(), index, &out);
    return xcrt::view(out);
  }
  /// All of them, row-major.
  std::vector<std::string_view> strings() const {
    std::vector<xc_string_view> views(static_cast<size_t>(size()));
    detail::call(&xc_tensor_strings, handle(), views.data(), views.size());
    std::vector<std::string_view> out;
    out.reserve(views.size());
    for (const xc_string_view& view : views) out.push_back(xcrt::view(view));
    return out;
  }
  void set_strings(std::span<const std::string_view> values) {
    std::vector<xc_string_view> views;
    for (std::string_view value : values) views.push_back({value.data(), value.size()});
    detail::call(&xc_tensor_set_strings, handle(), views.data(), views.size());
  }
  bool row_major() const {
    const Dims d = dims();
    const int64_t* strides = xc_tensor_strides(handle());
    if (size() == 0) return true;
    int64_t step = 1;
    for (size_t axis = d.size(); axis-- > 0; step *= d[axis])
      if (d[axis] > 1 && strides[axis] != step) return false;
    return true;
  }
  explicit operator bool() const { return static_cast<bool>(handle_); }
  xc_tensor* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_tensor, &xc_tensor_release> handle_;
};

}  // namespace xcrt
