#pragma once
// What failed, and whether it may go through another time.

#include <exception>

namespace xc {

class Program;

namespace tier {

bool is_out_of_memory(const std::exception& error);
/// Whether what failed so may go through another time: when there is memory, or at other sizes.
bool may_pass_later(const std::exception& error);
/// Tells the host of background work that failed.
void log_failure(const Program& program, const char* what) noexcept;

}  // namespace tier
}  // namespace xc
