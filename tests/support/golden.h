// Golden texts: what a stage printed once, reviewed, and must print again.
#pragma once

#include <string>

namespace xc::test {

std::string read_text(const std::string& path);

// Compares `actual` with the file tests/golden/`relative`; XC_BLESS=1 writes the file instead.
// A difference is a failed doctest check that shows the first differing line and how to re-bless.
void check_golden(const std::string& relative, const std::string& actual);

}  // namespace xc::test
