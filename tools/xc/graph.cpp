// The commands that read and change models without running them: inspect, convert, opt.

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common.h"

namespace tool {
namespace {

using json = nlohmann::ordered_json;

/// "kernel ..." is loop IR; anything else is a graph.
bool is_loop_text(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (!line.empty() && line[0] != '#') return line.starts_with("kernel ");
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return false;
}

json describe(const std::vector<xcrt::Port>& ports) {
  json out = json::array();
  for (const xcrt::Port& port : ports) {
    json dims = json::array();
    for (size_t axis = 0; axis < port.dims.size(); ++axis)
      if (port.dims[axis] >= 0)
        dims.push_back(port.dims[axis]);
      else
        dims.push_back(std::string(port.dim_texts[axis]));
    out.push_back({{"name", std::string(port.name)},
                   {"type", std::string(port.type)},
                   {"dims", port.rank < 0 ? json() : dims}});
  }
  return out;
}

int inspect(const std::string& path, bool optimised, int64_t elements, bool as_json) {
  if (!optimised && !as_json) {
    fmt::print("{}", xcrt::Graph::load(path).text(elements));
    return 0;
  }
  const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"));
  const xcrt::Model model(engine, path);
  const std::string text =
      optimised ? model.graph().text(elements) : xcrt::Graph::load(path).text(elements);
  if (as_json)
    print_json(json{{"model", path},
                    {"inputs", describe(model.inputs())},
                    {"outputs", describe(model.outputs())},
                    {"graph", text}});
  else
    fmt::print("{}", text);
  return 0;
}

/// What this build supports, of any model.
int print_operators(bool as_json) {
  const xcrt::Engine engine(xcrt::Config().set("threads", "1").set("jit", "off"));
  fmt::print("{}", engine.operators(as_json));
  return 0;
}

int optimise(const std::string& path, const std::string& passes, const std::string& schedule,
             const std::string& output, int64_t elements) {
  const std::string bytes =
      path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
  std::string text;
  if (is_loop_text(bytes)) {
    if (!passes.empty()) throw Usage("--passes are for graphs; a kernel takes --schedule");
    try {
      text = xcrt::loop_schedule(bytes, schedule);
    } catch (const xcrt::Error& error) {
      if (!error.where().starts_with("schedule")) throw;  // the kernel's text
      throw usage_of("--schedule", error);
    }
  } else {
    if (!schedule.empty()) throw Usage("--schedule is for loop kernels; a graph takes --passes");
    xcrt::Graph graph =
        path == "-" ? xcrt::Graph::load(std::as_bytes(std::span(bytes))) : xcrt::Graph::load(path);
    try {
      graph.run_passes(passes.empty() ? "all" : passes);
    } catch (const xcrt::Error& error) {
      if (error.status() != XC_NOT_FOUND) throw;
      throw usage_of("--passes", error);
    }
    if (!output.empty() && !output.ends_with(".txt")) {
      graph.save(output);
      return 0;
    }
    text = graph.text(elements);
  }
  if (output.empty())
    fmt::print("{}", text);
  else
    write_file(output, text);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string model;
    bool operators = false, optimised = false, as_json = false;
    int64_t elements = 16;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand("inspect", "print a model's graph as text");
  sub->add_option("model", a->model, "model file");
  sub->add_flag("--ops", a->operators, "every operator with its versions, types and kernels");
  sub->add_flag("--optimised", a->optimised, "the graph after the portable passes");
  sub->add_option("--elements", a->elements, "print constants up to this many elements; -1 = all")
      ->capture_default_str();
  sub->add_flag("--json", a->as_json, "inputs, outputs and the text, or the operators, as JSON");
  sub->callback([a, &exit_code] {
    if (a->operators != a->model.empty()) throw Usage("inspect takes either a model file or --ops");
    exit_code = a->operators ? print_operators(a->as_json)
                             : inspect(a->model, a->optimised, a->elements, a->as_json);
  });
}

void add_convert(CLI::App& app, int& exit_code) {
  auto paths = std::make_shared<std::pair<std::string, std::string>>();
  CLI::App* sub = app.add_subcommand("convert", "write a model in another format");
  sub->add_option("model", paths->first, "model file")->required();
  sub->add_option("output", paths->second, "output file; .xcg, .onnx or .xct chooses the format")
      ->required();
  sub->callback([paths, &exit_code] {
    xcrt::Graph::load(paths->first).save(paths->second);
    exit_code = 0;
  });
}

void add_opt(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string input, passes, schedule, output;
    int64_t elements = 16;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* sub =
      app.add_subcommand("opt", "run passes over a graph, or schedule steps over a loop kernel");
  sub->add_option("input", a->input, "model file, or text of a graph or kernel; - = standard input")
      ->required();
  sub->add_option("--passes", a->passes, "names separated by commas; default: all");
  sub->add_option("--schedule", a->schedule,
                  "steps for a kernel: \"split i 64; vectorize j 16; default\"");
  sub->add_option("-o,--output", a->output, "output file; default: text on standard output");
  sub->add_option("--elements", a->elements, "print constants up to this many elements; -1 = all")
      ->capture_default_str();
  sub->callback([a, &exit_code] {
    exit_code = optimise(a->input, a->passes, a->schedule, a->output, a->elements);
  });
}

}  // namespace tool
