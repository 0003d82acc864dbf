#pragma once
// Whole sessions in tests: run one on tensors, and numbers to feed it.

#include <memory>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace xc::testing {

Config config_in(JitMode mode);

/// A session over a graph in text form, on one thread unless `config` says more.
std::shared_ptr<Session> session_of(const std::string& text, Config config);

/// The text with an element type where it says $T.
std::string with_type(std::string text, const std::string& type);

/// Runs with inputs in graph order; copies of the outputs.
std::vector<Tensor> run(Session& session, const std::vector<Tensor>& inputs);
/// How that ends.
Status status_of(Session& session, const std::vector<Tensor>& inputs);

/// The same with copies of the inputs in whose memory outputs lie wherever one has as many bytes;
/// `like`: of the types and dims that the results have. Counts those into `*shared`.
std::vector<Tensor> run_in_memory_of_inputs(Session& session, const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& like, int64_t* shared);

/// sin(0.37 i + shift) * scale as f32.
Tensor ramp(Dims dims, double scale, double shift);

}  // namespace xc::testing
