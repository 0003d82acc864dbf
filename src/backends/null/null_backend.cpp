// Refuses every step with one reason: the skeleton of a backend, and a test's way to see fallbacks.

#include "backends/backend.h"
#include "backends/step.h"

namespace xc {
namespace {

Verdict supports(const StepSpec& spec) {
  return Verdict::no(
      fmt::format("the null backend implements nothing, {} included", spec.op->name));
}

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  fail(Status::kInternal, "the null backend was asked for {} after it had refused it",
       spec.op->name);
}

constexpr Implementation kRows[] = {{"null", "*", supports, create}};

}  // namespace

const Backend& null_backend() {
  static const Backend backend{"null", [] { return std::span<const Implementation>(kRows); }};
  return backend;
}

}  // namespace xc
