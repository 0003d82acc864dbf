#include "formats/mapped_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "base/descriptor.h"
#include "base/utf8.h"

namespace xc {
namespace {

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

[[noreturn]] void fail_open(const std::string& shown, int error) {
  const Status status = error == ENOENT || error == ENOTDIR ? Status::kNotFound : Status::kIo;
  fail(status, "cannot open '{}': {}", shown, reason(error));
}

/// O_NONBLOCK keeps the open of a pipe from waiting for a writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::shared_ptr<Buffer> read_all(int fd, int64_t bytes, const std::string& shown) {
  auto buffer = Buffer::allocate(bytes);
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(fd, buffer->data() + done, static_cast<size_t>(bytes - done), done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Status::kIo, "cannot read '{}': {}", shown, reason(errno));
    if (n == 0) fail(Status::kIo, "'{}' became shorter while it was read", shown);
    done += n;
  }
  return buffer;
}

std::shared_ptr<Buffer> map_descriptor(const Descriptor& file, const std::string& shown,
                                       int64_t max_bytes, bool copy, Status not_regular) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0)
    fail(Status::kIo, "cannot examine '{}': {}", shown, reason(errno));
  if (!S_ISREG(info.st_mode)) fail(not_regular, "'{}' is not a regular file", shown);
  const int64_t bytes = info.st_size;
  if (bytes > max_bytes)
    fail(Status::kLimit, "'{}' has {} bytes, the limit is {}", shown, bytes, max_bytes);
  if (copy || bytes == 0) return read_all(file.get(), bytes, shown);
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail(Status::kIo, "cannot map '{}': {}", shown, reason(errno));
  return Buffer::wrap_mapping(data, bytes,
                              [data, bytes] { ::munmap(data, static_cast<size_t>(bytes)); });
}

/// The components of a relative path that stays below its start; fails otherwise.
std::vector<std::string> contained_components(std::string_view location) {
  const auto refuse = [&](const char* why) {
    fail(Status::kInvalidModel, "external data location '{}' is refused: {}",
         printable(location, 200), why);
  };
  if (location.empty()) refuse("it is empty");
  if (location.size() >= 4096) refuse("it is too long");
  if (!valid_utf8(location)) refuse("it is not UTF-8");
  for (const char c : location)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("it has control characters");
  if (location.find('\\') != std::string_view::npos) refuse("it has a backslash");
  if (location.find(':') != std::string_view::npos) refuse("it has a colon");
  if (location.front() == '/') refuse("it is absolute");
  std::vector<std::string> out;
  size_t start = 0;
  while (start <= location.size()) {
    const size_t end = std::min(location.find('/', start), location.size());
    const std::string_view part = location.substr(start, end - start);
    if (part == "..") refuse("it contains '..'");
    if (part.empty() && end < location.size()) refuse("it has an empty component");
    if (part != "." && !part.empty()) out.emplace_back(part);
    start = end + 1;
  }
  if (out.empty() || location.back() == '/') refuse("it names no file");
  return out;
}

/// One system call that resolves below `dir` without links, where the kernel has it (5.6+);
/// -1 with ENOSYS otherwise.
int open_beneath(int dir, const std::string& path) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof(how)));
}

/// The same one component at a time.
int open_stepwise(int dir, const std::vector<std::string>& parts) {
  Descriptor at(::fcntl(dir, F_DUPFD_CLOEXEC, 0));
  for (size_t i = 0; at && i + 1 < parts.size(); ++i)
    at = Descriptor(
        ::openat(at.get(), parts[i].c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY));
  if (!at) return -1;
  return ::openat(at.get(), parts.back().c_str(), kOpenFlags | O_NOFOLLOW);
}

/// A new file beside `path`, with the permissions that new files get here; its name.
Descriptor create_beside(const std::string& path, std::string& name) {
  std::random_device random;
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    name = fmt::format("{}.{:08x}", path, random());
    Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file || errno != EEXIST) return file;
  }
  return Descriptor();
}

}  // namespace

std::shared_ptr<Buffer> map_file(const std::string& path, int64_t max_bytes, bool copy) {
  const Descriptor file(::open(path.c_str(), kOpenFlags));
  if (!file) fail_open(path, errno);
  return map_descriptor(file, path, max_bytes, copy, Status::kIo);
}

std::shared_ptr<Buffer> map_file_below(const std::string& base_dir, std::string_view location,
                                       int64_t max_bytes, bool copy) {
  const std::vector<std::string> parts = contained_components(location);
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : "/") + part;
  const std::string shown = base_dir + "/" + joined;

  // The directory itself is the host's choice and may be a link.
  const Descriptor dir(::open(base_dir.c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY));
  if (!dir) fail_open(base_dir, errno);
  int fd = open_beneath(dir.get(), joined);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == E2BIG || errno == EINVAL))
    fd = open_stepwise(dir.get(), parts);
  const Descriptor file(fd);
  if (!file) {
    if (errno == ELOOP || errno == EXDEV)
      fail(Status::kInvalidModel, "external data '{}' is refused: symbolic link", shown);
    fail_open(shown, errno);
  }
  return map_descriptor(file, shown, max_bytes, copy, Status::kInvalidModel);
}

void write_file(const std::string& path, std::string_view bytes) {
  std::string name;
  Descriptor file = create_beside(path, name);
  if (!file) fail_open(path, errno);
  const auto give_up = [&](const char* what) {
    const int error = errno;
    ::unlink(name.c_str());
    fail(Status::kIo, "cannot {} '{}': {}", what, path, reason(error));
  };
  // What it replaces may be for fewer eyes.
  if (struct stat before; ::stat(path.c_str(), &before) == 0 && S_ISREG(before.st_mode) &&
                          ::fchmod(file.get(), before.st_mode & 0777) != 0)
    give_up("write");
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (!file.close()) give_up("write");
  if (::rename(name.c_str(), path.c_str()) != 0) give_up("replace");
}

}  // namespace xc
