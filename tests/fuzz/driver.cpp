// Runs a libFuzzer entry point without libFuzzer, so that every fuzz target is also an ordinary
// test: each file of the corpus, then mutations of them from a fixed seed until a number of runs or
// a time is reached, whichever comes first.
//
//   xc_fuzz_NAME [--runs N] [--seconds S] [--seed K] [FILE or DIRECTORY]...
//
// The input of a crash is left in `crash-xc_fuzz_NAME` beside the executable: every input is
// written there before it runs.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

constexpr std::size_t kMaxInput = std::size_t{1} << 16;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::size_t below(Random& random, std::size_t bound) {
  return bound == 0 ? 0 : static_cast<std::size_t>(random() % bound);
}

bool is_word(std::uint8_t c) {
  return std::isalnum(c) || c == '_';
}

// The word of letters and digits around or behind a position, as offsets; empty when none follows.
std::pair<std::size_t, std::size_t> word_at(const Bytes& bytes, std::size_t at) {
  std::size_t first = at;
  while (first < bytes.size() && !is_word(bytes[first])) ++first;
  while (first > 0 && first < bytes.size() && is_word(bytes[first - 1])) --first;
  std::size_t last = first;
  while (last < bytes.size() && is_word(bytes[last])) ++last;
  return {first, last};
}

// A word of a text becomes a number at an edge, or another word of the corpus: what single bytes
// hardly reach, since the rest of the text has to stay readable.
void mutate_word(Bytes& bytes, const std::vector<Bytes>& corpus, Random& random) {
  static constexpr std::string_view kNumbers[] = {
      "0", "1", "2", "3", "7", "16", "64", "255", "65536", "2147483648", "9223372036854775807"};
  const auto [first, last] = word_at(bytes, below(random, bytes.size()));
  if (first == last) return;
  std::string word;
  if (random() % 2 == 0) {
    word = kNumbers[random() % std::size(kNumbers)];
  } else {
    const Bytes& other = corpus[below(random, corpus.size())];
    const auto [from, to] = word_at(other, below(random, other.size()));
    word.assign(other.begin() + static_cast<std::ptrdiff_t>(from),
                other.begin() + static_cast<std::ptrdiff_t>(to));
  }
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
  bytes.erase(begin, bytes.begin() + static_cast<std::ptrdiff_t>(last));
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(first), word.begin(), word.end());
}

// One step of mutation; the kinds that find most in formats of counts, sizes and tags.
void mutate(Bytes& bytes, const std::vector<Bytes>& corpus, Random& random) {
  static constexpr std::uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe, 8, 16};
  const std::size_t at = below(random, bytes.size());
  const auto offset = static_cast<std::ptrdiff_t>(at);
  switch (random() % 7) {
    case 0:  // flip a bit
      if (!bytes.empty()) bytes[at] ^= static_cast<std::uint8_t>(1u << (random() % 8));
      break;
    case 1:  // an edge value
      if (!bytes.empty()) bytes[at] = kEdges[random() % std::size(kEdges)];
      break;
    case 2:  // truncate
      bytes.resize(at);
      break;
    case 3:  // remove a piece
      if (!bytes.empty()) {
        const auto length = static_cast<std::ptrdiff_t>(
            1 + below(random, std::min<std::size_t>(bytes.size() - at, 32)));
        const auto last = std::min<std::ptrdiff_t>(offset + length, std::ssize(bytes));
        bytes.erase(bytes.begin() + offset, bytes.begin() + last);
      }
      break;
    case 4:  // insert random bytes
      for (std::size_t i = 0, n = 1 + below(random, 8); i < n; ++i) {
        bytes.insert(bytes.begin() + offset, static_cast<std::uint8_t>(random()));
      }
      break;
    case 5:  // a run of ones: long varints, huge counts
      for (std::size_t i = at; i < std::min(bytes.size(), at + 1 + below(random, 9)); ++i) {
        bytes[i] = 0xff;
      }
      break;
    default: {  // splice in a piece of another input
      const Bytes& other = corpus[below(random, corpus.size())];
      if (other.empty()) break;
      const std::size_t from = below(random, other.size());
      const std::size_t length = std::min<std::size_t>(other.size() - from, 1 + below(random, 64));
      const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
      bytes.insert(bytes.begin() + offset, first, first + static_cast<std::ptrdiff_t>(length));
    }
  }
  if (bytes.size() > kMaxInput) bytes.resize(kMaxInput);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 2000, seed = 1;
  double seconds = 10;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::strtod(argv[++i], nullptr);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argument)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
      for (const auto& file : files) corpus.push_back(read_file(file));
    } else if (std::filesystem::is_regular_file(argument)) {
      corpus.push_back(read_file(argument));
    } else {
      std::fprintf(stderr, "no such file or option: %s\n", argument.c_str());
      return 2;
    }
  }
  if (corpus.empty()) corpus.emplace_back();

  const std::string name = std::filesystem::path(argv[0]).filename().string();
  const std::string crash_file =
      (std::filesystem::path(argv[0]).parent_path() / ("crash-" + name)).string();
  const auto run = [&](const Bytes& bytes) {
    std::FILE* file = std::fopen(crash_file.c_str(), "wb");
    if (file != nullptr) {
      std::fwrite(bytes.data(), 1, bytes.size(), file);
      std::fclose(file);
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  };

  for (const Bytes& bytes : corpus) run(bytes);
  Random random(seed);
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (; done < runs; ++done) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() > seconds) break;
    Bytes bytes = corpus[below(random, corpus.size())];
    if (random() % 2 == 0)
      for (std::size_t i = 0, n = 1 + below(random, 3); i < n; ++i)
        mutate_word(bytes, corpus, random);
    else
      for (std::size_t i = 0, n = 1 + below(random, 6); i < n; ++i) mutate(bytes, corpus, random);
    run(bytes);
  }
  std::filesystem::remove(crash_file);
  std::printf("%s: %zu corpus inputs and %llu mutations, no crash\n", name.c_str(), corpus.size(),
              static_cast<unsigned long long>(done));
  return 0;
}
