#pragma once

namespace xc {

/// std::strtod() as it is in the C locale: the host's may have a decimal comma. Of what lies beyond
/// the range of double the nearest that it has. Any thread.
double real_from_text(const char* text, char** end);

}  // namespace xc
