// xc/engine.h: the engine and the host's callbacks.

#include <mutex>

#include "capi/handles.h"
#include "capi/hook.h"
#include "runtime/op_table.h"
#include "tier/engine_factory.h"

namespace xc::capi {
namespace {

/// The host's threads as a TaskRunner. Exceptions of a task do not cross the host's frames.
class HostRunner final : public TaskRunner {
 public:
  explicit HostRunner(std::shared_ptr<Hook<xc_task_runner>> hook) : hook_(std::move(hook)) {}
  int workers() const override { return hook_->callbacks.workers; }

  void run(int64_t tasks, Body body) override {
    Job job{body, workers(), {}, {}, {}, {}};
    hook_->call(hook_->callbacks.run, tasks, &HostRunner::task, &job);
    if (job.error) std::rethrow_exception(job.error);
    if (!job.failed && job.done != tasks)
      fail(Status::kInvalidArgument, "the host's task runner ran {} of {} tasks", job.done.load(),
           tasks);
  }

 private:
  struct Job {
    Body body;
    int workers;
    std::atomic<int64_t> done;
    std::atomic<bool> failed;
    std::mutex mutex;
    std::exception_ptr error;
  };

  static void task(void* opaque, int64_t index, int32_t worker) {
    const DefaultFloatEnvironment environment;
    Job& job = *static_cast<Job*>(opaque);
    if (job.failed.load(std::memory_order_relaxed)) return;
    try {
      if (worker < 0 || worker >= job.workers)
        fail(Status::kInvalidArgument, "the host's task runner gave worker {} of {}", worker,
             job.workers);
      job.body(index, worker);
      job.done.fetch_add(1, std::memory_order_release);
    } catch (...) {
      std::lock_guard lock(job.mutex);
      if (!job.error) job.error = std::current_exception();
      job.failed.store(true);
    }
  }

  std::shared_ptr<Hook<xc_task_runner>> hook_;
};

template <class Callbacks>
std::shared_ptr<Hook<Callbacks>> hook(const Callbacks& callbacks) {
  return std::make_shared<Hook<Callbacks>>(callbacks);
}

}  // namespace
}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

void xc_engine_options_init(xc_engine_options* options, size_t size) {
  const xc_engine_options defaults = XC_ENGINE_OPTIONS_INIT;
  init_struct(options, size, defaults);
}

xc_status xc_engine_create(const xc_engine_options* options, xc_engine** out_engine,
                           xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_engine, "out_engine");
    const xc_engine_options defaults = XC_ENGINE_OPTIONS_INIT;
    const xc_engine_options given = read_struct(options, defaults, "options");
    const Config config = to_config(given.config);
    if (!given.allocator.allocate != !given.allocator.release)
      fail(Status::kInvalidArgument, "an allocator needs both allocate and release");
    if (given.tasks.run &&
        (given.tasks.workers < 1 || given.tasks.workers > ThreadPool::kMaxWorkers))
      fail(Status::kInvalidArgument, "a task runner has 1 to {} workers, not {}",
           ThreadPool::kMaxWorkers, given.tasks.workers);

    auto logger = hook(given.logger);
    auto events = hook(given.events);
    auto allocator = hook(given.allocator);
    auto tasks = hook(given.tasks);
    HostHooks hooks;
    if (given.logger.log)
      hooks.log = [logger](LogLevel level, const std::string& message) {
        logger->call(logger->callbacks.log, static_cast<int32_t>(level), to_view(message));
      };
    if (given.events.receive)
      hooks.event = [events](const Event& event) {
        const xc_event view = to_c(event);
        events->call(events->callbacks.receive, &view);
      };
    if (given.allocator.allocate) {
      hooks.allocate = [allocator](size_t bytes, size_t alignment) {
        return allocator->call(allocator->callbacks.allocate, bytes, alignment);
      };
      hooks.release = [allocator](void* memory, size_t bytes) {
        allocator->call(allocator->callbacks.release, memory, bytes);
      };
    }
    if (given.tasks.run) hooks.tasks = std::make_shared<HostRunner>(tasks);

    HostOperators operators = operators_of(given.operators);
    hooks.operators = std::move(operators.library);
    hooks.rules = std::move(operators.rules);

    auto handle = std::make_unique<xc_engine>();
    handle->engine = create_engine(config, std::move(hooks));
    logger->armed = events->armed = allocator->armed = tasks->armed = true;
    put_to_use(given.operators);
    *out_engine = handle.release();
  });
}

xc_engine* xc_engine_retain(xc_engine* engine) {
  return retain(engine);
}
void xc_engine_release(xc_engine* engine) {
  release(engine);
}

xc_status xc_engine_operators(const xc_engine* engine, int32_t json, xc_blob** out_text,
                              xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_text, "out_text");
    *out_text = make_blob(op_table_text(live(engine).engine->backend(), json != 0));
  });
}
