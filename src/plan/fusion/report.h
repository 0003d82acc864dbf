#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xc {

/// What the search considered, for explain.
struct FusionReport {
  struct Alternative {
    std::string nodes;       ///< operators, and the first node's name
    double fused_us = 0;     ///< predicted, as one step; 0 when it is not legal
    double separate_us = 0;  ///< predicted, as the steps of the base plan
    int places = 1;          ///< equal ones
    bool chosen = false;
    std::string reason;  ///< why not
  };
  int parts = 0;           ///< searched one by one
  int proven = 0;          ///< of those: the cheapest grouping, not only the best found
  int64_t states = 0;      ///< partial groupings looked at
  int64_t candidates = 0;  ///< groups of nodes priced or found illegal
  std::vector<Alternative> alternatives;  ///< chosen ones first, then by what they would save
};

}  // namespace xc
