// The settings of xc/engine.h: xc_config and the table of knobs.

#include <fmt/format.h>

#include <cstdlib>

#include "base/config.h"
#include "capi/handles.h"

namespace xc::capi {
namespace {

struct Field {
  std::string_view name;
  int64_t xc_config::* number;
  const char* xc_config::* text;
};

// Every row of the table has its field; a test walks the table through the C interface.
constexpr Field kFields[] = {
    {"threads", &xc_config::threads, nullptr},
    {"jit", &xc_config::jit, nullptr},
    {"numerics", &xc_config::numerics, nullptr},
    {"code_cache_bytes", &xc_config::code_cache_bytes, nullptr},
    {"bound_cache_bytes", &xc_config::bound_cache_bytes, nullptr},
    {"max_memory_bytes", &xc_config::max_memory_bytes, nullptr},
    {"compile_cpu_percent", &xc_config::compile_cpu_percent, nullptr},
    {"copy_weights", &xc_config::copy_weights, nullptr},
    {"isa", &xc_config::isa, nullptr},
    {"force_swap", &xc_config::force_swap, nullptr},
    {"verify_passes", &xc_config::verify_passes, nullptr},
    {"poison_arena", &xc_config::poison_arena, nullptr},
    {"rules", &xc_config::rules, nullptr},
    {"fusion", &xc_config::fusion, nullptr},
    {"trace_compiles", &xc_config::trace_compiles, nullptr},
    {"cache_dir", nullptr, &xc_config::cache_dir},
    {"kernels", &xc_config::kernels, nullptr},
    {"layouts", &xc_config::layouts, nullptr},
    {"trace_steps", &xc_config::trace_steps, nullptr},
    {"cache_bytes", &xc_config::cache_bytes, nullptr},
    {"post_ops", &xc_config::post_ops, nullptr},
    {"winograd", &xc_config::winograd, nullptr},
    {"bands", &xc_config::bands, nullptr},
};

const Field& field_of(const ConfigRow& row) {
  for (const Field& field : kFields)
    if (field.name == row.name) return field;
  fail(Status::kUnsupported, "option {} has no field in xc_config", row.name);
}

xc_config defaults() {
  const xc_config config = XC_CONFIG_INIT;
  return config;
}

/// Sets one row from text, checked by the table's own parser. `room`: bytes of the caller's struct.
void set(xc_config& config, const ConfigRow& row, const char* value, size_t room) {
  const Field& field = field_of(row);
  const auto* at = row.text ? reinterpret_cast<const char*>(&(config.*field.text))
                            : reinterpret_cast<const char*>(&(config.*field.number));
  if (at + sizeof(int64_t) > reinterpret_cast<const char*>(&config) + room)
    fail(Status::kUnsupported,
         "option {} is newer than the header this program was built with: its xc_config has no "
         "room for it; rebuild the program",
         row.name);
  Config parsed;
  set_config(parsed, row.name, value);
  if (row.text) {
    config.*field.text = value;
  } else {
    config.*field.number = parsed.*row.field;
  }
}

/// The n-th of "auto|off|sync|freeze".
std::string_view choice(std::string_view choices, int64_t n) {
  for (; n > 0 && choices.find('|') != std::string_view::npos; --n)
    choices = choices.substr(choices.find('|') + 1);
  return choices.substr(0, choices.find('|'));
}

/// A caller's config as a full struct, and back into however much of it the caller has.
template <class Edit>
void edit(xc_config* config, Edit&& body) {
  xc_config full = read_struct(need(config, "config"), defaults(), "config");
  body(full, config->struct_size);
  write_struct(config, full, "config");
}

}  // namespace

Config to_config(const xc_config* given) {
  const xc_config from = read_struct(given, defaults(), "config");
  Config config;
  for (const ConfigRow& row : config_table()) {
    const Field& field = field_of(row);
    if (row.text) {
      if (from.*field.text) config.*row.text = from.*field.text;
      continue;
    }
    const int64_t value = from.*field.number;
    if (value != 0 && (value < row.low || value > row.high))
      fail(Status::kInvalidArgument, "option {}: {} is not in {} .. {}", row.name, value, row.low,
           row.high);
    config.*row.field = value;
  }
  return config;
}

}  // namespace xc::capi

using namespace xc;
using namespace xc::capi;

void xc_config_init(xc_config* config, size_t size) {
  init_struct(config, size, defaults());
}

xc_status xc_config_set(xc_config* config, const char* name, const char* value,
                        xc_error** out_error) {
  return guard(out_error, [&] {
    edit(config, [&](xc_config& full, size_t room) {
      set(full, config_row(need(name, "name")), need(value, "value"), room);
    });
  });
}

xc_status xc_config_read_environment(xc_config* config, xc_error** out_error) {
  return guard(out_error, [&] {
    edit(config, [&](xc_config& full, size_t room) {
      for (const ConfigRow& row : config_table())
        if (const char* value = std::getenv(std::string(row.environment).c_str()); value && *value)
          located("environment variable " + std::string(row.environment),
                  [&] { set(full, row, value, room); });
    });
  });
}

xc_status xc_config_get(const xc_config* config, const char* name, xc_blob** out_value,
                        xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_value, "out_value");
    const ConfigRow& row = config_row(need(name, "name"));
    const Config full = to_config(config);
    std::string text;
    if (row.text) {
      text = full.*row.text;
    } else {
      const int64_t value = effective(full, row.field);
      text =
          row.choices.empty() ? fmt::format("{}", value) : std::string(choice(row.choices, value));
    }
    *out_value = make_blob(std::move(text));
  });
}

uint32_t xc_config_option_count(void) {
  return static_cast<uint32_t>(config_table().size());
}

xc_status xc_config_option(uint32_t index, xc_config_option_info* out_info) {
  return guard(nullptr, [&] {
    if (index >= config_table().size()) fail(Status::kInvalidArgument, "no option {}", index);
    const ConfigRow& row = config_table()[index];
    xc_config_option_info info{};
    info.is_text = row.text != nullptr;
    info.name = to_view(row.name);
    info.environment = to_view(row.environment);
    info.choices = to_view(row.choices);
    info.doc = to_view(row.doc);
    info.fallback = row.fallback;
    info.low = row.low;
    info.high = row.high;
    info.engine_only = row.engine_only;
    write_struct(out_info, info, "out_info");
  });
}
