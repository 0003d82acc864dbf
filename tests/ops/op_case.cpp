#include "ops/op_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "ops/infer.h"
#include "ops/registry.h"
#include "support/paths.h"

namespace xc::test {

namespace {

using nlohmann::json;

double number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Tensor tensor_of(const json& from) {
  const auto dtype = dtype_from_name(from.at("dtype").get<std::string>());
  if (!dtype) fail(Status::kFormat, "element type {}", from.at("dtype").get<std::string>());
  Tensor out(*dtype, from.at("dims").get<Dims>());
  int64_t i = 0;
  for (const json& value : from.at("data")) {
    if (*dtype == DType::kString)
      out.as<std::string>()[i] = value.get<std::string>();
    else if (is_integer(*dtype) && value.is_number_integer())
      store_int64(out.data(), *dtype, i, value.get<int64_t>());
    else
      store_double(out.data(), *dtype, i, number_of(value));
    ++i;
  }
  return out;
}

Attr attr_of(const json& from) {
  const std::string kind = from.begin().key();
  const json& value = from.begin().value();
  if (kind == "int") return value.get<int64_t>();
  if (kind == "float") return number_of(value);
  if (kind == "string") return value.get<std::string>();
  if (kind == "ints") return value.get<std::vector<int64_t>>();
  if (kind == "strings") return value.get<std::vector<std::string>>();
  if (kind == "tensor") return tensor_of(value);
  std::vector<double> floats;
  for (const json& v : value) floats.push_back(number_of(v));
  return floats;
}

OpCase case_of(const json& from) {
  OpCase out;
  out.name = from.at("name");
  out.absolute_error = from.value("absolute_error", 0.0);
  std::map<std::string, ValueId> ids;
  const auto value_id = [&](const std::string& name) {
    if (name.empty()) return kNone;
    const auto [it, fresh] = ids.try_emplace(name, kNone);
    if (fresh) it->second = out.graph.add_value(name);
    return it->second;
  };
  for (const auto& [name, value] : from.at("inputs").items()) {
    out.inputs.push_back(tensor_of(value));
    const Tensor& t = out.inputs.back();
    ids[name] = out.graph.add_input(name, Type::tensor(t.dtype(), to_symbolic(t.dims())));
  }
  for (const json& each : from.at("nodes")) {
    Node node;
    node.op = &get_op(each.at("op").get<std::string>(), each.value("domain", std::string()));
    node.name = out.name;
    for (const json& name : each.at("inputs")) node.inputs.push_back(value_id(name));
    for (const json& name : each.at("outputs")) node.outputs.push_back(value_id(name));
    for (const auto& [name, attr] : each.at("attrs").items()) node.attrs.set(name, attr_of(attr));
    out.tolerance = node.op->tolerance;
    out.graph.add_node(std::move(node));
  }
  for (const auto& [name, value] : from.at("outputs").items()) {
    out.graph.outputs.push_back(value_id(name));
    out.expected.push_back(tensor_of(value));
  }
  return out;
}

}  // namespace

std::vector<OpCase> load_cases(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail(Status::kNotFound, "{}", path);
  std::vector<OpCase> out;
  for (const json& each : json::parse(in)) {
    out.push_back(case_of(each));
    out.back().file = std::filesystem::path(path).filename().string();
  }
  return out;
}

std::vector<std::string> case_files(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".json") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

void for_each_case(const std::function<void(OpCase&)>& body) {
  const char* other = std::getenv("XC_OP_CASES");
  for (const std::string& file : case_files(other ? other : source_dir() + "/tests/ops/cases")) {
    CAPTURE(file);
    std::vector<OpCase> cases;
    try {
      cases = load_cases(file);
    } catch (const Error& error) {
      FAIL_CHECK(error.message());
      continue;
    }
    for (OpCase& each : cases) {
      CAPTURE(each.name);
      try {
        body(each);
      } catch (const Error& error) {
        FAIL_CHECK(error.message());
      }
    }
  }
}

/// Sizes above 1 that are equal become one symbol; integer inputs become constants with their
/// values.
Graph generalised(const OpCase& problem, Sizes& sizes) {
  const Graph& from = problem.graph;
  Graph out;
  std::map<ValueId, ValueId> ids{{kNone, kNone}};
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    const Value& value = from.value(from.inputs[i]);
    const Tensor& actual = problem.inputs[i];
    if (!is_float(actual.dtype())) {
      ids[from.inputs[i]] = out.add_constant(value.name, actual);
      continue;
    }
    SymDims dims;
    for (int64_t d : actual.dims()) {
      const std::string symbol = fmt::format("d{}", d);
      if (d > 1) sizes[symbol] = d;
      dims.push_back(d > 1 ? Dim::symbol(symbol) : Dim(d));
    }
    ids[from.inputs[i]] = out.add_input(value.name, Type::tensor(actual.dtype(), dims));
  }
  for (NodeId id : from.order()) {
    Node node = from.node(id);
    for (ValueId& v : node.inputs) v = ids.at(v);
    for (ValueId& v : node.outputs)
      if (v != kNone) v = ids[v] = out.add_value(from.value(v).name);
    out.add_node(std::move(node));
  }
  for (ValueId v : from.outputs) out.outputs.push_back(ids.at(v));
  return out;
}

