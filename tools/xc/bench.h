// Measurements of one model in this process, and their comparison between processes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common.h"

namespace tool {

struct BenchFlags {
  std::vector<std::string> models;
  ShapeFlags shapes;
  EngineFlags engine;
  double seconds = 2;
  double warmup = -1;  ///< < 0: 1 s where code may be compiled, else 0.1 s
  bool prepared = false;
  std::string stream;
  int calls = 1000;
  std::string against;
  int rounds = 7;
  bool as_json = false;
  int early = 0;  ///< times of the first runs to report one by one
};

/// One model on one shape: load, first run, steady runs, counters.
nlohmann::ordered_json measure(const BenchFlags& flags, const std::string& model);
/// One model on a stream of sizes.
nlohmann::ordered_json measure_stream(const BenchFlags& flags, const std::string& model);
/// Two option sets in alternating processes; ratios, and which differences are more than noise.
nlohmann::ordered_json compare_against(const BenchFlags& flags, const std::string& model,
                                       const std::vector<std::string>& base_arguments);

/// A process that fills the cache, then `rounds` that start with it: how fast they are from the
/// first runs on. `base_arguments`: of one measurement.
nlohmann::ordered_json measure_restart(const BenchFlags& flags, const std::string& model,
                                       const std::vector<std::string>& base_arguments);

/// What both kinds of measurement report of a session: counters and peak memory.
void add_session(nlohmann::ordered_json& row, Loaded& loaded);

}  // namespace tool
