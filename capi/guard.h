#pragma once
// The boundary: every exported function runs its body in guard(), checks its handles with live()
// and its structs with read_struct() / write_struct(). Nothing leaves as an exception.

#include <xc/error.h>

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/float_environment.h"
#include "base/no_cancellation.h"

namespace xc::capi {

/// From inside a catch block: turns the exception in flight into a status and, when `out_error` is
/// given, a new xc_error. Never throws: without memory the error is a static object.
xc_status report(xc_error** out_error) noexcept;

/// Runs the body in the default floating-point environment; XC_OK, or the status of what it threw.
/// For runs, which are too short for what guard() adds: what of them may open files, wait or call
/// the host holds a NoCancellation itself.
template <class Body>
inline xc_status guard_run(xc_error** out_error, Body&& body) noexcept {
  const DefaultFloatEnvironment environment;
  try {
    body();
    return XC_OK;
  } catch (...) {
    return report(out_error);
  }
}

/// The same, and the thread is not cancelled meanwhile.
template <class Body>
inline xc_status guard(xc_error** out_error, Body&& body) noexcept {
  const NoCancellation whole;
  return guard_run(out_error, body);
}

[[noreturn]] void fail_null(const char* what);
[[noreturn]] void fail_foreign(const char* what);
[[noreturn]] void fail_struct_size(const char* what, uint32_t size);
[[noreturn]] void fail_newer_struct(const char* what);

/// A pointer argument that must not be null.
template <class T>
inline T* need(T* pointer, const char* what) {
  if (!pointer) [[unlikely]]
    fail_null(what);
  return pointer;
}

/// An array argument: may be null only when it is empty.
template <class T>
inline T* need_array(T* pointer, uint64_t count, const char* what) {
  if (!pointer && count != 0) [[unlikely]]
    fail_null(what);
  return pointer;
}

/// A handle that must be alive and of the right kind (see handles.h).
template <class Handle>
inline Handle& live(Handle* handle) {
  if (!handle) [[unlikely]]
    fail_null(Handle::kKind);
  if (handle->magic != Handle::kMagic) [[unlikely]]
    fail_foreign(Handle::kKind);
  return *handle;
}

/// Copies a caller's struct of any version over `value`, which holds the defaults. Null = defaults.
template <class T>
T read_struct(const T* given, T value, const char* what) {
  if (!given) return value;
  const uint32_t size = given->struct_size;
  if (size < 2 * sizeof(uint32_t) || size > 4096) fail_struct_size(what, size);
  if (size > sizeof(T)) {
    const char* bytes = reinterpret_cast<const char*>(given);
    for (uint32_t i = sizeof(T); i < size; ++i)
      if (bytes[i] != 0) fail_newer_struct(what);
  }
  std::memcpy(&value, given, size < sizeof(T) ? size : sizeof(T));
  value.struct_size = sizeof(T);
  return value;
}

/// Gives a caller's struct of `size` bytes its defaults, zeros beyond what this version knows.
/// Writes nothing behind `size`; nothing at all without room for struct_size.
template <class T>
void init_struct(T* to, size_t size, const T& defaults) noexcept {
  if (!to || size < 2 * sizeof(uint32_t) || size > UINT32_MAX) return;
  const size_t known = size < sizeof(T) ? size : sizeof(T);
  std::memcpy(static_cast<void*>(to), &defaults, known);
  std::memset(reinterpret_cast<char*>(to) + known, 0, size - known);
  to->struct_size = static_cast<uint32_t>(size);
}

/// Fills a caller's struct of any version: as much of `value` as it has room for, zeros beyond.
template <class T>
void write_struct(T* to, const T& value, const char* what) {
  const uint32_t size = need(to, what)->struct_size;
  if (size < 2 * sizeof(uint32_t) || size > 4096) fail_struct_size(what, size);
  const size_t known = size < sizeof(T) ? size : sizeof(T);
  std::memcpy(to, &value, known);
  std::memset(reinterpret_cast<char*>(to) + known, 0, size - known);
  to->struct_size = size;
}

}  // namespace xc::capi
