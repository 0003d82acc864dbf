// Where tests find their files, and whether optional material is there.
#pragma once

#include <string>

namespace xc::test {

// Root of the source tree, without a trailing slash.
std::string source_dir();
// Root of the build tree: bin/ holds the tools, lib/ the libraries.
std::string binary_dir();
// Models and cases shared between projects; may be absent, see have_shared().
std::string shared_dir();
// Path of ptxas, empty when there is none.
std::string ptxas();

// True when `relative` exists below shared_dir(); prints why the caller skips otherwise.
bool have_shared(const std::string& relative);

}  // namespace xc::test
