#include "base/process_mark.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xc {
namespace {

/// What a child made by fork() answers with its exit status.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("base/process_mark: children have left what their parents marked, not what they did") {
  const ProcessMark mark;
  CHECK_FALSE(mark.left());
  CHECK(in_child([&] {
          const ProcessMark own;
          if (!mark.left() || own.left()) return 1;
          return in_child([&] { return mark.left() && own.left() ? 0 : 2; });
        }) == 0);
  CHECK_FALSE(mark.left());
}

}  // namespace
}  // namespace xc
