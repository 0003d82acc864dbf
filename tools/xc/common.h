// What all commands share: failures, options, sessions, shapes, output.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <xc/xc.hpp>

#include "array.h"

namespace CLI {
class App;
}

namespace tool {

/// A failure of the tool itself, printed like those of the library.
class Failure : public std::runtime_error {
 public:
  Failure(xc_status status, const std::string& message)
      : std::runtime_error(message), status(status) {}
  xc_status status;
};
template <class... Args>
[[noreturn]] void fail(xc_status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(status, fmt::format(format, std::forward<Args>(args)...));
}
/// Wrong use of the command line: exit status 2. That is an unknown name or a wrong value of a
/// flag; what a file holds, or that there is none, is a Failure.
class Usage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// What the library says, without the status that it begins with.
std::string without_status(const xcrt::Error& error);
/// The library's refusal of what a flag says.
Usage usage_of(const std::string& flag, const xcrt::Error& error);
/// What a process of this program said when it failed: its line, its exit status.
class ChildFailure : public std::runtime_error {
 public:
  ChildFailure(const std::string& line, int exit_status)
      : std::runtime_error(line), exit_status(exit_status) {}
  int exit_status;
};

/// Settings of the run, from flags; what no flag gives comes from XC_*.
struct EngineFlags {
  std::string threads, jit, cache;
  std::vector<std::string> settings;  ///< NAME=VALUE
  void add_to(CLI::App& command);
  /// Throws Usage for an unknown name or a wrong value.
  xcrt::Config config() const;
  /// Says on stderr when the directory of --cache cannot be used; makes it when it is not there.
  void check_cache() const;
};

/// Values for symbolic dims: --shape NAME=1x128.
struct ShapeFlags {
  std::vector<std::string> texts;
  void add_to(CLI::App& command);
  std::map<std::string, std::vector<int64_t>> parse() const;
};

/// The index of an input that --shape names; throws Usage.
uint32_t shaped_input(const xcrt::Model& model, const std::string& name);

/// Dims of every input: the given shapes, then constants of the model, then 1 for each symbol.
/// Equal symbols of different inputs agree, in sizes such as 2*n too; `symbols` has given ones.
/// Throws Usage for an unknown input name.
std::vector<std::vector<int64_t>> input_dims(
    const xcrt::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
    std::map<std::string_view, int64_t> symbols = {});

/// Inputs of these dims: floats in [-1, 1), integers in [0, 2), strings "a"; the same for a seed.
std::vector<xcrt::Tensor> random_inputs(const xcrt::Model& model,
                                        const std::vector<std::vector<int64_t>>& dims,
                                        uint64_t seed);

/// A model, ready to run, and what it took.
struct Loaded {
  xcrt::Model model;
  xcrt::Session session;
  double load_ms;
  double began_ms;  ///< now_ms() when its engine was made: times of events count from here
};
Loaded load(const std::string& path, const xcrt::Config& config);

/// Runs once; input handles in the model's order.
std::vector<xcrt::Tensor> run(xcrt::Session& session, const std::vector<xcrt::Tensor>& inputs);

double now_ms();                                          ///< steady clock
double resident_mb();                                     ///< physical memory of this process
std::string dims_text(const std::vector<int64_t>& dims);  ///< "1x128"
/// In quotes, with escapes for what is no text; cut after some 40 bytes.
std::string spell_quoted(std::string_view text);
/// Checks of options: what is wrong with a text that is no finite number above, or from, 0; "" for
/// others.
std::string check_positive(const std::string& text);
std::string check_from_zero(const std::string& text);
double median(std::vector<double> values);  ///< 0 for none
double rounded(double value, int decimals);

/// ": No such file or directory"; empty for 0.
std::string reason(int error);
/// Fails for what cannot be opened: with XC_NOT_FOUND where nothing is, else with XC_IO.
[[noreturn]] void fail_to_read(const std::string& path, int error);
/// All bytes of a file, or of a pipe; fails with XC_NOT_FOUND or XC_IO.
std::string read_file(const std::string& path);
/// Replaces a file; fails with XC_IO.
void write_file(const std::string& path, std::string_view bytes);

/// JSON is UTF-8: paths and names that are not get U+FFFD for what is none.
std::string json_text(const nlohmann::ordered_json& document);
void print_json(const nlohmann::ordered_json& document);

/// A progress line on stderr, only on a terminal, removed at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  void show(const std::string& text);  ///< at most ten times a second

 private:
  bool enabled_ = false;
  bool shown_ = false;
  double last_ = 0;
};

// The commands: each adds itself to the program; run by the callback it sets.
void add_run(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_opt(CLI::App& app, int& exit_code);
void add_config(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);

}  // namespace tool
