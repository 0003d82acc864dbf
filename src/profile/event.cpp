#include "profile/event.h"

#include <array>

namespace xc {
namespace {

using E = Event;
constexpr EventField kCompileMs{"compile_ms", &E::compile_ms, nullptr};
constexpr EventField kBaseUs{"base_us", &E::base_us, nullptr};
constexpr EventField kFusedUs{"fused_us", &E::fused_us, nullptr};
constexpr EventField kPredictedUs{"predicted_us", &E::predicted_us, nullptr};
constexpr EventField kCodeBytes{"code_bytes", nullptr, &E::code_bytes};
constexpr EventField kWallMs{"wall_ms", &E::wall_ms, nullptr};
constexpr EventField kRegretMs{"regret_ms", &E::regret_ms, nullptr};
constexpr EventField kPriceMs{"price_ms", &E::price_ms, nullptr};
constexpr EventField kWorstError{"worst_error", &E::worst_error, nullptr};
constexpr EventField kBackOffS{"back_off_s", &E::back_off_s, nullptr};
constexpr EventField kBudgetMs{"budget_ms", &E::budget_ms, nullptr};
constexpr EventField kSamples{"samples", nullptr, &E::samples};
constexpr EventField kShapes{"shapes", nullptr, &E::shapes};
constexpr EventField kPlaces{"places", nullptr, &E::places};
constexpr EventField kBytes{"bytes", nullptr, &E::bytes};

constexpr EventField kOfCandidate[] = {kPlaces, kBaseUs, kPredictedUs};
constexpr EventField kOfCompiled[] = {kCompileMs, kWallMs, kCodeBytes, kPredictedUs};
constexpr EventField kOfRefusal[] = {kCompileMs, kBackOffS};
constexpr EventField kOfVerified[] = {kWorstError, kWallMs};
constexpr EventField kOfMismatch[] = {kWorstError, kCompileMs, kBackOffS};
constexpr EventField kOfTrial[] = {kBaseUs, kPredictedUs};
constexpr EventField kOfVerdict[] = {kBaseUs, kFusedUs,   kPredictedUs, kSamples,
                                     kShapes, kCompileMs, kCodeBytes,   kWallMs};
constexpr EventField kOfBan[] = {kBaseUs, kFusedUs,   kPredictedUs, kSamples,
                                 kShapes, kCompileMs, kWallMs,      kBackOffS};
constexpr EventField kOfPrepared[] = {kWallMs};
constexpr EventField kOfQueued[] = {kRegretMs, kPriceMs, kBaseUs, kPredictedUs, kBudgetMs};
constexpr EventField kOfSample[] = {kBaseUs, kFusedUs, kSamples, kShapes};
constexpr EventField kOfPostponed[] = {kBudgetMs};
constexpr EventField kOfEvicted[] = {kShapes, kBytes};
constexpr EventField kOfSearched[] = {kPlaces, kWallMs};
constexpr EventField kOfLoaded[] = {kCodeBytes};

constexpr std::array kKinds{
    EventKindRow{EventKind::kCandidate, "candidate", "a region was found", kOfCandidate},
    EventKindRow{EventKind::kCompiled, "compiled", "lowered, compiled and linked", kOfCompiled},
    EventKindRow{EventKind::kRefused, "refused", "not compiled or not kept", kOfRefusal},
    EventKindRow{EventKind::kVerified, "verified", "agrees with what it replaces", kOfVerified},
    EventKindRow{EventKind::kMismatch, "mismatch", "does not agree: banned for good", kOfMismatch},
    EventKindRow{EventKind::kTrial, "trial", "a trial on live runs began", kOfTrial},
    EventKindRow{EventKind::kAccepted, "accepted", "measured faster and published", kOfVerdict},
    EventKindRow{EventKind::kRejected, "rejected", "measured not faster", kOfBan},
    EventKindRow{EventKind::kRolledBack, "rolled_back", "was accepted, became slower", kOfBan},
    EventKindRow{EventKind::kPrepared, "prepared", "weights packed", kOfPrepared},
    EventKindRow{EventKind::kJitDisabled, "jit_disabled", "no code in this process", kOfRefusal},
    EventKindRow{EventKind::kQueued, "queued", "waiting has cost the price of compiling",
                 kOfQueued},
    EventKindRow{EventKind::kTrialSample, "trial_sample", "looked at, not decided yet", kOfSample},
    EventKindRow{EventKind::kKept, "kept", "doubted, tried again and kept", kOfVerdict},
    EventKindRow{EventKind::kPostponed, "postponed", "waits for the compile budget", kOfPostponed},
    EventKindRow{EventKind::kEvicted, "evicted", "plans or code dropped below a memory cap",
                 kOfEvicted},
    EventKindRow{EventKind::kSearched, "searched", "the graph was searched", kOfSearched},
    EventKindRow{EventKind::kFrozen, "frozen", "the host ended adaptation", {}},
    EventKindRow{EventKind::kLoaded, "loaded", "code of an earlier process", kOfLoaded},
    EventKindRow{EventKind::kCache, "cache", "the cache, or an entry of it, is not used", {}},
};

}  // namespace

std::span<const EventKindRow> event_kinds() {
  return kKinds;
}

std::string_view name(EventKind kind) {
  const auto index = static_cast<size_t>(kind) - 1;
  return index < kKinds.size() ? kKinds[index].name : "unknown";
}

}  // namespace xc
