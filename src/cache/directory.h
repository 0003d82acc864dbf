#pragma once
// The files of a cache directory, and who may touch them.
//
// Trust: an object entry is machine code that this process will run, so the directory is part of
// the program. It is used only when it belongs to the effective user and nobody else can write it;
// directories are made with mode 0700, files with 0600; a file is read only when it is a regular
// file of the effective user that nobody else can write, and links are not followed.
//
// Many processes at once: a file appears complete or not at all (written under another name, then
// renamed), and one that disappears is a miss. Nothing is synchronised to the disk: after a loss of
// power a file may be torn, which the checksum of the entry finds.
//
// Thread-safe. Names are plain file names; no function throws.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xc::cache {

class Directory {
 public:
  /// Opens `path`, made with its parents when it does not exist and `create`. Null with the reason.
  static std::unique_ptr<Directory> open(const std::string& path, bool create, std::string& reason);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  /// The content of a file; nullopt when there is none, and with a `problem` when it may not or
  /// cannot be read. `used`: the file counts as used now.
  std::optional<std::string> read(const std::string& name, bool used, std::string& problem) const;
  /// The first `size` bytes, or fewer; nothing on failure.
  std::string peek(const std::string& name, size_t size) const;
  /// Replaces a file as a whole; false with the reason, leaving what was there.
  bool write(const std::string& name, std::string_view bytes, std::string& reason) const;
  /// False when it still exists.
  bool remove(const std::string& name) const;

  struct File {
    std::string name;
    int64_t bytes = 0;
    int64_t last_use_s = 0;  ///< seconds since 1970
  };
  /// Regular files, in no order.
  std::vector<File> list() const;

  /// Opens a file for locking, made when it does not exist; -1 with the reason.
  int open_mark(const std::string& name, std::string& reason) const;
  /// Whether there is a file with something in it that nobody has locked.
  bool has_abandoned_mark(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  Directory(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_;
  std::string path_;
};

/// Prefix of the names under which files are written before they are renamed.
inline constexpr std::string_view kTemporaryPrefix = "tmp-";

/// For tests: the n-th system call of a Directory from now fails with `error` (0: the next; -1:
/// none), and all after it while `lasting`.
void inject_failure(int n, int error, bool lasting);

}  // namespace xc::cache
