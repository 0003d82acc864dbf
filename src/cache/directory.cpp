#include "cache/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/descriptor.h"
#include "cache/entry.h"

namespace xc::cache {
namespace {

// Tests only.
std::atomic<int> g_fail_after{-1};
std::atomic<int> g_fail_with{0};
std::atomic<bool> g_fail_lasting{false};

bool injected() {
  int left = g_fail_after.load();
  while (left >= 0) {
    if (left == 0 && g_fail_lasting) break;
    if (g_fail_after.compare_exchange_weak(left, left - 1)) break;
  }
  if (left != 0) return false;
  errno = g_fail_with;
  return true;
}

/// A system call that may be told to fail: -1 and errno, as they all do.
template <class Call>
auto sys(Call call) -> decltype(call()) {
  return injected() ? -1 : call();
}

std::string error_text() {
  return std::strerror(errno);
}

/// Why a file or directory is not to be trusted; empty = it is.
std::string distrust(const struct stat& info) {
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "others can write it: take that right away (chmod go-w)";
  return {};
}

/// mkdir -p, everything new for the owner alone.
bool make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const bool made = sys([&] { return mkdir(part.c_str(), 0700); }) == 0;
    if (end == std::string::npos) return made || errno == EEXIST;
    if (!made && errno != EEXIST && errno != EROFS && errno != EACCES) return false;
  }
}

std::string read_up_to(int fd, size_t size) {
  std::string out(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = sys([&] { return ::read(fd, out.data() + filled, size - filled); });
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  out.resize(filled);
  return out;
}

// A fifo does not hold us up, a link is not followed, a child that executes another program does
// not inherit the file.
constexpr int kSafely = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

}  // namespace

void inject_failure(int n, int error, bool lasting) {
  g_fail_with = error;
  g_fail_lasting = lasting;
  g_fail_after = n;
}

std::unique_ptr<Directory> Directory::open(const std::string& path, bool create,
                                           std::string& reason) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Descriptor fd(sys([&] { return ::open(path.c_str(), kFlags); }));
  if (fd.get() < 0 && errno == ENOENT && create) {
    if (!make_directories(path)) {
      reason = fmt::format("{} cannot be made: {}", path, error_text());
      return nullptr;
    }
    return open(path, false, reason);
  }
  struct stat info{};
  if (fd.get() < 0 || sys([&] { return fstat(fd.get(), &info); }) != 0) {
    reason = fmt::format("{} cannot be opened: {}", path, error_text());
    return nullptr;
  }
  if (const std::string why = distrust(info); !why.empty()) {
    reason = fmt::format("{} is not used: {}", path, why);
    return nullptr;
  }
  return std::unique_ptr<Directory>(new Directory(fd.release(), path));
}

Directory::~Directory() {
  close(descriptor_);
}

std::optional<std::string> Directory::read(const std::string& name, bool used,
                                           std::string& problem) const {
  const Descriptor fd(sys([&] { return openat(descriptor_, name.c_str(), O_RDONLY | kSafely); }));
  if (fd.get() < 0) {
    if (errno != ENOENT) problem = "cannot be opened: " + error_text();
    return std::nullopt;
  }
  struct stat info{};
  if (sys([&] { return fstat(fd.get(), &info); }) != 0) {
    problem = "cannot be looked at: " + error_text();
    return std::nullopt;
  }
  problem = !S_ISREG(info.st_mode)          ? "it is no regular file"
            : info.st_size > kMaxEntryBytes ? "it is larger than any entry"
                                            : distrust(info);
  if (!problem.empty()) return std::nullopt;
  std::string bytes = read_up_to(fd.get(), static_cast<size_t>(info.st_size));
  if (bytes.size() != static_cast<size_t>(info.st_size)) {
    problem = "cannot be read in full";
    return std::nullopt;
  }
  // Once an hour is often enough to tell what is used. A refusal (a read-only directory) is
  // nothing.
  if (used && std::time(nullptr) - info.st_mtime > 3600) (void)futimens(fd.get(), nullptr);
  return bytes;
}

std::string Directory::peek(const std::string& name, size_t size) const {
  const Descriptor fd(sys([&] { return openat(descriptor_, name.c_str(), O_RDONLY | kSafely); }));
  return fd.get() < 0 ? std::string{} : read_up_to(fd.get(), size);
}

bool Directory::write(const std::string& name, std::string_view bytes, std::string& reason) const {
  // One name per write: the process, and a count within it (a forked child has another number).
  static std::atomic<uint64_t> count{0};
  const std::string temporary =
      fmt::format("{}{}-{}-{:x}", kTemporaryPrefix, getpid(), count++, std::time(nullptr));
  bool complete = false;
  {
    Descriptor fd(sys([&] {
      return openat(descriptor_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | kSafely, 0600);
    }));
    if (fd.get() < 0) {
      reason = error_text();
      return false;
    }
    size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t put =
          sys([&] { return ::write(fd.get(), bytes.data() + written, bytes.size() - written); });
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) break;
      written += static_cast<size_t>(put);
    }
    const bool closed = fd.close();
    complete = written == bytes.size() && closed;
  }
  if (complete &&
      sys([&] { return renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()); }) == 0)
    return true;
  // A process that clears the directory took it away: what was to be written is cleared with it.
  if (complete && errno == ENOENT) return true;
  reason = error_text();
  (void)unlinkat(descriptor_, temporary.c_str(), 0);
  return false;
}

bool Directory::remove(const std::string& name) const {
  return sys([&] { return unlinkat(descriptor_, name.c_str(), 0); }) == 0 || errno == ENOENT;
}

std::vector<Directory::File> Directory::list() const {
  std::vector<File> out;
  // A stream of its own: positions of a shared one would be shared too.
  const int own = sys([&] { return openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (own < 0) return out;
  DIR* stream = fdopendir(own);
  if (!stream) {
    close(own);
    return out;
  }
  while (const dirent* item = readdir(stream)) {
    struct stat info{};
    if (fstatat(descriptor_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) out.push_back({item->d_name, info.st_size, info.st_mtime});
  }
  closedir(stream);
  return out;
}

int Directory::open_mark(const std::string& name, std::string& reason) const {
  const int fd =
      sys([&] { return openat(descriptor_, name.c_str(), O_RDWR | O_CREAT | kSafely, 0600); });
  if (fd < 0) reason = error_text();
  return fd;
}

bool Directory::has_abandoned_mark(const std::string& name) const {
  const int fd = sys([&] { return openat(descriptor_, name.c_str(), O_RDWR | kSafely); });
  if (fd < 0) return false;
  struct stat info{};
  // Without a link it was removed between our open and our lock: by a process that is done with it.
  const bool abandoned = fstat(fd, &info) == 0 && info.st_size > 0 &&
                         flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
                         info.st_nlink > 0;
  close(fd);
  return abandoned;
}

}  // namespace xc::cache
