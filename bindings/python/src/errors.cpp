#include "errors.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <thread>

namespace xc_python {
namespace {

thread_local Raised* innermost = nullptr;

}  // namespace

xcrt::Error failure(xc_status status, const std::string& message, const std::string& where) {
  const std::string place = where.empty() ? "" : where + ": ";
  return {status, (std::string(xc_status_name(status)) + ": " + place + message).c_str(), where};
}

void fail(xc_status status, const std::string& message, const std::string& where) {
  throw failure(status, message, where);
}

std::string text_of(const nb::python_error& error) {
  try {
    const nb::object type = nb::getattr(error.type(), "__name__");
    return nb::cast<std::string>(type) + ": " + nb::cast<std::string>(nb::str(error.value()));
  } catch (...) {
    return "an exception that has no text";
  }
}

void fail_with(const xcrt::Error& error, nb::python_error cause) {
  if (!cause.matches(PyExc_Exception)) throw std::move(cause);
  throw Caused(error, std::move(cause));
}

void refuse(nb::handle type, const std::string& text) {
  nb::python_error cause;
  if (!cause.matches(PyExc_Exception)) throw std::move(cause);
  nb::raise_from(cause, type, "%s", text.c_str());
}

void wait_for_the_end() noexcept {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

Raised::Raised() : around_(std::exchange(innermost, this)) {}

Raised::~Raised() {
  innermost = around_;
}

void Raised::keep(const nb::python_error& error) {
  if (innermost) innermost->error_.emplace(error);
}

void Raised::fail(const xcrt::Error& error) {
  if (!error_) throw error;
  fail_with(error, *std::move(error_));
}

}  // namespace xc_python
