// Symbolic sizes as ports spell them: "n", "2*n+1", "floordiv(n+3,4)".
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace tool {

/// What a dim's text is for these sizes of whole texts or of the names in it; 1 for other names.
int64_t evaluate_dim(std::string_view text, const std::map<std::string_view, int64_t>& sizes);

}  // namespace tool
