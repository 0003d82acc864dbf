// Differential fuzzing of whole graphs: a problem is run operator by operator on the reference
// implementations and in every way a session can run it; results must agree.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/random_graph.h"
#include "tier/tier.h"

namespace xc::test {

/// One way to run a graph.
struct Way {
  std::string name;
  Config config;
  bool interpreted = false;    ///< fused regions run in the loop interpreter
  bool constant_dims = false;  ///< the sizes of a run are constants of the model
  bool specials = false;       ///< regions get kernels for the sizes of each run
  bool verified = false;       ///< regions are verified before they are used, as in production
  bool odd_inputs = false;     ///< inputs lie backwards and with gaps
  bool shared = false;         ///< outputs lie in the memory of inputs where one is as large
  int passes = 1;              ///< over all runs: what comes again may have been replaced since
  std::string same_bits = {};  ///< a way that stands earlier in the list and gives equal bits
};

/// Every way this build has. Those that always run come first, in order of `same_bits`.
std::vector<Way> all_ways();

struct Failure {
  std::string way;
  size_t run = 0;
  /// "differs", "other bits", "throws" or "compile": a smaller problem must fail the same way.
  std::string kind;
  std::string text;
  explicit operator bool() const { return !kind.empty(); }
};

class GraphFuzzer {
 public:
  using Compilers = std::function<std::unique_ptr<RegionCompiler>(const Way&)>;
  /// `compilers`: null = the JIT or the interpreter, as the way has it.
  explicit GraphFuzzer(std::vector<Way> ways, const Compilers& compilers = nullptr);
  ~GraphFuzzer();

  const std::vector<Way>& ways() const { return ways_; }

  /// Runs the problem in the ways of these names (and those they are compared with).
  Failure check(const Problem& problem, const std::vector<std::string>& names);

  /// Drops outputs and nodes for as long as the problem fails in the same manner. Values in the
  /// middle become inputs with what the reference gives for them.
  Problem shrink(const Problem& problem, Failure& failure);

  /// What a person needs: what failed, the problem, the smaller one.
  std::string report(const Problem& problem, Failure failure, const std::string& seed);

  struct Counts {
    std::map<std::string, int64_t> problems;  ///< per way
    std::map<std::string, int64_t> regions;   ///< compiled, per way
    std::map<std::string, int64_t> refused;   ///< regions, per reason
    int64_t runs = 0, refused_runs = 0;       ///< refused by the reference itself
    int64_t elements = 0, excused = 0;        ///< compared; unstable in the reference itself
    int64_t shared = 0;                       ///< outputs in the memory of an input
  };
  const Counts& counts() const { return counts_; }
  std::string summary() const;

 private:
  struct Lane;
  struct Oracle;
  Failure check_way(const Problem& problem, const Way& way, std::vector<Oracle>& oracles,
                    std::map<std::string, std::vector<std::vector<Tensor>>>& results);
  std::string compare(const Problem& problem, size_t run, Oracle& oracle,
                      const std::vector<Tensor>& got);
  std::string compare_shaken(const Problem& problem, size_t run, Oracle& oracle,
                             const std::vector<Tensor>& got, int shakes);

  std::vector<Way> ways_;
  std::map<std::string, std::shared_ptr<Engine>> engines_;
  Counts counts_;
};

/// Graph and inputs as text.
std::string to_text(const Problem& problem);

}  // namespace xc::test
