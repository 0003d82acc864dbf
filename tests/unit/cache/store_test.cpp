// The files of the cache: who may touch them, many writers, no room, and code that kills.
// Labels: tsan
#include "cache/store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <thread>

#include "cache/names.h"
#include "cache/prune.h"
#include "support/scratch.h"

using namespace xc::cache;
using xc::testing::ScratchDirectory;

namespace {

constexpr int64_t kPlenty = 1 << 20;

Entry entry(const std::string& key, size_t bytes = 100, double worth_s = 0.003) {
  Entry out;
  out.key = key;
  out.subject = "a test";
  out.worth_s = worth_s;
  for (size_t k = 0; k < bytes; ++k) out.payload += static_cast<char>(k * 7 + key.size());
  return out;
}

unsigned mode_of(const std::string& path) {
  struct stat info{};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

/// Runs `body` in a child process; how that ended, as waitpid() tells it.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

struct NoFailures {
  ~NoFailures() { inject_failure(-1, 0, false); }
};

}  // namespace

TEST_CASE("cache/store: an entry is found by another store, for the owner alone") {
  const ScratchDirectory scratch;
  const std::string path = scratch.path + "/a/b";  // made with its parents
  Store writer(path, kPlenty);
  CHECK(!writer.find(Kind::kObject, "one"));
  writer.put(entry("one"));
  CHECK(mode_of(path) == 0700);
  CHECK(mode_of(path + "/" + entry_name(Kind::kObject, "one")) == 0600);
  Store reader(path, kPlenty);
  const auto found = reader.find(Kind::kObject, "one");
  REQUIRE(found);
  CHECK(found->payload == entry("one").payload);
  CHECK(!reader.find(Kind::kObject, "two"));
  CHECK(!reader.find(Kind::kProfile, "one"));
  reader.remove(Kind::kObject, "one");
  CHECK(!writer.find(Kind::kObject, "one"));
  CHECK(writer.take_problems().empty());
  CHECK(reader.take_problems().empty());
}

TEST_CASE("cache/store: a directory or file that others can write is refused") {
  const ScratchDirectory scratch;
  const std::string name = entry_name(Kind::kObject, "one");
  Store(scratch.path, kPlenty).put(entry("one"));
  for (const mode_t mode : {0770, 0702, 0777}) {
    REQUIRE(chmod(scratch.path.c_str(), mode) == 0);
    Store store(scratch.path, kPlenty);
    CHECK(!store.find(Kind::kObject, "one"));
    store.put(entry("two"));
    const auto problems = store.take_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].find("chmod") != std::string::npos);
  }
  REQUIRE(chmod(scratch.path.c_str(), 0700) == 0);
  REQUIRE(chmod((scratch.path + "/" + name).c_str(), 0620) == 0);
  Store store(scratch.path, kPlenty);
  CHECK(!store.find(Kind::kObject, "one"));
  CHECK(!store.find(Kind::kObject, "one"));
  CHECK(store.take_problems().size() == 1);  // once, however often it is asked for
  if (geteuid() == 0) {
    REQUIRE(chmod((scratch.path + "/" + name).c_str(), 0600) == 0);
    REQUIRE(chown((scratch.path + "/" + name).c_str(), 12345, 12345) == 0);
    Store third(scratch.path, kPlenty);
    CHECK(!third.find(Kind::kObject, "one"));
    CHECK(third.take_problems().at(0).find("another user") != std::string::npos);
  }
}

TEST_CASE("cache/store: what is no directory, no regular file or another entry is not used") {
  const ScratchDirectory scratch;
  scratch.write("file", "x");
  Store no_directory(scratch.path + "/file", kPlenty);
  no_directory.put(entry("one"));
  CHECK(!no_directory.find(Kind::kObject, "one"));
  CHECK(no_directory.take_problems().size() == 1);

  Store store(scratch.path, kPlenty);
  store.put(entry("one"));
  const std::string one = scratch.path + "/" + entry_name(Kind::kObject, "one");
  REQUIRE(symlink(one.c_str(), (scratch.path + "/" + entry_name(Kind::kObject, "link")).c_str()) ==
          0);
  REQUIRE(mkfifo((scratch.path + "/" + entry_name(Kind::kObject, "fifo")).c_str(), 0600) == 0);
  REQUIRE(mkdir((scratch.path + "/" + entry_name(Kind::kObject, "folder")).c_str(), 0700) == 0);
  scratch.write(entry_name(Kind::kObject, "other"), scratch.read(entry_name(Kind::kObject, "one")));
  for (const char* key : {"link", "fifo", "folder", "other"})
    CHECK_MESSAGE(!store.find(Kind::kObject, key), key);
  CHECK(store.take_problems().size() == 4);
}

