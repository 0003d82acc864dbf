#pragma once
// One error type for everything inside the library. It is thrown, and caught once, in capi/.
// "Not supported here" is not an error but a return value with a reason (see backends/step.h).

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace xc {

/// Status codes; the numbers are those of <xc/status.h> and never change.
enum class Status : int32_t {
  kOk = 0,
  kInvalidArgument = 1,  ///< the caller passed something wrong: fix the call
  kNotFound = 2,         ///< no file, input, node or option of that name
  kFormat = 3,           ///< the file is damaged or of another kind
  kInvalidModel = 4,     ///< well-formed file whose graph breaks the rules of its operators
  kUnsupported = 5,      ///< valid, but not implemented: operator, version, type, feature
  kLimit = 6,  ///< more than is allowed of memory (config.h), of sizes or of what a file may hold
  kOutOfMemory = 7,  ///< an allocation failed or a memory budget is spent
  kIo = 8,           ///< the operating system refused a read, write or map
  kCancelled = 9,    ///< cancelled by the host
  kDeadline = 10,    ///< the run's deadline passed
  kBusy = 11,        ///< the object is in use in a way that excludes this call
  kRange = 12,       ///< a run-time value (index, size, split) is out of range
  kInternal = 13,    ///< a defect of xc: please report
};

/// "INVALID_ARGUMENT" and so on; the name users see.
const char* status_name(Status status) noexcept;

/// The one exception. `where` names the place in the model: a node, an input, a byte offset, a
/// line.
class Error : public std::exception {
 public:
  Error(Status status, std::string message, std::string where = {})
      : status_(status), message_(std::move(message)), where_(std::move(where)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  Status status() const noexcept { return status_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& where() const noexcept { return where_; }
  /// The same error told from further out; the innermost place wins.
  Error at(std::string where) const {
    return Error(status_, message_, where_.empty() ? std::move(where) : where_);
  }

 private:
  Status status_;
  std::string message_;
  std::string where_;
};

template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

/// For invariants of xc itself. Always checked; costs a branch.
#define XC_CHECK(condition)                                                                \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::xc::fail(::xc::Status::kInternal, "internal check failed: {} ({}:{})", #condition, \
                 __builtin_FILE(), __LINE__);                                              \
  } while (false)

/// Runs `body`; an Error that leaves it without a place gets `where`.
template <class Body>
decltype(auto) located(const std::string& where, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    throw error.at(where);
  }
}

/// The same where the text of the place takes time: `where` is asked for it only then.
template <std::invocable Where, class Body>
decltype(auto) located(Where&& where, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    throw error.at(where());
  }
}

}  // namespace xc
