#include "core/config/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace orrery::core {

namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error) {
  throw SystemError(fmt::format("{}: cannot write: {}", path.string(), std::strerror(error)));
}
[[noreturn]] void cannot_read(const std::filesystem::path& path, int error) {
  throw ConfigError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(error)));
}

using Pieces = std::span<const std::string_view>;

/// Returns errno of the first write that failed, 0 when all is written.
int write_all(int descriptor, Pieces pieces) {
  for (std::string_view content : pieces) {
    while (!content.empty()) {
      const ssize_t written = ::write(descriptor, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  return 0;
}

/// An open file that is closed, and removed unless kept, when it goes out of scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target)
      : path_(fmt::format("{}.{}.tmp", target.string(), ::getpid())),
        descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) cannot_write(target, errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }

  int write(Pieces pieces) const { return write_all(descriptor_, pieces); }

  /// Returns errno, 0 when the file stands under its final name.
  int rename_to(const std::filesystem::path& target) {
    // A full disk may show only when the file is closed.
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || ::rename(path_.c_str(), target.c_str()) != 0) return errno;
    kept_ = true;
    return 0;
  }

 private:
  std::string path_;
  int descriptor_;
  bool kept_ = false;
};

/// Device files (/dev/stdout, /dev/full) and pipes are written to, not replaced.
bool is_special(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

void write_in_place(const std::filesystem::path& path, Pieces pieces) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_write(path, errno);
  const int error = write_all(descriptor, pieces);
  ::close(descriptor);
  if (error != 0) cannot_write(path, error);
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, Pieces pieces) {
  if (is_special(path)) return write_in_place(path, pieces);
  TemporaryFile file(path);
  if (const int error = file.write(pieces)) cannot_write(path, error);
  if (const int error = file.rename_to(path)) cannot_write(path, error);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, Pieces(&content, 1));
}

std::string read_whole_file(const std::filesystem::path& path, std::size_t at_most) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_read(path, errno);
  std::string content;
  char block[65536];
  int error = 0;
  while (content.size() <= at_most) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    content.append(block, static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  if (error != 0) cannot_read(path, error);
  if (content.size() > at_most) {
    throw ConfigError(fmt::format("{}: is larger than {} bytes", path.string(), at_most));
  }
  return content;
}

}  // namespace orrery::core
