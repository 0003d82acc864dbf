#include "sizes.h"

#include <algorithm>
#include <charconv>
#include <random>

namespace tool {

Stream parse_stream(const std::string& text) {
  const auto bad = [&]() -> Usage {
    return Usage(
        "--stream wants NAME=LO:HI:KIND with KIND constant, uniform, bimodal, alternating or "
        "growing, not '" +
        text + "'");
  };
  Stream out;
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) throw bad();
  out.name = text.substr(0, equals);
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  for (int64_t* number : {&out.low, &out.high}) {
    const auto [next, error] = std::from_chars(at, end, *number);
    if (error != std::errc{} || next == end || *next != ':' || *number < 0) throw bad();
    at = next + 1;
  }
  out.kind.assign(at, end);
  static constexpr std::string_view kKinds[] = {"constant", "uniform", "bimodal", "alternating",
                                                "growing"};
  if (out.low > out.high ||
      std::find(std::begin(kKinds), std::end(kKinds), out.kind) == std::end(kKinds))
    throw bad();
  return out;
}

std::vector<int64_t> sizes_of(const Stream& stream, int calls) {
  std::mt19937_64 generator(7);
  std::uniform_int_distribution<int64_t> any(stream.low, stream.high);
  const int64_t steps = std::max(1, calls - 1), range = stream.high - stream.low;
  std::vector<int64_t> out;
  for (int i = 0; i < calls; ++i) {
    if (stream.kind == "constant")
      out.push_back(stream.high);
    else if (stream.kind == "uniform")
      out.push_back(any(generator));
    else if (stream.kind == "bimodal")
      out.push_back(generator() % 4 == 0 ? stream.high : stream.low);
    else if (stream.kind == "alternating")
      out.push_back(i % 2 ? stream.high : stream.low);
    else
      out.push_back(stream.low + range / steps * i + range % steps * i / steps);
  }
  return out;
}

std::vector<std::vector<int64_t>> dims_for(const xcrt::Model& model, const ShapeFlags& shapes,
                                           const Stream& stream, int64_t size) {
  const std::vector<xcrt::Port> ports = model.inputs();
  std::string symbol;
  std::vector<std::string> known;
  for (const xcrt::Port& port : ports)
    for (size_t axis = 0; axis < port.dims.size(); ++axis) {
      if (port.dims[axis] >= 0) continue;
      known.emplace_back(port.dim_texts[axis]);
      if (port.dim_texts[axis] == stream.name)
        symbol = stream.name;
      else if (port.name == stream.name && symbol.empty())
        symbol = port.dim_texts[axis];
    }
  if (symbol.empty()) {
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    throw Usage(fmt::format("--stream {}: no symbolic dim of that name; there are: {}", stream.name,
                            list.empty() ? "none" : list));
  }
  std::vector<std::vector<int64_t>> dims = input_dims(model, shapes.parse(), {{symbol, size}});
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t axis = 0; axis < ports[i].dims.size(); ++axis)
      if (ports[i].dim_texts[axis] == symbol) dims[i][axis] = size;
  return dims;
}

}  // namespace tool
