#include "cache/profile_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace xc::cache {
namespace {

using nlohmann::json;

constexpr size_t kMaxRegions = 4096, kMaxShapes = 32, kMaxKey = 4096;

constexpr std::pair<Verdict, std::string_view> kVerdicts[] = {
    {Verdict::kNone, "none"},         {Verdict::kAccepted, "accepted"},
    {Verdict::kRejected, "rejected"}, {Verdict::kRolledBack, "rolled back"},
    {Verdict::kWrong, "wrong"},
};

/// Raised while reading; decode_profile() catches it.
struct Unreadable {};

Verdict verdict_of(const std::string& text) {
  for (const auto& [verdict, word] : kVerdicts)
    if (word == text) return verdict;
  throw Unreadable{};
}

Hash128 hash_of(const std::string& text) {
  if (text.size() != 32) throw Unreadable{};
  Hash128 out;
  const char* middle = text.data() + 16;
  const auto high = std::from_chars(text.data(), middle, out.high, 16);
  const auto low = std::from_chars(middle, middle + 16, out.low, 16);
  if (high.ptr != middle || low.ptr != middle + 16) throw Unreadable{};
  return out;
}

double seconds_of(const json& value) {
  const double seconds = value.get<double>();
  if (!std::isfinite(seconds) || seconds < 0) throw Unreadable{};
  return seconds;
}

/// A number with a fraction or out of range must not be converted.
int64_t integer_of(const json& value) {
  if (!value.is_number_integer()) throw Unreadable{};
  return value.get<int64_t>();
}

std::vector<int64_t> key_of(const json& value) {
  if (!value.is_array() || value.size() > kMaxKey) throw Unreadable{};
  std::vector<int64_t> out;
  for (const json& item : value) out.push_back(integer_of(item));
  return out;
}

/// Sizes that a kernel can be made for.
constexpr int64_t kMaxSize = int64_t{1} << 40, kMaxDivisor = 1 << 16;
constexpr size_t kMaxFacts = 64;

json to_json(const RegionRecord& region) {
  json facts = json::array();
  for (const SizeRecord& fact : region.facts)
    facts.push_back({{"symbol", fact.symbol}, {"value", fact.value}, {"divisor", fact.divisor}});
  return {{"identity", region.identity.text()},
          {"special_of", region.special_of.text()},
          {"facts", facts},
          {"size", region.size},
          {"name", region.name},
          {"verdict", name(region.verdict)},
          {"reason", region.reason},
          {"base_s", region.base_s},
          {"fused_s", region.fused_s},
          {"predicted_s", region.predicted_s},
          {"compile_s", region.compile_s},
          {"refusals", region.refusals},
          {"banned_until_s", region.banned_until_s},
          {"decided_on", region.decided_on}};
}

RegionRecord region_of(const json& value) {
  RegionRecord region;
  region.identity = hash_of(value.at("identity").get<std::string>());
  region.special_of = hash_of(value.at("special_of").get<std::string>());
  const json& facts = value.at("facts");
  if (!facts.is_array() || facts.size() > kMaxFacts) throw Unreadable{};
  for (const json& fact : facts) {
    region.facts.push_back({fact.at("symbol").get<std::string>(), integer_of(fact.at("value")),
                            integer_of(fact.at("divisor"))});
    const SizeRecord& read = region.facts.back();
    if (read.value < -1 || read.value > kMaxSize || read.divisor < 1 || read.divisor > kMaxDivisor)
      throw Unreadable{};
  }
  region.size = static_cast<int>(std::clamp<int64_t>(integer_of(value.at("size")), 0, 64));
  region.name = value.at("name").get<std::string>();
  region.verdict = verdict_of(value.at("verdict").get<std::string>());
  region.reason = value.at("reason").get<std::string>();
  region.base_s = seconds_of(value.at("base_s"));
  region.fused_s = seconds_of(value.at("fused_s"));
  region.predicted_s = seconds_of(value.at("predicted_s"));
  region.compile_s = seconds_of(value.at("compile_s"));
  region.refusals = static_cast<int>(std::clamp<int64_t>(integer_of(value.at("refusals")), 0, 64));
  region.banned_until_s = integer_of(value.at("banned_until_s"));
  region.decided_on = key_of(value.at("decided_on"));
  return region;
}

}  // namespace

std::string_view name(Verdict verdict) {
  for (const auto& [known, word] : kVerdicts)
    if (known == verdict) return word;
  return "none";
}

std::string encode(const ProfileRecord& record) {
  json regions = json::array(), shapes = json::array();
  for (const RegionRecord& region : record.regions) regions.push_back(to_json(region));
  for (const ShapeRecord& shape : record.shapes)
    shapes.push_back({{"key", shape.key}, {"runs", shape.runs}});
  return json{{"restore_s", record.restore_s}, {"regions", regions}, {"shapes", shapes}}.dump(
      -1, ' ', false, json::error_handler_t::replace);  // names may be no UTF-8
}

std::optional<ProfileRecord> decode_profile(std::string_view payload) {
  try {
    const json value = json::parse(payload);
    ProfileRecord out;
    out.restore_s = seconds_of(value.at("restore_s"));
    const json& regions = value.at("regions");
    const json& shapes = value.at("shapes");
    if (!regions.is_array() || regions.size() > kMaxRegions || !shapes.is_array() ||
        shapes.size() > kMaxShapes)
      return std::nullopt;
    for (const json& region : regions) out.regions.push_back(region_of(region));
    for (const json& shape : shapes)
      out.shapes.push_back({key_of(shape.at("key")), integer_of(shape.at("runs"))});
    return out;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

std::string describe(const ProfileRecord& record) {
  std::string out;
  for (const auto& [verdict, word] : kVerdicts) {
    const auto count = std::count_if(
        record.regions.begin(), record.regions.end(),
        [&, wanted = verdict](const RegionRecord& region) { return region.verdict == wanted; });
    if (verdict != Verdict::kNone && count > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, word);
  }
  return fmt::format("regions: {}; {} shapes", out.empty() ? "none" : out, record.shapes.size());
}

ProfileRecord merge(const ProfileRecord& older, ProfileRecord newer) {
  const auto known = [&](const RegionRecord& region) {
    return std::any_of(newer.regions.begin(), newer.regions.end(), [&](const RegionRecord& r) {
      return r.identity == region.identity && r.size == region.size;
    });
  };
  for (const RegionRecord& region : older.regions)
    if (newer.regions.size() < kMaxRegions && !known(region)) newer.regions.push_back(region);
  for (const ShapeRecord& shape : older.shapes) {
    const auto same = std::find_if(newer.shapes.begin(), newer.shapes.end(),
                                   [&](const ShapeRecord& s) { return s.key == shape.key; });
    if (same == newer.shapes.end())
      newer.shapes.push_back(shape);
    else
      same->runs = std::max(same->runs, shape.runs);
  }
  std::stable_sort(newer.shapes.begin(), newer.shapes.end(),
                   [](const ShapeRecord& a, const ShapeRecord& b) { return a.runs > b.runs; });
  if (newer.shapes.size() > kMaxShapes) newer.shapes.resize(kMaxShapes);
  return newer;
}

}  // namespace xc::cache
