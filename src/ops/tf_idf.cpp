// TfIdfVectorizer: how often the n-grams of a pool occur in each row of tokens, the tokens of an
// n-gram up to max_skip_count others apart, counted or weighted.

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/support.h"

namespace xc {

namespace {

/// A token as bytes that no other token begins with: its length, then its text; or its number.
std::string token_key(const std::string& text) {
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}
std::string token_key(int64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct Pool {
  std::unordered_map<std::string, size_t> grams;  ///< tokens one after another -> position in pool
  std::vector<int64_t> columns;                   ///< of the result, per n-gram
  std::vector<double> weights;
  int64_t min_length = 1, max_length = 1, max_skip = 0, width = 0;
  int64_t longest = 0;  ///< of the n-grams that are looked for
  bool of_strings = false;

  explicit Pool(const Attrs& attrs) {
    of_strings = attrs.has("pool_strings");
    if (of_strings == attrs.has("pool_int64s"))
      fail(Status::kInvalidModel, "one of pool_strings and pool_int64s must be given");
    std::vector<std::string> tokens;
    for (const std::string& text : attrs.get_strings("pool_strings"))
      tokens.push_back(token_key(text));
    for (int64_t number : attrs.get_ints("pool_int64s")) tokens.push_back(token_key(number));
    min_length = attrs.get_int("min_gram_length", 1);
    max_length = attrs.get_int("max_gram_length", 1);
    max_skip = attrs.get_int("max_skip_count", 0);
    columns = attrs.get_ints("ngram_indexes");
    weights = attrs.get_floats("weights", std::vector<double>(columns.size(), 1.0));
    if (min_length > max_length)
      fail(Status::kInvalidModel, "min_gram_length {} exceeds max_gram_length {}", min_length,
           max_length);
    for (int64_t column : columns)
      if (column < 0 || column >= INT32_MAX)
        fail(Status::kInvalidModel, "ngram_indexes has {}", column);
      else
        width = std::max(width, column + 1);
    const auto starts = attrs.get_ints("ngram_counts");
    longest = std::min(max_length, static_cast<int64_t>(starts.size()));
    read_grams(tokens, starts);
    if (grams.size() > columns.size() || weights.size() != columns.size())
      fail(Status::kInvalidModel, "{} n-grams, {} ngram_indexes, {} weights", grams.size(),
           columns.size(), weights.size());
  }

  void count(std::span<const std::string> row, std::span<double> counts) const {
    const auto size = static_cast<int64_t>(row.size());
    // A single token has nothing between its parts: skips do not matter.
    for (int64_t step = 1; step <= std::min(max_skip + 1, size); ++step)
      for (int64_t start = 0; start < size; ++start) {
        std::string gram;
        int64_t at = start;
        for (int64_t length = 1; length <= longest && at < size; ++length, at += step) {
          gram += row[static_cast<size_t>(at)];
          if (length < min_length || (length == 1 && step > 1)) continue;
          if (const auto found = grams.find(gram); found != grams.end())
            counts[static_cast<size_t>(columns[found->second])] += 1;
        }
      }
  }

 private:
  /// `starts[n - 1]` is where the n-grams begin in the pool.
  void read_grams(const std::vector<std::string>& tokens, const std::vector<int64_t>& starts) {
    size_t position = 0;
    for (size_t n = 1; n <= starts.size(); ++n) {
      const auto total = static_cast<int64_t>(tokens.size());
      const int64_t begin = starts[n - 1], end = n < starts.size() ? starts[n] : total;
      if (begin < 0 || end < begin || end > total || (end - begin) % static_cast<int64_t>(n) != 0)
        fail(Status::kInvalidModel, "ngram_counts: tokens {} to {} of {} are no {}-grams", begin,
             end, total, n);
      for (auto at = static_cast<size_t>(begin); at < static_cast<size_t>(end); at += n) {
        std::string gram;
        for (size_t k = 0; k < n; ++k) gram += tokens[at + k];
        grams.emplace(std::move(gram), position++);
      }
    }
    if (position > columns.size())
      fail(Status::kInvalidModel, "{} n-grams, {} ngram_indexes", position, columns.size());
  }
};

void infer(InferContext& c) {
  const DType t = check_dtype(c, 0, kIndices | type_set({DType::kString}));
  const Pool pool(c.attrs());
  if (pool.of_strings != (t == DType::kString))
    c.error("the pool is of {}, the input is {}", pool.of_strings ? "strings" : "integers",
            name(t));
  SymDims dims = c.dims(0);
  if (dims.empty() || dims.size() > 2) c.error("input 0 has rank {}, expected 1 or 2", dims.size());
  dims.back() = pool.width;
  c.set(0, DType::kF32, dims);
}

void reference(const ReferenceContext& c) {
  check_shapes(c);
  const TensorView& x = c.inputs[0];
  const Pool pool(c.attrs());
  std::vector<std::string> tokens;
  for_each_offset<1>(x.dims, {x.strides}, [&](const auto& at) {
    tokens.push_back(x.dtype == DType::kString ? token_key(x.as<std::string>()[at[0]])
                                               : token_key(load_int64(x.data, x.dtype, at[0])));
  });
  const auto width = static_cast<size_t>(pool.width), length = static_cast<size_t>(x.dims.back());
  const size_t rows = x.dims.size() == 2 ? static_cast<size_t>(x.dims[0]) : 1;
  std::vector<double> counts(rows * width, 0.0);
  for (size_t r = 0; r < rows; ++r)
    pool.count(std::span(tokens).subspan(r * length, length),
               std::span(counts).subspan(r * width, width));
  const std::string mode = c.attrs().get_string("mode", "TF");
  if (mode == "IDF")
    for (double& n : counts) n = std::min(n, 1.0);
  if (mode != "TF") {
    std::vector<double> weights(width, 1.0);
    for (size_t i = 0; i < pool.columns.size(); ++i)
      weights[static_cast<size_t>(pool.columns[i])] = pool.weights[i];
    for (size_t i = 0; i < counts.size(); ++i) counts[i] *= weights[i % width];
  }
  write_dense(c.outputs[0], counts);
}

}  // namespace

void register_tf_idf(OpList& ops) {
  AttrSpec mode{"mode", AttrKind::kString, true};
  mode.choices = "TF|IDF|TFIDF";
  ops.push_back({.name = "TfIdfVectorizer",
                 .attrs = {{"max_gram_length", AttrKind::kInt, true, 1, INT32_MAX},
                           {"max_skip_count", AttrKind::kInt, true, 0, INT32_MAX},
                           {"min_gram_length", AttrKind::kInt, true, 1, INT32_MAX},
                           mode,
                           {"ngram_counts", AttrKind::kInts, true},
                           {"ngram_indexes", AttrKind::kInts, true},
                           {"pool_int64s", AttrKind::kInts},
                           {"pool_strings", AttrKind::kStrings},
                           {"weights", AttrKind::kFloats}},
                 .infer = infer,
                 .reference = reference});
}

}  // namespace xc
