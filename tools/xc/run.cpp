// xc run: a model on given or random inputs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "common.h"

namespace tool {
namespace {

struct RunCommand {
  std::string model, inputs_file, outputs_file;
  std::vector<std::string> inputs;
  ShapeFlags shapes;
  EngineFlags engine;
  uint64_t seed = 0;
  bool random = false;
  int repeat = 1;

  std::vector<xcrt::Tensor> make_inputs(const xcrt::Model& model) const;
  int execute();
};

/// Given arrays first; what is missing is random when --random is given, else an error.
std::vector<xcrt::Tensor> RunCommand::make_inputs(const xcrt::Model& loaded) const {
  const std::vector<xcrt::Port> ports = loaded.inputs();
  std::vector<xcrt::Tensor> out(ports.size());
  const auto give = [&](const std::string& name, const Array& array) {
    const uint32_t index = loaded.input_index(name);
    out[index] = to_tensor(array, ports[index].dtype, "input " + name);
  };
  if (!inputs_file.empty())
    for (const auto& [name, array] : read_npz(inputs_file)) {
      if (name.starts_with("out_")) continue;  // a case of xc check
      give(name.starts_with("in_") ? name.substr(3) : name, array);
    }
  for (const std::string& text : inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw Usage("--input wants NAME=FILE.npy, not '" + text + "'");
    give(text.substr(0, equals), read_npy(text.substr(equals + 1)));
  }
  std::map<std::string, std::vector<int64_t>> dims = shapes.parse();
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i]) dims[std::string(ports[i].name)].assign(out[i].dims().begin(), out[i].dims().end());
  const bool complete =
      std::all_of(out.begin(), out.end(), [](const auto& t) { return static_cast<bool>(t); });
  if (complete) return out;
  if (!random)
    for (size_t i = 0; i < out.size(); ++i)
      if (!out[i])
        throw Usage(fmt::format(
            "input {} ({}) has no value: give --input {}=FILE.npy, --inputs FILE.npz or "
            "--random SEED",
            ports[i].name, ports[i].type, ports[i].name));
  std::vector<xcrt::Tensor> filled = random_inputs(loaded, input_dims(loaded, dims), seed);
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i]) out[i] = std::move(filled[i]);
  return out;
}

/// One line: dims, and the range and mean of numbers or the first texts.
std::string summary(const xcrt::Tensor& tensor) {
  const Array array = to_array(tensor);
  std::string out = fmt::format("{}[{}]", xc_dtype_name(array.dtype), dims_text(array.dims));
  const int64_t count = array.count();
  if (count == 0) return out + " empty";
  if (array.dtype == XC_DTYPE_STRING) {
    for (size_t i = 0; i < std::min<size_t>(array.strings.size(), 3); ++i)
      out += fmt::format(" \"{:.40}\"", array.strings[i]);
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
  Loaded loaded = load(model, engine.config());
  const std::vector<xcrt::Tensor> given = make_inputs(loaded.model);
  std::vector<xcrt::Tensor> outputs;
  Progress progress;
  for (int i = 0; i < repeat; ++i) {
    progress.show(fmt::format("run {} of {}", i + 1, repeat));
    outputs = tool::run(loaded.session, given);
  }
  const std::vector<xcrt::Port> ports = loaded.model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i)
    fmt::print("{}: {}\n", ports[i].name, summary(outputs[i]));
  if (!outputs_file.empty()) {
    std::vector<std::pair<std::string, Array>> members;
    for (size_t i = 0; i < outputs.size(); ++i)
      members.emplace_back(std::string(ports[i].name), to_array(outputs[i]));
    write_npz(outputs_file, members);
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = app.add_subcommand("run", "run a model on given or random inputs");
  sub->add_option("model", command->model, "model file")->required();
  sub->add_option("--input", command->inputs, "NAME=FILE.npy; repeatable")->allow_extra_args(false);
  sub->add_option("--inputs", command->inputs_file,
                  "FILE.npz with an array NAME or in_NAME per input");
  CLI::Option* seed =
      sub->add_option("--random", command->seed, "random values, from this seed, for other inputs");
  command->shapes.add_to(*sub);
  sub->add_option("--outputs", command->outputs_file, "write the outputs to this .npz file");
  sub->add_option("--repeat", command->repeat, "number of runs")->check(CLI::PositiveNumber);
  command->engine.add_to(*sub);
  sub->callback([command, seed, &exit_code] {
    command->random = seed->count() > 0;
    exit_code = command->execute();
  });
}

}  // namespace tool
