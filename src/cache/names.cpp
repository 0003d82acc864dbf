#include "cache/names.h"

#include "base/hash.h"

namespace xc::cache {
namespace {

constexpr std::string_view kMark = "trying";

/// "PREFIX-" and 32 hexadecimal digits.
bool is_hashed(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || text.size() != prefix.size() + 33 || text[prefix.size()] != '-')
    return false;
  return text.substr(prefix.size() + 1).find_first_not_of("0123456789abcdef") ==
         std::string_view::npos;
}

}  // namespace

std::string entry_name(Kind kind, std::string_view key) {
  return std::string(name(kind)) + "-" + hash_text(key).text();
}

std::string mark_name(std::string_view key) {
  return std::string(kMark) + "-" + hash_text(key).text();
}

bool is_entry_name(std::string_view text) {
  return is_hashed(text, name(Kind::kObject)) || is_hashed(text, name(Kind::kProfile)) ||
         is_hashed(text, name(Kind::kPoison)) || is_hashed(text, name(Kind::kHost));
}

bool is_mark_name(std::string_view text) {
  return is_hashed(text, kMark);
}

}  // namespace xc::cache