TEST_CASE("cache/store: an entry cut or flipped at any byte is a miss with one problem") {
  const ScratchDirectory scratch;
  const std::string name = entry_name(Kind::kObject, "k");
  Store(scratch.path, kPlenty).put(entry("k", 8));
  const std::string whole = scratch.read(name);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const bool cut : {true, false}) {
      std::string bytes = whole.substr(0, cut ? at : whole.size());
      if (!cut) bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
      scratch.write(name, bytes);
      Store store(scratch.path, kPlenty);
      CHECK(!store.find(Kind::kObject, "k"));
      CHECK(store.take_problems().size() == 1);
    }
  Store store(scratch.path, kPlenty);
  store.put(entry("k", 8));  // a good one takes its place
  CHECK(store.find(Kind::kObject, "k"));
}

TEST_CASE(
    "cache/store: a system call that fails, whichever it is, costs an entry and nothing else") {
  const NoFailures at_the_end;
  for (const int error : {ENOSPC, EROFS, EACCES, EIO, EMFILE})
    for (const bool lasting : {false, true})
      for (int n = 0; n < 24; ++n) {
        const ScratchDirectory scratch;
        Store store(scratch.path + "/made", kPlenty);
        inject_failure(n, error, lasting);
        store.put(entry("one"));
        const auto found = store.find(Kind::kObject, "one");
        if (found) CHECK(found->payload == entry("one").payload);
        {
          const Permission permission = store.begin_trial("one", "a test");
        }
        inject_failure(-1, 0, false);
        CHECK(store.take_problems().size() <= 2);
        Store after(scratch.path + "/made", kPlenty);
        after.put(entry("two"));
        CHECK(after.find(Kind::kObject, "two"));
      }
}

TEST_CASE("cache/store: nothing is written any more after the first refusal, and it is said once") {
  const NoFailures at_the_end;
  const ScratchDirectory scratch;
  Store store(scratch.path, kPlenty);
  store.put(entry("one"));
  inject_failure(0, ENOSPC, true);
  for (const char* key : {"two", "three", "four"}) store.put(entry(key));
  inject_failure(-1, 0, false);
  const auto problems = store.take_problems();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("No space left") != std::string::npos);
  CHECK(store.find(Kind::kObject, "one"));
  CHECK(scratch.files("tmp-").empty());
}

TEST_CASE("cache/store: a directory that others clear goes on being written") {
  const ScratchDirectory scratch;
  Store store(scratch.path, kPlenty);
  store.put(entry("one"));
  std::string reason;
  const auto directory = Directory::open(scratch.path, false, reason);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) prune(*directory, 0);
  });
  for (int k = 0; k < 2000; ++k) store.put(entry("some", 20000));
  done = true;
  other.join();
  CHECK(store.take_problems().empty());
  store.put(entry("last"));
  CHECK(store.find(Kind::kObject, "last"));
}

TEST_CASE("cache/prune: the cap holds, and what is worth most per byte stays longest") {
  CHECK(keep_score(0.01, 1000, 0) > keep_score(0.001, 1000, 0));
  CHECK(keep_score(0.01, 1000, 0) > keep_score(0.01, 2000, 0));
  CHECK(keep_score(0.01, 1000, 0) == doctest::Approx(2 * keep_score(0.01, 1000, 7 * 24 * 3600)));

  const ScratchDirectory scratch;
  constexpr int64_t kCap = 20'000;
  Store store(scratch.path, kCap);
  store.put(entry("precious", 1000, 10.0));
  for (int k = 0; k < 100; ++k) store.put(entry("cheap " + std::to_string(k), 1000, 0.001));
  int64_t total = 0;
  std::string reason;
  const auto directory = Directory::open(scratch.path, false, reason);
  REQUIRE(directory);
  for_each(*directory, [&](const Listed& listed) {
    CHECK(listed.problem.empty());
    total += listed.bytes;
  });
  CHECK(total <= kCap);
  CHECK(total > kCap / 2);
  CHECK(store.find(Kind::kObject, "precious"));
  store.put(entry("larger than the cap", kCap));
  CHECK(!store.find(Kind::kObject, "larger than the cap"));

  // Age: the older of two that are worth the same goes first.
  const ScratchDirectory aged;
  Store both(aged.path, kPlenty);
  both.put(entry("young", 1000));
  both.put(entry("old__", 1000));
  const timespec month[2] = {{std::time(nullptr) - 30 * 86400, 0},
                             {std::time(nullptr) - 30 * 86400, 0}};
  REQUIRE(utimensat(AT_FDCWD, (aged.path + "/" + entry_name(Kind::kObject, "old__")).c_str(), month,
                    0) == 0);
  const auto opened = Directory::open(aged.path, false, reason);
  CHECK(prune(*opened, 1500).removed == 1);
  CHECK(both.find(Kind::kObject, "young"));
}

