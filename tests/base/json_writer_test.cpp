// JSON as text, against another library's.
#include "base/json_writer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

using namespace xc;
using nlohmann::ordered_json;

namespace {

/// A random document, written as it is made.
class Twins {
 public:
  Twins(uint64_t seed, int indent) : json_(indent), random_(seed) {}
  ordered_json make(int depth) {
    switch (random_() % (depth == 0 ? 5 : 7)) {
      case 0:
        return both(static_cast<int64_t>(random_()) >> (random_() % 64));
      case 1:
        return both(random_() % 2 == 0);
      case 2:
        return both(text());
      case 3:
        // Halves are written alike by everybody.
        return both(static_cast<double>(static_cast<int64_t>(random_() % 4001) - 2000) / 2);
      case 4:
        return both(random_() % 5);
      case 5: {
        auto out = ordered_json::array();
        const std::vector<int> items(random_() % 4);
        json_.array(items, [&](int) { out.push_back(make(depth - 1)); });
        return out;
      }
      default: {
        auto out = ordered_json::object();
        json_.object([&] {
          for (uint64_t k = random_() % 4; k-- > 0;) {
            const std::string key = text() + std::to_string(k);
            json_.key(key);
            out[key] = make(depth - 1);
          }
        });
        return out;
      }
    }
  }
  std::string take() { return json_.take(); }

 private:
  template <class T>
  ordered_json both(const T& value) {
    json_.value(value);
    return value;
  }
  std::string text() {
    static const std::vector<std::string> pieces{
        "a",         " ",        "\"",           "\\",
        "/",         "\n",       "\t",           "\r",
        "\b",        "\f",       "\x01",         "\x1f",
        "\x7f",      "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "</script>", "\xff",     "\x80",         std::string(1, '\0')};
    std::string out;
    for (uint64_t k = random_() % 6; k-- > 0;) out += pieces[random_() % pieces.size()];
    return out;
  }

  JsonWriter json_;
  std::mt19937_64 random_;
};

std::string number(double value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

}  // namespace

TEST_CASE("base/json_writer: the text is that of nlohmann::json, on one line and indented") {
  for (uint64_t seed = 0; seed < 600; ++seed)
    for (const int indent : {-1, 0, 1, 2}) {
      CAPTURE(seed);
      Twins twins(seed, indent);
      const ordered_json document = twins.make(5);
      CHECK(twins.take() ==
            document.dump(indent, ' ', false, ordered_json::error_handler_t::replace));
    }
}

TEST_CASE("base/json_writer: every real is read as it was, with a point or an exponent") {
  std::mt19937_64 random(3);
  std::vector<double> values{0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e-4, 1e-5, 1e300, 5e-324, 1.0 / 3};
  for (int k = 0; k < 2000; ++k) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const double value : values) {
    CAPTURE(value);
    const auto back = ordered_json::parse(number(value));
    CHECK(back.is_number_float());
    const auto read = back.get<double>();
    CHECK(std::memcmp(&read, &value, sizeof value) == 0);
  }
  CHECK(number(std::numeric_limits<double>::infinity()) == "null");
  CHECK(number(std::nan("")) == "null");
}

TEST_CASE("base/json_writer: lists of lists, and fields") {
  JsonWriter json;
  json.object([&] {
    json.field("sets", std::vector<std::vector<std::string>>{{"a", "b"}, {}});
    json.field("numbers", std::vector<int64_t>{INT64_MIN, INT64_MAX});
    json.field("largest", UINT64_MAX);
    json.field("literal", "text");
  });
  CHECK(json.take() ==
        R"({"sets":[["a","b"],[]],"numbers":[-9223372036854775808,9223372036854775807],)"
        R"("largest":18446744073709551615,"literal":"text"})");
}
