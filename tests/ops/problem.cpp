#include "ops/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ops/registry.h"
#include "support/paths.h"

namespace xc::test {

namespace {

/// "f32[2,3] 1 2 3 4 5 6"; strings in quotes, without escapes.
Tensor parse_tensor(std::istringstream& in) {
  std::string head;
  in >> head;
  if (head == "_") return {};
  const size_t bracket = head.find('[');
  const auto type = dtype_from_name(head.substr(0, bracket));
  if (!type || bracket == std::string::npos) fail(Status::kFormat, "no tensor type: {}", head);
  Dims dims;
  std::istringstream list(head.substr(bracket + 1, head.size() - bracket - 2));
  for (std::string d; std::getline(list, d, ',');) dims.push_back(std::stoll(d));
  Tensor out(*type, dims);
  const int64_t n = out.count();
  for (int64_t i = 0; i < n; ++i) {
    std::string word;
    if (!(in >> word)) fail(Status::kFormat, "{} elements, expected {}", i, n);
    if (*type == DType::kString)
      out.as<std::string>()[i] = word.substr(1, word.size() - 2);
    else if (*type == DType::kU64)
      out.as<uint64_t>()[i] = std::stoull(word);
    else if (is_float(*type))
      store_double(out.data(), *type, i, std::strtod(word.c_str(), nullptr));
    else
      store_int64(out.data(), *type, i, std::stoll(word));
  }
  return out;
}

template <class T>
std::vector<T> rest(std::istringstream& in) {
  std::vector<T> out;
  for (T v; in >> v;) out.push_back(v);
  return out;
}

Attr parse_attr(std::istringstream& in) {
  std::string kind;
  in >> kind;
  if (kind == "int") return rest<int64_t>(in).at(0);
  if (kind == "float") return rest<double>(in).at(0);
  if (kind == "string") return rest<std::string>(in).at(0);
  if (kind == "ints") return rest<int64_t>(in);
  if (kind == "floats") return rest<double>(in);
  if (kind == "tensor") return parse_tensor(in);
  fail(Status::kFormat, "unknown attribute kind {}", kind);
}

/// Position of a float among the representable ones of its type: neighbours differ by 1.
int64_t ordinal(double v, DType type) {
  const auto of_bits = [](int64_t bits, int64_t sign) { return bits & sign ? sign - bits : bits; };
  switch (type) {
    case DType::kF64:
      return of_bits(std::bit_cast<int64_t>(v), INT64_MIN);
    case DType::kF32: {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(v));
      return of_bits(bits, int64_t{1} << 31);
    }
    default: {
      uint16_t bits = 0;
      store_double(&bits, type, 0, v);
      return of_bits(bits, 1 << 15);
    }
  }
}

}  // namespace

Node Problem::node() const {
  Node out;
  out.op = op;
  out.name = name;
  out.attrs = attrs;
  for (size_t i = 0; i < inputs.size(); ++i)
    out.inputs.push_back(inputs[i] ? static_cast<ValueId>(i) : kNone);
  for (size_t k = 0; k < expected.size(); ++k)
    out.outputs.push_back(expected[k] ? static_cast<ValueId>(inputs.size() + k) : kNone);
  return out;
}

Graph Problem::graph(const std::vector<bool>& constants, const std::vector<SymDims>& dims) const {
  Graph graph;
  graph.name = name;
  Node node = this->node();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const std::string value = fmt::format("x{}", i);
    if (constants[i]) {
      node.inputs[i] = graph.add_constant(value, inputs[i]);
    } else {
      const SymDims shape = dims.empty() ? to_symbolic(inputs[i].dims()) : dims[i];
      node.inputs[i] = graph.add_input(value, Type::tensor(inputs[i].dtype(), shape));
    }
  }
  for (size_t k = 0; k < expected.size(); ++k) {
    if (!expected[k]) continue;
    node.outputs[k] = graph.add_value(fmt::format("y{}", k));
    graph.outputs.push_back(node.outputs[k]);
  }
  graph.add_node(std::move(node));
  return graph;
}

std::vector<Problem> load_problems(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(Status::kNotFound, "cannot read {}", path);
  std::vector<Problem> out;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream in(line);
    std::string word;
    if (!(in >> word) || word[0] == '#') continue;
    located(fmt::format("{}:{}", path, number), [&] {
      if (word == "case") {
        out.emplace_back();
        in >> out.back().name;
        out.back().file = path;
        out.back().line = number;
        return;
      }
      if (out.empty()) fail(Status::kFormat, "expected 'case'");
      Problem& p = out.back();
      std::string text;
      if (word == "op") {
        in >> text;
        p.op = &get_op(text);
      } else if (word == "attr") {
        in >> text;
        p.attrs.set(text, parse_attr(in));
      } else if (word == "input") {
        p.inputs.push_back(parse_tensor(in));
      } else if (word == "output") {
        p.expected.push_back(parse_tensor(in));
      } else {
        fail(Status::kFormat, "unknown line '{}'", word);
      }
    });
  }
  return out;
}

const std::vector<Problem>& all_problems() {
  static const std::vector<Problem> problems = [] {
    std::vector<std::string> files;
    const auto collect = [&](const std::string& dir) {
      for (const auto& entry : std::filesystem::directory_iterator(dir))
        if (entry.path().extension() == ".cases") files.push_back(entry.path().string());
    };
    collect(source_dir() + "/tests/ops/cases");
    if (const char* extra = std::getenv("XC_EXTRA_CASES")) collect(extra);
    std::sort(files.begin(), files.end());
    std::vector<Problem> out;
    for (const std::string& file : files)
      for (Problem& p : load_problems(file)) out.push_back(std::move(p));
    return out;
  }();
  return problems;
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims())
    return fmt::format("{}{} instead of {}{}", name(got.dtype()), to_text(got.dims()),
                       name(want.dtype()), to_text(want.dims()));
  const Tensor a = got.to_contiguous();
  const int64_t n = want.count();
  if (want.dtype() == DType::kString) {
    for (int64_t i = 0; i < n; ++i)
      if (a.as<std::string>()[i] != want.as<std::string>()[i])
        return fmt::format("element {}: '{}' instead of '{}'", i, a.as<std::string>()[i],
                           want.as<std::string>()[i]);
    return {};
  }
  if (!is_float(want.dtype())) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t x = load_int64(a.data(), a.dtype(), i);
      const int64_t y = load_int64(want.data(), want.dtype(), i);
      if (x != y) return fmt::format("element {}: {} instead of {}", i, x, y);
    }
    return {};
  }
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double y = std::fabs(load_double(want.data(), want.dtype(), i));
    if (std::isfinite(y)) largest = std::max(largest, y);
  }
  const double epsilon = want.dtype() == DType::kF64   ? 0x1p-52
                         : want.dtype() == DType::kF32 ? 0x1p-23
                         : want.dtype() == DType::kF16 ? 0x1p-10
                                                       : 0x1p-7;
  for (int64_t i = 0; i < n; ++i) {
    const double x = load_double(a.data(), a.dtype(), i);
    const double y = load_double(want.data(), want.dtype(), i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    bool close = false;
    if (tolerance != Tolerance::kExact && std::isfinite(x) && std::isfinite(y)) {
      close = std::llabs(ordinal(x, a.dtype()) - ordinal(y, a.dtype())) <= 4;
      if (tolerance != Tolerance::kElementwise) close |= std::fabs(x - y) <= 16 * epsilon * largest;
    }
    if (!close) return fmt::format("element {}: {} instead of {}", i, x, y);
  }
  return {};
}

}  // namespace xc::test
