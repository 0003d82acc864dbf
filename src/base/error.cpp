#include "base/error.h"

namespace xc {

const char* status_name(Status status) noexcept {
  switch (status) {
    case Status::kOk:
      return "OK";
    case Status::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Status::kNotFound:
      return "NOT_FOUND";
    case Status::kFormat:
      return "FORMAT";
    case Status::kInvalidModel:
      return "INVALID_MODEL";
    case Status::kUnsupported:
      return "UNSUPPORTED";
    case Status::kLimit:
      return "LIMIT";
    case Status::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case Status::kIo:
      return "IO";
    case Status::kCancelled:
      return "CANCELLED";
    case Status::kDeadline:
      return "DEADLINE";
    case Status::kBusy:
      return "BUSY";
    case Status::kRange:
      return "RANGE";
    case Status::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

}  // namespace xc
