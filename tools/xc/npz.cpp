// .npz files: zip archives of .npy members, read and written with minizip.

#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "array.h"
#include "common.h"

namespace tool {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr unsigned kChunk = 1u << 30;  // minizip counts in unsigned

struct CloseRead {
  void operator()(void* file) const { unzClose(file); }
};
struct CloseWrite {
  void operator()(void* file) const { zipClose(file, nullptr); }
};

/// A zip is read from its end: it lies in a file.
void need_readable(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) fail_to_read(path, errno);
  if (!S_ISREG(info.st_mode)) fail(XC_IO, "{} is not a regular file", path);
}

/// The current member: its name and bytes.
std::pair<std::string, std::string> read_member(unzFile zip, const std::string& path) {
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
    fail(XC_FORMAT, "{}: damaged zip directory", path);
  std::string name(info.size_filename, '\0');
  unzGetCurrentFileInfo64(zip, nullptr, name.data(), info.size_filename, nullptr, 0, nullptr, 0);
  if (unzOpenCurrentFile(zip) != UNZ_OK)
    fail(XC_FORMAT, "{}: cannot open member {} (damaged, or an unknown compression)", path, name);
  // Grown while data arrives: the size in the directory is only a claim.
  std::string bytes;
  int got = 0;
  do {
    const size_t have = bytes.size();
    bytes.resize(have + std::min<size_t>(std::max<size_t>(have, 1 << 16), kChunk));
    got = unzReadCurrentFile(zip, bytes.data() + have, static_cast<unsigned>(bytes.size() - have));
    bytes.resize(have + static_cast<size_t>(std::max(got, 0)));
  } while (got > 0);
  const int closed = unzCloseCurrentFile(zip);
  if (got < 0 || closed == UNZ_CRCERROR)
    fail(XC_FORMAT, "{}: member {} is damaged{}", path, name,
         closed == UNZ_CRCERROR ? " (checksum)" : "");
  return {std::move(name), std::move(bytes)};
}

}  // namespace

std::map<std::string, Array> read_npz(const std::string& path) {
  need_readable(path);
  const std::unique_ptr<void, CloseRead> zip(unzOpen64(path.c_str()));
  if (!zip) fail(XC_FORMAT, "{} is no .npz file", path);
  std::map<std::string, Array> out;
  int state = unzGoToFirstFile(zip.get());
  for (; state == UNZ_OK; state = unzGoToNextFile(zip.get())) {
    auto [name, bytes] = read_member(zip.get(), path);
    if (!name.ends_with(kSuffix)) continue;
    name.resize(name.size() - kSuffix.size());
    Array array = parse_npy(bytes, path + ": " + name);
    out.emplace(std::move(name), std::move(array));
  }
  if (state != UNZ_END_OF_LIST_OF_FILE) fail(XC_FORMAT, "{}: damaged zip directory", path);
  return out;
}

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Array>>& members) {
  errno = 0;
  std::unique_ptr<void, CloseWrite> zip(zipOpen64(path.c_str(), APPEND_STATUS_CREATE));
  if (!zip) fail(XC_IO, "cannot write {}{}", path, reason(errno));
  for (const auto& [name, array] : members) {
    const std::string bytes = format_npy(array);
    const zip_fileinfo info{};
    const std::string member = name + std::string(kSuffix);
    bool ok =
        zipOpenNewFileInZip64(zip.get(), member.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                              Z_DEFLATED, Z_DEFAULT_COMPRESSION, bytes.size() > kChunk) == ZIP_OK;
    for (size_t at = 0; ok && at < bytes.size(); at += kChunk)
      ok = zipWriteInFileInZip(
               zip.get(), bytes.data() + at,
               static_cast<unsigned>(std::min<size_t>(kChunk, bytes.size() - at))) == ZIP_OK;
    if (!ok || zipCloseFileInZip(zip.get()) != ZIP_OK)
      fail(XC_IO, "cannot write {} to {}{}", name, path, reason(errno));
  }
  // The directory is written, and what is buffered leaves the process, only now.
  if (zipClose(zip.release(), nullptr) != ZIP_OK)
    fail(XC_IO, "cannot write {}{}", path, reason(errno));
}

}  // namespace tool
