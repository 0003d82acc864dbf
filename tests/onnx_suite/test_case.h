// One test of the standard's suite as dump_suite.py writes it, and what it must give.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace xc::suite {

struct TestCase {
  std::string id = {};         ///< "node/test_abs"
  std::string directory = {};  ///< of model.onnx
  std::string op = {};         ///< the operator it is about
  double rtol = 0, atol = 0;
  /// What its files hold: "tensor", "sequence" or "optional".
  std::vector<std::string> inputs = {}, outputs = {};
  bool types_only = false;  ///< its numbers are random: dtypes and dims are compared
  /// Where it must fail: the status ("INVALID_MODEL") and what message and place hold; else empty.
  std::string status = {};
  std::vector<std::string> told = {};
};

/// The tests that `directory`/suite.json lists, sorted by id.
std::vector<TestCase> read_suite(const std::string& directory);

/// Inputs and expected outputs of one run. A sequence is a tensor of tensors, an optional without a
/// value an undefined tensor.
struct DataSet {
  std::vector<Tensor> inputs, outputs;
};
/// All data sets of a test.
std::vector<DataSet> read_data_sets(const TestCase& test);

/// How far results are from what is expected.
struct Distance {
  /// Largest |got - expected| / max(|expected|, atol / rtol): below that size the absolute
  /// tolerance decides.
  double relative = 0;
  /// The same difference in units in the last place of the expected value's type.
  double ulp = 0;
  void include(const Distance& other);
};

/// Compares by numpy's allclose with the test's tolerances, bf16 with at least two of its ULP, as
/// the suite's own runner does. Throws std::runtime_error that says where they differ.
Distance compare(const TestCase& test, const std::vector<Tensor>& expected,
                 const std::vector<Tensor>& got);
/// Dtypes and dims alone.
void compare_types(const std::vector<Tensor>& expected, const std::vector<Tensor>& got);

}  // namespace xc::suite
