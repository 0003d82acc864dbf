// Settings and engines; see xc.hpp, and engine.h for ownership and threads.
#pragma once

#include <xc/engine.h>
#include <xc/profile.h>
#include <xc/operator.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xcrt {

/// The knobs: fields by name, or through raw().
class Config {
 public:
  Config() = default;
  Config& set(const std::string& name, const std::string& value) {
    texts_.push_back(std::make_unique<std::string>(value));  // text values are kept by pointer
    detail::call(&xc_config_set, &raw_, name.c_str(), texts_.back()->c_str());
    return *this;
  }
  /// Reads the XC_* variables.
  Config& read_environment() {
    detail::call(&xc_config_read_environment, &raw_);
    return *this;
  }
  /// The value in effect, defaults filled in.
  std::string get(const std::string& name) const {
    return detail::text_of(&xc_config_get, &raw_, name.c_str());
  }
  xc_config& raw() { return raw_; }
  const xc_config& raw() const { return raw_; }

  /// The table of knobs; its text is static.
  static std::vector<xc_config_option_info> options() {
    std::vector<xc_config_option_info> out(xc_config_option_count());
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i].struct_size = sizeof out[i];
      detail::check(xc_config_option(i, &out[i]));
    }
    return out;
  }

 private:
  xc_config raw_ = XC_CONFIG_INIT;
  std::vector<std::unique_ptr<std::string>> texts_;
};

/// What the host provides; an empty function is not installed. They must not throw.
struct Hooks {
  std::function<void(int32_t level, std::string_view message)> log = {};
  std::function<void(const xc_event&)> event = {};
};

/// Threads, settings, host callbacks and the compiler of the models and sessions made with it.
class Engine {
 public:
  /// `operators`: those of the host that models may use; see OpLibrary.
  explicit Engine(const Config& config = {}, Hooks hooks = {},
                  const OpLibrary* operators = nullptr) {
    xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
    options.config = &config.raw();
    options.operators = operators ? operators->handle() : nullptr;
    // Each callback owns one half of the hooks; the engine owns both once it exists.
    auto log = std::make_unique<decltype(hooks.log)>(std::move(hooks.log));
    auto event = std::make_unique<decltype(hooks.event)>(std::move(hooks.event));
    if (*log)
      options.logger = {[](void* self, int32_t level, xc_string_view message) {
                          (*static_cast<decltype(hooks.log)*>(self))(level, view(message));
                        },
                        log.get(),
                        [](void* self) { delete static_cast<decltype(hooks.log)*>(self); }};
    if (*event)
      options.events = {
          [](void* self, const xc_event* e) { (*static_cast<decltype(hooks.event)*>(self))(*e); },
          event.get(), [](void* self) { delete static_cast<decltype(hooks.event)*>(self); }};
    create(options);
    if (*log) (void)log.release();
    if (*event) (void)event.release();
  }
  /// With what Hooks does not have: an allocator, a task runner.
  explicit Engine(const xc_engine_options& options) { create(options); }
  /// Another owner of the same engine.
  Engine share() const { return Engine(xc_engine_retain(handle())); }
  xc_engine* handle() const { return handle_.get(); }
  /// Every operator there is, what executes it and how it fuses; see xc_engine_operators().
  std::string operators(bool json = false) const {
    return detail::text_of(&xc_engine_operators, handle(), int32_t{json});
  }

 private:
  explicit Engine(xc_engine* handle) : handle_(handle) {}
  void create(const xc_engine_options& options) {
    xc_engine* handle = nullptr;
    detail::call(&xc_engine_create, &options, &handle);
    handle_.reset(handle);
  }
  detail::Owner<xc_engine, &xc_engine_release> handle_;
};

}  // namespace xcrt
