#include "common.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "dim_expression.h"

namespace tool {

void EngineFlags::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "threads of a run; default: XC_THREADS, else all cores")
      ->take_last();
  command.add_option("--jit", jit, "auto, off, sync or freeze; default: XC_JIT, else auto")
      ->take_last();
  command.add_option("--cache", cache, "directory of the persistent cache; default: XC_CACHE_DIR")
      ->take_last();
  command
      .add_option("--set", settings, "any option by name, NAME=VALUE (see xc config); repeatable")
      ->allow_extra_args(false);
}

xcrt::Config EngineFlags::config() const {
  xcrt::Config config;
  config.read_environment();
  const auto set = [&](const char* flag, const std::string& name, const std::string& value) {
    try {
      config.set(name, value);
    } catch (const xcrt::Error& error) {
      throw usage_of(flag, error);
    }
  };
  if (!threads.empty()) set("--threads", "threads", threads);
  if (!jit.empty()) set("--jit", "jit", jit);
  if (!cache.empty()) set("--cache", "cache_dir", cache);
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) throw Usage("--set wants NAME=VALUE, not '" + setting + "'");
    set("--set", setting.substr(0, equals), setting.substr(equals + 1));
  }
  return config;
}

void EngineFlags::check_cache() const {
  if (cache.empty()) return;
  const mode_t mask = umask(077);  // directories of ours alone, as the library makes them
  std::error_code error;
  std::filesystem::create_directories(cache, error);
  umask(mask);
  std::string problem = error ? cache + ": " + error.message() : "";
  if (!error) try {
      xcrt::prune_cache(cache, INT64_MAX);  // opens the directory, removes nothing
    } catch (const xcrt::Error& refused) {
      problem = refused.what();
    }
  if (!problem.empty())
    fmt::print(stderr, "xc: no persistent cache, the run goes on without: {}\n", problem);
}

std::string without_status(const xcrt::Error& error) {
  const std::string text = error.what(), status = error.status_name() + std::string(": ");
  return text.starts_with(status) ? text.substr(status.size()) : text;
}

Usage usage_of(const std::string& flag, const xcrt::Error& error) {
  return Usage(flag + ": " + without_status(error));
}

void ShapeFlags::add_to(CLI::App& command) {
  command
      .add_option("--shape", texts,
                  "dims of an input, NAME=1x128; symbolic dims default to 1; repeatable")
      ->allow_extra_args(false);
}

std::map<std::string, std::vector<int64_t>> ShapeFlags::parse() const {
  std::map<std::string, std::vector<int64_t>> out;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');  // names may hold '='
    if (equals == std::string::npos || equals == 0)
      throw Usage("--shape wants NAME=1x128, not '" + text + "'");
    std::vector<int64_t>& dims = out[text.substr(0, equals)];
    dims.clear();
    const char* at = text.data() + equals + 1;
    const char* const end = text.data() + text.size();
    while (at != end) {
      int64_t dim = 0;
      const auto [next, error] = std::from_chars(at, end, dim);
      if (error != std::errc{} || dim < 0 || (next != end && *next != 'x') ||
          (next != end && next + 1 == end))
        throw Usage("--shape wants NAME=1x128, not '" + text + "'");
      dims.push_back(dim);
      at = next == end ? end : next + 1;
    }
  }
  return out;
}

uint32_t shaped_input(const xcrt::Model& model, const std::string& name) {
  try {
    return model.input_index(name);
  } catch (const xcrt::Error& error) {
    throw usage_of("--shape " + name, error);
  }
}

std::vector<std::vector<int64_t>> input_dims(
    const xcrt::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
    std::map<std::string_view, int64_t> symbols) {
  const std::vector<xcrt::Port> inputs = model.inputs();
  for (const auto& [name, dims] : shapes) {
    const xcrt::Port& port = inputs[shaped_input(model, name)];
    if (port.rank >= 0 && dims.size() != static_cast<size_t>(port.rank))
      throw Usage(
          fmt::format("--shape {}={}: the model wants {}", name, dims_text(dims), port.type));
    for (size_t axis = 0; port.rank >= 0 && axis < dims.size(); ++axis)
      if (port.dims[axis] < 0) symbols.emplace(port.dim_texts[axis], dims[axis]);
  }
  std::vector<std::vector<int64_t>> out;
  for (const xcrt::Port& port : inputs) {
    if (port.kind != XC_PORT_TENSOR)
      fail(XC_UNSUPPORTED, "input {} is a {}: give it a value with Python", port.name, port.type);
    if (const auto given = shapes.find(std::string(port.name)); given != shapes.end()) {
      out.push_back(given->second);
      continue;
    }
    if (port.rank < 0)
      throw Usage(
          fmt::format("input {} has no known rank: give --shape {}=...", port.name, port.name));
    std::vector<int64_t>& dims = out.emplace_back();
    for (size_t axis = 0; axis < port.dims.size(); ++axis)
      dims.push_back(port.dims[axis] >= 0 ? port.dims[axis]
                                          : evaluate_dim(port.dim_texts[axis], symbols));
  }
  return out;
}

