#include "tier/persistence.h"

#include <algorithm>

#include "base/build_id.h"
#include "base/cpu_info.h"
#include "cache/host_record.h"
#include "cache/object_record.h"
#include "ir/fingerprint.h"
#include "runtime/program.h"
#include "tier/region_record.h"

namespace xc {
namespace {

constexpr size_t kSampledWeights = 32;
constexpr int64_t kSampleBytes = 64;
constexpr int64_t kLargeConstant = 1024;  // smaller ones count by content in fingerprint()

constexpr double kCalibrationSeconds = 0.2;

std::string host_key(const std::string& build) {
  return fmt::format("runtime {}\nprocessor {}\nisa {}\n", build, cpu_info().model,
                     name(cpu_info().isa));
}

constexpr std::pair<const char*, double HostSpeed::*> kFigures[] = {
    {"product_rate", &HostSpeed::product_rate},
    {"cell_rate", &HostSpeed::cell_rate},
    {"l2_bandwidth", &HostSpeed::l2_bandwidth},
    {"l3_bandwidth", &HostSpeed::l3_bandwidth},
    {"memory_bandwidth", &HostSpeed::memory_bandwidth},
    {"l2_bytes", &HostSpeed::l2_bytes},
    {"l3_bytes", &HostSpeed::l3_bytes},
};

}  // namespace

Hash128 program_identity(const Graph& graph) {
  std::vector<const Tensor*> large;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.is_constant() && value.constant.dtype() != DType::kString &&
        value.constant.byte_size() > kLargeConstant)
      large.push_back(&value.constant);
  }
  std::string text = fingerprint(graph).text();
  const size_t step = std::max<size_t>(1, large.size() / kSampledWeights);
  for (size_t k = 0; k < large.size(); k += step) {
    // The middle: the start of a weight is often zeros or padding.
    const Tensor held = large[k]->held(true);
    const auto* bytes = held.as<char>();
    const int64_t at = (held.byte_size() - kSampleBytes) / 2;
    text.append(bytes + at, static_cast<size_t>(kSampleBytes));
  }
  return hash_text(text);
}

Persistence::Persistence(RegionCompiler& compiler, const std::string& directory, int64_t max_bytes)
    : compiler_(compiler), store_(directory, max_bytes) {}

const std::string& Persistence::builds() {
  std::call_once(builds_once_, [&] {
    const std::string generator = compiler_.identity(), own = own_build_id();
    if (!generator.empty() && !own.empty())
      builds_ = fmt::format("runtime {}\n{}\n", own, generator);
  });
  return builds_;
}

std::string Persistence::profile_key(const Program& program) {
  const Config& config = program.config();
  return fmt::format(
      "{}threads {}\nnumerics {}\nkernels {}\nlayouts {}\npost_ops {}\nwinograd {}\nbands {}\n"
      "graph {}\n",
      builds(), program.engine().tasks().workers(), config.numerics, config.kernels, config.layouts,
      config.post_ops, config.winograd, config.bands, program_identity(program.graph()).text());
}

std::optional<cache::ProfileRecord> Persistence::profile(const Program& program) {
  if (builds().empty()) return std::nullopt;
  const std::string key = profile_key(program);
  const auto entry = store_.find(cache::Kind::kProfile, key);
  if (!entry) return std::nullopt;
  auto record = cache::decode_profile(entry->payload);
  if (!record) store_.complain(cache::Kind::kProfile, key, "its payload cannot be read");
  return record;
}

void Persistence::keep_profile(const Program& program, cache::ProfileRecord record) {
  if (builds().empty()) return;
  cache::Entry entry;
  entry.kind = cache::Kind::kProfile;
  entry.key = profile_key(program);
  if (const auto before = store_.find(cache::Kind::kProfile, entry.key))
    if (const auto older = cache::decode_profile(before->payload))
      record = cache::merge(*older, std::move(record));
  for (const cache::RegionRecord& region : record.regions) entry.worth_s += region.compile_s;
  entry.subject = program.name() + ": " + cache::describe(record);
  entry.payload = cache::encode(record);
  store_.put(entry);
}

std::optional<HostSpeed> Persistence::host() {
  const std::string own = own_build_id();
  if (own.empty()) return std::nullopt;
  const std::string key = host_key(own);
  const auto entry = store_.find(cache::Kind::kHost, key);
  if (!entry) return std::nullopt;
  const auto record = cache::decode_host(entry->payload);
  HostSpeed out;
  bool complete = record.has_value();
  for (const auto& [figure_name, figure] : kFigures) {
    complete = complete && record->figures.contains(figure_name);
    if (complete) out.*figure = record->figures.at(figure_name);
  }
  if (complete) return out;
  store_.complain(cache::Kind::kHost, key, "its payload cannot be read");
  return std::nullopt;
}

void Persistence::keep_host(const HostSpeed& speed) {
  const std::string own = own_build_id();
  if (own.empty()) return;
  cache::HostRecord record;
  for (const auto& [figure_name, figure] : kFigures) record.figures[figure_name] = speed.*figure;
  cache::Entry entry;
  entry.kind = cache::Kind::kHost;
  entry.key = host_key(own);
  entry.subject = "speed of " + cpu_info().model;
  entry.worth_s = kCalibrationSeconds;
  entry.payload = cache::encode(record);
  store_.put(entry);
}

std::string Persistence::code_key(const Hash128& region) {
  return builds().empty() ? "" : builds() + "region " + region.text();
}

std::optional<Persistence::Found> Persistence::load(const std::string& key, const StepSpec& spec) {
  if (key.empty()) return std::nullopt;
  const auto entry = store_.find(cache::Kind::kObject, key);
  if (!entry) return std::nullopt;
  const auto record = cache::decode_object(entry->payload);
  auto code = record ? decode_region_code(record->calls, spec) : std::nullopt;
  if (!code || code->phases.size() != record->images.size()) {
    store_.complain(cache::Kind::kObject, key, "its payload cannot be read");
    return std::nullopt;
  }
  const auto& phases = code->phases;
  if (std::any_of(phases.begin(), phases.end(),
                  [](const RegionPhase& phase) { return phase.matrix_units; }) &&
      !grant_matrix_units())
    return std::nullopt;
  Found out{std::move(*code), {}};
  for (const cache::ObjectRecord::Image& image : record->images) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(image.code.data());
    out.phases.push_back(
        compiler_.place({{bytes, image.code.size()}, image.entry, image.alignment}));
  }
  return out;
}

void Persistence::keep_code(const std::string& key, const std::string& subject, double compile_s,
                            std::string calls,
                            const std::vector<std::shared_ptr<const PhaseCode>>& phases) {
  if (key.empty()) return;
  cache::ObjectRecord record;
  record.calls = std::move(calls);
  for (const auto& phase : phases) {
    const CodeImage image = phase->image();
    if (image.code.empty()) return;
    record.images.push_back(
        {std::string(image.code.begin(), image.code.end()), image.entry, image.alignment});
  }
  store_.put({cache::Kind::kObject, key, subject, compile_s, cache::encode(record)});
}

void Persistence::forget_code(const std::string& key) {
  if (!key.empty()) store_.remove(cache::Kind::kObject, key);
}

void Persistence::condemn(const std::string& key, const std::string& subject) {
  if (!key.empty()) store_.condemn(key, subject);
}

cache::Permission Persistence::begin_trial(const std::string& key, const std::string& subject) {
  return key.empty() ? cache::Permission{} : store_.begin_trial(key, subject);
}

}  // namespace xc
