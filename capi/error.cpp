// xc/error.h, xc/status.h, and the way from an exception to them.

#include <exception>
#include <limits>
#include <new>
#include <stdexcept>

#include "base/utf8.h"
#include "capi/handles.h"

namespace xc::capi {
namespace {

constexpr size_t kWhole = std::numeric_limits<size_t>::max();

/// Lies in the process's data, so that it can be made when there is no memory.
struct OutOfMemory : xc_error {
  OutOfMemory() {
    status = XC_OUT_OF_MEMORY;
    fixed = "out of memory";
  }
};

xc_error* out_of_memory() {
  static OutOfMemory error;  // made at the first use; of short strings, so without an allocation
  return &error;
}

xc_status deliver(xc_error** out_error, Status status, std::string_view message,
                  std::string_view where) noexcept {
  const auto code = static_cast<xc_status>(status);
  if (!out_error) return code;
  try {
    auto error = std::make_unique<xc_error>();
    error->status = code;
    // Names of a model, and what functions of the host say, may hold anything; an error is one
    // line.
    error->message = printable(message, kWhole);
    error->where = printable(where, kWhole);
    error->text = status_name(status);
    error->text += ": ";
    if (!where.empty()) error->text.append(error->where).append(": ");
    error->text += error->message;
    *out_error = error.release();
    return code;
  } catch (...) {
    *out_error = out_of_memory();
    return XC_OUT_OF_MEMORY;
  }
}

}  // namespace

xc_status report(xc_error** out_error) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return deliver(out_error, error.status(), error.message(), error.where());
  } catch (const std::bad_alloc&) {
    if (out_error) *out_error = out_of_memory();
    return XC_OUT_OF_MEMORY;
  } catch (const std::length_error& error) {
    return deliver(out_error, Status::kLimit, error.what(), {});
  } catch (const std::exception& error) {
    return deliver(out_error, Status::kInternal, error.what(), {});
  } catch (...) {
    return deliver(out_error, Status::kInternal, "an exception of an unknown type", {});
  }
}

void fail_null(const char* what) {
  fail(Status::kInvalidArgument, "argument '{}' is null", what);
}
void fail_foreign(const char* what) {
  fail(Status::kInvalidArgument, "the handle is no live xc_{} (destroyed, or of another kind)",
       what);
}
void fail_struct_size(const char* what, uint32_t size) {
  fail(Status::kInvalidArgument,
       "{}.struct_size is {}: set it with the _INIT macro or the _init function", what, size);
}
void fail_newer_struct(const char* what) {
  fail(Status::kUnsupported,
       "{} sets a field that library version {} does not know: update the library", what,
       xc_runtime_version());
}

}  // namespace xc::capi

namespace {

bool alive(const xc_error* error) {
  return error && error->magic == xc_error::kMagic;
}

}  // namespace

const char* xc_status_name(xc_status status) {
  if (status < XC_OK || status > XC_INTERNAL) return "UNKNOWN";
  return xc::status_name(static_cast<xc::Status>(status));
}

const char* xc_status_advice(xc_status status) {
  switch (status) {
    case XC_OK:
      return "nothing to do";
    case XC_INVALID_ARGUMENT:
      return "fix the call; the message names the argument";
    case XC_NOT_FOUND:
      return "check the spelling of the name or path";
    case XC_FORMAT:
      return "the file is damaged or of another kind: get it again or convert it";
    case XC_INVALID_MODEL:
      return "the model breaks an operator's rules: export it again";
    case XC_UNSUPPORTED:
      return "not implemented here: export the model another way, or report it";
    case XC_LIMIT:
      return "the message names the limit: more max_memory_bytes, fewer or fixed input sizes keep "
             "below";
    case XC_OUT_OF_MEMORY:
      return "free memory, then retry";
    case XC_IO:
      return "check the file's permissions and the disk";
    case XC_CANCELLED:
      return "cancelled by the host; run again when wanted";
    case XC_DEADLINE:
      return "give the run more time, or a smaller input";
    case XC_BUSY:
      return "wait for the other call to end, then retry";
    case XC_RANGE:
      return "an input value is out of range: fix the input data";
    case XC_INTERNAL:
      return "a defect of xc: please report it with this message";
    default:
      return "unknown status: the library is newer than the program";
  }
}

xc_status xc_error_status(const xc_error* error) {
  return alive(error) ? error->status : XC_OK;
}

const char* xc_error_message(const xc_error* error) {
  if (!alive(error)) return "";
  return error->fixed ? error->fixed : error->message.c_str();
}

const char* xc_error_where(const xc_error* error) {
  return alive(error) ? error->where.c_str() : "";
}

const char* xc_error_text(const xc_error* error) {
  if (!alive(error)) return "";
  return error->fixed ? "OUT_OF_MEMORY: out of memory" : error->text.c_str();
}

void xc_error_destroy(xc_error* error) {
  if (alive(error) && !error->fixed) delete error;
}
