// Runs the tests of the ONNX standard through whole sessions and holds the results against two
// lists: skips.txt, tests that no runtime can or should pass, and known_failures.txt, what is still
// missing. A test that fails without being listed fails the run, and so does one that is listed and
// passes.

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "onnx_suite/allocations.h"
#include "onnx_suite/distribution.h"
#include "onnx_suite/test_case.h"
#include "support/sessions.h"
#include "tier/engine_factory.h"
#include "tier/tier.h"

namespace xc::suite {
namespace {

/// Lines "kind/test  reason"; '#' starts a comment.
using ReasonList = std::map<std::string, std::string>;

ReasonList read_list(const std::string& path) {
  ReasonList out;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    if (line.empty() || line[0] == '#') continue;
    const size_t reason = line.find_first_not_of(' ', space);
    if (space == std::string::npos || reason == std::string::npos)
      throw std::runtime_error(path + ": a line without a reason: " + line);
    if (!out.emplace(line.substr(0, space), line.substr(reason)).second)
      throw std::runtime_error(path + ": listed twice: " + line.substr(0, space));
  }
  return out;
}

/// Why a test may be skipped; skips.txt says which it is before a colon.
enum class Skip { kTraining, kRandom, kDisputed };

Skip skip_of(const std::string& id, const std::string& reason) {
  const std::string word = reason.substr(0, reason.find(':'));
  if (word == "training") return Skip::kTraining;
  if (word == "random") return Skip::kRandom;
  if (word == "disputed") return Skip::kDisputed;
  throw std::runtime_error(id + ": skipped for a reason that is none: " + reason);
}

enum class Outcome { kPassed, kFailed, kSkipped };
struct Result {
  Outcome outcome = Outcome::kFailed;
  std::string reason;
  Distance distance;
  int64_t compiled = 0;                     ///< regions
  std::vector<std::string> reference = {};  ///< operators of steps on reference kernels
};

/// The first line of a message, without what would break a line of a list.
std::string one_line(std::string text) {
  text = text.substr(0, std::min(text.find('\n'), size_t{200}));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

/// Loads and runs a model that must be refused; throws what is not as the test says.
void expect_error(const TestCase& test, const std::shared_ptr<Engine>& engine) {
  try {
    Session session(Model::load(engine, test.directory + "/model.onnx"), {});
    for (const DataSet& data : read_data_sets(test)) xc::testing::run(session, data.inputs);
  } catch (const Error& error) {
    const std::string text = fmt::format("{} ({})", error.message(), error.where());
    if (status_name(error.status()) != test.status)
      throw std::runtime_error(
          fmt::format("{} instead of {}: {}", status_name(error.status()), test.status, text));
    for (const std::string& told : test.told)
      if (text.find(told) == std::string::npos)
        throw std::runtime_error(fmt::format("'{}' is not named: {}", told, text));
    return;
  }
  throw std::runtime_error("no error, " + test.status + " expected");
}

/// Steps as Session::explain() tells them, bodies included.
void find_steps(const nlohmann::json& program, std::vector<nlohmann::json>& out) {
  for (const nlohmann::json& step : program.value("steps", nlohmann::json::array()))
    out.push_back(step);
  for (const nlohmann::json& body : program.value("bodies", nlohmann::json::array()))
    find_steps(body, out);
}
std::vector<nlohmann::json> steps_of(Session& session) {
  std::vector<nlohmann::json> out;
  find_steps(nlohmann::json::parse(session.explain({}, true)), out);
  return out;
}

/// Whether a primitive of oneDNN, which allocates by itself, is some step's kernel.
bool runs_vendor(Session& session) {
  const std::vector<nlohmann::json> steps = steps_of(session);
  return std::any_of(steps.begin(), steps.end(), [](const nlohmann::json& step) {
    return step.value("kernel", "").starts_with("onednn");
  });
}

/// Operators of the steps that run on reference kernels.
std::vector<std::string> on_reference(Session& session) {
  std::vector<std::string> out;
  for (const nlohmann::json& step : steps_of(session))
    if (const std::string kernel = step.value("kernel", "");
        kernel == "reference" || kernel.ends_with(".reference"))
      out.push_back(step.value("op", ""));
  return out;
}

/// A run that may not allocate, after one that left what it needs, is refused or asks for nothing.
void check_no_alloc(Session& session, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<xc_tensor*> slots(session.model().outputs().size(), nullptr);
  RunOptions options;
  options.no_alloc = true;
  const long before = allocations();
  try {
    session.run(views, slots, options);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    return;
  }
  const long asked = allocations() - before;
  for (xc_tensor* handle : slots) handle->release();
  if (asked > 0 && !runs_vendor(session))
    throw std::runtime_error(fmt::format("{} allocations in a run that may not allocate", asked));
}

/// Runs between two waits for the background thread, and how long a wait may take.
constexpr unsigned kBreath = 4;
constexpr std::chrono::seconds kLong{60};

struct Plan {
  unsigned jobs = 1;    ///< tests at once
  unsigned repeat = 1;  ///< runs of each data set, all compared
  bool eager = false;   ///< in mode auto: whatever may be compiled is
};

Result run_test(const TestCase& test, const std::shared_ptr<Engine>& engine, const Plan& plan,
                bool random, bool complement) {
  Result out;
  try {
    if (!test.status.empty()) {
      expect_error(test, engine);
      out.outcome = Outcome::kPassed;
      return out;
    }
    Session session(Model::load(engine, test.directory + "/model.onnx"), {});
    for (const DataSet& data : read_data_sets(test)) {
      if (random) {
        check_distribution(session, data, complement);
        continue;
      }
      for (unsigned k = 0; k < plan.repeat; ++k) {
        out.distance.include(compare(test, data.outputs, xc::testing::run(session, data.inputs)));
        if (plan.eager && k % kBreath == 0) session.wait_idle(kLong);
      }
      // RoiAlign reads its mode into a string.
      if (test.op != "RoiAlign") check_no_alloc(session, data.inputs);
      out.compiled = session.counters().compiled_regions;
    }
    out.reference = on_reference(session);
    out.outcome = Outcome::kPassed;
  } catch (const std::exception& error) {
    out.reason = one_line(error.what());
  }
  return out;
}

/// The test this thread runs, for the last words of a crash.
thread_local const char* current_test = "";

void tell_crash(int signal) {
  for (const char* text : {"\ncrashed in ", current_test, "\n"})
    if (::write(STDERR_FILENO, text, std::char_traits<char>::length(text)) < 0) break;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::shared_ptr<Engine> engine_of(const Config& config, bool eager) {
  if (!eager) return create_engine(config, {});
  TierFaults faults;
  faults.eager = true;
  auto compiler =
      create_jit_compiler(config.isa, effective(config, &Config::code_cache_bytes), false);
  return std::make_shared<Engine>(
      config, HostHooks{}, std::make_unique<Tier>(std::move(compiler), config, std::move(faults)));
}

std::vector<Result> run_all(const std::vector<TestCase>& tests, const ReasonList& skips,
                            const Config& config, const Plan& plan) {
  std::vector<Result> results(tests.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    const auto engine = engine_of(config, plan.eager);
    for (size_t i = next++; i < tests.size(); i = next++) {
      current_test = tests[i].id.c_str();
      const auto skip = skips.find(tests[i].id);
      const bool random =
          skip != skips.end() && skip_of(tests[i].id, skip->second) == Skip::kRandom;
      const bool complement = random && skip->second.starts_with("random: complement:");
      if (skip == skips.end() || random)
        results[i] = run_test(tests[i], engine, plan, random, complement);
      // A random test must still give the right types and distribution.
      if (skip != skips.end() && (!random || results[i].outcome == Outcome::kPassed))
        results[i] = {Outcome::kSkipped, skip->second, {}};
    }
  };
  std::vector<std::thread> threads;
  for (unsigned k = 1; k < plan.jobs; ++k) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

struct Row {
  int passed = 0, failed = 0, skipped = 0;
  Distance distance;
  void add(const Result& r) {
    passed += r.outcome == Outcome::kPassed;
    failed += r.outcome == Outcome::kFailed;
    skipped += r.outcome == Outcome::kSkipped;
    distance.include(r.distance);
  }
};

void print_row(const std::string& name, const Row& row) {
  std::printf("%-40s %7d %7d %7d   %8.1e %8.1f\n", name.c_str(), row.passed, row.failed,
              row.skipped, row.distance.relative, row.distance.ulp);
}

void print_table(const std::vector<TestCase>& tests, const std::vector<Result>& results) {
  std::map<std::string, Row> operators, kinds;
  Row all;
  for (size_t i = 0; i < tests.size(); ++i) {
    operators[tests[i].op].add(results[i]);
    kinds[tests[i].id.substr(0, tests[i].id.find('/'))].add(results[i]);
    all.add(results[i]);
  }
  std::printf("%-40s %7s %7s %7s   %8s %8s\n", "operator", "passed", "failed", "skipped",
              "relative", "ULP");
  for (const auto& [name, row] : operators) print_row(name, row);
  std::printf("\n");
  for (const auto& [name, row] : kinds) print_row(name, row);
  print_row("all", all);
  int64_t compiled = 0;
  for (const Result& r : results) compiled += r.compiled;
  std::printf("%lld regions compiled\n", static_cast<long long>(compiled));
}

/// Counts what is not as the lists say, and says so.
int count_surprises(const std::vector<TestCase>& tests, const std::vector<Result>& results,
                    const ReasonList& known) {
  int surprises = 0;
  for (size_t i = 0; i < tests.size(); ++i) {
    const bool failed = results[i].outcome == Outcome::kFailed;
    if (failed == known.contains(tests[i].id)) continue;
    ++surprises;
    if (failed)
      std::printf("FAILED  %s: %s\n", tests[i].id.c_str(), results[i].reason.c_str());
    else
      std::printf("PASSES  %s: take it off known_failures.txt\n", tests[i].id.c_str());
  }
  return surprises;
}

int count_unknown(const std::vector<TestCase>& tests, const ReasonList& list,
                  const char* file_name) {
  int unknown = 0;
  for (const auto& [id, reason] : list)
    if (std::none_of(tests.begin(), tests.end(), [&](const TestCase& t) { return t.id == id; })) {
      std::printf("UNKNOWN %s of %s is no test of the suite\n", id.c_str(), file_name);
      ++unknown;
    }
  return unknown;
}

/// Reasons that stand there already stay: somebody may have written a better one.
void write_known(const std::string& path, const ReasonList& known,
                 const std::vector<TestCase>& tests, const std::vector<Result>& results) {
  std::ofstream file(path);
  file << "# What fails still and why. Written by xc_onnx_suite --bless, which keeps reasons.\n";
  for (size_t i = 0; i < tests.size(); ++i) {
    if (results[i].outcome != Outcome::kFailed) continue;
    const auto listed = known.find(tests[i].id);
    file << tests[i].id << "  " << (listed == known.end() ? results[i].reason : listed->second)
         << "\n";
  }
}

/// What coverage_table.py makes its table of.
void write_results(const std::string& path, const std::vector<TestCase>& tests,
                   const std::vector<Result>& results) {
  auto rows = nlohmann::json::object();
  for (size_t i = 0; i < tests.size(); ++i)
    rows[tests[i].id] = {{"op", tests[i].op},
                         {"passed", results[i].outcome == Outcome::kPassed ||
                                        results[i].reason.starts_with("random")},
                         {"relative", results[i].distance.relative},
                         {"ulp", results[i].distance.ulp},
                         {"reference", results[i].reference}};
  std::ofstream(path) << rows.dump(1) << "\n";
}

int run(int argc, char** argv) {
  CLI::App app("Runs tests that dump_suite.py or dump_coverage.py has written to a folder.");
  std::string data, lists = ".", mode = "off", only, results_file;
  std::vector<std::string> settings;
  Plan plan{.jobs = std::max(1u, std::thread::hardware_concurrency())};
  unsigned every = 1;
  bool bless = false;
  app.add_option("DATA", data, "the folder of dump_suite.py")->required();
  app.add_option("--lists", lists, "folder of skips.txt and known_failures.txt");
  app.add_option("--mode", mode, "value of the setting jit: off, sync, auto");
  app.add_option("--set", settings, "other settings, NAME=VALUE, as in `xc config`");
  app.add_option("--jobs", plan.jobs, "tests at once")->check(CLI::PositiveNumber);
  app.add_option("--every", every, "runs each N-th test")->check(CLI::PositiveNumber);
  app.add_option("--repeat", plan.repeat, "runs of each test")->check(CLI::PositiveNumber);
  app.add_flag("--eager", plan.eager, "compiles whatever it may, however small the gain");
  app.add_option("--results", results_file, "writes the outcome of every test to a JSON file");
  app.add_option("--only", only, "tests whose KIND/NAME holds this text; tells all that fail");
  app.add_flag("--bless", bless, "writes known_failures.txt from what fails now");
  CLI11_PARSE(app, argc, argv);

  if (!std::filesystem::exists(data + "/suite.json")) {
    std::printf("skipped: %s is not there; dump_suite.py writes it\n", data.c_str());
    return 77;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    std::signal(signal, tell_crash);
  Config config;
  config.threads = 1;
  set_config(config, "jit", mode);
  for (const std::string& setting : settings) {
    const size_t equals = std::min(setting.find('='), setting.size());
    set_config(config, setting.substr(0, equals),
               equals < setting.size() ? setting.substr(equals + 1) : std::string());
  }
  const ReasonList skips = read_list(lists + "/skips.txt");
  ReasonList known = read_list(lists + "/known_failures.txt");
  std::vector<TestCase> tests = read_suite(data);
  if (only.empty() &&
      count_unknown(tests, skips, "skips.txt") + count_unknown(tests, known, "known_failures.txt") >
          0 &&
      !bless)
    return 1;
  if (!only.empty()) {
    std::erase_if(tests, [&](const TestCase& t) { return t.id.find(only) == std::string::npos; });
    known.clear();
  }

  if (every > 1) {
    size_t k = 0;
    std::erase_if(tests, [&](const TestCase&) { return k++ % every != 0; });
    std::erase_if(known, [&](const auto& listed) {
      return std::none_of(tests.begin(), tests.end(),
                          [&](const TestCase& t) { return t.id == listed.first; });
    });
  }

  const std::vector<Result> results = run_all(tests, skips, config, plan);
  print_table(tests, results);
  if (!results_file.empty()) write_results(results_file, tests, results);
  if (bless) {
    write_known(lists + "/known_failures.txt", known, tests, results);
    return 0;
  }
  const int surprises = count_surprises(tests, results, known);
  if (surprises > 0 && only.empty())
    std::printf(
        "\n%d tests are not as the lists say; look at one with\n  %s %s --lists %s --mode %s "
        "--only NAME\n",
        surprises, argv[0], data.c_str(), lists.c_str(), mode.c_str());
  return surprises > 0;
}

}  // namespace
}  // namespace xc::suite

int main(int argc, char** argv) {
  try {
    return xc::suite::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
