#include "onnx_suite/test_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "formats/mapped_file.h"
#include "formats/onnx/tensors.h"
#include "ops/containers.h"

namespace xc::suite {
namespace {

/// One file: a TensorProto, SequenceProto or OptionalProto.
class ValueReader {
 public:
  explicit ValueReader(const std::string& path)
      : file_(map_file(path, LoadOptions{}.limits.file_bytes)),
        source_{{reinterpret_cast<const char*>(file_->data()), static_cast<size_t>(file_->bytes())},
                LoadOptions{}.limits},
        tensors_(source_, file_, {}, false) {}

  Tensor read(const std::string& kind) {
    if (kind == "tensor") return tensors_.dense(source_.file);
    std::vector<Tensor> values = members(source_.file);
    if (kind == "sequence") return make_sequence(values);
    return values.empty() ? Tensor() : values.front();
  }

 private:
  /// Both messages number what they hold alike: tensors 3, sequences 5.
  std::vector<Tensor> members(onnx::Bytes body) {
    std::vector<Tensor> out;
    for (onnx::Message m(source_, body); m.next();) {
      if (m.field() == 3)
        out.push_back(tensors_.dense(m.bytes()));
      else if (m.field() == 5)
        out.push_back(make_sequence(members(m.bytes())));
      else
        m.skip();
    }
    return out;
  }

  std::shared_ptr<Buffer> file_;
  onnx::Source source_;
  onnx::TensorReader tensors_;
};

std::vector<Tensor> read_values(const std::filesystem::path& stem,
                                const std::vector<std::string>& kinds) {
  std::vector<Tensor> out;
  for (const std::string& kind : kinds) {
    const std::string path = stem.string() + std::to_string(out.size()) + ".pb";
    if (!std::filesystem::exists(path)) break;
    out.push_back(ValueReader(path).read(kind));
  }
  return out;
}

[[noreturn]] void differ(size_t output, const std::string& what) {
  throw std::runtime_error(fmt::format("output {}: {}", output, what));
}

/// A complex tensor as its real and imaginary parts, on one more axis.
Tensor as_floats(const Tensor& t) {
  if (t.dtype() != DType::kC64 && t.dtype() != DType::kC128) return t;
  Dims dims(t.dims().begin(), t.dims().end());
  dims.push_back(2);
  Tensor out(t.dtype() == DType::kC64 ? DType::kF32 : DType::kF64, std::move(dims));
  if (t.count() > 0) std::memcpy(out.data(), t.data(), static_cast<size_t>(out.byte_size()));
  return out;
}

/// The distance between neighbours of a value in a type.
double unit_in_last_place(DType dtype, double value) {
  int mantissa_bits = 0, lowest_exponent = 0;
  switch (dtype) {
    case DType::kF64:
      mantissa_bits = 52, lowest_exponent = -1022;
      break;
    case DType::kF32:
      mantissa_bits = 23, lowest_exponent = -126;
      break;
    case DType::kF16:
      mantissa_bits = 10, lowest_exponent = -14;
      break;
    case DType::kBF16:
      mantissa_bits = 7, lowest_exponent = -126;
      break;
    default:
      return 0;
  }
  const int exponent = value == 0 ? lowest_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, lowest_exponent) - mantissa_bits);
}

Distance compare_numbers(const TestCase& test, size_t output, const Tensor& expected,
                         const Tensor& got) {
  const double rtol =
      expected.dtype() == DType::kBF16 ? std::max(test.rtol, std::ldexp(1.0, -6)) : test.rtol;
  const double smallest = rtol > 0 ? test.atol / rtol : 0;
  Distance out;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double e = load_double(expected.data(), expected.dtype(), i);
    const double g = load_double(got.data(), got.dtype(), i);
    if (e == g || (std::isnan(e) && std::isnan(g))) continue;
    const double error = std::abs(g - e);
    if (!(error <= test.atol + rtol * std::abs(e)) || std::isinf(e))
      differ(output, fmt::format("element {} is {}, expected {}", i, g, e));
    const double size = std::max(std::abs(e), smallest);
    const double unit = unit_in_last_place(expected.dtype(), size);
    out.include({error / size, unit > 0 ? error / unit : 0});
  }
  return out;
}

