#include "process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common.h"

namespace tool {
namespace {

[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         int out) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  std::string self = "xc";
  argv.push_back(self.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  dup2(out, STDOUT_FILENO);
  close(out);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

}  // namespace

std::string run_self(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment) {
  int ends[2];
  if (pipe(ends) != 0) fail(XC_IO, "cannot make a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail(XC_IO, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    become(arguments, environment, ends[1]);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string command;
    for (const std::string& argument : arguments) command += " " + argument;
    if (WIFSIGNALED(status))
      fail(XC_INTERNAL, "xc{} was ended by signal {}", command, WTERMSIG(status));
    fail(XC_INVALID_ARGUMENT, "xc{} ended with status {}", command, WEXITSTATUS(status));
  }
  return output;
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
