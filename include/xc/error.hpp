// Failures as exceptions, and what the other wrappers share; see xc.hpp.
#pragma once

#include <xc/error.h>
#include <xc/version.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace xcrt {

/// A failed call: what() is the whole line, "INVALID_ARGUMENT: input x: ...".
class Error : public std::runtime_error {
 public:
  Error(xc_status status, const char* text, std::string where)
      : std::runtime_error(text), status_(status), where_(std::move(where)) {}
  xc_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return xc_status_name(status_); }
  const char* advice() const noexcept { return xc_status_advice(status_); }
  /// The node, input or position; empty when there is none.
  const std::string& where() const noexcept { return where_; }

 private:
  xc_status status_;
  std::string where_;
};

namespace detail {

[[noreturn]] inline void raise(xc_status status, xc_error* error) {
  if (!error) throw Error(status, xc_status_name(status), {});
  const std::unique_ptr<xc_error, decltype(&xc_error_destroy)> owner(error, &xc_error_destroy);
  throw Error(status, xc_error_text(error), xc_error_where(error));
}

/// Calls a C function with an xc_error** added at the end.
template <class Function, class... Args>
void call(Function function, Args... args) {
  xc_error* error = nullptr;
  if (const xc_status status = function(args..., &error)) raise(status, error);
}
inline void check(xc_status status) {
  if (status) raise(status, nullptr);
}

template <auto Function>
struct Deleter {
  template <class T>
  void operator()(T* handle) const noexcept {
    Function(handle);
  }
};
template <class T, auto Function>
using Owner = std::unique_ptr<T, Deleter<Function>>;

/// A C function that delivers a blob, as a string.
template <class Function, class... Args>
std::string text_of(Function function, Args... args) {
  xc_blob* blob = nullptr;
  call(function, args..., &blob);
  const Owner<xc_blob, &xc_blob_destroy> owner(blob);
  return {xc_blob_data(blob), xc_blob_size(blob)};
}

}  // namespace detail

inline const char* runtime_version() {
  return xc_runtime_version();
}

/// Text of the library, which lives as long as what gave it.
inline std::string_view view(xc_string_view text) {
  return {text.data, text.size};
}

}  // namespace xcrt
