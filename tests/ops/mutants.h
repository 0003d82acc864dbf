#pragma once
// Wrong nodes out of right ones: one thing of a node of a case is changed to what no exporter means
// (classes G, H and I of hostile models: types and shapes, attributes, values of a run).

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/op_case.h"

namespace xc::test {

struct Mutant {
  std::string what;            ///< "attribute 'axis' = 9", "input 1: rank 3"
  std::string attribute;       ///< the changed one; empty where something else was changed
  bool blatant = false;        ///< its value makes no sense, whatever the rest of the node is
  bool extreme = false;        ///< a float that is no number, infinite, or large
  Node node;                   ///< named "here"; its values are numbered like `inputs`
  std::vector<Tensor> inputs;  ///< undefined where absent
};

/// The one node of a case and its inputs, unchanged; false for cases of several nodes.
bool seed_of(const OpCase& problem, Mutant& seed);

/// A seed by hand, of an operator that no case is about.
Mutant seed_of(const char* op, const char* domain, std::vector<Tensor> inputs,
               const std::vector<std::pair<const char*, Attr>>& attrs = {});

/// One of the mutants of a seed, each as likely, or the seed where it has none.
Mutant random_mutant(const Mutant& seed, std::mt19937_64& random);

/// Calls body with every mutant of a seed.
void for_each_mutant(const Mutant& seed, const std::function<void(const Mutant&)>& body);

}  // namespace xc::test
