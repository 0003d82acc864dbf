#include "cache/profile_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cache/record_text.h"

namespace xc::cache {
namespace {

constexpr size_t kMaxRegions = 4096, kMaxShapes = 32, kMaxKey = 4096, kMaxFacts = 64;
/// Sizes that a kernel can be made for.
constexpr int64_t kMaxSize = int64_t{1} << 40, kMaxDivisor = 1 << 16;
constexpr int64_t kMaxRefusals = 64, kMaxSizeClass = 64;

constexpr std::pair<Verdict, std::string_view> kVerdicts[] = {
    {Verdict::kNone, "none"},         {Verdict::kAccepted, "accepted"},
    {Verdict::kRejected, "rejected"}, {Verdict::kRolledBack, "rolled back"},
    {Verdict::kWrong, "wrong"},
};

Verdict verdict_of(std::string_view text) {
  for (const auto& [verdict, word] : kVerdicts)
    if (word == text) return verdict;
  throw Unreadable{};
}

// What is written and what is read are bounded alike: a record that a process keeps can be read by
// the next one.
bool within_limits(const RegionRecord& region) {
  for (const double seconds : {region.base_s, region.fused_s, region.predicted_s, region.compile_s})
    if (!std::isfinite(seconds) || seconds < 0) return false;
  for (const SizeRecord& fact : region.facts)
    if (fact.value < -1 || fact.value > kMaxSize || fact.divisor < 1 || fact.divisor > kMaxDivisor)
      return false;
  return region.facts.size() <= kMaxFacts && region.decided_on.size() <= kMaxKey;
}
bool within_limits(const ShapeRecord& shape) {
  return shape.key.size() <= kMaxKey;
}

/// The first of them that are within limits, `most` at most.
template <class Record>
std::vector<const Record*> kept(const std::vector<Record>& records, size_t most) {
  std::vector<const Record*> out;
  for (const Record& record : records)
    if (out.size() < most && within_limits(record)) out.push_back(&record);
  return out;
}

void write(RecordWriter& writer, const RegionRecord& region) {
  writer.line("region", region.identity, region.size, region.name);
  writer.line("special_of", region.special_of);
  for (const SizeRecord& fact : region.facts)
    writer.line("fact", fact.symbol, fact.value, fact.divisor);
  writer.line("verdict", name(region.verdict), region.reason);
  writer.line("seconds", region.base_s, region.fused_s, region.predicted_s, region.compile_s);
  writer.line("refusals", region.refusals, region.banned_until_s);
  writer.line("decided_on", region.decided_on);
}

/// Of the rest of the line.
std::vector<int64_t> key_of(RecordReader& reader) {
  std::vector<int64_t> out;
  while (reader.more()) out.push_back(reader.integer());
  return out;
}

RegionRecord read_region(RecordReader& reader) {
  RegionRecord region;
  reader.line("region");
  region.identity = reader.hash();
  region.size = static_cast<int>(std::clamp<int64_t>(reader.integer(), 0, kMaxSizeClass));
  region.name = reader.text();
  reader.line("special_of");
  region.special_of = reader.hash();
  while (reader.next_is("fact")) {
    reader.line("fact");
    std::string symbol = reader.text();
    const int64_t value = reader.integer();
    region.facts.push_back({std::move(symbol), value, reader.integer()});
  }
  reader.line("verdict");
  region.verdict = verdict_of(reader.text());
  region.reason = reader.text();
  reader.line("seconds");
  for (double* seconds : {&region.base_s, &region.fused_s, &region.predicted_s, &region.compile_s})
    *seconds = reader.real();
  reader.line("refusals");
  region.refusals = static_cast<int>(std::clamp<int64_t>(reader.integer(), 0, kMaxRefusals));
  region.banned_until_s = reader.integer();
  reader.line("decided_on");
  region.decided_on = key_of(reader);
  if (!within_limits(region)) throw Unreadable{};
  return region;
}

ShapeRecord read_shape(RecordReader& reader) {
  ShapeRecord shape;
  reader.line("shape");
  shape.runs = reader.integer();
  shape.key = key_of(reader);
  if (!within_limits(shape)) throw Unreadable{};
  return shape;
}

}  // namespace

std::string_view name(Verdict verdict) {
  for (const auto& [known, word] : kVerdicts)
    if (known == verdict) return word;
  return "none";
}

std::string encode(const ProfileRecord& record) {
  RecordWriter writer;
  const auto regions = kept(record.regions, kMaxRegions);
  const auto shapes = kept(record.shapes, kMaxShapes);
  writer.line("profile", record.restore_s, regions.size(), shapes.size());
  for (const RegionRecord* region : regions) write(writer, *region);
  for (const ShapeRecord* shape : shapes) writer.line("shape", shape->runs, shape->key);
  return writer.take();
}

std::optional<ProfileRecord> decode_profile(std::string_view payload) {
  try {
    ProfileRecord out;
    RecordReader reader(payload);
    reader.line("profile");
    out.restore_s = reader.real();
    if (out.restore_s < 0) return std::nullopt;
    const int64_t regions = reader.integer(0, kMaxRegions), shapes = reader.integer(0, kMaxShapes);
    for (int64_t k = 0; k < regions; ++k) out.regions.push_back(read_region(reader));
    for (int64_t k = 0; k < shapes; ++k) out.shapes.push_back(read_shape(reader));
    reader.done();
    return out;
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
