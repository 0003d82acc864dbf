#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "common.h"

namespace tool {
namespace {

/// Both ends of a pipe.
struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(XC_IO, "cannot make a pipe{}", reason(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write() {
    if (write_end >= 0) close(std::exchange(write_end, -1));
  }
};

[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         int output, int errors) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  std::string self = "xc";
  argv.push_back(self.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

/// Reads both pipes until their writer is gone.
void drain(int output, int errors, std::string& out, std::string& err) {
  pollfd files[] = {{output, POLLIN, 0}, {errors, POLLIN, 0}};
  std::string* const texts[] = {&out, &err};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (poll(files, 2, -1) < 0 && errno != EINTR) return;
    for (int k = 0; k < 2; ++k) {
      if (files[k].fd < 0 || files[k].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(files[k].fd, buffer, sizeof buffer);
      if (got > 0)
        texts[k]->append(buffer, static_cast<size_t>(got));
      else if (got == 0 || errno != EINTR)
        files[k].fd = -1;  // poll() passes over it
    }
  }
}

/// The last line of what a process said, which is that of its failure.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string run_self(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment) {
  Pipe output, errors;
  const pid_t child = fork();
  if (child < 0) fail(XC_IO, "cannot start a process{}", reason(errno));
  if (child == 0) become(arguments, environment, output.write_end, errors.write_end);
  output.close_write();
  errors.close_write();
  std::string out, err;
  drain(output.read_end, errors.read_end, out, err);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::fputs(err.c_str(), stderr);
    return out;
  }
  const std::string line = last_line(err);
  if (WIFEXITED(status) && line.starts_with("xc: ")) throw ChildFailure(line, WEXITSTATUS(status));
  std::string command;
  for (const std::string& argument : arguments) command += " " + argument;
  if (WIFSIGNALED(status))
    fail(XC_INTERNAL, "xc{} was ended by signal {}", command, WTERMSIG(status));
  fail(XC_INTERNAL, "xc{} ended with status {}", command, WEXITSTATUS(status));
}

OptionSet parse_option_set(const std::string& text) {
  OptionSet out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (word.starts_with("XC_") && equals != std::string::npos)
      out.environment.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    else
      out.flags.push_back(word);
  }
  return out;
}

}  // namespace tool
