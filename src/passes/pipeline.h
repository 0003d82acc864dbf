#pragma once
// The ordered list of portable rewrites; see pipeline.cpp for the list itself.

#include <string_view>

#include "passes/pass_manager.h"

namespace xc {

const Pipeline& portable_pipeline();

/// A pass of the portable pipeline by name; fails with kNotFound listing the names.
const Pass& find_pass(std::string_view name);

/// What a model goes through between its front end and the planner: run_pipeline() of
/// portable_pipeline(). The graph must verify; types are inferred here.
PassReport optimise(Graph& graph, const PassOptions& options = {});

}  // namespace xc
