#include "tier/core.h"

#include "base/clock.h"
#include "tier/plan_choice.h"
#include "tier/work.h"

namespace xc::tier {

Persistence* PersistentCaches::of(const Program& program) {
  const Config& config = program.config();
  if (config.cache_dir.empty()) return nullptr;
  std::lock_guard lock(mutex_);
  auto& made = by_directory_[config.cache_dir];
  if (!made)
    made = std::make_unique<Persistence>(compiler_, config.cache_dir,
                                         effective(config, &Config::cache_bytes));
  return made.get();
}

Core::Core(std::unique_ptr<RegionCompiler> region_compiler, const Config& config,
           TierFaults planted, JobQueue::Job take_out_condemned)
    : compiler(std::move(region_compiler)),
      faults(std::move(planted)),
      caches(*compiler),
      queue(static_cast<double>(effective(config, &Config::compile_cpu_percent)), faults,
            std::move(take_out_condemned)) {}

void Core::emit(ProgramState& state, const Program& program, Event event) {
  queue.put_load(event);
  deliver(state, program, std::move(event));
}

void Core::report_problems(Program& program, ProgramState& state) {
  Persistence* cache = caches.of(program);
  if (!cache) return;
  for (std::string& problem : cache->take_problems()) {
    Event event;
    event.kind = EventKind::kCache;
    event.detail = std::move(problem);
    emit(state, program, std::move(event));
  }
}

Event event_now(ProgramState& state, EventKind kind, const Group& group) {
  std::lock_guard data(state.data);
  return event_of(kind, group);
}

double steady_s() {
  return static_cast<double>(steady_ns()) * 1e-9;
}

double ms_since(int64_t begin_ns) {
  return static_cast<double>(steady_ns() - begin_ns) * 1e-6;
}

}  // namespace xc::tier
