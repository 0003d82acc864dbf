#include "tier/failures.h"

#include <new>

#include "runtime/program.h"

namespace xc::tier {

bool is_out_of_memory(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return dynamic_cast<const std::bad_alloc*>(&error) ||
         (known && known->status() == Status::kOutOfMemory);
}

bool may_pass_later(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return is_out_of_memory(error) || (known && known->status() == Status::kLimit);
}

void log_failure(const Program& program, const char* what) noexcept {
  try {
    program.engine().log(LogLevel::kWarning, std::string("background work failed: ") + what);
  } catch (...) {
    // Not even memory to tell it.
  }
}

}  // namespace xc::tier
