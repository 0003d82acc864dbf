// Failures on their way between Python and the library.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

/// A failure with the Python exception that it comes from: an xc.Error with a __cause__.
class Caused : public xcrt::Error {
 public:
  Caused(const xcrt::Error& error, nb::python_error cause)
      : xcrt::Error(error), cause_(std::move(cause)) {}
  nb::handle cause() const { return cause_.value(); }

 private:
  nb::python_error cause_;
};

/// A failure with the text "STATUS: where: message", as those of the library have it.
xcrt::Error failure(xc_status status, const std::string& message, const std::string& where = {});
[[noreturn]] void fail(xc_status status, const std::string& message, const std::string& where = {});

/// "ValueError: the text", without the traceback; something else for what has no text.
std::string text_of(const nb::python_error& error);

/// Throws `error` with its cause; the cause itself where it is no Exception (KeyboardInterrupt,
/// SystemExit), which nobody handles as a failure.
[[noreturn]] void fail_with(const xcrt::Error& error, nb::python_error cause);

/// Throws the exception that is set as the cause of one of `type` with this text; itself as above.
[[noreturn]] void refuse(nb::handle type, const std::string& text);

/// What functions of operators raise in this thread while a call of the library is in progress,
/// which hands on no more than its text. Calls may be nested.
class Raised {
 public:
  Raised();
  ~Raised();
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  /// Keeps an exception for the innermost call in progress.
  static void keep(const nb::python_error& error);
  /// Throws the failure of the call.
  [[noreturn]] void fail(const xcrt::Error& error);

 private:
  Raised* around_;
  std::optional<nb::python_error> error_;
};

/// For a thread that Python ends as it asks for the GIL of an interpreter that goes: a daemon
/// thread. Before 3.14 its stack is unwound (pthread_exit() of glibc), which ends the process at
/// the first function of C++ that lets nothing pass. It waits for the end of the process instead,
/// as Python does since.
[[noreturn]] void wait_for_the_end() noexcept;

/// Gives up the GIL while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_the_end();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Has the GIL while it lives, in any thread.
class Locked {
 public:
  Locked() {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      wait_for_the_end();
    }
  }
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Calls the library without the GIL.
template <class Body>
auto without_gil(Body&& body) {
  Raised raised;
  try {
    const Unlocked unlocked;
    return body();
  } catch (const xcrt::Error& error) {
    raised.fail(error);
  }
}

}  // namespace xc_python
