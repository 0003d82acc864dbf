// xc: run, check, measure and look at models. Every command is a file of its own; all of them use
// the public interface alone. Exit status: 0 success, 1 failure, 2 wrong usage.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

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

int usage(const CLI::App& app, const std::string& text) {
  std::fflush(stdout);
  std::string command = "xc";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  fmt::print(stderr, "xc: USAGE: {} (see {} --help)\n", one_line(text), command);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
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
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return usage(app, error.what());
  } catch (const tool::Usage& error) {
    return usage(app, error.what());
  } catch (const xcrt::Error& error) {
    return report(error.what(), error.advice());
  } catch (const tool::Failure& error) {
    return report(std::string(xc_status_name(error.status)) + ": " + error.what(),
                  xc_status_advice(error.status));
  } catch (const std::bad_alloc&) {
    return report("OUT_OF_MEMORY: out of memory", xc_status_advice(XC_OUT_OF_MEMORY));
  } catch (const std::exception& error) {
    return report(std::string("INTERNAL: ") + error.what(), xc_status_advice(XC_INTERNAL));
  }
}
