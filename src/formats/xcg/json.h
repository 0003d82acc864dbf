#pragma once
// JSON read strictly: no duplicate or unknown keys, no numbers out of range, bounded depth and
// count.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "formats/format.h"

namespace xc::xcg {

/// Keys in order: lookups stay logarithmic however many a file brings.
using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 128;

/// Parses one object. Fails with kFormat (with the byte in the file; the text starts at `offset`)
/// or kLimit.
Json parse_strict(std::string_view text, int64_t offset, const Limits& limits);

/// Fails with kFormat at a JSON path such as `graph.nodes[3].op`.
[[noreturn]] void fail_at(const std::string& path, std::string_view what);

// Values of one kind; anything else fails.
int64_t integer(const Json& json, const std::string& path, int64_t low, int64_t high);
double real(const Json& json, const std::string& path);  ///< also "nan", "inf", "-inf"
const std::string& text(const Json& json, const std::string& path);
/// Text of at most `limits.name_bytes` without NUL.
const std::string& short_text(const Json& json, const std::string& path, const Limits& limits);
const Json& array(const Json& json, const std::string& path);

/// An object whose keys are asked for one by one; done() refuses those nobody asked for.
class Object {
 public:
  Object(const Json& json, std::string path);
  const Json& required(const char* key);
  const Json* optional(const char* key);
  std::string path(std::string_view key) const { return path_ + "." + std::string(key); }
  const std::string& path() const { return path_; }
  void done() const;

 private:
  const Json& json_;
  std::string path_;
  std::set<std::string_view> asked_;
};

}  // namespace xc::xcg
