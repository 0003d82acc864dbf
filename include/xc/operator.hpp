// Operators of the host; see xc.hpp, and operator.h for signatures and threads.
#pragma once

#include <xc/operator.h>
#include <xc/tensor.hpp>

#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace xcrt {

/// One execution as the function of an operator sees it; valid during the function's call. Failures
/// are thrown and, when the function lets them pass, fail the run with their message.
class OpCall {
 public:
  explicit OpCall(xc_op_call* handle) : handle_(handle) {}
  const char* node() const { return xc_op_call_node(handle_); }
  uint32_t input_count() const { return xc_op_call_input_count(handle_); }
  uint32_t output_count() const { return xc_op_call_output_count(handle_); }

  /// Row-major; dtype 0 = absent.
  xc_tensor_view input(uint32_t index) const {
    xc_tensor_view out{};
    check(xc_op_call_input(handle_, index, &out));
    return out;
  }
  bool has(uint32_t index) const { return index < input_count() && input(index).dtype != 0; }
  Dims dims(uint32_t index) const {
    const xc_tensor_view view = input(index);
    return {view.dims, view.rank};
  }
  /// The elements of an input of this type; fails with XC_INVALID_ARGUMENT for another.
  template <class T>
  std::span<const T> values(uint32_t index) const {
    return span_of<const T>(input(index));
  }
  std::string_view string(uint32_t index, uint64_t element) const {
    xc_string_view out{};
    check(xc_op_call_input_string(handle_, index, element, &out));
    return view(out);
  }

  bool wants(uint32_t index) const { return xc_op_call_wants(handle_, index) != 0; }
  /// The memory of an output whose sizes follow from the inputs, to be filled.
  xc_tensor_view output(uint32_t index) {
    xc_tensor_view out{};
    check(xc_op_call_output(handle_, index, &out));
    return out;
  }
  template <class T>
  std::span<T> result(uint32_t index) {
    return span_of<T>(output(index));
  }
  /// The same for sizes that the function has found.
  xc_tensor_view allocate(uint32_t index, Dims dims) {
    xc_tensor_view out{};
    check(
        xc_op_call_allocate(handle_, index, static_cast<uint32_t>(dims.size()), dims.data(), &out));
    return out;
  }
  template <class T>
  std::span<T> result(uint32_t index, std::initializer_list<int64_t> dims) {
    return span_of<T>(allocate(index, Dims(dims.begin(), dims.size())));
  }
  void set_strings(uint32_t index, std::span<const std::string_view> values) {
    std::vector<xc_string_view> views;
    for (std::string_view value : values) views.push_back({value.data(), value.size()});
    check(xc_op_call_set_strings(handle_, index, views.data(), views.size()));
  }

  /// Number of the attributes that the signature declares.
  uint32_t attribute_count() const { return xc_op_call_attribute_count(handle_); }
  struct Attribute {
    const char* name = nullptr;  ///< lives as long as the library
    int32_t kind = XC_ATTRIBUTE_INT;
  };
  Attribute attribute(uint32_t index) const {
    Attribute out;
    check(xc_op_call_attribute(handle_, index, &out.name, &out.kind));
    return out;
  }
  /// Attributes or their defaults.
  bool has_attribute(const char* name) const { return xc_op_call_has(handle_, name) != 0; }
  int64_t get_int(const char* name) const {
    int64_t out = 0;
    check(xc_op_call_int(handle_, name, &out));
    return out;
  }
  double get_float(const char* name) const {
    double out = 0;
    check(xc_op_call_float(handle_, name, &out));
    return out;
  }
  std::string_view get_string(const char* name) const {
    xc_string_view out{};
    check(xc_op_call_string(handle_, name, &out));
    return view(out);
  }
  std::span<const int64_t> get_ints(const char* name) const {
    const int64_t* values = nullptr;
    uint64_t count = 0;
    check(xc_op_call_ints(handle_, name, &values, &count));
    return {values, count};
  }
  std::span<const double> get_floats(const char* name) const {
    const double* values = nullptr;
    uint64_t count = 0;
    check(xc_op_call_floats(handle_, name, &values, &count));
    return {values, count};
  }
  std::vector<std::string_view> get_strings(const char* name) const {
    uint64_t count = 0;
    check(xc_op_call_strings(handle_, name, 0, nullptr, &count));
    std::vector<std::string_view> out(count);
    for (uint64_t i = 0; i < count; ++i) {
      xc_string_view text{};
      check(xc_op_call_strings(handle_, name, i, &text, nullptr));
      out[i] = view(text);
    }
    return out;
  }
  xc_tensor_view get_tensor(const char* name) const {
    xc_tensor_view out{};
    check(xc_op_call_tensor(handle_, name, &out));
    return out;
  }
  xc_op_call* handle() const { return handle_; }

 private:
  friend class OpLibrary;
  /// A failure whose message the call keeps.
  struct Failed : Error {
    explicit Failed(xc_status status) : Error(status, xc_status_name(status), {}) {}
  };
  static void check(xc_status status) {
    if (status) throw Failed(status);
  }
  template <class T>
  std::span<T> span_of(const xc_tensor_view& view) const {
    static_assert(dtype_of<T> != XC_DTYPE_UNDEFINED);
    if (view.dtype != dtype_of<T>)
      throw Error(XC_INVALID_ARGUMENT, "the tensor has another element type", {});
    size_t count = 1;
    for (uint32_t axis = 0; axis < view.rank; ++axis) count *= static_cast<size_t>(view.dims[axis]);
    return {static_cast<T*>(view.data), count};
  }
  xc_op_call* handle_;
};

/// Operators of the host; operator.h has the language of signatures and rules.
class OpLibrary {
 public:
  OpLibrary() {
    xc_op_library* handle = nullptr;
    detail::call(&xc_op_library_create, &handle);
    handle_.reset(handle);
  }
  /// `function(OpCall&)` carries the operator out. What it throws fails the run with its text.
  template <class Function>
    requires std::is_invocable_v<const Function&, OpCall&>
  OpLibrary& add(const char* signature, Function function) {
    auto held = std::make_unique<const Function>(std::move(function));
    const xc_op_function callbacks{
        [](void* self, xc_op_call* handle) -> xc_status {
          try {
            OpCall call(handle);
            (*static_cast<const Function*>(self))(call);
            return XC_OK;
          } catch (const OpCall::Failed& failed) {
            return failed.status();
          } catch (const Error& error) {
            return xc_op_call_fail(handle, error.status(), error.what());
          } catch (const std::bad_alloc&) {
            return xc_op_call_fail(handle, XC_OUT_OF_MEMORY, "the function ran out of memory");
          } catch (const std::exception& error) {
            return xc_op_call_fail(handle, XC_INVALID_ARGUMENT, error.what());
          } catch (...) {
            return xc_op_call_fail(handle, XC_INVALID_ARGUMENT, "the function threw");
          }
        },
        const_cast<Function*>(held.get()),
        [](void* self) { delete static_cast<const Function*>(self); }};
    detail::call(&xc_op_library_add, handle(), signature, &callbacks);
    (void)held.release();
    return *this;
  }
  /// An operator that rules alone give a meaning.
  OpLibrary& add(const char* signature) {
    detail::call(&xc_op_library_add, handle(), signature,
                 static_cast<const xc_op_function*>(nullptr));
    return *this;
  }
  OpLibrary& add_rules(const char* rules) {
    detail::call(&xc_op_library_add_rules, handle(), rules);
    return *this;
  }
  xc_op_library* handle() const { return handle_.get(); }

 private:
  detail::Owner<xc_op_library, &xc_op_library_release> handle_;
};

}  // namespace xcrt
