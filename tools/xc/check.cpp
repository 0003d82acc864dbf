// xc check: a model against recorded cases.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common.h"

namespace tool {
namespace {

using json = nlohmann::ordered_json;

struct Tolerance {
  double rtol = 1e-3, atol = 1e-4;
};

/// Tolerances per output from meta.json beside the model; flags override both numbers.
class Tolerances {
 public:
  Tolerances(const std::string& model_path, double rtol, double atol) : rtol_(rtol), atol_(atol) {
    const std::filesystem::path meta =
        std::filesystem::path(model_path).parent_path() / "meta.json";
    std::ifstream file(meta);
    if (!file) return;
    const json parsed = json::parse(file, nullptr, false);
    if (parsed.is_discarded()) fail(XC_FORMAT, "{} is no JSON", meta.string());
    if (parsed.is_object() && parsed.contains("tolerance")) table_ = parsed["tolerance"];
  }
  Tolerance of(const std::string& output) const {
    Tolerance out;
    if (table_.is_object() && table_.contains(output) && table_[output].is_object()) {
      for (const auto& [key, number] :
           {std::pair("rtol", &out.rtol), std::pair("atol", &out.atol)}) {
        const auto found = table_[output].find(key);
        if (found == table_[output].end()) continue;
        *number = found->is_number() ? found->get<double>() : -1;
        if (!(*number >= 0))
          fail(XC_FORMAT, "meta.json: the {} of {} is no number from 0", key, output);
      }
    }
    if (rtol_ >= 0) out.rtol = rtol_;
    if (atol_ >= 0) out.atol = atol_;
    return out;
  }

 private:
  double rtol_, atol_;  // < 0: not given
  json table_;
};

struct Difference {
  std::string problem;  ///< empty: agrees
  double worst = 0;     ///< largest |got - want|
};

std::string position(const std::vector<int64_t>& dims, int64_t flat) {
  return fmt::format("{}", coordinates(dims, flat));
}

Difference compare_strings(const Array& got, const Array& want) {
  for (size_t i = 0; i < want.strings.size(); ++i)
    if (got.strings[i] != want.strings[i])
      return {fmt::format("at {} got {}, expected {}", position(want.dims, static_cast<int64_t>(i)),
                          spell_quoted(got.strings[i]), spell_quoted(want.strings[i])),
              0};
  return {};
}

/// Integers and bools must be equal; floats agree within the tolerance, NaN with NaN.
Difference compare(const Array& got, const Array& want, const Tolerance& tolerance) {
  if (got.dims != want.dims)
    return {fmt::format("has dims {}, expected {}", dims_text(got.dims), dims_text(want.dims)), 0};
  const xc_dtype dtype = got.dtype;
  const bool raw = want.dtype == XC_DTYPE_UNDEFINED && want.element_bytes == got.element_bytes;
  if (want.dtype != dtype && !raw && !holds_as_bytes(want, dtype))
    return {
        fmt::format("has type {}, expected {}", xc_dtype_name(dtype), xc_dtype_name(want.dtype)),
        0};
  if (dtype == XC_DTYPE_STRING) return compare_strings(got, want);
  Difference out;
  const bool real = is_float(dtype) || is_complex(dtype);
  const int64_t parts = is_complex(dtype) ? 2 : 1;
  const xc_dtype part = dtype == XC_DTYPE_C64    ? XC_DTYPE_F32
                        : dtype == XC_DTYPE_C128 ? XC_DTYPE_F64
                                                 : dtype;
  const int64_t count = want.count() * parts;
  int64_t wrong = 0, worst_at = -1;
  double worst_excess = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!real) {
      const auto size = static_cast<size_t>(want.element_bytes);
      if (std::memcmp(got.data.data() + static_cast<size_t>(i) * size,
                      want.data.data() + static_cast<size_t>(i) * size, size) == 0)
        continue;
      out.worst = std::max(out.worst, std::abs(element(part, got.data.data(), i) -
                                               element(part, want.data.data(), i)));
      if (wrong++ == 0) worst_at = i;
      continue;
    }
    const double a = element(part, got.data.data(), i), b = element(part, want.data.data(), i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::abs(a - b);
    const double excess = error / (tolerance.atol + tolerance.rtol * std::abs(b));
    if (std::isfinite(error)) out.worst = std::max(out.worst, error);
    if (std::isfinite(b) && excess <= 1) continue;
    if (wrong++ == 0 || excess > worst_excess) {
      worst_at = i;
      worst_excess = excess;
    }
  }
  if (wrong != 0)
    out.problem = fmt::format(
        "{} of {} elements differ, the worst at {}: got {:.9g}, expected {:.9g}", wrong, count,
        position(want.dims, worst_at / parts), element(part, got.data.data(), worst_at),
        element(part, want.data.data(), worst_at));
  return out;
}

struct Case {
  std::vector<xcrt::Tensor> inputs;
  std::map<uint32_t, Array> outputs;  ///< by index
};

Case read_case(const std::string& path, const xcrt::Model& model) {
  const std::vector<xcrt::Port> ports = model.inputs();
  Case out;
  out.inputs.resize(ports.size());
  for (auto& [name, array] : read_npz(path)) {
    if (name.starts_with("in_")) {
      const uint32_t index = model.input_index(name.substr(3));
      out.inputs[index] = to_tensor(array, ports[index].dtype, path + ": " + name);
    } else if (name.starts_with("out_")) {
      const uint32_t index = model.output_index(name.substr(4));
      out.outputs.emplace(index, std::move(array));
    }
  }
  if (out.outputs.empty()) fail(XC_NOT_FOUND, "{} has no array out_NAME to compare with", path);
  return out;
}

/// Names of steps that ran on reference kernels, subgraphs included.
void reference_steps(const json& program, std::vector<std::string>& out) {
  for (const json& step : program.value("steps", json::array())) {
    const std::string kernel = step.value("kernel", "");
    if (kernel == "reference" || kernel.ends_with(".reference"))
      out.push_back(fmt::format("{} ({})", step.value("name", "?"), step.value("op", "?")));
  }
  for (const json& body : program.value("bodies", json::array())) reference_steps(body, out);
}

/// Why a case could not be compared.
struct Problem {
  xc_status status = XC_INTERNAL;
  std::string message;
  std::string text;  ///< with the status
};

Problem problem_of(const std::exception& error, const std::string& path) {
  Problem out{XC_INTERNAL, error.what(), ""};
  if (const auto* refused = dynamic_cast<const xcrt::Error*>(&error))
    out = {refused->status(), without_status(*refused), ""};
  else if (const auto* failure = dynamic_cast<const Failure*>(&error))
    out.status = failure->status;
  else if (dynamic_cast<const std::bad_alloc*>(&error))
    out = {XC_OUT_OF_MEMORY, "out of memory", ""};
  out.text = fmt::format("{}: {}", xc_status_name(out.status), out.message);
  if (out.message.find(path) == std::string::npos) out.message = path + ": " + out.message;
  return out;
}

struct CheckCommand {
  std::string model;
  std::vector<std::string> cases;
  EngineFlags engine;
  double rtol = -1, atol = -1;
  int repeat = 1;
  bool as_json = false;

