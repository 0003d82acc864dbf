#pragma once
// Work of libraries that want more stack than a host's thread may have.

#include <pthread.h>
#include <functional>
#include <optional>
#include <type_traits>

namespace xc {

/// Whether the calling thread has a quarter of a megabyte left. Not when it is on a stack that is
/// not its own (a fibre).
bool has_large_stack();

/// Starts a thread with a stack of 8 MB and every signal blocked; false when the system refuses
/// one.
bool start_on_large_stack(pthread_t& thread, void* (*entry)(void*), void* argument);

/// Runs a function on such a thread and waits for it; here, where the system
/// refuses one. What it throws is thrown.
void run_elsewhere(const std::function<void()>& body);

/// Where there is room: here, else on such a thread. `body` returns a value or nothing.
template <class Body>
auto on_large_stack(Body&& body) -> std::invoke_result_t<Body&> {
  using Result = std::invoke_result_t<Body&>;
  if (has_large_stack()) return body();
  if constexpr (std::is_void_v<Result>) {
    run_elsewhere([&] { body(); });
  } else {
    std::optional<Result> result;
    run_elsewhere([&] { result.emplace(body()); });
    return std::move(*result);
  }
}

}  // namespace xc