void compare_strings(size_t output, const Tensor& expected, const Tensor& got) {
  for (int64_t i = 0; i < expected.count(); ++i)
    if (expected.as<std::string>()[i] != got.as<std::string>()[i])
      differ(output, fmt::format("element {} is '{}', expected '{}'", i, got.as<std::string>()[i],
                                 expected.as<std::string>()[i]));
}

}  // namespace

std::vector<TestCase> read_suite(const std::string& directory) {
  std::ifstream file(directory + "/suite.json");
  const auto index = nlohmann::json::parse(file);
  std::vector<TestCase> out;
  for (const auto& row : index.at("tests")) {
    const std::string id =
        row.at("kind").get<std::string>() + "/" + row.at("name").get<std::string>();
    TestCase test{.id = id, .directory = directory + "/" + id};
    row.at("op").get_to(test.op);
    row.at("rtol").get_to(test.rtol);
    row.at("atol").get_to(test.atol);
    row.at("inputs").get_to(test.inputs);
    row.at("outputs").get_to(test.outputs);
    test.types_only = row.value("check", "") == "types";
    if (row.contains("error")) {
      row.at("error").at("status").get_to(test.status);
      row.at("error").at("told").get_to(test.told);
    }
    out.push_back(std::move(test));
  }
  std::sort(out.begin(), out.end(),
            [](const TestCase& a, const TestCase& b) { return a.id < b.id; });
  return out;
}

std::vector<DataSet> read_data_sets(const TestCase& test) {
  std::vector<DataSet> out;
  for (;;) {
    const std::filesystem::path folder =
        std::filesystem::path(test.directory) / ("test_data_set_" + std::to_string(out.size()));
    if (!std::filesystem::exists(folder)) return out;
    out.push_back({read_values(folder / "input_", test.inputs),
                   read_values(folder / "output_", test.outputs)});
  }
}

void Distance::include(const Distance& other) {
  relative = std::max(relative, other.relative);
  ulp = std::max(ulp, other.ulp);
}

void compare_types(const std::vector<Tensor>& expected, const std::vector<Tensor>& got) {
  if (expected.size() != got.size())
    throw std::runtime_error(fmt::format("{} outputs, expected {}", got.size(), expected.size()));
  for (size_t k = 0; k < expected.size(); ++k) {
    if (expected[k].dtype() != got[k].dtype() || expected[k].dims() != got[k].dims())
      differ(k, fmt::format("{}{}, expected {}{}", name(got[k].dtype()), to_text(got[k].dims()),
                            name(expected[k].dtype()), to_text(expected[k].dims())));
    if (expected[k].dtype() == DType::kTensor) {
      const auto e = elements_of(expected[k]), g = elements_of(got[k]);
      compare_types({e.begin(), e.end()}, {g.begin(), g.end()});
    }
  }
}

Distance compare(const TestCase& test, const std::vector<Tensor>& expected,
                 const std::vector<Tensor>& got) {
  compare_types(expected, got);
  Distance out;
  if (test.types_only) return out;
  for (size_t k = 0; k < expected.size(); ++k) {
    const Tensor e = expected[k].to_contiguous(), g = got[k].to_contiguous();
    if (e.dtype() == DType::kTensor) {
      const auto e_parts = elements_of(e), g_parts = elements_of(g);
      out.include(
          compare(test, {e_parts.begin(), e_parts.end()}, {g_parts.begin(), g_parts.end()}));
    } else if (!e) {
      continue;
    } else if (e.dtype() == DType::kString)
      compare_strings(k, e, g);
    else
      out.include(compare_numbers(test, k, as_floats(e), as_floats(g)));
  }
  return out;
}

}  // namespace xc::suite