std::vector<Tensor> run_references(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::map<ValueId, Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).is_constant()) values[id] = graph.value(id).constant;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> in;
    for (ValueId v : node.inputs) in.push_back(v == kNone ? Tensor{} : values.at(v));
    const auto out = run_reference(node, in);
    for (size_t k = 0; k < out.size(); ++k)
      if (node.outputs[k] != kNone) values[node.outputs[k]] = out[k];
  }
  std::vector<Tensor> out;
  for (ValueId v : graph.outputs) out.push_back(values.at(v));
  return out;
}

Tensor with_odd_strides(const Tensor& t) {
  // Axes stored in reverse order, each backwards and with a gap between elements.
  Dims strides(t.dims().size());
  int64_t span = 2, offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    strides[i] = -span;
    offset += span * std::max<int64_t>(t.dims()[i] - 1, 0);
    span *= std::max<int64_t>(t.dims()[i], 1);
  }
  Tensor memory(t.dtype(), {span});
  Tensor out(memory.buffer(), offset * element_size(t.dtype()), t.dtype(), t.dims(), strides);
  copy_elements(t.view(), out.view());
  return out;
}

namespace {

struct Bound {
  double relative, absolute;
};

/// What one rounding of the dtype and the operator's class allow.
Bound bound_of(DType type, Tolerance tolerance) {
  double unit = 0;
  switch (type) {
    case DType::kF64:
      unit = 0x1p-52;
      break;
    case DType::kF32:
      unit = 0x1p-23;
      break;
    case DType::kF16:
      unit = 0x1p-10;
      break;
    case DType::kBF16:
      unit = 0x1p-7;
      break;
    default:
      return {0, 0};
  }
  // Expected values are themselves computed in the dtype, by another order of operations.
  switch (tolerance) {
    case Tolerance::kExact:
      return {0, 0};
    case Tolerance::kElementwise:
      return {8 * unit, 2 * unit};
    default:
      return {64 * unit, 16 * unit};
  }
}

std::string text_of(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.as<std::string>()[i];
  return fmt::format("{}", load_double(t.data(), t.dtype(), i));
}

}  // namespace

std::string difference(const OpCase& problem, size_t k, const Tensor& actual) {
  const Tensor& expected = problem.expected[k];
  if (actual.dtype() != expected.dtype())
    return fmt::format("type {}, expected {}", name(actual.dtype()), name(expected.dtype()));
  if (actual.dims() != expected.dims())
    return fmt::format("dims {}, expected {}", to_text(actual.dims()), to_text(expected.dims()));
  const Tensor a = actual.to_contiguous(), b = expected.to_contiguous();
  Bound bound = bound_of(a.dtype(), problem.tolerance);
  bound.absolute = std::max(bound.absolute, problem.absolute_error);
  for (int64_t i = 0; i < a.count(); ++i) {
    bool same = false;
    if (a.dtype() == DType::kString) {
      same = a.as<std::string>()[i] == b.as<std::string>()[i];
    } else if (is_integer(a.dtype()) || a.dtype() == DType::kBool) {
      same = load_int64(a.data(), a.dtype(), i) == load_int64(b.data(), b.dtype(), i);
    } else {
      const double x = load_double(a.data(), a.dtype(), i), y = load_double(b.data(), b.dtype(), i);
      same = x == y || (std::isnan(x) && std::isnan(y)) ||
             std::abs(x - y) <= bound.absolute + bound.relative * std::abs(y);
    }
    if (!same) return fmt::format("element {}: {}, expected {}", i, text_of(a, i), text_of(b, i));
  }
  return {};
}

}  // namespace xc::test
