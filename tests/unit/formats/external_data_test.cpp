// External data: where it may lie, and how files become tensors.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "formats/mapped_file.h"
#include "support/onnx_text.h"
#include "unit/formats/model_text.h"

namespace fs = std::filesystem;
using namespace xc;
using namespace xc::test;

namespace {

/// A directory that goes away with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "xc-formats-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void write(const fs::path& file, const std::string& bytes) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file, std::ios::binary) << bytes;
  }
};

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string model(const std::string& location, const std::string& offset) {
  return onnx_from_text(
      R"(ir_version: 8 opset_import { version: 17 } graph { name: "g"
         initializer { name: "w" dims: [2] data_type: 1 data_location: 1
           external_data { key: "location" value: ")" +
      location + R"(" }
           external_data { key: "offset" value: ")" +
      offset + R"(" }
           external_data { key: "length" value: "8" } }
         output { name: "w" } })");
}

std::string place_of(const std::string& path) {
  try {
    load_model(path);
  } catch (const Error& error) {
    return error.where();
  }
  return "loaded";
}

Status status_of(const Folder& folder, const std::string& location) {
  folder.write("m.onnx", model(location, "0"));
  try {
    load_model((folder.path / "m.onnx").string());
  } catch (const Error& error) {
    return error.status();
  }
  return Status::kOk;
}

}  // namespace

TEST_CASE("formats/external: data beside the model, aligned and not, mapped and copied") {
  const Folder folder;
  folder.write("sub/w.bin", "x" + std::string(3, '\0') + floats({1, 2}) + "y" + floats({3, 4}));
  for (const bool copy : {false, true}) {
    const LoadOptions options{.copy_weights = copy};
    folder.write("m.onnx", model("sub/w.bin", "4"));
    const Graph aligned = load_model((folder.path / "m.onnx").string(), options);
    CHECK(aligned.value(aligned.outputs[0]).constant.to_doubles() == std::vector<double>{1, 2});
    folder.write("m.onnx", model("./sub/w.bin", "13"));
    const Graph unaligned = load_model((folder.path / "m.onnx").string(), options);
    CHECK(unaligned.value(unaligned.outputs[0]).constant.to_doubles() == std::vector<double>{3, 4});
  }
}

TEST_CASE("formats/external: links and special files are refused and never waited for") {
  const Folder folder, outside;
  folder.write("real/w.bin", floats({1, 2}));
  outside.write("secret", floats({1, 2}));
  REQUIRE(status_of(folder, "real/w.bin") == Status::kOk);
  fs::create_symlink(outside.path / "secret", folder.path / "link");
  fs::create_symlink("real/w.bin", folder.path / "inner_link");
  fs::create_directory_symlink(outside.path, folder.path / "dir_link");
  REQUIRE(::mkfifo((folder.path / "pipe").c_str(), 0600) == 0);
  CHECK(status_of(folder, "link") == Status::kInvalidModel);
  CHECK(status_of(folder, "inner_link") == Status::kInvalidModel);
  CHECK(status_of(folder, "dir_link/secret") != Status::kOk);
  CHECK(status_of(folder, "pipe") == Status::kInvalidModel);
  CHECK(status_of(folder, "real") == Status::kInvalidModel);
  CHECK(status_of(folder, "real/../real/w.bin") == Status::kInvalidModel);
  CHECK(status_of(folder, "missing") == Status::kNotFound);
}

TEST_CASE("formats/external: a model in memory has no directory unless it is given one") {
  const Folder folder;
  folder.write("w.bin", floats({1, 2}));
  CHECK_THROWS_AS(load_bytes(model("w.bin", "0")), Error);
  CHECK_NOTHROW(load_bytes(model("w.bin", "0"), {.base_dir = folder.path.string()}));
}

TEST_CASE("formats: files are mapped or read, and refused when they are none") {
  const Folder folder;
  folder.write("f", "hello");
  for (const bool copy : {false, true}) {
    const auto buffer = map_file((folder.path / "f").string(), 100, copy);
    CHECK(std::string(reinterpret_cast<const char*>(buffer->data()), 5) == "hello");
  }
  CHECK_THROWS_AS(map_file((folder.path / "f").string(), 4), Error);
  CHECK_THROWS_AS(map_file((folder.path / "none").string(), 100), Error);
  CHECK_THROWS_AS(map_file(folder.path.string(), 100), Error);
  CHECK_THROWS_AS(map_file("/dev/zero", 100), Error);
}

TEST_CASE("formats: saving replaces a file as a whole") {
  const Folder folder;
  const Graph g = load_bytes(model_bytes("dense"));
  const std::string path = (folder.path / "m.xcg").string();
  save_model(g, path, Format::kXcg);
  const Graph mapped = load_model(path);
  save_model(g, path, Format::kXcg);  // while mapped: the old file lives on under its mapping
  CHECK(mapped.value(*mapped.find_value("b")).constant.to_doubles() ==
        std::vector<double>{1, 2, 3});
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path)) files += entry.is_regular_file();
  CHECK(files == 1);
  CHECK_THROWS_AS(save_model(g, (folder.path / "no/such/dir.xcg").string(), Format::kXcg), Error);
}

TEST_CASE("formats: a saved file has the permissions of new files, or of the one it replaces") {
  const Folder folder;
  const Graph g = load_bytes(model_bytes("dense"));
  const fs::path path = folder.path / "m.xcg", other = folder.path / "other";
  std::ofstream(other) << "as any program's file";
  save_model(g, path.string(), Format::kXcg);
  CHECK(fs::status(path).permissions() == fs::status(other).permissions());
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  save_model(g, path.string(), Format::kXcg);
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("formats/file: errors name the file, then the place in it") {
  const Folder folder;
  const std::string path = (folder.path / "m.onnx").string(), shown = "'" + path + "'";
  folder.write("m.onnx", "");
  CHECK(place_of(path) == shown);
  folder.write("m.onnx", "\x08\x07\x3a\x7f");
  CHECK(place_of(path).starts_with(shown + ", byte "));
  folder.write("m.onnx", "graph g(%x: f32[n]) -> (%y) { %y = Nothing(%x) }");
  CHECK(place_of(path).starts_with(shown + ", line 1"));
}
