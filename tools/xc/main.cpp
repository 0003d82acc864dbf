// xc: run, check, measure and look at models. Every command is a file of its own; all of them use
// the public interface alone. Exit status: 0 success, 1 failure, 2 wrong usage.

#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "common.h"

namespace {

/// One line, whatever the message holds.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return text;
}

int report(const std::string& text, const char* advice) {
  std::fflush(stdout);
  fmt::print(stderr, "xc: {} ({})\n", one_line(text), advice);
  return 1;
}

int report(xc_status status, const std::string& text) {
  return report(fmt::format("{}: {}", xc_status_name(status), text), xc_status_advice(status));
}

/// "'fly' is no command; there are: run, bench, ..."
std::string wrong_command(const CLI::App& app) {
  std::string list;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    list += (list.empty() ? "" : ", ") + sub->get_name();
  const std::vector<std::string> words = app.remaining();
  return words.empty() ? "give a command: " + list
                       : fmt::format("'{}' is no command; there are: {}", words.front(), list);
}

int usage(const CLI::App& app, const std::string& text) {
  std::fflush(stdout);
  std::string command = "xc";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  fmt::print(stderr, "xc: USAGE: {} (see {} --help)\n", one_line(text), command);
  return 2;
}

/// What the program opens must not take the place of a standard stream that the caller closed:
/// what is printed would land there. Reading and writing these streams fails as before.
void occupy_closed_streams() {
  for (const int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF &&
        open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) < 0)
      return;
}

/// A command has succeeded only when its results are where they were to go.
void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    tool::fail(XC_IO, "standard output cannot be written{}", tool::reason(errno));
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  CLI::App app{"xc: run, check, measure and look at models"};
  app.name("xc");
  app.set_version_flag("--version", std::string("xc ") + xc_runtime_version());
  app.require_subcommand(1);
  int exit_code = 0;
  tool::add_run(app, exit_code);
  tool::add_bench(app, exit_code);
  tool::add_check(app, exit_code);
  tool::add_inspect(app, exit_code);
  tool::add_explain(app, exit_code);
  tool::add_convert(app, exit_code);
  tool::add_opt(app, exit_code);
  tool::add_report(app, exit_code);
  tool::add_config(app, exit_code);
  tool::add_cache(app, exit_code);
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& request) {  // --help, --version
      exit_code = app.exit(request);
    }
    flush_output();
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return usage(app, app.get_subcommands().empty() ? wrong_command(app) : error.what());
  } catch (const tool::Usage& error) {
    return usage(app, error.what());
  } catch (const xcrt::Error& error) {
    return report(error.what(), error.advice());
  } catch (const tool::Failure& error) {
    return report(error.status, error.what());
  } catch (const tool::ChildFailure& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", one_line(error.what()));
    return error.exit_status;
  } catch (const std::bad_alloc&) {
    return report(XC_OUT_OF_MEMORY, "out of memory");
  } catch (const std::system_error& error) {  // of fmt, whose file is standard output
    return report(XC_IO, error.what());
  } catch (const std::exception& error) {
    return report(XC_INTERNAL, error.what());
  }
}
