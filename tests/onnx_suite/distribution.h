#pragma once
// What is certain about a test whose results are random by definition.

#include "onnx_suite/test_case.h"
#include "runtime/session.h"

namespace xc::suite {

/// Types and dims are the expected ones, and what Bernoulli and Dropout promise holds: the expected
/// value of each element of output 0 is that element of input 0. Runs the session a thousand times,
/// or twice where a seed repeats the numbers; then the mean over all elements is held against that
/// of the input. Bounds are six standard deviations wide. `complement`: 1 - input is expected
/// instead. Throws std::runtime_error.
void check_distribution(Session& session, const DataSet& data, bool complement);

}  // namespace xc::suite
