// What entries hold, and that nothing but a whole entry is taken for one.
#include <doctest/doctest.h>

#include <cmath>

#include "cache/entry.h"
#include "cache/host_record.h"
#include "cache/object_record.h"
#include "cache/profile_record.h"
#include "cache/record_text.h"

using namespace xc;
using namespace xc::cache;

namespace {

Entry small_entry() {
  Entry entry;
  entry.kind = Kind::kObject;
  entry.key = "generator 1; target a\nkernel k() {}";
  entry.subject = "cell Add+Mul (2 nodes)";
  entry.worth_s = 0.003;
  entry.payload = std::string("\xb8\x01\x00\x00\x00\xc3", 6);
  return entry;
}

ProfileRecord small_profile() {
  ProfileRecord record;
  record.restore_s = 0.0005;
  RegionRecord region;
  region.identity = {0x0123456789abcdef, 0xfedcba9876543210};
  region.special_of = {1, 2};
  region.facts = {{"n", 128, 1}, {"m", -1, 16}};
  region.name = "cell Tanh";
  region.verdict = Verdict::kRejected;
  region.reason = "not faster";
  region.base_s = 1e-5;
  region.fused_s = 2e-5;
  region.refusals = 3;
  region.banned_until_s = 1'800'000'000;
  region.decided_on = {2, 32, 96};
  record.regions.push_back(region);
  record.shapes.push_back({{2, 32, 96}, 1000});
  return record;
}

}  // namespace

TEST_CASE("cache/entry: what is written is read") {
  const Entry entry = small_entry();
  const Decoded decoded = decode(encode(entry));
  REQUIRE(decoded.entry);
  CHECK(decoded.problem.empty());
  CHECK(decoded.entry->kind == entry.kind);
  CHECK(decoded.entry->key == entry.key);
  CHECK(decoded.entry->subject == entry.subject);
  CHECK(decoded.entry->payload == entry.payload);
  CHECK(decoded.entry->worth_s == entry.worth_s);
  CHECK(peek_worth(encode(entry).substr(0, kPeekBytes)) == entry.worth_s);
}

TEST_CASE("cache/entry: no byte can be changed, no byte can be missing or added") {
  const std::string whole = encode(small_entry());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const Decoded decoded = decode(bytes);
      CHECK_MESSAGE(!decoded.entry, "byte ", at);
      CHECK(!decoded.problem.empty());
      (void)peek_worth(bytes);
    }
    CHECK_MESSAGE(!decode(whole.substr(0, at)).entry, "cut at ", at);
    (void)peek_worth(whole.substr(0, at));
  }
  CHECK(!decode(whole + "x").entry);
  CHECK(!decode("").entry);
}

TEST_CASE("cache/object: code keeps its entry and alignment, wrong sizes are refused") {
  ObjectRecord record;
  record.calls = "(x)";
  record.images.push_back({std::string(100, '\x90'), 16, 64});
  record.images.push_back({std::string("\xc3"), 0, 1});
  const std::string bytes = encode(record);
  const auto decoded = decode_object(bytes);
  REQUIRE(decoded);
  REQUIRE(decoded->images.size() == 2);
  CHECK(decoded->calls == "(x)");
  CHECK(decoded->images[0].code == record.images[0].code);
  CHECK(decoded->images[0].entry == 16);
  CHECK(decoded->images[0].alignment == 64);
  CHECK(decoded->images[1].code == "\xc3");
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    const auto part = decode_object(std::string_view(bytes).substr(0, cut));
    if (cut == 8 + 3 + 24 + 100)  // exactly the first image
      CHECK(part.has_value());
    else
      CHECK_MESSAGE(!part, "cut at ", cut);
  }
  CHECK(!decode_object(""));
  CHECK(!decode_object(std::string(8, '\xff') + bytes.substr(8)));
  record.images[0].entry = 100;  // behind the code
  CHECK(!decode_object(encode(record)));
  record.images[0].entry = 0;
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{8192}}) {
    record.images[0].alignment = alignment;
    CHECK(!decode_object(encode(record)));
  }
}

TEST_CASE("cache/host: figures are read as written, anything else is refused") {
  HostRecord record;
  record.figures = {{"l2_bandwidth", 6.1e10}, {"product_rate", 1.0 / 3}};
  const std::string bytes = encode(record);
  const auto decoded = decode_host(bytes);
  REQUIRE(decoded);
  CHECK(decoded->figures == record.figures);
  const size_t first = bytes.find('\n') + 1;
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK_MESSAGE(decode_host(bytes.substr(0, cut)).has_value() == (cut == first), "cut at ", cut);
  for (const char* wrong : {"a 0\n", "a -1\n", "a inf\n", "a nan\n", "a 1e999\n", " 1\n", "a\n",
                            "a 1 2\n", "a 1\na 2\n", "\n"})
    CHECK_MESSAGE(!decode_host(wrong), wrong);
}

