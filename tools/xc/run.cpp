// xc run: a model on given or random inputs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "common.h"
#include "inputs.h"

namespace tool {
namespace {

struct RunCommand {
  std::string model, outputs_file;
  InputFlags inputs;
  EngineFlags engine;
  int repeat = 1;

  int execute();
};

/// Whether NumPy has a form for the value: not for containers, nor for what an optional lacks.
bool is_array(const xcrt::Tensor& value) {
  return value.dtype() != XC_DTYPE_TENSOR && value.dtype() != XC_DTYPE_UNDEFINED;
}

/// One line: dims, and the range and mean of numbers or the first texts; of a container its length.
std::string summary(const xcrt::Tensor& tensor, const xcrt::Port& port) {
  if (tensor.dtype() == XC_DTYPE_UNDEFINED) return fmt::format("{} none", port.type);
  if (tensor.dtype() == XC_DTYPE_TENSOR) {
    const int64_t count = port.kind == XC_PORT_MAP ? tensor.element(0).size() : tensor.size();
    return fmt::format("{} of {} element{}", port.type, count, count == 1 ? "" : "s");
  }
  const Array array = to_array(tensor);
  std::string out = fmt::format("{}[{}]", xc_dtype_name(array.dtype), dims_text(array.dims));
  const int64_t count = array.count();
  if (count == 0) return out + " empty";
  if (array.dtype == XC_DTYPE_STRING) {
    for (size_t i = 0; i < std::min<size_t>(array.strings.size(), 3); ++i)
      out += " " + spell_quoted(array.strings[i]);
    return out;
  }
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = element(array.dtype, array.data.data(), i);
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  out += fmt::format(" min {:.6g} max {:.6g} mean {:.6g}", low, high,
                     sum / static_cast<double>(count));
  if (count <= 8) {
    out += " [";
    for (int64_t i = 0; i < count; ++i)
      out += fmt::format("{}{:.6g}", i ? ", " : "", element(array.dtype, array.data.data(), i));
    out += "]";
  }
  return out;
}

int RunCommand::execute() {
  const xcrt::Config config = engine.config();
  engine.check_cache();
  Loaded loaded = load(model, config);
  const std::vector<xcrt::Tensor> given = inputs.make(loaded.model, false);
  std::vector<xcrt::Tensor> outputs;
  Progress progress;
  for (int i = 0; i < repeat; ++i) {
    progress.show(fmt::format("run {} of {}", i + 1, repeat));
    outputs = tool::run(loaded.session, given);
  }
  const std::vector<xcrt::Port> ports = loaded.model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    fmt::print("{}: {}\n", ports[i].name, summary(outputs[i], ports[i]));
  if (!outputs_file.empty()) {
    std::vector<std::pair<std::string, Array>> members;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_array(outputs[i]))
        fail(XC_UNSUPPORTED, "output {} is {}, which --outputs has no form for", ports[i].name,
             summary(outputs[i], ports[i]));
      members.emplace_back(std::string(ports[i].name), to_array(outputs[i]));
    }
    write_npz(outputs_file, members);
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = app.add_subcommand("run", "run a model on given or random inputs");
  sub->add_option("model", command->model, "model file")->required();
  command->inputs.add_to(*sub);
  sub->add_option("--outputs", command->outputs_file, "write the outputs to this .npz file");
  sub->add_option("--repeat", command->repeat, "number of runs")
      ->check(check_positive)
      ->capture_default_str();
  command->engine.add_to(*sub);
  sub->callback([command, &exit_code] { exit_code = command->execute(); });
}

}  // namespace tool
