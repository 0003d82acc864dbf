// Inputs of a run: arrays that were given, random values for the others.
#pragma once

#include <string>
#include <vector>

#include "common.h"

namespace CLI {
class Option;
}

namespace tool {

struct InputFlags {
  std::vector<std::string> arrays;  ///< NAME=FILE.npy
  std::string file;                 ///< .npz
  uint64_t random = 0;              ///< seed
  const CLI::Option* seed = nullptr;
  ShapeFlags shapes;

  void add_to(CLI::App& command);
  /// Given arrays first. What is missing is random when `fill` or --random is given; else Usage
  /// names it.
  std::vector<xcrt::Tensor> make(const xcrt::Model& model, bool fill) const;
};

}  // namespace tool
