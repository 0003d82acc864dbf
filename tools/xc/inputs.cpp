#include "inputs.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace tool {

void InputFlags::add_to(CLI::App& command) {
  command.add_option("--input", arrays, "NAME=FILE.npy; repeatable")->allow_extra_args(false);
  command.add_option("--inputs", file, "FILE.npz with an array NAME or in_NAME per input");
  seed = command.add_option("--random", random, "random values, from this seed, for other inputs");
  shapes.add_to(command);
}

std::vector<xcrt::Tensor> InputFlags::make(const xcrt::Model& loaded, bool fill) const {
  const std::vector<xcrt::Port> ports = loaded.inputs();
  std::vector<xcrt::Tensor> out(ports.size());
  const auto give = [&](const std::string& name, const Array& array) {
    const uint32_t index = loaded.input_index(name);
    out[index] = to_tensor(array, ports[index].dtype, "input " + name);
  };
  const auto is_input = [&](const std::string& name) {
    return std::any_of(ports.begin(), ports.end(), [&](const auto& p) { return p.name == name; });
  };
  if (!file.empty()) {
    const std::map<std::string, Array> members = read_npz(file);
    for (const auto& [name, array] : members) {
      const bool whole = is_input(name) && !members.contains("in_" + name);
      if (!whole && name.starts_with("out_")) continue;  // a case of xc check
      give(!whole && name.starts_with("in_") ? name.substr(3) : name, array);
    }
  }
  for (const std::string& text : arrays) {
    // Names may hold '=', and so may those of files: the longest that is an input's.
    size_t equals = text.find('=');
    if (equals == std::string::npos) throw Usage("--input wants NAME=FILE.npy, not '" + text + "'");
    for (size_t at = equals; at != std::string::npos; at = text.find('=', at + 1))
      if (is_input(text.substr(0, at))) equals = at;
    const std::string name = text.substr(0, equals);
    try {
      (void)loaded.input_index(name);
    } catch (const xcrt::Error& error) {
      throw usage_of("--input " + text, error);
    }
    give(name, read_npy(text.substr(equals + 1)));
  }
  std::map<std::string, std::vector<int64_t>> dims = shapes.parse();
  for (const auto& [name, wanted] : dims)
    if (const xcrt::Tensor& given = out[shaped_input(loaded, name)];
        given && !std::ranges::equal(given.dims(), wanted))
      throw Usage(fmt::format("--shape {}={}: the array given for it is {}", name,
                              dims_text(wanted),
                              dims_text({given.dims().begin(), given.dims().end()})));
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i]) dims[std::string(ports[i].name)].assign(out[i].dims().begin(), out[i].dims().end());
  const bool complete =
      std::all_of(out.begin(), out.end(), [](const auto& t) { return static_cast<bool>(t); });
  if (complete) return out;
  if (!fill && seed->count() == 0)
    for (size_t i = 0; i < out.size(); ++i)
      if (!out[i])
        throw Usage(fmt::format(
            "input {} ({}) has no value: give --input {}=FILE.npy, --inputs FILE.npz or "
            "--random SEED",
            ports[i].name, ports[i].type, ports[i].name));
  std::vector<xcrt::Tensor> filled = random_inputs(loaded, input_dims(loaded, dims), random);
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i]) out[i] = std::move(filled[i]);
  return out;
}

}  // namespace tool