std::vector<xcrt::Tensor> random_inputs(const xcrt::Model& model,
                                        const std::vector<std::vector<int64_t>>& dims,
                                        uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> real(-1.0, 1.0);
  std::vector<xcrt::Tensor> out;
  const std::vector<xcrt::Port> inputs = model.inputs();
  for (size_t k = 0; k < inputs.size(); ++k) {
    const xc_dtype dtype = inputs[k].dtype;
    xcrt::Tensor& tensor = out.emplace_back(dtype, dims[k]);
    const int64_t count = tensor.size();
    if (dtype == XC_DTYPE_STRING) {
      const std::vector<std::string_view> texts(static_cast<size_t>(count), "a");
      tensor.set_strings(texts);
      continue;
    }
    auto* bytes = static_cast<char*>(tensor.data());
    const int64_t size = xc_dtype_size(dtype);
    for (int64_t i = 0; i < count * (is_complex(dtype) ? 2 : 1); ++i) {
      const int64_t step = is_complex(dtype) ? size / 2 : size;
      if (dtype == XC_DTYPE_F32 || dtype == XC_DTYPE_C64) {
        const auto value = static_cast<float>(real(generator));
        std::memcpy(bytes + i * step, &value, sizeof value);
      } else if (dtype == XC_DTYPE_F64 || dtype == XC_DTYPE_C128) {
        const double value = real(generator);
        std::memcpy(bytes + i * step, &value, sizeof value);
      } else if (dtype == XC_DTYPE_BF16 || dtype == XC_DTYPE_F16) {
        // 0.5 to 1 with random low bits: exponent fixed, mantissa random.
        const auto bits =
            static_cast<uint16_t>(dtype == XC_DTYPE_BF16 ? 0x3f00u | (generator() & 0x807fu)
                                                         : 0x3800u | (generator() & 0x83ffu));
        std::memcpy(bytes + i * step, &bits, sizeof bits);
      } else if (is_float(dtype)) {
        bytes[i] = 0;
      } else {
        bytes[i * step] = static_cast<char>(generator() & 1);  // the lowest byte: 0 or 1
      }
    }
  }
  return out;
}

Loaded load(const std::string& path, const xcrt::Config& config) {
  const double begin = now_ms();
  xcrt::Engine engine(config);
  xcrt::Model model(engine, path);
  xcrt::Session session(model);
  return {std::move(model), std::move(session), now_ms() - begin, begin};
}

std::vector<xcrt::Tensor> run(xcrt::Session& session, const std::vector<xcrt::Tensor>& inputs) {
  std::vector<const xc_tensor*> handles;
  for (const xcrt::Tensor& input : inputs) handles.push_back(input.handle());
  return session.run(handles, {});
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::string dims_text(const std::vector<int64_t>& dims) {
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

std::string spell_quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  size_t end = std::min(text.size(), kMost);
  while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;  // a character is not parted
  return nlohmann::json(text.substr(0, end))
             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         (end < text.size() ? "..." : "");
}

namespace {

/// Infinity for what is no number.
double number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end == text.c_str() || *end != 0 ? HUGE_VAL : number;
}

}  // namespace

std::string check_positive(const std::string& text) {
  const double number = number_of(text);
  return number > 0 && std::isfinite(number) ? "" : "wants a number above 0, not '" + text + "'";
}

std::string check_from_zero(const std::string& text) {
  const double number = number_of(text);
  return number >= 0 && std::isfinite(number) ? "" : "wants a number from 0, not '" + text + "'";
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

std::string reason(int error) {
  return error == 0 ? "" : ": " + std::generic_category().message(error);
}

void fail_to_read(const std::string& path, int error) {
  fail(error == ENOENT || error == ENOTDIR ? XC_NOT_FOUND : XC_IO, "cannot read {}{}", path,
       reason(error));
}

std::string read_file(const std::string& path) {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) fail_to_read(path, errno);
  std::string out;
  char buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, file.get()))
    out.append(buffer, got);
  if (std::ferror(file.get())) fail_to_read(path, errno);  // a directory opens and reads not
  return out;
}

void write_file(const std::string& path, std::string_view bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) fail(XC_IO, "cannot write {}{}", path, reason(errno));
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_json(const nlohmann::ordered_json& document) {
  fmt::print("{}\n", json_text(document));
}

Progress::Progress() : enabled_(isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}
void Progress::show(const std::string& text) {
  if (!enabled_ || now_ms() - last_ < 100) return;
  last_ = now_ms();
  shown_ = true;
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
}

}  // namespace tool
