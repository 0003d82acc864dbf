#pragma once
// Text that comes from a model: is it UTF-8, and how is it shown in a message.

#include <string>
#include <string_view>

namespace xc {

/// Bytes of the well-formed character that `text`, not empty, begins with; 0 when it does not.
size_t utf8_length(std::string_view text);

/// Well-formed UTF-8: no overlong forms, surrogates or code points above U+10FFFF.
bool valid_utf8(std::string_view text);

/// The text for a message: control characters and bytes that are no UTF-8 as \xNN, so that a name
/// can neither end a log line nor drive a terminal; cut after `max` characters.
std::string printable(std::string_view text, size_t max = 120);

}  // namespace xc
