#include "formats/xcg/json.h"

#include <limits>
#include <unordered_set>

#include "base/utf8.h"

namespace xc::xcg {

Json parse_strict(std::string_view text, int64_t offset, const Limits& limits) {
  if (text.empty() || text[0] != '{')
    throw Error(Status::kFormat, "the JSON header is no object", fmt::format("byte {}", offset));
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open
  int64_t values = 0;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using enum Json::parse_event_t;
    if (depth > kMaxJsonDepth)
      fail(Status::kLimit, "the JSON header is nested deeper than {}", kMaxJsonDepth);
    if (++values > limits.values)
      fail(Status::kLimit, "the JSON header has more than {} values", limits.values);
    if (event == object_start) keys.emplace_back();
    if (event == object_end) keys.pop_back();
    if (event == key && !keys.back().insert(parsed.get_ref<const std::string&>()).second)
      fail(Status::kFormat, "the JSON header has key '{}' twice in one object",
           printable(parsed.get_ref<const std::string&>()));
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    throw Error(Status::kFormat,
                fmt::format("the JSON header is damaged: {}", printable(error.what(), 300)),
                fmt::format("byte {}", offset + static_cast<int64_t>(error.byte)));
  } catch (const Json::exception& error) {
    throw Error(Status::kFormat,
                fmt::format("the JSON header is damaged: {}", printable(error.what(), 300)),
                fmt::format("byte {}", offset));
  }
}

void fail_at(const std::string& path, std::string_view what) {
  throw Error(Status::kFormat, std::string(what), path);
}

int64_t integer(const Json& json, const std::string& path, int64_t low, int64_t high) {
  if (!json.is_number_integer()) fail_at(path, "expected an integer");
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    fail_at(path, "the integer does not fit 64 bits");
  const auto value = json.get<int64_t>();
  if (value < low || value > high)
    fail_at(path, fmt::format("{} is outside of [{}, {}]", value, low, high));
  return value;
}

double real(const Json& json, const std::string& path) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) {
    const auto& word = json.get_ref<const std::string&>();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
  }
  fail_at(path, "expected a number");
}

const std::string& text(const Json& json, const std::string& path) {
  if (!json.is_string()) fail_at(path, "expected a string");
  return json.get_ref<const std::string&>();
}

const std::string& short_text(const Json& json, const std::string& path, const Limits& limits) {
  const std::string& out = text(json, path);
  if (static_cast<int64_t>(out.size()) > limits.name_bytes)
    throw Error(Status::kLimit,
                fmt::format("a name has {} bytes, the limit is {}", out.size(), limits.name_bytes),
                path);
  if (out.find('\0') != std::string::npos) fail_at(path, "a name has a NUL character");
  return out;
}

const Json& array(const Json& json, const std::string& path) {
  if (!json.is_array()) fail_at(path, "expected an array");
  return json;
}

Object::Object(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json.is_object()) fail_at(path_, "expected an object");
}

const Json& Object::required(const char* key) {
  if (const Json* found = optional(key)) return *found;
  fail_at(path_, fmt::format("key '{}' is missing", key));
}

const Json* Object::optional(const char* key) {
  asked_.insert(key);
  const auto it = json_.find(key);
  return it == json_.end() ? nullptr : &*it;
}

void Object::done() const {
  for (const auto& [key, value] : json_.items())
    if (!asked_.contains(key)) fail_at(path_, fmt::format("key '{}' is not known", printable(key)));
}

}  // namespace xc::xcg