TEST_CASE("cache/profile: what is written is read") {
  const ProfileRecord record = small_profile();
  const auto decoded = decode_profile(encode(record));
  REQUIRE(decoded);
  REQUIRE(decoded->regions.size() == 1);
  const RegionRecord& region = decoded->regions[0];
  CHECK(region.identity == record.regions[0].identity);
  CHECK(region.special_of == record.regions[0].special_of);
  CHECK(region.facts == record.regions[0].facts);
  CHECK(region.name == "cell Tanh");
  CHECK(region.verdict == Verdict::kRejected);
  CHECK(region.base_s == 1e-5);
  CHECK(region.fused_s == 2e-5);
  CHECK(region.refusals == 3);
  CHECK(region.banned_until_s == 1'800'000'000);
  CHECK(region.decided_on == std::vector<int64_t>{2, 32, 96});
  CHECK(decoded->shapes.at(0).runs == 1000);
  CHECK(decoded->restore_s == 0.0005);
}

TEST_CASE("cache/profile: no changed or missing byte leads to more than other numbers") {
  // The checksum of the entry catches these before; the decoder has to stand them all the same.
  const std::string whole = encode(small_profile());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char other : {'\0', '9', '-', ' ', '\n', '\\', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = other;
      if (const auto decoded = decode_profile(bytes))
        for (const RegionRecord& region : decoded->regions) {
          CHECK(region.base_s >= 0);
          CHECK(region.refusals >= 0);
          CHECK(region.refusals <= 64);
        }
    }
    CHECK_MESSAGE(!decode_profile(whole.substr(0, at)), "cut at ", at);
  }
  for (const char* bad :
       {"", "\n", "profile\n", "profile -1 0 0\n", "profile 1e999 0 0\n", "profile nan 0 0\n",
        "profile 0 0\n", "profile 0 0 0 0\n", "profile 0 0 -1\n", "profile 0 0 33\n",
        "profile 0 5000 0\n", "profile 0 0 0\nshape 1 2\n", "profile 0 0 1\nshape 1 1.5\n",
        "profile 0 0 1\nshape 1 99999999999999999999\n", "profile 0 0 0"})
    CHECK_MESSAGE(!decode_profile(bad), bad);
  CHECK(decode_profile("profile 0 0 1\nshape 1 2\n"));
}

TEST_CASE("cache/profile: names may be any bytes") {
  ProfileRecord record = small_profile();
  record.regions[0].name = std::string("two  spaces \\n\n \xff\0 end ", 23);
  record.regions[0].reason = "";
  record.regions[0].facts[0].symbol = "\\";
  record.regions[0].decided_on = {INT64_MIN, INT64_MAX};
  const auto decoded = decode_profile(encode(record));
  REQUIRE(decoded);
  CHECK(decoded->regions[0].name == record.regions[0].name);
  CHECK(decoded->regions[0].reason.empty());
  CHECK(decoded->regions[0].facts == record.regions[0].facts);
  CHECK(decoded->regions[0].decided_on == record.regions[0].decided_on);
  for (const char* wrong : {"name \\\n", "name \\x\n", "name a\\\n"}) {
    RecordReader reader(wrong);
    reader.line("name");
    CHECK_THROWS_AS(reader.text(), Unreadable);
  }
}

TEST_CASE("cache/profile: what is written can be read, however much there is") {
  ProfileRecord many;
  for (uint64_t k = 0; k < 5000; ++k) {
    many.regions.push_back(small_profile().regions[0]);
    many.regions.back().identity.low = k;
    many.shapes.push_back({{static_cast<int64_t>(k)}, 1});
  }
  const auto fewer = decode_profile(encode(many));
  REQUIRE(fewer);
  CHECK(fewer->regions.size() == 4096);
  CHECK(fewer->regions.back().identity.low == 4095);
  CHECK(fewer->shapes.size() == 32);

  ProfileRecord large = small_profile();  // its second region and shape are out of bounds
  large.regions.push_back(large.regions[0]);
  large.regions.back().decided_on.assign(5000, 1);
  large.shapes.insert(large.shapes.begin(), {std::vector<int64_t>(5000, 1), 2000});
  large.regions.push_back(large.regions[0]);
  large.regions.back().base_s = std::nan("");
  const auto rest = decode_profile(encode(large));
  REQUIRE(rest);
  CHECK(rest->regions.size() == 1);
  REQUIRE(rest->shapes.size() == 1);
  CHECK(rest->shapes[0].runs == 1000);
}

TEST_CASE(
    "cache/profile: two processes' verdicts are kept together, the newer one of each region") {
  ProfileRecord older = small_profile();
  RegionRecord other;
  other.identity = {1, 2};
  other.verdict = Verdict::kAccepted;
  older.regions.push_back(other);
  ProfileRecord newer = small_profile();
  newer.regions[0].verdict = Verdict::kAccepted;
  newer.shapes = {{{2, 1, 96}, 7}, {{2, 32, 96}, 10}};
  const ProfileRecord merged = merge(older, newer);
  REQUIRE(merged.regions.size() == 2);
  CHECK(merged.regions[0].verdict == Verdict::kAccepted);
  CHECK(merged.regions[1].identity == Hash128{1, 2});
  REQUIRE(merged.shapes.size() == 2);
  CHECK(merged.shapes[0].runs == 1000);
  CHECK(merged.shapes[1].runs == 7);
}