  bool run_case(Loaded& loaded, const std::string& path, const Tolerances& tolerances,
                json& report);
  int execute();
};

bool CheckCommand::run_case(Loaded& loaded, const std::string& path, const Tolerances& tolerances,
                            json& report) {
  const std::vector<xcrt::Port> ports = loaded.model.outputs();
  const Case wanted = read_case(path, loaded.model);
  std::string problem;
  double worst = 0;
  Progress progress;
  for (int round = 0; round < repeat && problem.empty(); ++round) {
    progress.show(fmt::format("{}: run {} of {}", path, round + 1, repeat));
    const std::vector<xcrt::Tensor> outputs = tool::run(loaded.session, wanted.inputs);
    for (const auto& [index, want] : wanted.outputs) {
      const std::string name(ports[index].name);
      const Difference difference = compare(to_array(outputs[index]), want, tolerances.of(name));
      worst = std::max(worst, difference.worst);
      if (!difference.problem.empty() && problem.empty())
        problem =
            fmt::format("output {}{}: {}", name,
                        repeat > 1 ? fmt::format(" (run {})", round + 1) : "", difference.problem);
    }
  }
  const bool ok = problem.empty();
  report["cases"].push_back(
      {{"case", path}, {"ok", ok}, {"max_error", worst}, {"problem", problem}});
  if (!as_json)
    fmt::print(
        "{}: {}\n", path,
        ok ? fmt::format("ok, {} outputs, largest difference {:.3g}{}", wanted.outputs.size(),
                         worst, repeat > 1 ? fmt::format(", {} runs", repeat) : "")
           : "FAILED: " + problem);
  std::fflush(stdout);
  return ok;
}

int CheckCommand::execute() {
  const xcrt::Config config = engine.config();
  engine.check_cache();
  Loaded loaded = load(model, config);
  const Tolerances tolerances(model, rtol, atol);
  json report = {{"model", model}, {"cases", json::array()}};
  bool ok = true;
  size_t failed = 0;  // not compared
  Problem first;
  for (const std::string& path : cases) {
    try {
      ok = run_case(loaded, path, tolerances, report) && ok;
    } catch (const std::exception& error) {
      ok = false;
      const Problem problem = problem_of(error, path);
      report["cases"].push_back(
          {{"case", path}, {"ok", false}, {"max_error", nullptr}, {"problem", problem.text}});
      if (!as_json)
        fmt::print("{}: FAILED: {} ({})\n", path, problem.text, xc_status_advice(problem.status));
      if (failed++ == 0) first = problem;
    }
  }
  std::vector<std::string> reference;
  reference_steps(json::parse(loaded.session.explain(true)), reference);
  report["reference_steps"] = reference;
  report["ok"] = ok;
  if (as_json) {
    print_json(report);
  } else if (reference.empty()) {
    fmt::print("reference kernels: none\n");
  } else {
    fmt::print("reference kernels: {} steps\n", reference.size());
    for (const std::string& step : reference) fmt::print("  {}\n", step);
  }
  if (failed > 0)
    fail(first.status, "{} of {} cases not compared: {}", failed, cases.size(), first.message);
  return ok ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<CheckCommand>();
  CLI::App* sub = app.add_subcommand("check", "compare a model's results with recorded cases");
  sub->add_option("model", command->model, "model file")->required();
  sub->add_option("cases", command->cases, "CASE.npz files with arrays in_NAME and out_NAME")
      ->required();
  command->engine.add_to(*sub);
  sub->add_option("--rtol", command->rtol,
                  "relative tolerance; default: meta.json beside the model, else 1e-3")
      ->check(check_from_zero);
  sub->add_option("--atol", command->atol, "absolute tolerance; default: meta.json, else 1e-4")
      ->check(check_from_zero);
  sub->add_option("--repeat", command->repeat, "runs per case, each compared")
      ->check(check_positive)
      ->capture_default_str();
  sub->add_flag("--json", command->as_json, "report as JSON");
  sub->callback([command, &exit_code] { exit_code = command->execute(); });
}

}  // namespace tool
