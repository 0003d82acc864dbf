#pragma once
// Sessions over small graphs with a tier whose compiler and kernels tests can tamper with.

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "ir/text.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "support/sessions.h"
#include "tier/tier.h"

namespace xc::testing {

struct EventLog {
  std::mutex mutex;
  std::vector<Event> events;
  std::function<void(const Event&)> then;  ///< called with each, once it is in `events`
  size_t count(EventKind kind) {
    std::lock_guard lock(mutex);
    size_t n = 0;
    for (const Event& e : events) n += e.kind == kind;
    return n;
  }
  std::string last(EventKind kind) {
    std::lock_guard lock(mutex);
    std::string detail;
    for (const Event& e : events)
      if (e.kind == kind) detail = e.detail;
    return detail;
  }
};

struct Fixture {
  EventLog log;
  std::shared_ptr<Session> session;

  Fixture(const std::string& text, Config config, TierFaults faults = {},
          std::unique_ptr<RegionCompiler> compiler = nullptr) {
    if (!compiler) compiler = create_jit_compiler(config.isa, 64 << 20, false);
    if (config.threads == 0) config.threads = 1;
    config.rules = 1;  // off: the chain stays a chain, and its gain stays large
    HostHooks hooks;
    hooks.event = [this](const Event& e) {
      {
        std::lock_guard lock(log.mutex);
        log.events.push_back(e);
      }
      if (log.then) log.then(e);
    };
    auto engine = std::make_shared<Engine>(
        config, hooks, std::make_unique<Tier>(std::move(compiler), config, std::move(faults)));
    session = std::make_shared<Session>(Model::create(engine, parse_graph(text)), Config{});
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    return testing::run(*session, inputs);
  }
};

/// Runs another kernel after `before(first dim of the first result)`, then adds to one element of
/// operand `output`.
class Tampered final : public Kernel {
 public:
  using Before = std::function<void(int64_t rows)>;
  Tampered(std::shared_ptr<Kernel> inner, Before before, size_t output, float add)
      : inner_(std::move(inner)), before_(std::move(before)), output_(output), add_(add) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    struct Bound final : BoundKernel {
      std::shared_ptr<const BoundKernel> inner;
      Before before;
      size_t output = 0;
      float add = 0;
      int64_t rows = 0;
      void start(const StepArgs& args) const override { inner->start(args); }
      void finish(const StepArgs& args) const override { inner->finish(args); }
      void run(const StepArgs& args, int64_t begin, int64_t end) const override {
        if (before) before(rows);
        inner->run(args, begin, end);
        if (add != 0) static_cast<float*>(args.buffers[output])[0] += add;
      }
    };
    auto bound = std::make_shared<Bound>();
    bound->inner = inner_->bind(context);
    bound->tasks = bound->inner->tasks;
    bound->scratch_bytes = bound->inner->scratch_bytes;
    bound->shared_bytes = bound->inner->shared_bytes;
    bound->before = before_;
    bound->output = output_;
    bound->rows = context.outputs[0].dims.empty() ? 1 : context.outputs[0].dims[0];
    bound->add = add_;
    return bound;
  }

 private:
  std::shared_ptr<Kernel> inner_;
  Before before_;
  size_t output_;
  float add_;
};

/// Runs another kernel; once `wrong` is set, like Tampered with 0.25 added to operand `output`.
class TurnsWrong final : public Kernel {
 public:
  TurnsWrong(std::shared_ptr<Kernel> inner, size_t output, const std::atomic<bool>& wrong)
      : inner_(std::move(inner)), output_(output), wrong_(wrong) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    struct Bound final : BoundKernel {
      std::shared_ptr<const BoundKernel> right, wrong;
      const std::atomic<bool>* is_wrong = nullptr;
      void start(const StepArgs& args) const override { right->start(args); }
      void finish(const StepArgs& args) const override { right->finish(args); }
      void run(const StepArgs& args, int64_t begin, int64_t end) const override {
        (*is_wrong ? wrong : right)->run(args, begin, end);
      }
    };
    auto bound = std::make_shared<Bound>();
    bound->right = inner_->bind(context);
    bound->wrong = Tampered(inner_, nullptr, output_, 0.25f).bind(context);
    bound->tasks = bound->right->tasks;
    bound->scratch_bytes = bound->right->scratch_bytes;
    bound->shared_bytes = bound->right->shared_bytes;
    bound->is_wrong = &wrong_;
    return bound;
  }

 private:
  std::shared_ptr<Kernel> inner_;
  size_t output_;
  const std::atomic<bool>& wrong_;
};

/// Regions of a session that are in use.
inline int64_t live_regions(const Session& session) {
  int64_t live = 0;
  for (const RegionSummary& region : session.profile().regions) live += region.state == "live";
  return live;
}

inline void spin_us(int64_t us) {
  const int64_t end = steady_ns() + us * 1000;
  while (steady_ns() < end) {
  }
}

/// tanh-GELU of x + b, as an exporter writes it.
inline constexpr const char* kGelu = R"(graph gelu(%x: f32[n, 96], %b: f32[96]) -> (%y) {
  const %h: f32[] = 0.5
  const %k: f32[] = 0.044715
  const %s: f32[] = 0.7978845608
  const %one: f32[] = 1
  %t = Add(%x, %b)
  %u = Mul(%t, %k)
  %v = Mul(%u, %t)
  %w = Mul(%v, %t)
  %a = Add(%t, %w)
  %c = Mul(%a, %s)
  %d = Tanh(%c)
  %e = Add(%d, %one)
  %f = Mul(%t, %h)
  %y = Mul(%f, %e)
})";

/// The same of rows %some, which `nodes` pick from %x by %take.
inline std::string gelu_of_picked(const std::string& nodes) {
  const std::string text = kGelu, sum = "  %t = Add(%x, ";
  const size_t constants = text.find('\n') + 1, first = text.find(sum);
  return "graph g(%x: f32[n, 96], %b: f32[96], %take: bool[n]) -> (%y) {\n" +
         text.substr(constants, first - constants) + nodes + "  %t = Add(%some, " +
         text.substr(first + sum.size());
}

/// False with the first wrong element in `where`.
inline bool gelu_right(const std::vector<Tensor>& inputs, const Tensor& y, int64_t& where) {
  for (int64_t i = 0; i < y.count(); ++i) {
    const double t = static_cast<double>(inputs[0].as<float>()[i]) + inputs[1].as<float>()[i % 96];
    const double want = 0.5 * t * (1 + std::tanh(0.7978845608 * (t + 0.044715 * t * t * t)));
    where = i;
    if (!(std::fabs(y.as<float>()[i] - want) <= 1e-5 * std::fabs(want) + 1e-6)) return false;
  }
  return true;
}
/// Inputs of kGelu, and whether a session runs it right on them.
inline const std::vector<Tensor>& gelu_inputs() {
  static const std::vector<Tensor> kInputs{ramp({8, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  return kInputs;
}
inline bool runs_gelu_right(Session& session) {
  int64_t where = 0;
  return gelu_right(gelu_inputs(), run(session, gelu_inputs())[0], where);
}

}  // namespace xc::testing