TEST_CASE("cache/prune: files of other names stay, half written ones go when they are old") {
  const ScratchDirectory scratch;
  Store(scratch.path, kPlenty).put(entry("one"));
  scratch.write("notes.txt", "mine");
  scratch.write("tmp-1-0-0", "half");
  scratch.write("tmp-1-0-1", "half");
  const timespec hours[2] = {{std::time(nullptr) - 7200, 0}, {std::time(nullptr) - 7200, 0}};
  REQUIRE(utimensat(AT_FDCWD, (scratch.path + "/tmp-1-0-0").c_str(), hours, 0) == 0);
  std::string reason;
  const auto directory = Directory::open(scratch.path, false, reason);
  prune(*directory, kPlenty);
  CHECK(scratch.files("tmp-") == std::vector<std::string>{"tmp-1-0-1"});
  CHECK(prune(*directory, 0).removed == 2);
  CHECK(scratch.files() == std::vector<std::string>{"notes.txt"});
}

TEST_CASE("cache/store: threads and processes write and read the same entries") {
  const ScratchDirectory scratch;
  const auto work = [&](unsigned seed) {
    Store store(scratch.path, 6000);  // full all the time
    for (unsigned k = 0; k < 200; ++k) {
      const std::string key = "entry " + std::to_string((k * 7 + seed) % 10);
      if (const auto found = store.find(Kind::kObject, key))
        if (found->payload != entry(key, 500).payload) return false;
      store.put(entry(key, 500));
    }
    return store.take_problems().empty();
  };
  std::vector<pid_t> children;
  for (unsigned k = 0; k < 3; ++k) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(work(k) ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (unsigned k = 0; k < 3; ++k) threads.emplace_back([&, k] { right += work(k + 3) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 3);
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(scratch.files("tmp-").empty());
}

TEST_CASE("cache/poison: code that a process did not survive is not tried again at once") {
  const ScratchDirectory scratch;
  const int status = in_child([&] {
    Store store(scratch.path, kPlenty);
    const Permission permission = store.begin_trial("deadly", "cell Add");
    if (!permission.refusal.empty() || !permission.mark) _exit(1);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  });
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(scratch.files("trying-").size() == 1);
  for (int k = 0; k < 2; ++k) {  // found, then remembered
    Store store(scratch.path, kPlenty);
    const Permission permission = store.begin_trial("deadly", "cell Add");
    CHECK(permission.refusal.find("1 process ended") != std::string::npos);
    CHECK(!permission.mark);
    CHECK(store.begin_trial("harmless", "cell Mul").refusal.empty());
  }
  CHECK(scratch.files("trying-").empty());
  CHECK(scratch.files("poison-").size() == 1);
  CHECK(poison_seconds(1) == 86400);
  CHECK(poison_seconds(2) == 2 * 86400);
  CHECK(poison_seconds(100) == 64 * 86400);
}

TEST_CASE("cache/poison: an end of the process that is none of the code's doing leaves nothing") {
  const ScratchDirectory scratch;
  // exit() while another thread is at it.
  const int status = in_child([&] {
    Store store(scratch.path, kPlenty);
    const Permission permission = store.begin_trial("exits", "cell Add");
    exit(permission.mark ? 0 : 1);
  });
  CHECK(status == 0);
  CHECK(Store(scratch.path, kPlenty).begin_trial("exits", "cell Add").refusal.empty());
  CHECK(scratch.files("trying-").empty());
  CHECK(scratch.files("poison-").empty());
}

TEST_CASE("cache/poison: two live processes at the same code do not poison it") {
  const ScratchDirectory scratch;
  Store store(scratch.path, kPlenty);
  const Permission mine = store.begin_trial("shared", "cell Add");
  REQUIRE(mine.mark);
  const int status = in_child([&] {
    Store other(scratch.path, kPlenty);
    const Permission theirs = other.begin_trial("shared", "cell Add");
    _exit(theirs.refusal.empty() && !theirs.mark ? 0 : 1);
  });
  CHECK(status == 0);
  // A child that ends does not take the parent's mark with it.
  CHECK(in_child([] { exit(0); }) == 0);
  CHECK(scratch.files("trying-").size() == 1);
}

TEST_CASE("cache/poison: a child that lives on does not hide its parent's death") {
  const ScratchDirectory scratch;
  int ends[2], ready[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(pipe(ready) == 0);
  const int status = in_child([&] {
    Store store(scratch.path, kPlenty);
    const Permission permission = store.begin_trial("deadly", "cell Add");
    char byte = 0;
    if (fork() == 0) {  // lives until the test closes its end of the pipe
      close(ends[1]);
      (void)!write(ready[1], &byte, 1);
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
    (void)!read(ready[0], &byte, 1);  // it exists
    raise(SIGKILL);
  });
  CHECK(WIFSIGNALED(status));
  for (const int end : {ends[0], ready[0], ready[1]}) close(end);
  CHECK(!Store(scratch.path, kPlenty).begin_trial("deadly", "cell Add").refusal.empty());
  close(ends[1]);
}
