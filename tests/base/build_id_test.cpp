// The build id of this program, from memory and from its file, and files that have none.
#include "base/build_id.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "base/cpu_info.h"
#include "support/scratch.h"

using namespace xc;

TEST_CASE("base/build_id: memory and file agree") {
  const std::string id = own_build_id();
  CHECK(id.size() == 40);  // SHA-1
  CHECK(id == build_id_of_file("/proc/self/exe"));
}

TEST_CASE("base/build_id: files without one, cut short or damaged have none, or another") {
  const testing::ScratchDirectory scratch;
  CHECK(build_id_of_file(scratch.path + "/none").empty());
  CHECK(build_id_of_file(scratch.path).empty());
  scratch.write("text", "no program");
  CHECK(build_id_of_file(scratch.path + "/text").empty());
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string start(4096, '\0');
  self.read(start.data(), static_cast<std::streamsize>(start.size()));
  for (size_t size = 0; size < start.size(); size += 7) {
    scratch.write("cut", start.substr(0, size));
    const std::string found = build_id_of_file(scratch.path + "/cut");
    CHECK((found.empty() || found == own_build_id()));
  }
  for (size_t at = 0; at < start.size(); at += 3) {
    std::string bytes = start;
    bytes[at] = static_cast<char>(bytes[at] ^ 0xff);
    scratch.write("damaged", bytes);
    (void)build_id_of_file(scratch.path + "/damaged");
  }
}

TEST_CASE("base/cpu_info: the processor has a name that stays") {
  CHECK(cpu_info().model.size() > 3);
  CHECK(cpu_info().model.find('\n') == std::string::npos);
}
